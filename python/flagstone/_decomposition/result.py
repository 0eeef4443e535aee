"""Principal components as they are kept: the result, and the group on disk that holds it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import ShapeError
from .._errors.messages import storage_error
from .._output.destination import in_group
from .._resume.record import Record, sync_tree
from .._runtime.call import Call
from .transform import project

__all__ = ["SMALL", "ComponentsGroup", "PcaResult", "open_pca"]

#: What a result holds beside the scores.
SMALL = (
    "components",
    "singular_values",
    "explained_variance",
    "explained_variance_ratio",
    "mean",
    "residual",
)


class PcaResult(NamedTuple):
    """Principal components of an m x n matrix.

    Attributes
    ----------
    components : ndarray, k x n
        Principal axes, largest first; signs as in scikit-learn.
    singular_values : ndarray, k
        Of the centred matrix.
    explained_variance, explained_variance_ratio : ndarray, k
        σ² / (m - 1), and its share of the total variance.
    mean : ndarray, n
        Column means (zeros where not centred).
    scores : Array, m x k
        The matrix in the new coordinates, on disk.
    residual : ndarray, k
        ‖Xᵀu - σ v‖ of every component, X centred and u = X v / σ: what was reached, measured.
    """

    components: NDArray[Any]
    singular_values: NDArray[Any]
    explained_variance: NDArray[Any]
    explained_variance_ratio: NDArray[Any]
    mean: NDArray[Any]
    scores: Array
    residual: NDArray[Any]

    def transform(
        self, Y: Any, *, out: str | os.PathLike[str] | None = None, memory: int | str | None = None
    ) -> Any:
        """Return ``(Y - mean) componentsᵀ``.

        Parameters
        ----------
        Y : ndarray, Array, SparseArray or SciPy matrix, rows x n
            A NumPy or SciPy matrix gives an ndarray, one on disk an Array.
        out : path, optional
            Where an Array result goes; default: scratch, until its handle dies.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Notes
        -----
        Reads Y once; 2 rows n k flops (sparse: 2 nnz k).
        """
        return project(Y, self.components, self.mean, out, memory)


PcaResult.__module__ = "flagstone"  # a NamedTuple takes no such line in its body


class ComponentsGroup:
    """Where the scores of a call go: a group (out=path or scratch) that appears whole."""

    def __init__(self, call: Call, out: Any, nbytes: int, record: Record) -> None:
        self._place = call.result(call.who, nbytes) if out is None else None
        self.path = os.fspath(out) if self._place is None else self._place.path
        if self.path.endswith(".npy"):
            raise ShapeError(
                f"{call.who}: out '{self.path}' must be a Zarr directory; it holds several arrays."
            )
        in_group(call.who, self.path)
        output = record.output(self.path, True, nbytes)
        self._output: _core.Output | None = output
        self.directory, self._record = output.directory, record

    def scores(self, shape: tuple[int, int], dtype: str, chunks: tuple[int, ...]) -> _core.Array:
        """Make the array of the scores, in a group that is empty else."""
        place = f"{self.directory}/scores"
        if self._record.resumed:  # the pass that writes them starts again
            for name in os.listdir(self.directory):
                shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)
        _core.write_group(self.directory, "{}")
        made = _core.create_zarr(
            place, list(shape), dtype, list(chunks), dimension_names=["row", "component"]
        )
        made.reserve()
        if self._record.text:
            sync_tree(self.directory)
        return made

    def leave(self) -> None:
        """Let the state stay, for a call that goes on with it."""
        if self._output is not None:
            self._output.leave()

    def write(self, call: Call, name: str, values: NDArray[Any]) -> None:
        """Put a small array beside the scores."""
        values = np.ascontiguousarray(values)
        along = "component" if name in SMALL and name != "mean" else "column"
        names = ["component", "column"] if values.ndim == 2 else [along]
        core = _core.create_zarr(
            f"{self.directory}/{name}", list(values.shape), values.dtype.name, dimension_names=names
        )
        call.engine.write_boxes(core, [([0] * values.ndim, values)], 1 << 20)
        core.flush()

    def discard(self) -> None:
        """Remove what was built."""
        self._output = None
        if self._place is not None:
            self._place.discard()

    def publish(self, attributes: dict[str, Any]) -> Array:
        """Make the group appear under its name; return the scores."""
        _core.write_group(self.directory, json.dumps(attributes))
        if self._output is not None:
            self._output.publish()
        scores = Array(open_core(f"{self.path}/scores", "r"), "r")
        if self._place is not None:
            self._place.tie(scores)
        return scores


def open_pca(path: str | os.PathLike[str]) -> PcaResult:
    """Return the result that ``pca(..., out=path)`` wrote.

    Parameters
    ----------
    path : path
        The `out` of that call.

    Returns
    -------
    PcaResult
        The scores stay on disk; the rest, 8 (k (n + 5) + n) bytes, is read.
    """
    place = os.fspath(path)
    if not os.path.isdir(f"{place}/scores"):
        raise storage_error(f"open_pca: '{place}' is no result of pca.", errno.ENOENT, place)
    arrays = {name: Array(open_core(f"{place}/{name}", "r"))[...] for name in SMALL}
    return PcaResult(scores=Array(open_core(f"{place}/scores", "r")), **arrays)
