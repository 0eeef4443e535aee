"""Projections of symmetric matrices on block-diagonal bases that are larger than memory."""

from ._subspace.basis import basis
from ._subspace.project import Blocks, project
from ._subspace.stored import BlockBasis, ProjectedMatrix
from ._subspace.stored import open_stored as open

__all__ = ["BlockBasis", "Blocks", "ProjectedMatrix", "basis", "open", "project"]
