"""What every call of a routine does: checks, plan, least memory, record, run, statistics."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from .. import _core
from .call import Call, Moved
from .plan import Plan
from .runtime import simulated

__all__ = [
    "At", "How", "PlannedMethod", "Prepared", "Routine", "RoutineFunction", "Streaming", "Target",
    "least_of", "planned_by", "routine",
]  # fmt: skip

_ADVISED = 100_000  # tasks of the largest graph that is counted again, for advice, at five more limits

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Target(Protocol):
    """Where one result goes, as a routine sees it; `flagstone._output.place` has those that there are."""

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the result takes, and that nobody has touched yet."""

    @property
    def where(self) -> str:
        """What stats() says of a call that went on: ", resumed at 40 %"."""

    def planned(self) -> _core.Array:
        """Return an array that only the planner uses."""

    def recorded(
        self, operation: str, arguments: Callable[[], dict[str, Any]], flops: float, nbytes: float
    ) -> None:
        """Give what is built a record, so that a later call goes on with it."""

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        """Make the place; `stack` undoes it where the call fails."""

    def close(self) -> Any:
        """Publish the result and return what the caller gets."""


#: Where a result is written: for the planner, or opened for the run.
At = Callable[[Any], _core.Array]


class How(NamedTuple):
    """How a job does its work, known once it was counted or has run."""

    method: str
    passes: int = 1
    note: str = ""
    most_passes: int = 0
    least_passes: int = 0
    tiles: str = ""  #: what plans say in place of a note
    between: int = 0  #: bytes of scratch between two passes
    #: Fields of stats() that are this routine's own, from what the run counted.
    counted: Callable[[_core.Statistics], dict[str, Any]] | None = None


class Routine(Generic[R_co]):
    """One call whose arguments were checked: `plan` counts it, `run` does it.

    A routine states what it is (`what`, `how`), where its results go (`places`) and its job; one that can be
    resumed its `operation` (as beside it `resumable` says), the `arguments` that decide its bits, and its
    `effort`. Everything else is here, and where results go is `Place`'s.
    """

    operation = ""  #: of its records; "": it is begun again
    plans_beyond = True  #: whether a limit that cannot work gets a plan, which names the least that does

    def __init__(self, call: Call, places: Sequence[Target] = ()) -> None:
        self.call, self.places = call, list(places)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        raise NotImplementedError

    def how(self, job: Any) -> How:
        """Say how the job, which was counted or has run, does it."""
        raise NotImplementedError

    def job(self, at: At) -> _core.Job:
        """Return the job that writes each place where `at` says: for the planner, then for the run."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits, and how to ask for it again, as JSON."""
        raise NotImplementedError

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly: only for what is worth a record."""
        raise NotImplementedError

    def saves(self, place: Any) -> bool:
        """Say whether the run notes its progress beside `place`: its plan is to move the same."""
        worth = self.operation and not place.nameless
        return bool(worth) and _core.worth_a_record(_core.nominal_seconds(*self.effort()))

    # Before any data is moved -----------------------------------------------------------------------------

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the results take."""
        return sum(place.beside for place in self.places)

    def planned(self) -> Any:
        """Return the job as the planner counts it: nothing is opened or touched."""
        return self.job(lambda place: place.planned())

    def least(self, beside: int = 0) -> int:
        """Return the bytes that the run needs, with `beside` of the caller's that are not there yet."""
        return self.call.engine.least_memory(self.planned()) + self.beside + beside

    def check(self, beside: int = 0) -> int:
        """Refuse a limit that cannot work; return the bytes held with it, `beside` by others before."""
        held = beside + self.beside
        self.call.check_memory(self.planned(), held)
        return held

    def plan(self) -> Plan:
        """Count it on a virtual clock."""
        self.call.use_profile()
        job = self.planned()
        beside = self.beside
        needed = self.call.engine.least_memory(job)
        least = self.call.rounded(needed + beside)
        if least > self.call.memory and not self.plans_beyond:
            self.call.check_memory(job, beside)
        counted = self.call.plan(job, needed)
        how = self.how(job)
        if how.between:
            self.call.scratch_bytes["between passes"] = how.between
        plan = self.call.to_plan(
            counted, least, self.what, how.method, how.passes, how.note or how.tiles, how.most_passes
        )
        if how.most_passes > how.passes:
            each = plan.seconds / how.passes
            plan = replace(plan, least_seconds=each * how.least_passes, most_seconds=each * how.most_passes)
        return replace(plan, peak_memory=plan.peak_memory + beside, advice=self._advice(counted))

    def _advice(self, counted: _core.Statistics) -> str:
        """Say what the next budget buys, where the limit and not the disk leaves workers idle."""
        workers = self.call.engine.workers
        if counted.tasks > _ADVISED:
            return ""
        waits = counted.seconds > 1 and counted.ring_busy_seconds < 0.8 * counted.seconds
        if not waits or counted.worker_busy_seconds > 0.75 * workers * counted.seconds:
            return ""
        idle = 1 - counted.worker_busy_seconds / (workers * counted.seconds)
        for share in (0.25, 0.5, 1.0, 2.0, 4.0):
            more = int(self.call.memory * share) >> 20 << 20
            # Tile sizes are steps: told is what is gained though the process grows a little.
            memory = self.call.memory + more - _core.allowed_drift
            gain = counted.seconds / self.call.plan_at(self.planned(), memory).seconds
            if gain >= 1.2:
                return (
                    f"workers stand idle {idle:.0%} of the time for want of memory; "
                    f"{_core.format_bytes(more)} more: {gain:.1f} x faster"
                )
        return ""

    # The run ----------------------------------------------------------------------------------------------

    def run(self) -> R_co:
        """Do it."""
        self.check()
        with contextlib.ExitStack() as stack:
            return self.result(self.execute(stack))

    def record_places(self) -> None:
        """Give what is built at each place a record of the call."""
        for place in self.places:
            place.recorded(self.operation, self.arguments, *self.effort())

    def execute(self, stack: contextlib.ExitStack) -> Any:
        """Run the job, whose results are built aside, and keep what it did for stats(); return the job."""
        if self.operation:
            self.record_places()
        job = self.job(lambda place: place.open(stack))
        done = self.call.run(job, counted=True)
        how = self.how(job)
        where = "".join(place.where for place in self.places)
        self.call.record(done, self.what + where, how.method, how.passes, how.note, how.counted)
        return job

    def result(self, job: Any) -> R_co:
        """Publish the result and return what the caller gets."""
        (place,) = self.places
        return place.close()  # type: ignore[no-any-return]


class Streaming(Generic[R_co]):
    """One call without tasks, whose arguments were checked: bytes stream through the interpreter."""

    method = "streaming"

    def __init__(self, call: Call) -> None:
        self.call = call

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        raise NotImplementedError

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> R_co:
        """Move the bytes and count them in `moved`; what is built enters `stack`."""
        raise NotImplementedError

    def run(self) -> R_co:
        """Do it."""
        with self.call.measured(self.what, self.method) as moved, contextlib.ExitStack() as stack:
            return self.stream(moved, stack)


# Functions ------------------------------------------------------------------------------------------------


class Prepared(Protocol[R_co]):
    """A call whose arguments were checked."""

    def plan(self) -> Plan:
        """Count it."""

    def run(self) -> R_co:
        """Do it."""


class RoutineFunction(Generic[P, R]):
    """A function and the plan of calling it: ``f(...)`` runs, ``f.plan(...)`` counts."""

    def __init__(self, call: Callable[P, R], plan: Callable[P, Plan]) -> None:
        functools.update_wrapper(self, call)
        self._call = call
        self._plan = plan

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the routine."""
        return self._call(*args, **kwargs)

    def plan(self, *args: Any, machine: Any = None, **kwargs: Any) -> Plan:
        """Return what the call would do; takes the same arguments.

        `machine`: a machine file (or `Machine`) to plan for instead of this machine; `planned` makes operands
        that do not exist.
        """
        if machine is None:
            return self._plan(*args, **kwargs)
        with simulated(machine):
            return self._plan(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<routine {getattr(self._call, '__qualname__', self._call)}; .plan() counts its cost>"


#: What checks the arguments of each function.
_PREPARED: dict[Any, Callable[..., Any]] = {}


def least_of(function: Any, *args: Any, **kwargs: Any) -> int:
    """Return the least limit that a call needs: of a chain of calls, which refuses once."""
    return int(prepared(function, *args, **kwargs).least())


def prepared(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the checked arguments of a call that has not begun."""
    return _PREPARED[function](*args, **kwargs)


def routine(
    prepare: Callable[P, Prepared[R]], kind: type[RoutineFunction[P, R]] = RoutineFunction
) -> RoutineFunction[P, R]:
    """Make a routine of a function that checks arguments and returns what runs and plans them."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return prepare(*args, **kwargs).run()

    def plan(*args: P.args, **kwargs: P.kwargs) -> Plan:
        return prepare(*args, **kwargs).plan()

    made = kind(functools.wraps(prepare)(call), plan)
    _PREPARED[made] = prepare
    # For help() and the pages: what the caller gets is told by "Returns", not by what prepares it.
    made.__signature__ = inspect.signature(prepare).replace(  # type: ignore[attr-defined]
        return_annotation=inspect.Signature.empty
    )
    return made


class PlannedMethod(Generic[R]):
    """A method whose arguments make a job: ``x.f(...)`` runs it, ``x.f.plan(...)`` counts it."""

    def __init__(self, job: Callable[..., Any], run: Callable[..., R]) -> None:
        functools.update_wrapper(self, run)
        self._job, self._run = job, run

    @overload
    def __get__(self, owner: None, kind: type) -> PlannedMethod[R]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> RoutineFunction[..., R]: ...

    def __get__(self, owner: object | None, kind: type) -> Any:
        """Bind it."""
        if owner is None:
            return self
        bound = types.MethodType(self._run, owner)
        return RoutineFunction(bound, lambda *args, **options: self._job(owner, *args, **options).plan())

    def __call__(self, owner: Any, *args: Any, **options: Any) -> R:
        """Run it as the class's: ``X.f(x, ...)``."""
        return self._run(owner, *args, **options)


def planned_by(job: Callable[..., Any]) -> Callable[[Callable[..., R]], PlannedMethod[R]]:
    """Give a method a plan: that of the job which `job(self, ...)`, with the same arguments, returns."""
    return lambda run: PlannedMethod(job, run)
