"""Arrays and linear algebra bigger than memory, inside a memory limit that is true.

>>> import flagstone as fl
>>> X = fl.open("cells.npz")                    # stays on disk
>>> print(fl.pca.plan(X, 50, memory="4GiB"))    # passes, bytes, flops, peak memory, seconds
>>> r = fl.pca(X, 50, memory="4GiB", out="cells-pca.zarr")
"""

from __future__ import annotations

from . import parts as _parts  # noqa: F401 - lends slices and assignment of expressions
from ._core import __version__
from .array import Array
from .chunking import chunk_shape
from .components import PcaResult, open_pca
from .compute import compute
from .config import Runtime, features, stats
from .convert import convert
from .creation import create, from_numpy
from .csr_builder import from_blocks
from .decomposition import pca
from .epoch import Epochs, epochs
from .errors import (
    BudgetError,
    ConvergenceError,
    Error,
    FormatError,
    NumericalError,
    ShapeError,
    StorageError,
)
from .expression import Expression
from .extents import delete
from .files import open_path as open
from .files import open_raw
from .fold import fold
from .gauge import calibrate
from .integrity import CheckReport, RepairReport, check, repair
from .interop import dask_chunks, to_dask
from .linalg import matmul
from .map_blocks import map_blocks, map_tiles
from .obsm import write_obsm
from .pack import Packed, pack
from .plan import Plan, Stats
from .recipes import SingleCell, single_cell
from .records import LeftoverWarning
from .reduced import Reduced
from .regions import Region
from .resuming import resume
from .spaces import rechunk, transpose
from .sparse import SparseArray
from .tasks import Graph, graph, read, reduce, update, write
from .transactions import transaction
from .ufuncs import *  # noqa: F403 - their names are listed there, once
from .ufuncs import __all__ as _functions

__all__ = [
    "Array",
    "BudgetError",
    "CheckReport",
    "ConvergenceError",
    "Epochs",
    "Error",
    "Expression",
    "FormatError",
    "Graph",
    "LeftoverWarning",
    "NumericalError",
    "Packed",
    "PcaResult",
    "Plan",
    "Reduced",
    "Region",
    "RepairReport",
    "Runtime",
    "ShapeError",
    "SingleCell",
    "SparseArray",
    "Stats",
    "StorageError",
    "__version__",
    "calibrate",
    "check",
    "chunk_shape",
    "compute",
    "convert",
    "create",
    "dask_chunks",
    "delete",
    "epochs",
    "features",
    "fold",
    "from_blocks",
    "from_numpy",
    "graph",
    "map_blocks",
    "map_tiles",
    "matmul",
    "open",
    "open_pca",
    "open_raw",
    "pack",
    "pca",
    "read",
    "rechunk",
    "reduce",
    "repair",
    "resume",
    "single_cell",
    "stats",
    "to_dask",
    "transaction",
    "transpose",
    "update",
    "write",
    "write_obsm",
]
__all__ += _functions
