"""A store of a few arrays beside a model of it: writers that die, stop or fail at a step, and readers.

An operation is a tuple of plain values, so that what went wrong can be printed and done again:

    ("create", name, shape, chunks, dtype, codec, checksum)    absent before
    ("replace", name, shape, dtype, value)                     built aside, in the place of what is there
    ("assign", name, region, value)                            region: (start, stop, step) of each dimension
    ("block", ((name, region, value), ...), kept)              one fl.transaction, or one that is rolled back
    ("resize", name, shape), ("delete", name), ("flush", name), ("repair",)

Its fate is None, ("die", step, torn, recovery), where the recovery dies at a step too if that is not 0,
("stop", step), where readers look meanwhile, or ("fail", step, errno, times).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import signal
import struct
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
from file_steps import Steps

import flagstone as fl
from flagstone import _core

State = dict[str, np.ndarray]
Op = tuple[Any, ...]

#: What an error says of a commit that everybody sees, or may see.
SAID = ("stored", "has its new shape", "is deleted")
_DIE_WITH_PARENT = 1


class Wrong(AssertionError):
    """The store and its model do not agree."""


def values_of(shape: tuple[int, ...], dtype: np.dtype, value: int) -> np.ndarray:
    """Return elements that differ from their neighbours and from those of other values; 0: zeros."""
    numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return ((numbers % 97 + 1 + 101 * value) if value else 0 * numbers).astype(dtype)


def slices(region: tuple[tuple[int, int, int], ...]) -> tuple[slice, ...]:
    """Return a region as NumPy's index."""
    return tuple(slice(*one) for one in region)


def names_of(op: Op) -> list[str]:
    """Return the arrays that an operation changes."""
    if op[0] == "block":
        return sorted({one[0] for one in op[1]})
    return [] if op[0] == "repair" else [op[1]]


def after(state: State, op: Op) -> State:
    """Return what an operation makes of a state."""
    fresh, kind = dict(state), op[0]
    if kind in ("create", "replace"):
        shape, dtype = op[2], np.dtype(op[4] if kind == "create" else op[3])
        fresh[op[1]] = values_of(shape, dtype, 0 if kind == "create" else op[4])
    elif kind in ("assign", "block"):
        for name, region, value in [op[1:]] if kind == "assign" else op[1] if op[2] else ():
            fresh[name] = fresh[name].copy()
            part = fresh[name][slices(region)]
            part[...] = values_of(part.shape, part.dtype, value)
    elif kind == "resize":
        old = fresh[op[1]]
        fresh[op[1]] = np.zeros(op[2], old.dtype)
        common = tuple(slice(0, min(n, m)) for n, m in zip(old.shape, op[2], strict=True))
        fresh[op[1]][common] = old[common]
    elif kind == "delete":
        del fresh[op[1]]
    return fresh


def same(one: State, other: State) -> bool:
    """Say whether two states are the same arrays, bit for bit."""
    return one.keys() == other.keys() and all(
        a.shape == other[name].shape and a.dtype == other[name].dtype and np.array_equal(a, other[name])
        for name, a in one.items()
    )


# Processes --------------------------------------------------------------------------------------------------


class Process:
    """A forked child that answers messages, until it ends."""

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        ours, theirs = Pipe()
        self.number = os.fork()
        if self.number == 0:
            try:
                ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
                ours.close()
                serve(theirs, *arguments)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        theirs.close()
        self._connection = ours

    def tell(self, *message: Any) -> None:
        """Send a message."""
        self._connection.send(message)

    def answer(self) -> Any:
        """Wait for the answer; None: SIGKILL ended the process."""
        try:
            return self._connection.recv()
        except EOFError:
            status = os.waitpid(self.number, 0)[1]
            self.number = 0
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                raise Wrong(f"a process ended with status {status:#x}") from None
            return None

    def wait_until_stopped(self) -> None:
        """Wait for SIGSTOP."""
        if not os.WIFSTOPPED(os.waitpid(self.number, os.WUNTRACED)[1]):
            self.number = 0
            raise Wrong("a process ended that was to stop")

    def go_on(self) -> None:
        """Let it go on after SIGSTOP."""
        os.kill(self.number, signal.SIGCONT)

    def end(self) -> None:
        """Kill it, if it lives."""
        if self.number:
            os.kill(self.number, signal.SIGKILL)
            os.waitpid(self.number, 0)
        self._connection.close()
        self.number = 0


def _told(error: BaseException) -> tuple[str, str, int, str]:
    return "raised", type(error).__name__, int(getattr(error, "errno", 0) or 0), str(error)


def _stop_unless(steps: Steps, fate: Any) -> None:
    """Stop in the end, where the step at which to stop did not come: who waits for it waits for one thing."""
    if fate and fate[0] == "stop" and steps.count() < fate[1]:
        os.kill(os.getpid(), signal.SIGSTOP)


class Writer:
    """The arrays as one process has them open, for writing."""

    def __init__(self, place: Path, steps: Steps, torn: bool) -> None:
        self.place, self.steps, self.torn = place, steps, torn
        self.handles: dict[str, tuple[int, fl.Array]] = {}

    def serve(self, connection: Any, io: str) -> None:
        """Do what is told, until the other end closes."""
        with fl.Runtime(memory="2GiB", workers=1, io=io), contextlib.suppress(EOFError):
            while True:
                op, fate, born, before = connection.recv()
                self._arm(fate)
                try:
                    self.perform(op, born, before)
                    answer: Any = ("returned",)
                except (fl.Error, OSError, Wrong) as error:
                    answer = _told(error)
                reached = self.steps.count()
                self.steps.fail(0, 0, 0)
                _stop_unless(self.steps, fate)
                connection.send((*answer, reached))

    def _arm(self, fate: Any) -> None:
        self.steps.watch(self.place)
        self.steps.fail(0, 0, 0)
        if fate and fate[0] == "die":
            self.steps.die(fate[1], fate[2])
        elif fate and fate[0] == "stop":
            self.steps.stop(fate[1])
        elif fate and fate[0] == "fail":
            self.steps.fail(*fate[1:])

    def handle(self, name: str, born: dict[str, int]) -> fl.Array:
        """Return the handle that is kept, however old it is."""
        if name not in self.handles:
            self.handles[name] = (born[name], fl.open(self.place / name, mode="r+"))
        return self.handles[name][1]

    def perform(self, op: Op, born: dict[str, int], before: State) -> None:
        """Do one operation; with handles that are stale, and fail, once more with fresh ones."""
        stale = [n for n in names_of(op) if n in self.handles and self.handles[n][0] != born.get(n)]
        try:
            self._perform(op, born, before)
        except (fl.Error, IndexError) as error:  # also where an index does not fit the old shape
            if not stale or (isinstance(error, fl.StorageError) and error.errno != errno.ESTALE):
                raise
            for name in stale:
                self.handles.pop(name)
            self._perform(op, born, before)

    def _perform(self, op: Op, born: dict[str, int], before: State) -> None:
        kind, path = op[0], self.place / str(op[1]) if len(op) > 1 else self.place
        if kind == "create":
            _, _, shape, chunks, dtype, codec, checksum = op
            fl.create(path, shape, dtype, chunks=chunks, codec=codec, checksum=checksum).close()
        elif kind == "replace":
            fl.from_numpy(values_of(op[2], np.dtype(op[3]), op[4]), path, overwrite=True).close()
        elif kind == "assign":
            self._assign(op[1:], born)
        elif kind == "block":
            self._block(op, born, before)
        elif kind == "resize":
            self.handle(op[1], born).resize(op[2])
        elif kind == "delete":
            fl.delete(path)
        elif kind == "flush":
            self.handle(op[1], born).flush()
        elif not (report := fl.repair(self.place)).ok:
            raise Wrong(f"repair of what is whole: {report}")
        if kind in ("create", "replace", "delete"):
            self.handles.pop(op[1], None)
        if kind == "resize":
            self.handles[op[1]] = (born[op[1]] + 1, self.handles[op[1]][1])

    def _assign(self, one: Op, born: dict[str, int]) -> None:
        name, region, value = one
        array = self.handle(name, born)
        shape = tuple(len(range(*bounds)) for bounds in region)
        reached = (len(range(*one.indices(n))) for one, n in zip(slices(region), array.shape, strict=False))
        if (*reached,) != shape or array.ndim != len(shape):  # of nothing, nothing would be refused
            raise IndexError(f"the handle of {name} is from before a resize, or of another array")
        array[slices(region)] = values_of(shape, array.dtype, value)

    def _block(self, op: Op, born: dict[str, int], before: State) -> None:
        _, parts, kept = op
        if self.torn:  # as many transactions as assignments: a test of the test
            for part in parts if kept else ():
                self._assign(part, born)
            return
        with contextlib.suppress(ZeroDivisionError), fl.transaction(self.place):
            for part in parts:
                self._assign(part, born)
            for name, expected in after(before, ("block", parts, True)).items():
                if name not in names_of(op):
                    continue
                seen = self.handle(name, born)[...]
                if seen.shape != expected.shape:  # nothing was assigned to it, so nothing was refused
                    raise IndexError(f"the handle of {name} is from before a resize")
                if not np.array_equal(seen, expected):
                    raise Wrong(f"inside a transaction, {name} is not what was assigned")
            if not kept:
                raise ZeroDivisionError


def read(array: fl.Array) -> np.ndarray:
    """Return all elements, as they are stored."""
    return np.array(array[...])


class Reader:
    """The arrays as a process has them open that only reads."""

    def __init__(self, place: Path, steps: Steps, counters: mmap.mmap) -> None:
        self.place, self.steps, self.counters = place, steps, counters
        self.handles: dict[str, tuple[int, fl.Array]] = {}

    def serve(self, connection: Any, io: str) -> None:
        """Read what is asked for: [(name, states when: opened, begun, ended; elements or error), ...]."""
        with fl.Runtime(memory="2GiB", workers=1, io=io), contextlib.suppress(EOFError):
            while True:
                names, kept, fate, again = connection.recv()
                self.steps.watch(self.place)
                self.steps.count_reads()
                self.steps.stop(fate[1] if fate else 0)
                found = [self.one(name, kept) for name in names]
                while again and not connection.poll():
                    found += [self.one(name, kept) for name in names]
                if again:
                    connection.recv()
                _stop_unless(self.steps, fate)
                connection.send(found)

    def one(self, name: str, kept: bool) -> tuple[str, int, int, int, Any]:
        """Read one array."""
        low = self._counted(0)
        try:
            if not kept or name not in self.handles:
                self.handles[name] = (low, fl.open(self.place / name))
            opened, array = self.handles[name]
            found: Any = read(array)
        except (fl.Error, OSError) as error:
            opened = self.handles.pop(name, (low,))[0]
            found = _told(error)
        return name, opened, low, self._counted(1), found

    def _counted(self, which: int) -> int:
        return int(struct.unpack("qq", self.counters[:16])[which])


# The store --------------------------------------------------------------------------------------------------


def locked(place: Path) -> list[str]:
    """Return the arrays whose lock somebody holds."""
    held = []
    for file in place.rglob("__flagstone/lock"):
        descriptor = os.open(file, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(str(file))
        finally:
            os.close(descriptor)
    return held


class Store:
    """Arrays in a group, the processes that use them, and what must be in them."""

    def __init__(
        self, place: Path, peers: dict[str, Callable[[Path], np.ndarray]], torn: bool = False
    ) -> None:
        self.place, self.peers, self.steps = place, peers, Steps()
        self.script: list[tuple[Any, ...]] = []
        self.state: State = {}
        self.history: list[State] = [{}]  # every state that was committed
        self.moved: list[frozenset[str]] = [frozenset()]  # arrays that became others, or got another shape
        self.replaced: list[frozenset[str]] = [frozenset()]  # of these, those that became others
        self.born: dict[str, int] = {}
        self.unsure: set[str] = set()  # names that ever were of arrays without checksums beside them
        self.counts = dict.fromkeys(("operations", "deaths", "stops", "errors", "reads"), 0)
        self._counters = mmap.mmap(-1, 16)
        self._torn = torn
        place.mkdir()
        _core.write_group(str(place), "{}")
        self._writers: dict[int, Process] = {}
        self._reader: Process | None = None
        self._publish(0, 0)

    def close(self) -> None:
        """End its processes and remove its files."""
        for one in (*self._writers.values(), *([self._reader] if self._reader else [])):
            one.end()
        shutil.rmtree(self.place)

    def perform(self, op: Op, who: int = 0, fate: Any = None) -> None:
        """Do an operation in a writer and look at what came of it."""
        self.script.append(("perform", op, who, fate))
        fresh = after(self.state, op)
        self.counts["operations"] += 1
        writer = self._writer(who)
        self._publish(len(self.history) - 1, len(self.history))
        writer.tell(op, fate, self.born, self.state)
        if fate and fate[0] == "stop":
            writer.wait_until_stopped()
            self.counts["stops"] += 1
            self._look_while_stopped(fresh)
            writer.go_on()
        answer = writer.answer()
        if answer is None:
            self.counts["deaths"] += 1
            del self._writers[who]
            self._settle(op, self._stored(f"{op} died at {fate}", [self.state, fresh]))
            self._recover(op, fate[3])
        elif answer[0] == "raised":
            self._raised(op, fate, answer, fresh)
        else:
            self._settle(op, self._stored(str(op), [fresh]))

    def _raised(self, op: Op, fate: Any, answer: Any, fresh: State) -> None:
        _, kind, number, text, reached = answer
        if not fate or fate[0] != "fail" or reached < fate[1] or kind == "Wrong":
            raise Wrong(f"{op}: {kind}: {text}")
        self.counts["errors"] += 1
        seen = any(word in text for word in SAID)
        if number != fate[2] and not seen:
            raise Wrong(f"{op}: errno {fate[2]} became {number}: {text}")
        self._settle(op, self._stored(f"{op}: {text}", [self.state, fresh] if seen else [self.state]))
        self._recover(op, 0)

    def look(self, kept: bool = True) -> None:
        """Let the reader read everything."""
        self.script.append(("look", kept))
        self._publish(len(self.history) - 1, len(self.history) - 1)
        self._tell_reader(sorted(self.state), kept, None, False)
        self._judge(self._reader.answer(), "look")

    def read_across(self, name: str, kept: bool, step: int, ops: list[tuple[Op, int]]) -> None:
        """Let the reader stop in the middle of reading one array, and writers do something meanwhile."""
        self.script.append(("read_across", name, kept, step, ops))
        self._publish(len(self.history) - 1, len(self.history) - 1)
        self._tell_reader([name], kept, ("stop", step), False)
        self._reader.wait_until_stopped()
        self._perform_unwritten(ops)
        self._reader.go_on()
        self._judge(self._reader.answer(), f"stopped at {step}")

    def read_beside(self, kept: bool, ops: list[tuple[Op, int]]) -> None:
        """Let the reader read everything again and again while writers do something."""
        self.script.append(("read_beside", kept, ops))
        self._publish(len(self.history) - 1, len(self.history) - 1)
        self._tell_reader(sorted(self.state), kept, None, True)
        self._perform_unwritten(ops)
        self._reader.tell("enough")
        self._judge(self._reader.answer(), "beside")

    def reopen(self, who: int) -> None:
        """Let a writer's process end; the next one opens everything again."""
        self.script.append(("reopen", who))
        if who in self._writers:
            self._writers.pop(who).end()

    def _perform_unwritten(self, ops: list[tuple[Op, int]]) -> None:
        written = len(self.script)
        for op, who in ops:
            self.perform(op, who)
        del self.script[written:]

    # What it is made of ...............................................................................

    def _writer(self, who: int) -> Process:
        if who not in self._writers:
            io = ("threads", "auto")[who % 2]
            self._writers[who] = Process(Writer(self.place, self.steps, self._torn).serve, io)
        return self._writers[who]

    def _tell_reader(self, *message: Any) -> None:
        if self._reader is None:
            self._reader = Process(Reader(self.place, self.steps, self._counters).serve, "threads")
        self._reader.tell(*message)

    def _publish(self, low: int, high: int) -> None:
        self._counters[:16] = struct.pack("qq", low, high)

    def _settle(self, op: Op, state: State) -> None:
        """Take a state for what is stored now."""
        changed = (
            frozenset(names_of(op)) if op[0] in ("create", "replace", "resize", "delete") else frozenset()
        )
        if state is self.state:
            changed = frozenset()
        if op[0] == "create" and op[6] != "sidecar":
            self.unsure.add(op[1])
        for name in changed:
            self.born[name] = self.born.get(name, 0) + 1
        self.state = state
        self.history.append(state)
        self.moved.append(changed)
        self.replaced.append(changed if op[0] != "resize" else frozenset())
        self._publish(len(self.history) - 1, len(self.history) - 1)

    def _found(self) -> State:
        return {path.name: read(fl.open(path)) for path in sorted(self.place.iterdir())
                if path.is_dir() and not path.name.startswith(".")}  # fmt: skip

    def _stored(self, what: str, allowed: list[State]) -> State:
        """Return which of some states is stored: the last of those that are alike."""
        found = self._found()
        for state in reversed(allowed):
            if same(found, state):
                return state
        told = {name: array.tolist() for name, array in found.items()}
        raise Wrong(f"{what}: what is stored is none of {len(allowed)} states: {told}")

    def _look_while_stopped(self, fresh: State) -> None:
        """Read while a writer stands still: all is old or all is new; for peers each element is."""
        self._stored("while the writer stands still", [self.state, fresh])
        for path in (p for p in self.place.iterdir() if p.name in self.state and p.name in fresh):
            old, new = self.state[path.name], fresh[path.name]
            for name, peer in self.peers.items() if old.shape == new.shape and old.dtype == new.dtype else ():
                found = peer(_array(path))
                if not ((found == old) | (found == new)).all():
                    raise Wrong(f"{name} reads, while the writer stands still, what was never in {path.name}")

    def _recover(self, op: Op, dies_at: int) -> None:
        """Come as the next writer, who may die as well; then everything is as it was, for peers too."""
        for at in (dies_at, 0) if dies_at else (0,):
            child = Process(self._serve_recovery, {*self.born, *names_of(op)}, at)
            if child.answer() is None and not at:
                raise Wrong(f"after {op} a recovery died")
            child.end()
            self._stored(f"after {op} and a recovery", [self.state])
        self.check(f"after {op} and a recovery")

    def _serve_recovery(self, connection: Any, names: set[str], dies_at: int) -> None:
        if dies_at:
            self.steps.watch(self.place)
            self.steps.die(dies_at, torn=bool(dies_at % 2))
        for name in sorted(names):
            _core.sweep_leftovers(str(self.place / name))
        for name in self.state:
            core = _core.Transaction()
            core.add(_core.open_zarr(str(_array(self.place / name)), True))
            core.rollback()
        connection.send("done")

    def check(self, what: str = "") -> None:
        """Look at all of it: peers read the same, nothing is damaged, locked or left."""
        for name, expected in self.state.items():
            for peer, reads in self.peers.items():
                if not np.array_equal(reads(_array(self.place / name)), expected):
                    raise Wrong(f"{what}: {peer} reads something else in {name}")
        if not (report := fl.check(self.place)).ok:
            raise Wrong(f"{what}: {report}")
        if held := locked(self.place):
            raise Wrong(f"{what}: a lock is left: {held}")
        if left := [p.name for p in self.place.iterdir() if p.name.startswith(".")]:
            raise Wrong(f"{what}: {left} are left")

    def _judge(self, found: list[tuple[int, int, str, Any]] | None, what: str) -> None:
        """Each read is of one state that was there while it ran, and none is older than those before it."""
        if found is None:
            raise Wrong("the reader died")
        latest: dict[str, int] = {}
        for name, opened, low, high, elements in found:
            self.counts["reads"] += 1
            high = min(high, len(self.history) - 1)
            changes = [k for k in range(opened + 1, high + 1) if name in self.moved[k]]
            if isinstance(elements, tuple):
                if not changes:
                    raise Wrong(f"{what}: {name} was not read: {elements[1]}: {elements[3]}")
                continue
            # A handle that was open goes on with the version that was replaced, as that was last.
            replaced = [k - 1 for k in changes if name in self.replaced[k]]
            if elements.size == 0 or (replaced and len(changes) > 1 and name in self.unsure):
                continue  # nothing was read; or nobody can tell: no checksums lie beside it
            for k in (*range(max(low, latest.get(name, 0)), high + 1), *replaced):
                if self._agrees(name, elements, k):
                    latest[name] = max(k, latest.get(name, 0))
                    break
            else:
                told = f"{name} as it was in none of the states {low} to {high}"
                raise Wrong(f"{what}: a reader sees {told}: {elements.tolist()}")

    def _agrees(self, name: str, elements: np.ndarray, k: int) -> bool:
        stored = self.history[k].get(name)
        if stored is None or stored.ndim != elements.ndim or stored.dtype != elements.dtype:
            return False
        if stored.shape != elements.shape:  # a handle keeps its shape while the array grows
            if any(n < m for n, m in zip(stored.shape, elements.shape, strict=True)):
                return False
            stored = stored[tuple(slice(0, n) for n in elements.shape)]
        return np.array_equal(stored, elements)


def _array(path: Path) -> Path:
    """Return the array itself: what `create` and `from_numpy` make at a path may be its group."""
    return path if (path / "c").exists() or not (path / "array").exists() else path / "array"


def replay(store: Store, script: list[tuple[Any, ...]]) -> None:
    """Do what a script says."""
    for method, *arguments in script:
        getattr(store, method)(*arguments)


@contextlib.contextmanager
def store_at(place: Path, peers: dict[str, Any], torn: bool = False) -> Iterator[Store]:
    """Make a store, and remove it."""
    made = Store(place, peers, torn)
    try:
        yield made
    finally:
        made.close()
