"""Spaces of nucleons, their Hamiltonians by groups of states, and bases of good angular momentum."""

from ._nuclear.basis_of_j import basis_of_j, planned_basis
from ._nuclear.commutator import commutator
from ._nuclear.interaction import Interaction
from ._nuclear.space import Counts, Space

__all__ = ["Counts", "Interaction", "Space", "basis_of_j", "commutator", "planned_basis"]
