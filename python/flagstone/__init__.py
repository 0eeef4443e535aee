"""Arrays and linear algebra bigger than memory, inside a memory limit that is true.

>>> import flagstone as fl
>>> X = fl.open("cells.npz")                    # stays on disk
>>> print(fl.pca.plan(X, 50, memory="4GiB"))    # passes, bytes, flops, peak memory, seconds
>>> r = fl.pca(X, 50, memory="4GiB", out="cells-pca.zarr")
"""

from __future__ import annotations

from . import errors, linalg, sparse  # noqa: F401 - faces of their own
from ._array import dispatch as _dispatch
from ._array.array import Array
from ._array.regions import Region
from ._array.transactions import transaction
from ._core import __version__
from ._decomposition.pca import pca
from ._decomposition.result import PcaResult, open_pca
from ._errors.classes import (
    BudgetError,
    ConvergenceError,
    Error,
    FormatError,
    NumericalError,
    ShapeError,
    StorageError,
)
from ._expression import expression as _lazy
from ._expression import functions as _named
from ._expression import reductions as _pending
from ._expression import slicing as _slicing
from ._expression.compute import compute
from ._expression.expression import Expression
from ._expression.functions import *  # noqa: F403 - their names are listed there, once
from ._expression.functions import __all__ as _functions
from ._expression.reductions import Reduced
from ._formats.convert import convert
from ._formats.hdf5.obsm import write_obsm
from ._formats.open import open_path as open
from ._formats.raw import open_raw
from ._linalg.matmul import matmul
from ._maintenance.check import CheckReport, RepairReport, check, repair
from ._maintenance.pack import Packed, pack
from ._output.create import create, from_numpy
from ._recipes.single_cell import SingleCell, single_cell
from ._resume.leftovers import LeftoverWarning
from ._resume.resume import resume
from ._runtime.calibrate import calibrate
from ._runtime.plan import Plan, Stats
from ._runtime.runtime import Runtime, features, stats
from ._sparse.array import SparseArray
from ._sparse.builder import from_blocks
from ._storage import resize as _resizing
from ._storage.chunk_shape import chunk_shape
from ._storage.dask import dask_chunks, to_dask
from ._storage.delete import delete
from ._storage.epochs import Epochs, epochs
from ._storage.rechunk import rechunk, transpose
from ._tasks.fold import fold
from ._tasks.graph import Graph, graph, read, reduce, update, write
from ._tasks.map_blocks import map_blocks, map_tiles

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

_dispatch.fill(
    _dispatch.Dispatch(
        ufunc=_lazy.from_ufunc,
        numpy_ufunc=_named.numpy_ufunc,
        numpy_function=_named.numpy_function,
        astype=_named.astype,
        clip=_named.clip,
        round=_named.round,
        reduce=_pending.reduce,
        part=_slicing.part,
        assign=_slicing.assign,
        compute=compute,
        matmul=matmul,
        resize=_resizing.resize,
    )
)
