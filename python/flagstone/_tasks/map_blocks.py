"""One function over all blocks of arrays: `map_blocks` and `map_tiles`."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.regions import Region
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.operand import as_array
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import byte_count
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .graph import Graph, add_blocks, graph_of, job_of, read, run_checked, write

__all__ = ["map_blocks", "map_tiles"]

_LOOKED_AT = 4096  # blocks whose need is counted: more than are in sight at a time


class _Map(Routine[Any]):
    """The checked arguments of map_blocks."""

    def __init__(
        self, function: Callable[..., Any], arrays: tuple[Any, ...], block: Any, halo: Any, edge: str,
        out: Any, dtype: Any, scratch: int | str | None, memory: Any, who: str,
    ) -> None:  # fmt: skip
        if not arrays:
            raise TypeError(f"{who}: give at least one Array.")
        super().__init__(Call(who, memory))
        arrays = tuple(as_array(self.call, a) if isinstance(a, Expression) else a for a in arrays)
        if not all(isinstance(a, Array) for a in arrays):
            raise TypeError(f"{who}: all operands must be Arrays (flagstone.from_numpy wraps an ndarray).")
        self.arrays, self.function = arrays, function
        shape = arrays[0].shape
        for other in arrays[1:]:
            if other.shape != shape:
                raise ShapeError(
                    f"{who}: arrays are {shape_text(shape)} and {shape_text(other.shape)}; "
                    "they must be equal."
                )
        kind = np.dtype(arrays[0].dtype if dtype is None else dtype)
        self.block = self._block(who, block, out, shape)
        self.place = Place(self.call, shape, kind, out, self.block)
        self.places = [self.place]
        chunks = self.place.chunks
        if not self.place.in_memory and any(
            b % c and b < n for b, c, n in zip(self.block, chunks, shape, strict=True)
        ):
            raise ShapeError(
                f"{who}: blocks are {shape_text(self.block)} and out has chunks of "
                f"{shape_text(tuple(chunks))}; blocks must be whole chunks of out."
            )
        self.regions = (halo, edge)
        self.scratch = None if scratch is None else byte_count(f"{who}: scratch", scratch)

    def _block(self, who: str, block: Any, out: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        if block is None:
            source = out if isinstance(out, Array) and out.chunks != out.shape else self.arrays[0]
            block = source.chunks
            if tuple(block) == shape and out is not IN_MEMORY:
                block = _core.default_chunks(list(shape), source.dtype.name)
        given = tuple(int(b) for b in block)
        if len(given) != len(shape) or any(b < 1 for b in given):
            raise ShapeError(
                f"{who}: blocks are {given} and arrays {shape_text(shape)}; give one positive extent for "
                "each dimension."
            )
        return tuple(min(b, max(n, 1)) for b, n in zip(given, shape, strict=True))

    def check(self, beside: int = 0) -> int:
        """Refuse a limit that cannot work; blocks apart from each other need what some of them do."""
        held = beside + self.beside
        self.call.check_memory(job_of(self._tasks(lambda place: place.planned(), _LOOKED_AT)), held)
        return held

    def _tasks(self, at: At, most: int = 0) -> Graph:
        """Return one task for each block of the result.

        `most`: of the first rows of blocks, so many tasks or one row; not where there are halos.
        """
        target = built_aside(at(self.place))
        graph = graph_of(self.call)
        halo, edge = self.regions
        shape = self.arrays[0].shape
        if not all(shape):
            return graph
        name = getattr(self.function, "__name__", "function")
        if not np.any(halo):
            Region(self.arrays[0], halo=halo, edge=edge)  # what it refuses
            item = target.dtype.itemsize
            scratch = (0, 2 * item) if self.scratch is None else (self.scratch, 0)
            over = list(shape)
            if most:
                row = math.prod(-(-n // b) for n, b in zip(shape[1:], self.block[1:], strict=True))
                height = max(1, most // row)
                over[:1] = [min(n, height * b) for n, b in zip(shape[:1], self.block[:1], strict=True)]
            function = _StoreBlock(self.function)
            add_blocks(graph, function, self.arrays, target, over, self.block, *scratch, name)
            return graph
        for start in itertools.product(*(range(0, n, b) for n, b in zip(shape, self.block, strict=True))):
            key = tuple(slice(s, min(s + b, n)) for s, b, n in zip(start, self.block, shape, strict=True))
            inputs = [Region(a, key, halo, edge) for a in self.arrays]
            output = Region(target, key)
            own = int(np.prod(inputs[0].outer, dtype=object)) * target.dtype.itemsize
            graph.add(
                _Store(self.function, inputs[0]),
                *(read(r) for r in inputs),
                write(output),
                scratch=2 * own if self.scratch is None else self.scratch,
                name=name,
            )
        return graph

    def job(self, at: At) -> _core.Job:
        graph = self._tasks(at)
        self.number = len(graph)
        return job_of(graph)

    @property
    def what(self) -> str:
        return f"graph of {self.number} tasks"

    def how(self, job: Any) -> How:
        return How("as added")

    def execute(self, stack: contextlib.ExitStack) -> None:
        run_checked(self._tasks(lambda place: place.open(stack)))


class _StoreBlock:
    """Call the function and store what it returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *views: Any) -> None:
        *inputs, output = views
        result = np.asarray(self.function(*inputs))
        if result.shape != output.shape and result.shape != ():
            raise _misfit(result.shape, output.shape)
        np.copyto(output, result, casting="same_kind")


def _misfit(shape: tuple[int, ...], wanted: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"map_blocks: the function returned {shape_text(shape)} for a block of {shape_text(wanted)}; return "
        "an array of the block's shape."
    )


class _Store:
    """Call the function and store what it returns, without the halo."""

    def __init__(self, function: Callable[..., Any], region: Region) -> None:
        self.function, self.region = function, region

    def __call__(self, *views: Any) -> None:
        *inputs, output = views
        result = np.asarray(self.function(*inputs))
        region = self.region
        if result.shape == region.outer and result.shape != region.shape:
            result = result[tuple(slice(b, b + n) for b, n in zip(region.before, region.shape, strict=True))]
        if result.shape != output.shape and result.shape != ():
            raise _misfit(result.shape, output.shape)
        np.copyto(output, result, casting="same_kind")


@routine
def map_blocks(
    function: Callable[..., Any], /, *arrays: Any, block: Any = None, halo: Any = 0, edge: str = "clip",
    out: Any = None, dtype: Any = None, scratch: int | str | None = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the array that a function makes of blocks, each with a halo around it if wanted.

    Parameters
    ----------
    function : callable
        Takes one read-only ndarray for each array and returns the block's values; with a halo either the
        block's or the grown shape, of which the halo is cut off.
    *arrays : Array or Expression
        Of one shape. Lazy expressions are computed where they are loaded, and stored nowhere.
    block : tuple of int, optional
        Shape of the blocks; default: chunks of `out`, else of the first array.
    halo : int or tuple of int
        Elements that the function sees beyond its block, along each dimension.
    edge : {"clip", "periodic"}
        What is beyond the array's edge: nothing, or its other side.
    out, dtype
        As in `compute`; dtype of the result, default that of the first array.
    scratch : int or str, optional
        Bytes that the function allocates (``"1MiB"``); default: twice its grown block.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        The result (`out` itself where that was an Array or ndarray).

    Notes
    -----
    Reads every array once (halos twice) and writes the result once.
    """
    return _Map(function, arrays, block, halo, edge, out, dtype, scratch, memory, "map_blocks")


@routine
def map_tiles(
    function: Callable[..., Any], /, *arrays: Any, out: Any = None, dtype: Any = None,
    scratch: int | str | None = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the array that a function makes of each tile; `map_blocks` without halo, in stored chunks.

    Parameters
    ----------
    function : callable
        Takes one read-only ndarray for each array and returns the tile's values.
    *arrays : Array or Expression
        Of one shape. Lazy expressions are computed where they are loaded, and stored nowhere.
    out, dtype, scratch, memory
        As in `map_blocks`.

    Returns
    -------
    Array
        The result (`out` itself where that was an Array or ndarray).

    Notes
    -----
    Reads every array once and writes the result once.
    """
    return _Map(function, arrays, None, 0, "clip", out, dtype, scratch, memory, "map_tiles")
