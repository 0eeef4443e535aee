"""One call of a routine on the runtime in use: its limit, its plan and its run."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from .. import _core
from .._errors.classes import StorageError
from .._errors.messages import storage_error
from .._machine import lookup, profile
from .._scratch import builds, quota, scratch
from .arguments import memory_bytes
from .pending_writes import flush_all
from .plan import Plan, Stats, format_seconds
from .progress import shown
from .runtime import current, named_quota, remember, stats
from .spaces import spaces_of

__all__ = ["Call", "Moved"]

_MOST = (1 << 64) - 1  # bytes that can be named

#: What a worker's first product leaves in the process: the buffer that BLAS packs into, of which 4.3 MiB were
#: seen touched (OpenBLAS 0.3, float64). It is held back from a limit as part of the reserve; the next call of
#: a chain finds it resident and holds back as much once more.
_PACKED = 9 << 19


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
        _core.set_checkpoint_seconds(self.runtime.checkpoint)
        self.memory = self.runtime.memory if memory is None else memory_bytes(memory)
        self.engine = self.runtime.engine(self.memory)
        self.places: list[Path] = []
        self.outputs = 0  # arrays that appear under a name at the end, and are synced
        self.scratch_bytes: dict[str, int] = {}  # what it puts into scratch, for its plan
        self.profile: profile.Profile | None = None
        self.before_run: list[Callable[[], Any]] = []  # once the limit was found to be enough
        self.copies: dict[int, Any] = {}  # of operands that cannot be read where they are, by their id
        self.remark = ""  # about its operands, for its plan
        self._prepared_peak = 0
        self._processor_seconds = 0.0  # that its runs got, of all processors
        self._need: int | None = None  # what its job takes beside what is resident, where that was counted
        self.entry = 0  # resident bytes when it began; 0: nobody looked
        if not light:
            self.begin()

    packed: ClassVar[int] = 0  # workers that have had a product in this process

    def begin(self) -> None:
        """Measure the peak from here on: what is prepared before the run counts."""
        _core.release_pages()
        if _core.resident_bytes() > self.memory // 4:  # what was freed may decide what fits, or how
            self.tidy()
        _core.reset_peak_resident()
        self.entry = _core.resident_bytes()
        builds.unreserved.set(False)

    def on(self, *paths: str | os.PathLike[str] | None) -> None:
        """Say where operands lie: plans use the rates of that device where they were measured."""
        self.places = [Path(path).absolute().parent for path in paths if path]

    def use_profile(self) -> profile.Profile:
        """Give the engine this machine's rates (the first time, a probe of two seconds); plans need them."""
        if self.profile is None and self.runtime.machine is not None:
            self.profile = self.runtime.machine.profile
            self.engine.profile = self.profile.core
        elif self.profile is None:
            try:
                self.places = [*self.places, scratch.prepare(self.runtime.scratch)]
                self.profile = lookup.lookup(self.places, self.runtime.io)
            except StorageError:  # plans need no scratch
                self.profile = lookup.measured(self.places) or profile.default()
            self.engine.profile = self.profile.core
        return self.profile

    def room(self, what: str, nbytes: int, kept: int = 0) -> int:
        """Refuse `nbytes` of ordinary memory that would go beyond the limit; return what is left then.

        `kept` of them are held already. What is named works where the process has grown by some MiB since, by
        modules loaded late for example.
        """
        return self.engine.check_room(self.who, what, min(nbytes, _MOST), kept, self.entry)

    def share(self, what: str, each: int, most: int, *, fixed: int = 0, least: int = 1) -> int:
        """Return how many things of `each` bytes are held at a time: `most`, fewer under a low limit.

        Refuses a limit that has no room for `least` of them beside `fixed` bytes.
        """
        each, least = max(1, each), max(1, min(least, most))
        self.room(what, fixed + least * each)
        self.tidy()
        left = self.memory - _core.resident_bytes() - fixed
        return max(least, min(most, left * 9 // 10 // each))

    @staticmethod
    def tidy() -> None:
        """Give back what was freed, and what is kept for the next results."""
        _core.release_pages()
        _core.trim()

    def check_memory(self, job: _core.Job, beside: int = 0) -> None:
        """Refuse, before any data is moved, a limit that cannot work; `beside`: bytes yet to be touched."""
        resident = _core.resident_bytes()
        self._need = self.engine.least_memory(job) - resident
        self._check_need(beside)

    def _check_need(self, beside: int) -> None:
        """Refuse a limit in which what was counted last has no room beside what is resident now."""
        beside += self._need or 0
        if _core.resident_bytes() + beside > self.memory:
            self.tidy()  # what was freed counts as resident until it is given back
        self.check_least(_core.resident_bytes() + beside)

    def check_least(self, least: int) -> None:
        """Refuse where so many bytes are needed and the limit is lower, give or take what drifts."""
        _core.check_least(self.who, min(least, _MOST), self.memory, self.entry)

    def check_chain(self, least: int) -> None:
        """Refuse, before the first of several runs, a limit below `least`, beside what is resident now.

        What the first leaves in the process is added.
        """
        new = max(0, self.engine.workers - Call.packed)
        self.check_least(least + max(0, new * _PACKED - int(_core.allowed_drift)))

    @staticmethod
    def rounded(least: int) -> int:
        """Return the limit to name for a need: whole MiB with one to spare for drift."""
        return _core.limit_for(min(least, _MOST))

    def run(self, job: _core.Job, counted: bool = False) -> _core.Statistics:
        """Execute a job; Ctrl-C cancels it cleanly. `counted`: what it needs was, by check_memory()."""
        flush_all(self.engine)  # assigned in a transaction, and not yet where the job looks for it
        _core.release_pages()
        if not counted or self._need is None:
            self.check_memory(job)
        else:
            self._check_need(0)
        self._need = None  # of one job
        self.ready()
        self._prepared_peak = _core.peak_resident_bytes()  # the engine starts to measure anew
        _core.pages_of_job(True)
        before = time.process_time()
        try:
            with shown(self.runtime.progress, self.who, lambda: self.engine.plan(job), self.memory) as hears:
                done = self.engine.run(job, hears, self.who, named_quota(self.runtime))
            if done.flops:
                Call.packed = max(Call.packed, self.engine.workers)
            return done
        finally:
            self._processor_seconds += time.process_time() - before
            _core.pages_of_job(False)

    def scratch_in_run(self) -> str:
        """Return where scratch lies, for a job: it is made before the run, so that a plan needs none."""
        self.before_run.append(functools.partial(scratch.prepare, self.runtime.scratch))
        return str(self.runtime.scratch)

    def ready(self) -> None:
        """Do what waited until the limit was found to be enough."""
        while self.before_run:
            self.before_run.pop(0)()

    def plan(self, job: _core.Job, least: int = 0) -> _core.Statistics:
        """Count a job on a virtual clock. `least`: what the engine said that it needs, where it was asked."""
        self.use_profile()
        return self.engine.plan(job, least)

    def plan_at(self, job: _core.Job, memory: int) -> _core.Statistics:
        """Count a job under another limit."""
        other = self.runtime._engine(memory)
        other.profile = self.use_profile().core
        return other.plan(job)

    def as_plan(self, job: _core.Job, what: str, method: str, passes: int, note: str = "") -> Plan:
        """Return the plan of a job whose method is known."""
        self.use_profile()  # what its probe takes is resident when the least is asked for
        least = self.engine.least_memory(job)
        return self.to_plan(self.plan(job, least), self.rounded(least), what, method, passes, note)

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
        rated = self.use_profile()
        syncs = 6 + 11 * self.outputs if self.outputs else 0  # files and directories (counted with strace)
        seconds = counted.seconds + syncs * rated.rates["sync_seconds"]
        told = "; ".join(text for text in (note, self.remark) if text)
        plan = Plan(
            what, method, passes, counted.bytes_read, counted.bytes_written, counted.flops,
            counted.peak_memory, least, seconds, self.memory, told, most_passes, rated.label,
            sum(self.scratch_bytes.values()), self.runtime.scratch_quota, spaces=spaces_of(counted),
        )  # fmt: skip
        if self.runtime.machine is not None:
            plan = dataclasses.replace(plan, bound=self._bound(counted), idle_share=self._idle_share(counted))
        self.runtime.planned = plan, rated, self.places, counted
        return plan

    def _idle_share(self, counted: _core.Statistics) -> float:
        whole = self.engine.workers * counted.seconds
        return 1 - counted.worker_busy_seconds / whole if whole > 0 else 0.0

    def _bound(self, counted: _core.Statistics) -> str:
        """Return what bounds a simulated run: the largest of disk, workers and the longest chain of tasks."""
        workers = counted.worker_busy_seconds / self.engine.workers
        bounds = {"disk": counted.ring_busy_seconds, "workers": workers, "chain": counted.chain_seconds}
        largest = max(bounds, key=lambda name: bounds[name])
        told = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in bounds.items())
        return f"{largest} ({told})"

    def record(
        self, done: _core.Statistics, what: str, method: str, passes: int, note: str = "",
        counted: Callable[[_core.Statistics], dict[str, Any]] | None = None,
    ) -> Stats:  # fmt: skip
        """Keep what a run did, for stats(); `counted` returns fields of its own."""
        return self.keep(Stats(
            what, method, passes, done.bytes_read, done.bytes_written, done.flops,
            max(done.peak_memory, self._prepared_peak), 0,
            done.seconds, self.memory, note, 0,
            done.tasks, done.worker_busy_seconds, done.worker_idle_seconds, done.ring_busy_seconds,
            done.ring_idle_seconds, done.resident_at_entry, done.budget, done.peak_budget, done.io,
            spaces=spaces_of(done), **(counted(done) if counted is not None else {}),
        ))  # fmt: skip

    def nothing(self, what: str) -> Plan:
        """Return the plan of a call whose operands have no elements."""
        resident = _core.resident_bytes()
        return Plan(
            what, "nothing to read", 0, 0, 0, 0.0, resident, self.rounded(resident), 0.0, self.memory
        )  # fmt: skip

    def did_nothing(self, what: str) -> None:
        """Say so in stats(), which else would tell of the call before."""
        with self.measured(what, "nothing to read"):
            pass
        remember(self.runtime, dataclasses.replace(stats(), passes=0))

    def keep(self, done: Stats) -> Stats:
        """Make `done` what stats() tells, and compare it with its plan."""
        if builds.unreserved.get():
            done = dataclasses.replace(
                done, io=f"{done.io}; space checked, not reserved (no fallocate there)"
            )
        remember(self.runtime, done)
        self._learn(done)
        return done

    def _learn(self, done: Stats) -> None:
        """Tell the profile how a run compares with its plan; runs below a second say little."""
        if self.runtime.planned is None:
            return
        plan, rated, places, counted = self.runtime.planned
        same = (plan.what, plan.method, plan.memory) == (done.what, done.method, done.memory)
        if same and min(plan.seconds, done.seconds) > 0 and max(plan.seconds, done.seconds) > 1:
            per_pass = max(plan.passes, 1) / max(done.passes, 1)
            ratio = done.seconds * self._let(done) / plan.seconds * per_pass
            lookup.learn(rated, places, ratio, self._what_took(counted))

    def _let(self, done: Stats) -> float:
        """Return the processor time that a run got ÷ what its busy workers asked for, at most 1.

        Less where other programs ran too: their share of the seconds says nothing of this machine's rates.
        """
        return min(1.0, self._processor_seconds / max(done.worker_busy_seconds, 1e-9))

    def _what_took(self, counted: _core.Statistics) -> dict[str, float]:
        """Return the share of each rate in the time of what bounds a plan, the disk or the workers."""
        if counted.ring_busy_seconds * self.engine.workers > counted.worker_busy_seconds:
            moved = max(1, counted.bytes_read + counted.bytes_written)
            return {
                "read_bytes_per_second": counted.bytes_read / moved,
                "write_bytes_per_second": counted.bytes_written / moved,
            }
        seconds = {name: getattr(counted.by_rate, name) for name in profile.PROCESSOR_RATES}
        whole = sum(seconds.values())
        return {name: part / whole for name, part in seconds.items() if whole > 0}

    @contextlib.contextmanager
    def measured(self, what: str, method: str) -> Iterator[Moved]:
        """Keep, for stats(), what a call that needs no runtime did; the body tells the bytes."""
        moved, entry = Moved(), _core.resident_bytes()
        _core.reset_peak_resident()
        start = time.perf_counter()
        try:
            yield moved
        finally:
            self.tidy()
        seconds, peak = time.perf_counter() - start, _core.peak_resident_bytes()
        done = Stats(
            what + moved.where, method, 1, moved.bytes_read, moved.bytes_written, 0.0, peak, 0, seconds,
            self.memory, resident_at_entry=entry, io=self.engine.io,
        )  # fmt: skip
        remember(self.runtime, done)

    def result(self, name: str, nbytes: int) -> scratch.Result:
        """Return a place in scratch for a result that nobody named, after looking at the free space."""
        directory = scratch.prepare(self.runtime.scratch)
        place = scratch.Result(directory, name)  # and what killed processes left is gone
        with builds.whole_or_nothing(place):
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
