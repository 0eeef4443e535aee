"""The bin of each element, and whether it is one of the edges: digitize, isin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import chunks_for
from .._expression.expression import Expression
from .._output.place import Place
from .._runtime.call import Call
from .._runtime.routine import At, Prepared, routine
from .looks import Look, given_value

__all__ = ["digitize", "isin"]

_NONE: NDArray[np.float64] = np.empty(0, np.float64)
_NO_WHOLE: NDArray[np.int64] = np.empty(0, np.int64)
_SMALL = 1 << 20  # bytes that are no reason to refuse anything


class _Places(Look):
    """Where each element lies among edges, or whether it is one of them."""

    def __init__(self, call: Call, given: Expression, bins: _core.Bins, dtype: Any, out: Any) -> None:
        super().__init__(call, given)
        self.bins = bins
        self.place = Place(call, given.shape, np.dtype(dtype), out, chunks_for(given))
        self.places = [self.place]
        call.outputs = self.place.named()

    def job(self, at: At) -> _core.Job:
        """Return it as a job."""
        target = at(self.place)
        built, value = self.looking()
        return _core.bin_index_job(built, value, self.bins, target)


def _bins_of(
    who: str, edges: NDArray[Any], kind: str, right: bool, *, down: bool = False, invert: bool = False
) -> _core.Bins:
    """Return edges that do not decrease as the kernel compares with them."""
    if kind in "biu" and edges.dtype.kind in "bi":
        return _core.Bins(_NONE, np.ascontiguousarray(edges, np.int64), right, down, invert)
    if edges.dtype.kind not in "biuf":
        raise TypeError(f"{who}: {edges.dtype} was given; real numbers are needed.")
    return _core.Bins(np.ascontiguousarray(edges, np.float64), _NO_WHOLE, right, down, invert)


@routine
def digitize(
    x: Any, /, bins: Any, right: bool = False, *, out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the bin that each element lies in.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Real numbers.
    bins : array
        Edges, increasing or decreasing.
    right : bool
        Whether an element that is an edge lies below it.
    out : path, Array or ndarray, optional
        Where the result goes, as for `compute`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        int64, of x's shape.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads x once and writes 8 bytes an element; log2(edges) comparisons an element.
    """
    call = Call("digitize", memory)
    given = given_value("digitize", off_the_map(call, x), "biuf")
    edges = np.asarray(bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: edges are {shape_text(edges.shape)}; one dimension is needed.")
    if not len(edges) or not np.any(edges[:-1] > edges[1:]):
        return _Places(call, given, _bins_of("digitize", edges, given.dtype.kind, right), np.int64, out)
    if np.any(edges[:-1] < edges[1:]):
        raise ValueError("digitize: edges go up and down; they must increase or decrease.")
    bins_down = _bins_of("digitize", edges[::-1], given.dtype.kind, right, down=True)
    return _Places(call, given, bins_down, np.int64, out)


@routine
def isin(
    x: Any, test_elements: Any, /, *, assume_unique: bool = False, invert: bool = False, out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return which elements are among others.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Real numbers.
    test_elements : array
        Those that are looked for; they are held in memory, sorted.
    assume_unique : bool
        Taken for NumPy's sake.
    invert : bool
        Which are not.
    out, memory
        As for `digitize`.

    Returns
    -------
    Array
        bool, of x's shape.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads x once and writes a byte an element; log2(test elements) comparisons an element.
    """
    call = Call("isin", memory)
    given = given_value("isin", off_the_map(call, x), "biuf")
    tested = np.asarray(test_elements).ravel()
    if tested.dtype.kind not in "biuf":
        raise TypeError(f"isin: {tested.dtype} was given to look for; real numbers are needed.")
    if tested.nbytes > _SMALL:
        call.room("the sorted elements that are looked for", 3 * 8 * math.prod(tested.shape))
    if tested.dtype.kind == "f" and given.dtype.kind in "biu":  # whole ones may be there
        tested = tested[np.isfinite(tested) & (tested == np.floor(tested))]
    elif tested.dtype.kind == "f":
        tested = tested[~np.isnan(tested)]
    if tested.dtype == np.uint64 and given.dtype.kind in "biu":
        if len(tested) and tested.max() > np.iinfo(np.int64).max:
            raise TypeError("isin: unsigned integers beyond 2^63 are not looked for; take floats.")
        tested = tested.astype(np.int64)
    bins = _bins_of("isin", np.unique(tested), given.dtype.kind, False, invert=bool(invert))
    return _Places(call, given, bins, np.bool_, out)
