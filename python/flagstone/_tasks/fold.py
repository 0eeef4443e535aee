"""`fold`: your own reduction, a function of blocks whose partial results are combined in a fixed tree."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.transactions import Inside
from .._errors.classes import ShapeError
from .._expression.compute import how_of
from .._expression.expression import Expression, as_expression
from .._expression.program import leaves, lower
from .._expression.reductions import axes_of
from .._runtime.arguments import byte_count
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .graph import TOUCHES, note

__all__ = ["fold"]


class _Nothing:
    def __repr__(self) -> str:
        return "<no value>"  # as NumPy shows it in signatures


_NOTHING: Any = _Nothing()  # no `initial` was given


class _Tree:
    """Combines partials 0 to n - 1 by halves in their order, whatever the order in which they come."""

    def __init__(self, combine: Callable[[Any, Any], Any], number: int) -> None:
        self.combine, self.number = combine, number
        self._waiting: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()
        self.whole: Any = _NOTHING

    def put(self, index: int, partial: Any) -> bool:
        """Take a partial in; combines what waits for it. True when all are in `whole`."""
        level, number = 0, self.number
        while number > 1:
            if index ^ 1 < number:  # else the last of an odd number: it goes up alone
                with self._lock:
                    other = self._waiting.pop((level, index ^ 1), _NOTHING)
                    if other is _NOTHING:
                        self._waiting[level, index] = partial
                        return False
                partial = self.combine(other, partial) if index % 2 else self.combine(partial, other)
            level, index, number = level + 1, index // 2, (number + 1) // 2
        self.whole = partial
        return True


class _Fold(Routine[Any]):
    """The checked arguments of one call."""

    def __init__(
        self, function: Callable[..., Any], combine: Callable[..., Any], given: tuple[Any, ...], axis: Any,
        initial: Any, block: Any, dtype: Any, scratch: int | str | None, partial: int | str, memory: Any,
    ) -> None:  # fmt: skip
        for what, one in (("function", function), ("combine", combine)):
            if not callable(one):
                raise TypeError(f"fold: {what} is {type(one).__name__}; a function is needed.")
        if not given:
            raise TypeError("fold: give at least one Array or Expression.")
        self.function, self.combine, self.initial = function, combine, initial
        self.visit = function  # what the blocks go to; for the run, what combines its results too
        super().__init__(Call("fold", memory))
        self.sources: list[Expression] = [as_expression(one, "fold") for one in given]
        self.shape = self.sources[0].shape
        for other in self.sources[1:]:
            if other.shape != self.shape:
                raise ShapeError(
                    f"fold: operands are {shape_text(self.shape)} and {shape_text(other.shape)}; they must "
                    "be equal."
                )
        if dtype is not None and axis is None:
            raise TypeError("fold: dtype goes with axis; without it the result is what combine returns.")
        self.axes = axes_of("fold", axis, len(self.shape))
        self.reduced = [d in self.axes for d in range(len(self.shape))]
        self.arrays = axis is not None  # partials are arrays, one element for each index that stays
        self.dtype = np.dtype(self.sources[0].dtype if dtype is None else dtype)
        self.block = self._block(block)
        self.given_scratch = byte_count("fold: scratch", scratch) if scratch is not None else None
        self.partial = byte_count("fold: partial", partial)

    def _block(self, block: Any) -> tuple[int, ...] | None:
        if block is None:
            return None
        given = tuple(operator.index(b) for b in block)
        if len(given) != len(self.shape) or any(b < 1 for b in given):
            raise ShapeError(
                f"fold: blocks are {given} and operands {shape_text(self.shape)}; give one positive extent "
                "for each dimension."
            )
        return tuple(min(b, max(n, 1)) for b, n in zip(given, self.shape, strict=True))

    def kept(self, of: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what belongs to the dimensions that stay."""
        return tuple(one for one, reduced in zip(of, self.reduced, strict=True) if not reduced)

    @property
    def name(self) -> str:
        """What messages call the function."""
        return str(getattr(self.function, "__name__", "function"))

    @property
    def combines(self) -> str:
        """What messages call the function that joins partial results."""
        return str(getattr(self.combine, "__name__", "function"))

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"fold {shape_text(self.shape)} {self.sources[0].dtype.name} by {self.name}"

    # One pass whose blocks a function looks at -----------------------------------------------------------

    def job(self, at: At) -> _core.Job:
        """Return the kernel's pass as a job; its blocks go to `visit`."""
        program, operands, values = lower(self.sources, self.call)
        self.call.scratch_in_run()
        built = _core.Pass(program, [0] * len(self.shape), list(self.shape))
        for array, transposed in operands:
            built.operand(array, transposed)
        if self.block is not None:
            built.cut(list(self.block))
        self.core, self.tile = built, tuple(built.tile())
        built.visit(values, self.visit, self.reduced if self.arrays else [], TOUCHES)
        built.visit_needs(*self._needs(self.tile))
        return built.job()

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return how_of(self.core, f"blocks of {shape_text(self.tile)}")

    def _needs(self, tile: tuple[int, ...]) -> tuple[int, int]:
        """Bytes of a call of the function, and of all partials that wait for others."""
        block = math.prod(tile) * max(source.dtype.itemsize for source in self.sources)
        scratch = 2 * block if self.given_scratch is None else self.given_scratch
        partial = self.partial
        if self.arrays:
            partial = max(partial, math.prod(self.kept(tile)) * self.dtype.itemsize)
        # Blocks under way cut those that are done into runs; a run is at most this many subtrees.
        workers = self.call.engine.workers or 1
        number = math.prod(-(-n // b) for n, b in zip(self.shape, tile, strict=True))
        return scratch + partial, partial * (2 * workers + 1) * max(1, number.bit_length())

    @property
    def beside(self) -> int:
        """Bytes of the result, where it is an array."""
        return math.prod(self.kept(self.shape)) * self.dtype.itemsize if self.arrays else 0

    # The run ---------------------------------------------------------------------------------------------

    def run(self) -> Any:
        """Do it; the result is what the visits made of the blocks."""
        if any(n == 0 for n, reduced in zip(self.shape, self.reduced, strict=True) if reduced):
            return self._of_nothing()
        for leaf in leaves(*self.sources):
            if isinstance(leaf.payload, Array):
                leaf.payload.flush()
        self.check()
        visits = _Visits(self, self.tile)
        self.visit = visits
        try:
            if 0 not in self.shape:
                with contextlib.ExitStack() as stack:
                    self.execute(stack)
        finally:
            self.visit = self.function  # what was folded is the caller's alone
        return visits.result if self.arrays else visits.whole

    def _of_nothing(self) -> Any:
        if self.initial is _NOTHING:
            raise ShapeError(
                f"fold: {shape_text(self.shape)} has no elements to fold; give initial=, the result of "
                "nothing."
            )
        if not self.arrays:
            return self.initial
        return np.full(self.kept(self.shape), self.initial, self.dtype)


class _Visits:
    """Calls the function with blocks and combines what it returns."""

    def __init__(self, fold: _Fold, tile: tuple[int, ...]) -> None:
        self.fold = fold
        self.inside = Inside.now()
        self.whole: Any = None
        self.result: NDArray[Any] | None = None
        self.tile = tile
        self.tiles = tuple(-(-n // b) for n, b in zip(fold.shape, tile, strict=True))
        folded = tuple(n for n, reduced in zip(self.tiles, fold.reduced, strict=True) if reduced)
        places = itertools.product(*(range(n) for n in fold.kept(self.tiles)))
        # One for each block of results.
        self.trees = {place: _Tree(fold.combine, math.prod(folded)) for place in places}
        if fold.arrays:
            self.result = np.empty(fold.kept(fold.shape), fold.dtype)
            self.result.fill(0)  # now, so that its pages count as held before the call

    def __call__(self, start: list[int], *views: NDArray[Any]) -> None:
        fold = self.fold
        block = f"block {shape_text(views[0].shape)} at {shape_text(tuple(start))}"
        doing = f"in task '{fold.name}' ({block})"
        try:
            with self.inside.here():
                partial = fold.function(*views)
                if fold.arrays:
                    partial = self._checked(partial, views[0].shape)
                doing = f"in combine, '{fold.combines}', after task '{fold.name}' ({block})"
                self._put([s // b for s, b in zip(start, self.tile, strict=True)], partial)
        except BaseException as error:
            note(error, doing)
            raise

    def _checked(self, partial: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        found, wanted = np.asarray(partial), self.fold.kept(shape)
        if found.shape != wanted:
            raise ShapeError(
                f"fold: the function returned {shape_text(found.shape)} for a block of {shape_text(shape)}; "
                f"return {shape_text(wanted)}, an element for each index along the axes that stay."
            )
        return found

    def _put(self, tile: list[int], partial: Any) -> None:
        fold = self.fold
        index = 0
        for at, number, reduced in zip(tile, self.tiles, fold.reduced, strict=True):
            index = index * number + at if reduced else index
        place = fold.kept(tuple(tile))
        tree = self.trees[place]
        if not tree.put(index, partial):
            return
        whole = tree.whole
        del self.trees[place]
        if fold.initial is not _NOTHING:
            whole = fold.combine(fold.initial, whole)
        if self.result is None:
            self.whole = whole
            return
        extents = zip(place, fold.kept(self.tile), fold.kept(fold.shape), strict=True)
        box: tuple[Any, ...] = tuple(slice(i * b, min(i * b + b, n)) for i, b, n in extents)
        part = self.result[(*box, ...)]
        np.copyto(part, self._checked_whole(whole, part.shape), casting="same_kind")

    @staticmethod
    def _checked_whole(whole: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        found = np.asarray(whole)
        if found.shape != shape:
            raise ShapeError(
                f"fold: combine returned {shape_text(found.shape)} for partials of {shape_text(shape)}; "
                "return an array of their shape."
            )
        return found


@routine
def fold(
    function: Callable[..., Any], combine: Callable[[Any, Any], Any], /, *operands: Any, axis: Any = None,
    initial: Any = _NOTHING, block: Any = None, dtype: Any = None, scratch: int | str | None = None,
    partial: int | str = 0, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return what two functions make of all elements: one folds a block, one combines two such results.

    >>> fl.fold(lambda x: np.histogram(x, 100, (0, 1))[0], np.add, X)        # doctest: +SKIP
    >>> fl.fold(lambda x, y: np.vdot(x, y), operator.add, X, np.log1p(Y))    # doctest: +SKIP

    Parameters
    ----------
    function : callable
        Takes one read-only ndarray for each operand, all of the block's shape, and returns a partial result:
        anything, or with `axis` an array with an element for each index along the axes that stay. Called on
        several threads; views end with the call.
    combine : callable
        Takes two partial results of neighbours, the earlier one first, and returns one. It must be
        associative (up to rounding); it need not be commutative: blocks keep their C order.
    *operands : Array, Expression or ndarray
        Of one shape. Lazy expressions are computed block by block and never stored.
    axis : int or tuple of int, optional
        Axes that are folded; default: all of them, into one result.
    initial : optional
        Combined once from the left, ``combine(initial, result)``; the result where there are no elements.
    block : tuple of int, optional
        Shape of the blocks; default: about 4 MiB, whole chunks of the largest operand. A function that needs
        whole rows asks for them here.
    dtype : dtype, optional
        Of the result with `axis`; default: that of the first operand.
    scratch : int or str, optional
        Bytes that the function allocates (``"1MiB"``); default: twice the block.
    partial : int or str
        Bytes of a partial result; leave it where they are numbers or small. All that wait are charged.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    object or ndarray
        What `combine` returned last; with `axis` an ndarray of the dimensions that stay.

    Raises
    ------
    ShapeError
        Operands differ; there is nothing to fold and no `initial`; a function returned another shape.
    Exception
        What a function raises leaves as itself, with a note that names the block.

    Notes
    -----
    Reads every operand once, the sum of their bytes; writes nothing. With n blocks, `combine` is called n - 1
    times in a tree that depends on shapes, dtypes and layout alone (neighbours pairwise, then pairs of them):
    neither the limit nor the number of workers changes bits. At most (2 workers + 1) log2(n) partial results
    wait.
    """
    return _Fold(function, combine, operands, axis, initial, block, dtype, scratch, partial, memory)
