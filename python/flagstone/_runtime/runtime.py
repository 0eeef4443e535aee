"""The runtime in use: memory limit, workers, scratch, and the engine that they make.

A `Runtime` holds an engine (ring, workers, cache) that is made at first use. Without a `with` block, calls
use one default runtime per process; a forked child makes its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import _core
from .._errors.classes import Error
from .._errors.messages import path_text, storage_error
from .._machine import profile
from .._machine.machine import Machine, machine_of
from .._scratch import scratch
from . import environment
from .arguments import check_flags, memory_bytes, quota_bytes, seconds_between, thread_count
from .devices import Device, Placement, bits_of, check_room, chosen, open_all, placement
from .plan import Plan, Stats
from .progress import Progress, who_hears

__all__ = ["Runtime", "current", "features", "named_quota", "remember", "stats"]


class Runtime:
    """Memory limit, workers and scratch of the calls inside a ``with`` block.

    Parameters
    ----------
    memory : int or str, optional
        Most resident memory that the whole process may reach during a call: bytes or "4GiB". Default:
        $FLAGSTONE_MEMORY, else 60 % of what the machine or its cgroup allows.
    workers : int, optional
        Tasks that run at once; default: $FLAGSTONE_WORKERS, else the processors available.
    threads_per_task : int
        Threads of one task.
    scratch : path, optional
        Directory for results without `out=` and for spilled tiles; default: $FLAGSTONE_SCRATCH, else the
        user's cache directory (never one that lives in memory).
    io : {"auto", "uring", "threads"}
        How the disk is talked to.
    scratch_quota : int or str, optional
        Most bytes that may lie in the scratch directory, imports and results of all processes: "200GiB". A
        call that needs more is refused before it starts. Default: $FLAGSTONE_SCRATCH_QUOTA, else half of
        what was free when the directory was first used.
    progress : bool or callable, optional
        True: calls that take longer than half a second show a bar, where standard error is a terminal or in a
        notebook, and each is planned once more for its total. A callable is called about ten times a second
        during a call, with the statistics so far. Default: $FLAGSTONE_PROGRESS (0 or 1), else bars in
        notebooks alone.
    checkpoint : float, optional
        Least seconds between two saves of progress of calls with a named output, from which a call goes on
        after its process died; 0: at every opportunity. Time loops make their supersteps no longer. Default:
        $FLAGSTONE_CHECKPOINT_SECONDS, else 30.
    devices : list of Device or str, optional
        Memories beside the host's, with a limit each; what they have kernels for runs there. "auto": all
        cards that there are. Default: $FLAGSTONE_DEVICES ("auto", "cuda:0:8GiB", "cuda:0,cuda:1"), else
        none; [] for none whatever the environment says.
    strict : bool
        Refuse a call whose tasks have no kernel on their device, where they would run on the host.
    place : {"rows", "columns"} or callable, optional
        Which device changes a tile: rows or columns of tiles, one device after the other; or a function of
        the tile's row and column, 0 the host, 1 the first device: asked for 64 of both, which repeat.
        Default: as the routine has it, most by columns. It never changes by time, since bits of kinds differ.

    Examples
    --------
    >>> with fl.Runtime(memory="2GiB", workers=4):
    ...     C = A @ B
    """

    __module__ = "flagstone"

    def __init__(
        self,
        memory: int | str | None = None,
        workers: int | None = None,
        threads_per_task: int = 1,
        scratch: str | os.PathLike[str] | None = None,
        io: str = "auto",
        progress: Progress | bool | None = None,
        scratch_quota: int | str | None = None,
        checkpoint: float | None = None,
        devices: Sequence[Device | str] | str | None = None,
        strict: bool = False,
        place: str | Callable[[int, int], int] | Placement | None = None,
    ) -> None:
        if io not in ("auto", "uring", "threads"):
            raise ValueError(f"Runtime: io is {io!r}; choose 'auto', 'uring' or 'threads'.")
        self.memory = memory_bytes(memory)
        environment.check()
        self.workers = (environment.workers() or 0) if workers is None else thread_count("workers", workers)
        self.threads_per_task = thread_count("threads_per_task", threads_per_task)
        self.io = io
        self.checkpoint = None if checkpoint is None else seconds_between("checkpoint", checkpoint)
        self.progress: Progress | bool = who_hears(progress)
        self.machine: Machine | None = None  # that plans are made for, where it is not this one
        self.last: Stats | None = None
        #: the last plan, its rates, whose they are, and what it counted
        self.planned: tuple[Plan, profile.Profile, list[Path], _core.Statistics] | None = None
        check_flags("Runtime", strict=strict)
        self.devices = chosen(environment.devices() if devices is None else devices)
        self.strict = bool(strict)
        self.place = placement(place, len(self.devices))
        check_room(self.memory, self.devices)
        self._opened: list[_core.Device] = []
        self._quota = None if scratch_quota is None else quota_bytes(scratch_quota)
        # From the root: a later chdir does not matter.
        self._scratch = None if scratch is None else Path(path_text("Runtime", scratch)).absolute()
        if self._scratch is not None and os.path.exists(self._scratch) and not self._scratch.is_dir():
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
    def scratch_quota(self) -> int:
        """Most bytes that may lie in scratch; where nobody said, half of what was free at its first use."""
        given = named_quota(self)
        return _core.usual_quota(str(self.scratch)) if given is None else given

    @classmethod
    def _simulated(cls, machine: Machine, scratch: Path) -> Runtime:
        """Return a runtime whose plans are those of another machine; it runs nothing."""
        made = cls(machine.memory, machine.workers, scratch=scratch, devices=[])
        made.machine = machine
        return made

    def engine(self, memory: int | None = None) -> _core.Engine:
        """Return the engine for a limit, making it at first use."""
        limit = self.memory if memory is None else memory
        with self._lock:
            if self._process != os.getpid():
                # The parent's threads do not exist here: its engines are dead and must not even be destroyed.
                for dead in self._engines.values():
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dead))
                for device in self._opened:
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))
                self._engines, self._opened, self._process = {}, [], os.getpid()
            if limit not in self._engines:
                for other in [key for key in self._engines if key != self.memory]:
                    del self._engines[other]
                self._engines[limit] = self._engine(limit)
            return self._engines[limit]

    def _engine(self, memory: int) -> _core.Engine:
        if not self._opened:
            self._opened = open_all(self.devices)
        return _core.Engine(
            memory,
            self.workers,
            self.threads_per_task,
            str(self.scratch),
            self.io,
            self.machine is not None,
            self._opened,
            self.strict,
            self.place.given,
            None if self.machine is None else self.machine.sockets.used,
        )

    @property
    def device_bits(self) -> str:
        """What of the devices decides bits; "" without devices."""
        return bits_of(self.devices, self.place)

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
                self._opened.clear()

    def __repr__(self) -> str:
        beside = "".join(f" {one.kind}" for one in self.devices)
        told = f" devices={beside.strip().replace(' ', ',')}" if beside else ""
        memory = _core.format_bytes(self.memory)
        return f"<Runtime memory={memory} workers={self.workers or 'all'} io={self.io}{told}>"


_local = threading.local()
_default: Runtime | None = None
_default_lock = threading.Lock()


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
        wanted = environment.memory()
        if _default is None or (wanted is not None and wanted != _default.memory):
            _default = Runtime()
        return _default


@contextlib.contextmanager
def simulated(machine: Any) -> Iterator[None]:
    """Make plans those of another machine (a `Machine`, or its file) inside a ``with`` block."""
    with Runtime._simulated(machine_of(machine), current().scratch):
        yield


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
        "devices": [one.description for one in runtime._opened],
        "scratch": str(runtime.scratch),
        "scratch_file_system": scratch.file_system(runtime.scratch),
        "scratch_quota": runtime.scratch_quota,
    }


_last: Stats | None = None


def named_quota(runtime: Runtime) -> int | None:
    """Return the quota of scratch that somebody named, by argument or in the environment.

    It is kept by a plan before each run, which costs a large graph seconds; the usual one is for results.
    """
    return quota_bytes(None) if runtime._quota is None else runtime._quota


def remember(runtime: Runtime, done: Stats) -> None:
    """Make `done` what stats() tells, and what this runtime did last."""
    global _last
    _last = runtime.last = done


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
