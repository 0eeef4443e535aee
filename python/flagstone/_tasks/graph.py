"""Tasks whose bodies are your own Python functions: `graph` and what its tasks do with regions."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import is_conjugated, is_transposed
from .._array.regions import Region
from .._array.transactions import Inside, updating
from .._errors.classes import Error, ShapeError
from .._errors.messages import storage_error
from .._runtime.arguments import byte_count
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats
from .aliases import Handles, Named, check_named_once

__all__ = [
    "TOUCHES",
    "Access",
    "Graph",
    "add_blocks",
    "graph",
    "graph_of",
    "job_of",
    "note",
    "read",
    "reduce",
    "run_checked",
    "update",
    "write",
]

TOUCHES = 4.0  #: how often a NumPy function goes over its tile, for plans: temporaries and all


class Access:
    """What a task does with a region; made by `read`, `write`, `update` and `reduce`."""

    def __init__(self, mode: str, target: Region | Array) -> None:
        region = target if isinstance(target, Region) else Region(target)
        array = region.array
        if not isinstance(array, Array):
            raise TypeError(f"{mode}: {type(array).__name__} was given; a Region or an Array is needed.")
        if is_conjugated(array):
            raise ShapeError(f"{mode}: a conjugated view was given; give the array itself.")
        if mode != "read" and any(region.halo):
            raise ShapeError(f"{mode}: the region has a halo; halos are for reads only.")
        if mode != "read" and array.mode != "r+":
            raise storage_error(
                f"{mode}: '{array.path}' is open for reading; open it with mode='r+'.",
                errno.EACCES,
                array.path or "",
            )
        if mode in ("write", "update", "reduce"):
            _check_whole_chunks(mode, region)
        self.mode, self.region = mode, region


def _check_whole_chunks(mode: str, region: Region) -> None:
    array = region.array
    if array.path is None or array.chunks == array.shape:
        return
    for start, length, chunk, extent in zip(
        region.start, region.shape, array.chunks, array.shape, strict=True
    ):
        if start % chunk or (start + length != extent and length % chunk):
            raise ShapeError(
                f"{mode}: the region {region.name} does not cover whole chunks of "
                f"{shape_text(array.chunks)}; use X.tiles[...] or several whole chunks."
            )


def read(region: Region | Array) -> Access:
    """Say that a task reads a region; its function gets a read-only view.

    Parameters
    ----------
    region : Region or Array
        Any box of an array, with a halo if wanted (`Region.grow`).

    Returns
    -------
    Access
        For `Graph.add`.
    """
    return Access("read", region)


def write(region: Region | Array) -> Access:
    """Say that a task overwrites a whole region, which is therefore never loaded.

    Parameters
    ----------
    region : Region or Array
        Whole chunks: ``X.tiles[i, j]``, several of them, or all of an array; open with mode "r+".

    Returns
    -------
    Access
        For `Graph.add`.
    """
    return Access("write", region)


def update(region: Region | Array) -> Access:
    """Say that a task changes a region in place.

    Parameters
    ----------
    region : Region or Array
        Whole chunks: ``X.tiles[i, j]``, several of them, or all of an array; open with mode "r+".

    Returns
    -------
    Access
        For `Graph.add`.
    """
    return Access("update", region)


def reduce(region: Region | Array) -> Access:
    """Say that a task adds into a region: it gets zeros of its own, which are added in a fixed order.

    Parameters
    ----------
    region : Region or Array
        Whole chunks: ``X.tiles[i, j]``, several of them, or all of an array; open with mode "r+".

    Returns
    -------
    Access
        For `Graph.add`.
    """
    return Access("reduce", region)


class _Body:
    """The function of one task: assembles halos, turns transposed views, notes where exceptions came from."""

    def __init__(
        self, function: Callable[..., Any], name: str, accesses: Sequence[Access], inside: list[Inside]
    ) -> None:
        self.function, self.name, self.accesses = function, name, accesses
        self.inside = inside  # of the graph, when it runs

    def __call__(self, *tiles: Any) -> None:
        given = iter(tiles)
        views = []
        for access in self.accesses:
            region = access.region
            boxes = list(region.boxes())
            if len(boxes) == 1:
                view = next(given)
                views.append(view.T if is_transposed(region.array) else view)
                continue
            whole = np.empty(region.outer, region.array.dtype)
            for _, _, place in boxes:
                part = next(given)
                whole[place] = part.T if is_transposed(region.array) else part
            whole.flags.writeable = False
            views.append(whole)
        try:
            self.inside[-1].call(self.function, views)
        except BaseException as error:
            note(error, self._where())
            raise

    def _where(self) -> str:
        changed = [a for a in self.accesses if a.mode != "read"] or list(self.accesses)
        return place_of(self.name, [a.region for a in (*changed, *self.accesses)])


def place_of(task: str, regions: Sequence[Region]) -> str:
    """Say in which task, and at which of the regions, those that it changes first."""
    # A result that is being built aside has a name that nobody knows: say where the operand is.
    named = [r for r in regions if _core.build_mark not in (r.array.path or "")]
    where = f" (tile {(named or regions)[0].name})" if regions else ""
    return f"in task '{task}'{where}"


class _BlockBody:
    """The function of all blocks of one map: it gets where its block begins."""

    def __init__(
        self, function: Callable[..., Any], name: str, arrays: Sequence[Array], block: Sequence[int],
        inside: list[Inside],
    ) -> None:  # fmt: skip
        self.function, self.name, self.arrays, self.block = function, name, arrays, block
        self.turned = [is_transposed(array) for array in arrays]
        self.any_turned = any(self.turned)
        self.inside = inside

    def __call__(self, start: list[int], *tiles: Any) -> None:
        if self.any_turned:
            tiles = tuple(t.T if turn else t for t, turn in zip(tiles, self.turned, strict=True))
        try:
            self.inside[-1].call(self.function, tiles)
        except BaseException as error:
            target = self.arrays[-1]
            ends = (min(s + b, n) for s, b, n in zip(start, self.block, target.shape, strict=True))
            key = tuple(slice(s, e) for s, e in zip(start, ends, strict=True))
            note(error, place_of(self.name, [Region(a, key) for a in (target, *self.arrays)]))
            raise


def note(error: BaseException, text: str) -> None:
    """Say where an exception came from."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.__cause__ is None:  # Python 3.10
        error.__cause__ = Error(text)


class Graph:
    """Tasks in program order; each starts when what it reads and changes is there. Made by `graph`."""

    __module__ = "flagstone"

    def __init__(self, memory: int | str | None = None) -> None:
        self._call = Call("graph", memory)
        self._list = _core.TaskList()
        self._handles = Handles(self._list.replace)
        self._inside = [Inside()]
        self._done = False
        self.stats: Stats | None = None

    def add(
        self, function: Callable[..., Any], /, *accesses: Access, scratch: int | str = 0, name: str = ""
    ) -> None:
        """Add one task.

        Parameters
        ----------
        function : callable
            Called with one NumPy view for each access, on a worker thread. Views of what it reads are
            read-only; what it returns is ignored. Views end with the call: copy what is to stay.
        *accesses : Access
            ``fl.read(...)``, ``fl.write(...)``, ``fl.update(...)``, ``fl.reduce(...)``.
        scratch : int or str
            Bytes that the function allocates itself (``"1MiB"``), charged to the limit while it runs.
        name : str
            For messages; default: the function's name.

        Raises
        ------
        ShapeError
            What the task changes shares elements with something else that it names.

        Notes
        -----
        About 1 KiB of ordinary memory a task, until the graph has run.
        """
        if self._done:
            raise Error("graph: it has run; make a new one.")
        if not callable(function):
            raise TypeError(f"graph: {type(function).__name__} was given; a function is needed.")
        for access in accesses:
            if not isinstance(access, Access):
                raise TypeError(
                    f"graph: {type(access).__name__} was given; say what the task does with it: "
                    "fl.read(...), fl.write(...), fl.update(...) or fl.reduce(...)."
                )
        extra = byte_count("graph: scratch", scratch)
        name = name or getattr(function, "__name__", "task")
        named = []
        for access in accesses:  # before any is resolved: the handle that is changed decides
            self._handles.of(access.region.array, access.mode != "read")
        for access in accesses:
            region = access.region
            array = self._handles.of(region.array, access.mode != "read")
            turn = -1 if is_transposed(region.array) else 1
            boxes = list(region.boxes())
            if len(boxes) > 1:
                extra += int(np.prod(region.outer, dtype=object)) * region.array.dtype.itemsize
            for start, shape, _ in boxes:
                named.append(Named(access.mode, array, start[::turn], shape[::turn], region))
        check_named_once(name, named)
        self._list.begin(_Body(function, name, accesses, self._inside))
        for mode, array, start, shape, _ in named:
            self._list.access(mode, array._core, list(start), list(shape))
        if extra:
            self._list.scratch(extra)

    def _add_blocks(
        self, function: Callable[..., Any], inputs: Sequence[Array], target: Array, shape: Sequence[int],
        block: Sequence[int], scratch: int, each: int, name: str,
    ) -> None:  # fmt: skip
        """Add one task for each block of `target`, which reads that of every input and writes its own.

        Of its first elements, a box of `shape`.

        As `add` would, block after block, in a tenth of the time: what is the same for all is looked at once.
        Tasks allocate `scratch` bytes, and `each` for every element.
        """
        first = tuple(slice(0, min(b, n)) for b, n in zip(block, target.shape, strict=True))
        accesses = [*(read(Region(a, first)) for a in inputs), write(Region(target, first))]
        for access in accesses:
            self._handles.of(access.region.array, access.mode != "read")
        named, seen = [], []
        for access in accesses:
            region = access.region
            array = self._handles.of(region.array, access.mode != "read")
            turn = -1 if is_transposed(region.array) else 1
            named.append(Named(access.mode, array, region.start[::turn], region.shape[::turn], region))
            seen.append((array._core, turn < 0))
        check_named_once(name, named)
        body = _BlockBody(function, name, [*inputs, target], block, self._inside)
        self._list.blocks(body, seen[:-1], seen[-1], list(shape), list(block), scratch, each)

    def __len__(self) -> int:
        return len(self._list)

    def plan(self) -> Plan:
        """Count the tasks added so far on a virtual clock."""
        return self._call.as_plan(self._job(), f"graph of {len(self)} tasks", "as added", 1)

    def run(self) -> Stats:
        """Run all tasks; called by the end of the ``with`` block."""
        return self._run()

    def _run(self, checked: bool = False) -> Stats:
        """Run them; `checked`: the limit was looked at with these tasks already."""
        self._done = True
        self._call.begin()
        job = self._job()
        for array in self._handles.read.values():
            array.flush()
        if not checked:
            self._call.check_memory(job)
        with updating(self._handles.changed.values()):
            self._inside.append(Inside.now())
            done = self._call.run(job, counted=True)
        for array in self._handles.changed.values():
            array.flush()
        self.stats = self._call.record(done, f"graph of {len(self)} tasks", "as added", 1)
        return self.stats

    def _job(self) -> _core.Job:
        return self._list.job("python", TOUCHES)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._done:
            self.run()


def graph_of(call: Call) -> Graph:
    """Return a graph of the tasks of a routine's call."""
    made = Graph(call.memory)
    made._call = call
    return made


def add_blocks(graph: Graph, *given: Any) -> None:
    """Add one task for each block of a map (Graph._add_blocks)."""
    graph._add_blocks(*given)


def run_checked(graph: Graph) -> Stats:
    """Run tasks whose limit was looked at already."""
    return graph._run(checked=True)


def job_of(graph: Graph) -> _core.Job:
    """Return the tasks added so far as a job."""
    return graph._job()


def graph(*, memory: int | str | None = None) -> Graph:
    """Return a graph of tasks that runs at the end of its ``with`` block.

    >>> with fl.graph(memory="2GiB") as g:  # doctest: +SKIP
    ...     for i in range(X.tiles[0]):
    ...         g.add(scale, fl.read(X.tiles[i, 0]), fl.write(Y.tiles[i, 0]))

    Dependencies follow from program order and from what tasks say they read, write and update; independent
    tasks run on all workers. The lock of the interpreter is held only inside the functions: those that
    release it (NumPy's loops, Numba with ``nogil=True``) run at once. The first exception stops the graph and
    leaves as itself, with a note that names task and tile.

    Parameters
    ----------
    memory : int or str, optional
        Most resident memory of the whole process; what functions allocate themselves belongs into `scratch=`
        of `Graph.add`.

    Returns
    -------
    Graph
        A context manager; ``graph.stats`` says what it did, ``graph.plan()`` what it would do.
    """
    return Graph(memory)
