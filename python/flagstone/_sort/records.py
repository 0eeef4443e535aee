"""Several arrays of one length, sorted together by the first or by several of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, members_of
from .._errors.classes import Error, ShapeError
from .._expression.expression import Expression, as_expression
from .._expression.program import leaves
from .._output.place import Place
from .._output.replaceable import check_apart
from .._output.together import Together, finished, old_outputs, unfinished
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .order import stored

__all__ = ["Records", "sort_by"]

_CHUNK = 4 << 20


class Records(Routine[Any]):
    """Elements of several arrays at one place, sorted as one.

    `kept`: whether the elements of each are wanted, and behind them whether the places they come from are.
    """

    def __init__(
        self, call: Call, given: Sequence[Any], keys: int, descending: bool, kept: Sequence[bool],
        outs: Sequence[Any], read: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`read`: paths of what lazy operands, which are stored in scratch by now, were computed from."""
        super().__init__(call)
        self.sources = [Operand.of(one) for one in given]
        self.keys, self.descending = keys, descending
        self.length = self.sources[0].shape[0]
        dtypes = [*(np.dtype(one.dtype) for one in self.sources), np.dtype(np.int64)]
        # One length of chunks for all, or a tile would be as long as their least common multiple.
        widest = max(dtype.itemsize for dtype in dtypes)
        chunks = [max(1, min(_CHUNK // widest, 1 << max(0, self.length - 1).bit_length()))]
        self.targets: list[Place | None] = [
            Place(call, (self.length,), dtype, out, chunks) if wanted else None
            for dtype, wanted, out in zip(dtypes, kept, outs, strict=True)
        ]
        self.places = [place for place in self.targets if place is not None]
        self.operation = call.who if call.who == "sort_by" else ""
        # Places have no name.
        self.together = Together(self.targets[:-1], [*(one.core.path for one in self.sources), *read])
        call.outputs = sum(place.named() for place in self.targets if place is not None)
        call.on(*(one.core.path for one in self.sources))

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        names = ", ".join(np.dtype(one.dtype).name for one in self.sources)
        return f"{self.call.who} {self.length} records of {names}"

    def how(self, job: Any) -> How:
        """Say how they are sorted."""
        return How("external sort" if job.runs > 1 else "in memory", job.passes, job.why)

    def job(self, at: At) -> _core.Job:
        """Return the sort as a job."""
        targets = [None if place is None else at(place) for place in self.targets]
        checkpoint = self.together.checkpoint("sorted")
        return _core.sort_by_job(
            [one.core for one in self.sources], self.keys, self.descending, targets, checkpoint
        )

    def record_places(self) -> None:
        """Give all places one record."""
        self.together.recorded(self.operation, self.arguments, *self.effort())

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        return {
            "arrays": [one.identity for one in self.sources], "keys": self.keys,
            "descending": self.descending,
            "chunks": [None if place is None else list(place.chunks) for place in self.targets[:-1]],
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        nbytes = sum(place.nbytes for place in self.targets if place is not None)
        return 8.0 * self.length * self.length.bit_length(), 2.0 * nbytes

    def run(self) -> list[Any]:
        """Sort; where a killed call over these operands had only names left to exchange, finish that."""
        if self.operation and (paths := self.together.finish(self.operation, self.arguments)):
            raise Error(
                f"{self.call.who}: a call that was killed while its results appeared is finished now, and "
                f"{', '.join(repr(path) for path in paths)} are sorted; open them again."
            )
        found: list[Any] = super().run()
        return found

    def result(self, job: Any) -> list[Any]:
        """Publish what was wanted."""
        return self.together.publish(self.targets)


def _outs(who: str, out: Any, number: int) -> list[Any]:
    if out is None:
        return [None] * number
    if isinstance(out, (str, os.PathLike, Array, np.ndarray)) or not isinstance(out, Sequence):
        raise TypeError(f"{who}: out is {type(out).__name__}; a list with a place for each array is needed.")
    if len(out) != number:
        raise ShapeError(
            f"{who}: out has {len(out)} places and there are {number} arrays; one each is needed."
        )
    check_apart(who, out)
    return list(out)


def _paths(given: Any) -> list[str]:
    """Return where an operand lies on disk; of a lazy one, all that it is computed from."""
    if not isinstance(given, (Array, Expression)):
        return []
    arrays = [leaf.payload for leaf in leaves(as_expression(given, "sort_by"))]
    found = [one for array in arrays if isinstance(array, Array) for one in members_of(array)]
    return [one.path for one in found if isinstance(one, Array) and one.path]


@routine
def sort_by(
    arrays: Sequence[Any], /, keys: int = 1, *, descending: bool = False, out: Sequence[Any] | None = None,
    memory: int | str | None = None,
) -> Prepared[list[Any]]:  # fmt: skip
    """Sort several arrays of one length together, by the first or by several of them.

    Parameters
    ----------
    arrays : sequence of Array, Expression or ndarray
        Of one dimension and one length; of any dtypes. Lazy expressions are stored in scratch first.
    keys : int
        By how many of them, the first one first: ties by the next one, then by place.
    descending : bool
        The largest keys first; NaN stays last.
    out : sequence of path, Array, ndarray or None, optional
        Where each goes. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    list of Array
        As many as were given, of their dtypes.

    Raises
    ------
    ShapeError
        Lengths differ, there are more dimensions than one, or `out` does not agree or names a place twice.
    ValueError
        `keys` is not between 1 and the number of arrays.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads and writes every array once, and where they do not fit into memory their records once more (`sort`
    says when twice more). O(n log n) steps. Stable. A call that was killed goes on (`flagstone.resume` of any
    of the places) where all places are paths or Arrays, or scratch beside one that is: sorted runs lie beside
    the first. Results appear one after the other, each whole; where they replace operands, or what lazy ones
    are computed from, who is killed in between has all of them after `flagstone.resume` of one that is
    missing, or a call over the same arrays, which then says so. What was changed meanwhile is not replaced.
    """
    call = Call("sort_by", memory)
    if isinstance(arrays, (Array, np.ndarray, str)) or not isinstance(arrays, Sequence):
        raise TypeError(f"sort_by: arrays is {type(arrays).__name__}; a list of arrays is needed.")
    if not arrays:
        raise ShapeError("sort_by: arrays is empty; one array at least is needed.")
    check_flags("sort_by", descending=descending)
    if not isinstance(keys, (int, np.integer)) or not 1 <= keys <= len(arrays):
        raise ValueError(
            f"sort_by: keys is {keys!r}; between 1 and {len(arrays)}, the arrays given, is needed."
        )
    read = [path for one in arrays for path in _paths(one)]
    given = [stored(call, one) for one in arrays]
    for number, one in enumerate(given):
        if one.ndim != 1 or one.shape != given[0].shape:
            raise ShapeError(
                f"sort_by: array {number} is {shape_text(one.shape)} and the first "
                f"{shape_text(given[0].shape)}; one dimension and one length are needed."
            )
    outs = _outs("sort_by", out, len(given))
    kept = [True] * len(given) + [False]
    return Records(call, given, int(keys), bool(descending), kept, [*outs, None], read)


@resumable("sort_by")
def _sort_by_again(path: str, told: dict[str, Any]) -> Again:
    if (found := unfinished("sort_by", [path])) is not None:
        return finished, (found,), {}
    arrays = [operand(f"array {number}", one) for number, one in enumerate(told["arrays"])]
    options = {"descending": told["descending"], "out": old_outputs(told["outs"])}
    return sort_by, (arrays, told["keys"]), options
