"""Arrays and linear algebra bigger than memory, inside a memory limit that is true.

>>> import flagstone as fl
>>> X = fl.open("cells.npz")                    # stays on disk
>>> print(fl.pca.plan(X, 50, memory="4GiB"))    # passes, bytes, flops, peak memory, seconds
>>> r = fl.pca(X, 50, memory="4GiB", out="cells-pca.zarr")
"""

from __future__ import annotations

from ._core import __version__
from .array import Array
from .config import Runtime, features, stats
from .creation import create, from_numpy
from .decomposition import PcaResult, open_pca, pca
from .errors import (
    BudgetError,
    ConvergenceError,
    Error,
    FormatError,
    NumericalError,
    ShapeError,
    StorageError,
)
from .files import open_path as open
from .files import open_raw
from .gauge import calibrate
from .interop import dask_chunks, to_dask
from .linalg import matmul
from .plan import Plan, Stats
from .sparse import SparseArray, from_blocks

__all__ = [
    "Array",
    "BudgetError",
    "ConvergenceError",
    "Error",
    "FormatError",
    "NumericalError",
    "PcaResult",
    "Plan",
    "Runtime",
    "ShapeError",
    "SparseArray",
    "Stats",
    "StorageError",
    "__version__",
    "calibrate",
    "create",
    "dask_chunks",
    "features",
    "from_blocks",
    "from_numpy",
    "matmul",
    "open",
    "open_pca",
    "open_raw",
    "pca",
    "stats",
    "to_dask",
]
