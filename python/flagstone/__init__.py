"""Arrays and linear algebra bigger than memory, inside a memory limit that is true.

>>> import flagstone as fl
>>> X = fl.open("cells.npz")                    # stays on disk
>>> print(fl.pca.plan(X, 50, memory="4GiB"))    # passes, bytes, flops, peak memory, seconds
>>> r = fl.pca(X, 50, memory="4GiB", out="cells-pca.zarr")
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import errors
from ._array import dispatch as _dispatch
from ._core import __version__
from ._errors.classes import (
    BudgetError,
    ConvergenceError,
    DeviceError,
    Error,
    FormatError,
    IllConditionedWarning,
    NumericalError,
    ShapeError,
    StorageError,
)
from ._expression.names import NAMES as _functions
from ._expression.names import NAMESPACE as _namespace
from ._resume import registers as _registers

if TYPE_CHECKING:  # what the functions below load; a test compares them
    from typing import Any

    from . import linalg, nuclear, random, sparse, subspace
    from ._along.bins import digitize, isin
    from ._along.groups import group_count, group_mean, group_sum, group_var
    from ._along.histogram import bincount, histogram
    from ._along.ranks import median, percentile, quantile
    from ._along.scans import cumulative_prod, cumulative_sum, diff
    from ._along.taking import nonzero, take, take_along_axis
    from ._array.array import Array
    from ._array.regions import Region
    from ._array.transactions import transaction
    from ._cluster.kmeans import kmeans
    from ._cluster.knn import knn
    from ._cluster.radius import radius_neighbors
    from ._cluster.result import KMeansResult, KnnResult
    from ._decomposition.pca import pca
    from ._decomposition.result import PcaResult, open_pca
    from ._edges.coo import from_coo
    from ._edges.edges import open_edges
    from ._expression.compute import compute
    from ._expression.expression import Expression
    from ._expression.functions import *  # noqa: F403 - their names are listed there, once
    from ._expression.namespace import *  # noqa: F403
    from ._expression.reductions import Reduced
    from ._formats.convert import convert
    from ._formats.hdf5.obsm import write_obsm
    from ._formats.open import open_path as open
    from ._formats.pecos import import_labels
    from ._formats.raw import open_raw, open_raw_csr
    from ._graph.embedding import spectral_embedding
    from ._graph.result import EmbeddingResult
    from ._labels.metrics import LabelMetrics, label_metrics
    from ._labels.model import LabelModel, open_labels
    from ._labels.predict import Predicted
    from ._labels.train import train_labels
    from ._lazy.computed import from_function, kernel_matrix
    from ._lazy.creation import (
        empty,
        empty_like,
        eye,
        full,
        full_like,
        meshgrid,
        ones,
        ones_like,
        planned,
        tril,
        triu,
        zeros,
        zeros_like,
    )
    from ._lazy.join import concat, stack, unstack
    from ._lazy.places import broadcast_to, expand_dims, flip, repeat, roll, squeeze, tile
    from ._lazy.spaced import arange, linspace
    from ._lazy.structure import hermitian, symmetric, triangular
    from ._linalg.covariance import corrcoef, cov
    from ._linalg.matmul import matmul
    from ._linalg.products import dot, matrix_transpose, tensordot, vecdot
    from ._maintenance.check import CheckReport, RepairReport, check, repair
    from ._maintenance.pack import Packed, pack
    from ._output.create import create, from_numpy
    from ._recipes.lsa import LsaResult, lsa
    from ._recipes.single_cell import SingleCell, single_cell
    from ._resume.leftovers import LeftoverWarning
    from ._resume.resume import resume
    from ._runtime.calibrate import calibrate
    from ._runtime.devices import Device, devices
    from ._runtime.plan import Plan, Stats
    from ._runtime.runtime import Runtime, features, stats
    from ._runtime.timeline import timeline
    from ._sort.order import argsort, sort
    from ._sort.records import sort_by
    from ._sort.search import searchsorted
    from ._sort.unique import unique_all, unique_counts, unique_inverse, unique_values
    from ._sparse.array import SparseArray
    from ._sparse.builder import from_blocks
    from ._sparse_algebra.sddmm import sddmm
    from ._stencil.choice import StencilScheme
    from ._stencil.compare import StencilComparison
    from ._stencil.given.weights import laplacian, points
    from ._stencil.kernel.rows import RowKernel, row_kernel
    from ._stencil.stencil import StencilResult, stencil
    from ._stencil.wave import WaveResult, sponge, wave
    from ._storage.chunk_shape import chunk_shape
    from ._storage.dask import dask_chunks, to_dask
    from ._storage.delete import delete
    from ._storage.epochs import Epochs, epochs
    from ._storage.fetch import DeviceArray, fetch
    from ._storage.rechunk import rechunk, transpose
    from ._tasks.fold import fold
    from ._tasks.graph import Graph, graph, read, reduce, update, write
    from ._tasks.map_blocks import map_blocks, map_tiles
    from ._topics.result import EdgeTopics, TopicsResult, open_topics
    from ._topics.topics import topics

__all__ = [
    "Array", "BudgetError", "CheckReport", "ConvergenceError", "Device", "DeviceArray", "DeviceError",
    "EdgeTopics", "EmbeddingResult", "Epochs", "Error", "Expression", "FormatError", "Graph",
    "IllConditionedWarning", "KMeansResult", "KnnResult", "LabelMetrics", "LabelModel",
    "LeftoverWarning", "LsaResult", "NumericalError", "Packed", "PcaResult", "Plan", "Predicted",
    "Reduced", "Region", "RepairReport", "RowKernel", "Runtime", "ShapeError", "SingleCell", "SparseArray",
    "Stats", "StencilComparison", "StencilResult", "StencilScheme", "StorageError", "TopicsResult",
    "WaveResult", "__array_api_version__", "__version__", "arange", "argsort", "bincount", "broadcast_to",
    "calibrate",
    "check", "chunk_shape", "compute", "concat", "convert", "corrcoef", "cov", "create", "cumulative_prod",
    "cumulative_sum", "dask_chunks", "delete", "devices", "diff", "digitize", "dot", "empty", "empty_like",
    "epochs", "expand_dims", "eye", "features", "fetch", "flip", "fold", "from_blocks", "from_coo",
    "from_function",
    "from_numpy", "full", "full_like", "graph", "group_count", "group_mean", "group_sum", "group_var",
    "hermitian", "histogram", "import_labels", "isin", "kernel_matrix", "kmeans", "knn", "label_metrics",
    "laplacian", "linspace", "lsa", "map_blocks", "map_tiles", "matmul", "matrix_transpose", "median",
    "meshgrid", "nonzero", "ones", "ones_like", "open", "open_edges", "open_labels", "open_pca", "open_raw",
    "open_raw_csr", "open_topics", "pack", "pca", "percentile", "planned", "points", "quantile",
    "radius_neighbors", "read", "rechunk", "reduce", "repair", "repeat", "resume", "roll", "row_kernel",
    "sddmm",
    "searchsorted", "single_cell", "sort", "sort_by", "spectral_embedding", "sponge", "squeeze", "stack",
    "stats", "stencil", "symmetric", "take", "take_along_axis", "tensordot", "tile", "timeline", "to_dask",
    "topics", "train_labels", "transaction", "transpose", "triangular", "tril", "triu", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "update", "vecdot", "wave", "write",
    "write_obsm", "zeros", "zeros_like",
]  # fmt: skip
__all__ += _functions
__all__ += _namespace

#: The version of the array-API standard whose names these are.
__array_api_version__ = "2024.12"

# What is loaded when somebody first names it: all of it takes as long as NumPy does.


def _load_arrays() -> dict[str, object]:
    from ._array.array import Array
    from ._array.regions import Region
    from ._array.transactions import transaction
    from ._output.create import create, from_numpy

    return locals()


def _load_along() -> dict[str, object]:
    from ._along.bins import digitize, isin
    from ._along.groups import group_count, group_mean, group_sum, group_var
    from ._along.histogram import bincount, histogram
    from ._along.ranks import median, percentile, quantile
    from ._along.scans import cumulative_prod, cumulative_sum, diff
    from ._along.taking import nonzero, take, take_along_axis
    from ._sort.order import argsort, sort
    from ._sort.records import sort_by
    from ._sort.search import searchsorted
    from ._sort.unique import unique_all, unique_counts, unique_inverse, unique_values

    return locals()


def _load_random() -> dict[str, object]:
    import flagstone.random as random

    return locals()


def _load_projections() -> dict[str, object]:
    import flagstone.nuclear as nuclear
    import flagstone.subspace as subspace

    return locals()


def _load_files() -> dict[str, object]:
    from ._formats.hdf5.obsm import write_obsm
    from ._formats.open import open_path as open
    from ._formats.pecos import import_labels
    from ._formats.raw import open_raw, open_raw_csr

    return locals()


def _load_expressions() -> dict[str, object]:
    from ._expression.compute import compute
    from ._expression.expression import Expression
    from ._expression.reductions import Reduced

    return locals()


def _load_matrices() -> dict[str, object]:
    import flagstone.linalg as linalg
    import flagstone.sparse as sparse

    from ._edges.coo import from_coo
    from ._edges.edges import open_edges
    from ._linalg.covariance import corrcoef, cov
    from ._linalg.matmul import matmul
    from ._linalg.products import dot, matrix_transpose, tensordot, vecdot
    from ._sparse.array import SparseArray
    from ._sparse.builder import from_blocks
    from ._sparse_algebra.sddmm import sddmm

    return locals()


def _load_decompositions() -> dict[str, object]:
    from ._cluster.kmeans import kmeans
    from ._cluster.knn import knn
    from ._cluster.radius import radius_neighbors
    from ._cluster.result import KMeansResult, KnnResult
    from ._decomposition.pca import pca
    from ._decomposition.result import PcaResult, open_pca
    from ._graph.embedding import spectral_embedding
    from ._graph.result import EmbeddingResult
    from ._labels.metrics import LabelMetrics, label_metrics
    from ._labels.model import LabelModel, open_labels
    from ._labels.predict import Predicted
    from ._labels.train import train_labels
    from ._stencil.choice import StencilScheme
    from ._stencil.compare import StencilComparison
    from ._stencil.given.weights import laplacian, points
    from ._stencil.kernel.rows import RowKernel, row_kernel
    from ._stencil.stencil import StencilResult, stencil
    from ._stencil.wave import WaveResult, sponge, wave

    return locals()


def _load_storage() -> dict[str, object]:
    from ._formats.convert import convert
    from ._storage.chunk_shape import chunk_shape
    from ._storage.dask import dask_chunks, to_dask
    from ._storage.delete import delete
    from ._storage.epochs import Epochs, epochs
    from ._storage.fetch import DeviceArray, fetch
    from ._storage.rechunk import rechunk, transpose

    return locals()


def _load_maintenance() -> dict[str, object]:
    from ._maintenance.check import CheckReport, RepairReport, check, repair
    from ._maintenance.pack import Packed, pack

    return locals()


def _load_tasks() -> dict[str, object]:
    from ._tasks.fold import fold
    from ._tasks.graph import Graph, graph, read, reduce, update, write
    from ._tasks.map_blocks import map_blocks, map_tiles

    return locals()


def _load_recipes() -> dict[str, object]:
    from ._recipes.lsa import LsaResult, lsa
    from ._recipes.single_cell import SingleCell, single_cell
    from ._topics.result import EdgeTopics, TopicsResult, open_topics
    from ._topics.topics import topics

    return locals()


def _load_runtime() -> dict[str, object]:
    from ._resume.leftovers import LeftoverWarning
    from ._resume.resume import resume
    from ._runtime.calibrate import calibrate
    from ._runtime.devices import Device, devices
    from ._runtime.plan import Plan, Stats
    from ._runtime.runtime import Runtime, features, stats
    from ._runtime.timeline import timeline

    return locals()


def _load_named() -> dict[str, object]:
    from ._expression import functions

    return {name: getattr(functions, name) for name in _functions}


def _load_namespace() -> dict[str, object]:
    from ._expression import namespace

    return {name: getattr(namespace, name) for name in _namespace}


def _load_lazy() -> dict[str, object]:
    from ._lazy.computed import from_function, kernel_matrix
    from ._lazy.creation import (
        empty,
        empty_like,
        eye,
        full,
        full_like,
        meshgrid,
        ones,
        ones_like,
        planned,
        tril,
        triu,
        zeros,
        zeros_like,
    )
    from ._lazy.join import concat, stack, unstack
    from ._lazy.places import broadcast_to, expand_dims, flip, repeat, roll, squeeze, tile
    from ._lazy.spaced import arange, linspace
    from ._lazy.structure import hermitian, symmetric, triangular

    return locals()


_LOADED_BY = {
    name: load
    for load in (
        _load_along, _load_arrays, _load_files, _load_random, _load_projections,
        _load_expressions, _load_matrices, _load_decompositions, _load_storage,
        _load_lazy, _load_maintenance, _load_tasks, _load_recipes, _load_runtime,
    )
    for name in load.__code__.co_varnames  # what it imports
} | dict.fromkeys(_functions, _load_named) | dict.fromkeys(_namespace, _load_namespace)  # fmt: skip


def _operators() -> _dispatch.Dispatch:
    from ._along.numpy_functions import numpy_function
    from ._edges.numbered import numbered
    from ._expression import compute, expression, functions, reductions, slicing
    from ._lazy.functions import by_numpy_name
    from ._linalg.matmul import matmul
    from ._output.attributes import dims_of
    from ._output.axis_names import names_of
    from ._output.column_names import columns_of
    from ._sparse_algebra.elementwise import by_name
    from ._storage.attributes import Attributes, describe
    from ._storage.resize import resize

    return _dispatch.Dispatch(
        ufunc=expression.from_ufunc,
        numpy_ufunc=functions.numpy_ufunc,
        numpy_function=numpy_function,
        astype=functions.astype,
        clip=functions.clip,
        round=functions.round,
        reduce=reductions.reduce,
        part=slicing.part,
        assign=slicing.assign,
        compute=compute.compute,
        matmul=matmul,
        sparse=by_name,
        numbered=numbered,
        resize=resize,
        placed=by_numpy_name,
        columns=columns_of,
        dims=dims_of,
        attrs=Attributes,
        describe=describe,
        names=names_of,
        namespace=lambda: sys.modules[__name__],
    )


def _registering() -> None:
    for load in (
        _load_files, _load_matrices, _load_decompositions, _load_recipes, _load_storage, _load_lazy,
        _load_along, _load_projections,
    ):  # fmt: skip
        load()


_dispatch.make_with(_operators)
_registers.load_with(_registering)

if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Load what is called `name`, with what stands beside it."""
        load = _LOADED_BY.get(name)
        if load is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals().update(load())
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LOADED_BY})
