"""The runtime in use: memory limit, workers, scratch; and running a job on it.

A `Runtime` holds an engine (ring, workers, cache) that is made at first use. Without a `with` block, calls
use one default runtime per process; a forked child makes its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from . import _core, machine, quota, scratch
from .combined import flush_all
from .errors import BudgetError, Error, path_text, storage_error
from .plan import Plan, Stats
from .sizes import memory_bytes, quota_bytes, thread_count

__all__ = ["Call", "Runtime", "current", "features", "memory_bytes", "stats"]

_MiB = 1 << 20
_MOST = (1 << 64) - 1  # bytes that can be named
Progress = Callable[[Any], None]


class Runtime:
    """Memory limit, workers and scratch of the calls inside a ``with`` block.

    Parameters
    ----------
    memory : int or str, optional
        Most resident memory that the whole process may reach during a call: bytes or "4GiB". Default:
        $FLAGSTONE_MEMORY, else 60 % of what the machine or its cgroup allows.
    workers : int, optional
        Tasks that run at once; default: the processors available.
    threads_per_task : int
        Threads of one task.
    scratch : path, optional
        Directory for results without `out=` and for spilled tiles; default: $FLAGSTONE_SCRATCH, else the
        user's cache directory (never one that lives in memory).
    io : {"auto", "uring", "threads"}
        How the disk is talked to.
    scratch_quota : int or str, optional
        Most bytes that may lie in the scratch directory, imports and results of all processes: "200GiB". A
        call that needs more is refused before it starts. Default: $FLAGSTONE_SCRATCH_QUOTA, else no quota.
    progress : callable, optional
        Called about ten times a second during a call, with the statistics so far.

    Examples
    --------
    >>> with fl.Runtime(memory="2GiB", workers=4):
    ...     C = A @ B
    """

    def __init__(
        self,
        memory: int | str | None = None,
        workers: int | None = None,
        threads_per_task: int = 1,
        scratch: str | os.PathLike[str] | None = None,
        io: str = "auto",
        progress: Progress | None = None,
        scratch_quota: int | str | None = None,
    ) -> None:
        if io not in ("auto", "uring", "threads"):
            raise ValueError(f"Runtime: io is {io!r}; choose 'auto', 'uring' or 'threads'.")
        self.memory = memory_bytes(memory)
        self.workers = 0 if workers is None else thread_count("workers", workers)
        self.threads_per_task = thread_count("threads_per_task", threads_per_task)
        self.io = io
        self.progress = progress
        self.last: Stats | None = None
        self.planned: tuple[Plan, machine.Profile, list[Path]] | None = None  # the last one
        self._quota = None if scratch_quota is None else quota_bytes(scratch_quota)
        self._scratch = Path(path_text("Runtime", scratch)) if scratch is not None else None
        if self._scratch is not None and self._scratch.exists() and not self._scratch.is_dir():
            raise storage_error(
                f"Runtime: scratch is '{scratch}', which is a file; name a directory.",
                errno.ENOTDIR,
                str(self._scratch),
            )
        self._engines: dict[
            int, _core.Engine
        ] = {}  # by memory limit: this runtime's own and the last other one
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def scratch(self) -> Path:
        """The scratch directory (not created until it is needed)."""
        if self._scratch is None:
            self._scratch = scratch.default_directory()
        return self._scratch

    @property
    def scratch_quota(self) -> int | None:
        """Most bytes that may lie in scratch; None: as many as the disk holds."""
        return quota_bytes(None) if self._quota is None else self._quota

    def engine(self, memory: int | None = None) -> _core.Engine:
        """Return the engine for a limit, making it at first use."""
        limit = self.memory if memory is None else memory
        with self._lock:
            if self._process != os.getpid():
                # The parent's threads do not exist here: its engines are dead and must not even be destroyed.
                for dead in self._engines.values():
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dead))
                self._engines, self._process = {}, os.getpid()
            if limit not in self._engines:
                for other in [key for key in self._engines if key != self.memory]:
                    del self._engines[other]
                self._engines[limit] = _core.Engine(
                    limit, self.workers, self.threads_per_task, str(self.scratch), self.io
                )
            return self._engines[limit]

    def __enter__(self) -> Runtime:
        _stack().append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stack().remove(self)
        with self._lock:
            if self._process == os.getpid():
                self._engines.clear()

    def __repr__(self) -> str:
        return (
            f"<Runtime memory={_core.format_bytes(self.memory)} workers={self.workers or 'all'} io={self.io}>"
        )


_local = threading.local()
_default: Runtime | None = None
_default_lock = threading.Lock()
_last: Stats | None = None


def _after_fork() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    if _default is not None:
        _default._lock = threading.Lock()
    for runtime in _stack():
        runtime._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _stack() -> list[Runtime]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    stack: list[Runtime] = _local.stack
    return stack


def current() -> Runtime:
    """Return the runtime of the innermost ``with`` block of this thread, else the process's default one."""
    global _default
    if _stack():
        return _stack()[-1]
    with _default_lock:
        wanted = memory_bytes(None) if os.environ.get("FLAGSTONE_MEMORY") else None
        if _default is None or (wanted is not None and wanted != _default.memory):
            _default = Runtime()
        return _default


def stats() -> Stats:
    """Return what the last call of this process did.

    Returns
    -------
    Stats
        The fields of a `Plan`, measured, and more: busy and idle seconds of workers and disk, and how the
        disk was talked to (`io`).
    """
    if _last is None:
        raise Error("stats: nothing has run yet in this process; call a routine first.")
    return _last


def features() -> dict[str, Any]:
    """Return what this build and machine offer: version, disk path, memory allowed, workers, scratch."""
    runtime = current()
    engine = runtime.engine()
    return {
        "version": _core.__version__,
        "io": engine.io,
        "memory_allowed": _core.allowed_memory(),
        "memory_limit": runtime.memory,
        "workers": engine.workers or len(os.sched_getaffinity(0)),
        "scratch": str(runtime.scratch),
        "scratch_file_system": scratch.file_system(runtime.scratch),
        "scratch_quota": runtime.scratch_quota,
    }


@dataclass
class Moved:
    """Bytes that a call moved."""

    bytes_read: int = 0
    bytes_written: int = 0
    where: str = ""  # it began, for a call that went on


class Call:
    """One call of a routine: its limit, its engine, its plan and its run."""

    def __init__(self, who: str, memory: int | str | None = None, *, light: bool = False) -> None:
        """`light`: a read of a part, which measures nothing and sees what waits to be written."""
        self.who = who
        self.runtime = current()
        self.memory = self.runtime.memory if memory is None else memory_bytes(memory)
        self.engine = self.runtime.engine(self.memory)
        self.places: list[Path] = []
        self.outputs = 0  # arrays that appear on disk at the end
        self.scratch_bytes: dict[str, int] = {}  # what it puts into scratch, for its plan
        self._spilled: quota.Promise | None = None
        self.profile: machine.Profile | None = None
        self._prepared_peak = 0
        if not light:
            self.begin()

    def begin(self) -> None:
        """Measure the peak from here on: what is prepared before the run counts."""
        _core.release_pages()
        _core.reset_peak_resident()
        scratch.unreserved.set(False)

    def on(self, *paths: str | os.PathLike[str] | None) -> None:
        """Say where operands lie: plans use the rates of that device where they were measured."""
        self.places = [Path(path).absolute().parent for path in paths if path]

    def use_profile(self) -> machine.Profile:
        """Give the engine this machine's rates (the first time, a probe of a second); plans need them."""
        if self.profile is None:
            self.places = [*self.places, scratch.prepare(self.runtime.scratch)]
            self.profile = machine.lookup(self.places, self.runtime.io)
            self.engine.profile = self.profile.core
        return self.profile

    def room(self, what: str, nbytes: int, kept: int = 0) -> None:
        """Refuse `nbytes` of ordinary memory that would go beyond the limit; `kept` of them are held already.

        What is named works where the process has grown by some MiB since, by modules loaded late for example.
        """
        least = _core.resident_bytes() + nbytes - kept
        if least > self.memory:
            _core.release_pages()
            _core.trim()
            least = _core.resident_bytes() + nbytes
        if least > self.memory:
            least += self.engine.allowed_drift
            part = f" ({_core.format_bytes(min(nbytes, _MOST))} of them for {what})" if nbytes else ""
            raise BudgetError(
                f"{self.who}: needs at least {_whole(least)}{part}; memory is "
                f"{_core.format_bytes(self.memory)}. Raise memory= or ask for less.",
                _rounded(least),
            )

    def least_memory(self, job: _core.Job) -> int:
        """Return the least limit that works, rounded up to whole MiB with one to spare for drift."""
        return _rounded(self.engine.least_memory(job))

    def check_memory(self, job: _core.Job, beside: int = 0) -> None:
        """Refuse, before any data is moved, a limit that cannot work; `beside`: bytes yet to be touched."""
        least = self.engine.least_memory(job) + beside
        if least > self.memory + self.engine.allowed_drift:
            self.refuse(least)

    def refuse(self, least: int) -> NoReturn:
        """Say how many bytes are needed, where that is more than the limit."""
        raise BudgetError(
            f"{self.who}: needs at least {_whole(least)}; memory is {_core.format_bytes(self.memory)}. "
            "Raise memory=.",
            _rounded(least),
        )

    @staticmethod
    def rounded(least: int) -> int:
        """Return the limit to name for a need: whole MiB with one to spare for drift."""
        return _rounded(least)

    def run(self, job: _core.Job) -> _core.Statistics:
        """Execute a job; Ctrl-C cancels it cleanly."""
        flush_all(self.engine)  # assigned in a transaction, and not yet where the job looks for it
        _core.release_pages()
        self.check_memory(job)
        self._prepared_peak = _core.peak_resident_bytes()  # the engine starts to measure anew
        _core.pages_of_job(True)
        try:
            return self.engine.run(job, self.runtime.progress)
        finally:
            _core.pages_of_job(False)
            if self._spilled is not None:
                self._spilled.release()

    def plan(self, job: _core.Job) -> _core.Statistics:
        """Count a job on a virtual clock."""
        self.use_profile()
        return self.engine.plan(job)

    def as_plan(self, job: _core.Job, what: str, method: str, passes: int, note: str = "") -> Plan:
        """Return the plan of a job whose method is known."""
        return self.to_plan(self.plan(job), self.least_memory(job), what, method, passes, note)

    def to_plan(
        self,
        counted: _core.Statistics,
        least: int,
        what: str,
        method: str,
        passes: int,
        note: str = "",
        most_passes: int = 0,
    ) -> Plan:
        """Return counted statistics as what users see."""
        profile = self.use_profile()
        # Files and directories that are synced when outputs appear: counted with strace.
        syncs = 6 + 11 * self.outputs if self.outputs else 0
        seconds = counted.seconds + syncs * profile.rates["sync_seconds"]
        plan = Plan(
            what, method, passes, counted.bytes_read, counted.bytes_written, counted.flops,
            counted.peak_memory, least, seconds, self.memory, note, most_passes, profile.label,
            sum(self.scratch_bytes.values()), self.runtime.scratch_quota or 0,
        )  # fmt: skip
        self.runtime.planned = plan, profile, self.places
        return plan

    def record(self, done: _core.Statistics, what: str, method: str, passes: int, note: str = "") -> Stats:
        """Keep what a run did, for stats()."""
        return self.keep(Stats(
            what, method, passes, done.bytes_read, done.bytes_written, done.flops,
            max(done.peak_memory, self._prepared_peak), 0,
            done.seconds, self.memory, note, 0,
            done.tasks, done.worker_busy_seconds, done.worker_idle_seconds, done.ring_busy_seconds,
            done.ring_idle_seconds, done.resident_at_entry, done.budget, done.peak_budget, done.io,
        ))  # fmt: skip

    def keep(self, done: Stats) -> Stats:
        """Make `done` what stats() tells, and compare it with its plan."""
        global _last
        if scratch.unreserved.get():
            done = dataclasses.replace(
                done, io=f"{done.io}; space checked, not reserved (no fallocate there)"
            )
        _last = self.runtime.last = done
        self._learn(done)
        return done

    def _learn(self, done: Stats) -> None:
        """Tell the profile how a run compares with its plan; runs below a second say little."""
        if self.runtime.planned is None:
            return
        plan, profile, places = self.runtime.planned
        same = (plan.what, plan.method, plan.memory) == (done.what, done.method, done.memory)
        if same and min(plan.seconds, done.seconds) > 0 and max(plan.seconds, done.seconds) > 1:
            per_pass = max(plan.passes, 1) / max(done.passes, 1)
            machine.learn(profile, places, done.seconds / plan.seconds * per_pass)

    @contextlib.contextmanager
    def measured(self, what: str, method: str) -> Iterator[Moved]:
        """Keep, for stats(), what a call that needs no runtime did; the body tells the bytes."""
        global _last
        moved, entry = Moved(), _core.resident_bytes()
        _core.reset_peak_resident()
        start = time.perf_counter()
        yield moved
        seconds, peak = time.perf_counter() - start, _core.peak_resident_bytes()
        _last = self.runtime.last = Stats(
            what + moved.where, method, 1, moved.bytes_read, moved.bytes_written, 0.0, peak, 0, seconds,
            self.memory, resident_at_entry=entry, io=self.engine.io,
        )  # fmt: skip

    def result(self, name: str, nbytes: int) -> scratch.Result:
        """Return a place in scratch for a result that nobody named, after looking at the free space."""
        directory = scratch.prepare(self.runtime.scratch)
        place = scratch.Result(directory, name)  # and what killed processes left is gone
        with scratch.whole_or_nothing(place):
            free = scratch.free_bytes(directory)
            if nbytes > free:
                raise storage_error(
                    f"{self.who}: the result takes {_core.format_bytes(nbytes)} and scratch '{directory}' "
                    f"has {_core.format_bytes(free)} of space left; name a roomier place with "
                    "FLAGSTONE_SCRATCH or out=.",
                    errno.ENOSPC,
                    str(directory),
                )
            if (most := self.runtime.scratch_quota) is not None:
                place.promise = quota.promise(self.who, directory, most, nbytes, Path(place.path))
        return place

    def spill(self, nbytes: int) -> None:
        """Promise bytes of scratch to files without a name, for as long as this call lasts."""
        directory = scratch.prepare(self.runtime.scratch)
        self._spilled = quota.promise(self.who, directory, self.runtime.scratch_quota, nbytes)


def _rounded(least: int) -> int:
    return (least // _MiB + 2) * _MiB


def _whole(least: int) -> str:
    return f"{_rounded(least) // _MiB} MiB"
