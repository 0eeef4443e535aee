"""A routine: a function that is called or planned, with the same arguments."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from .plan import Plan

__all__ = ["PlannedMethod", "Prepared", "Routine", "planned_by", "routine"]


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Prepared(Protocol[R_co]):
    """A call whose arguments were checked."""

    def plan(self) -> Plan:
        """Count it."""

    def run(self) -> R_co:
        """Do it."""


class Routine(Generic[P, R]):
    """A function and the plan of calling it: ``f(...)`` runs, ``f.plan(...)`` counts."""

    def __init__(self, call: Callable[P, R], plan: Callable[P, Plan]) -> None:
        functools.update_wrapper(self, call)
        self._call = call
        self._plan = plan

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the routine."""
        return self._call(*args, **kwargs)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Return what the call would do; takes the same arguments."""
        return self._plan(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<routine {getattr(self._call, '__qualname__', self._call)}; .plan() counts its cost>"


def routine(prepare: Callable[P, Prepared[R]]) -> Routine[P, R]:
    """Make a routine of a function that checks arguments and returns what runs and plans them."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return prepare(*args, **kwargs).run()

    def plan(*args: P.args, **kwargs: P.kwargs) -> Plan:
        return prepare(*args, **kwargs).plan()

    made = Routine(functools.wraps(prepare)(call), plan)
    # For help() and the pages: what the caller gets is told by "Returns", not by what prepares it.
    made.__signature__ = inspect.signature(prepare).replace(  # type: ignore[attr-defined]
        return_annotation=inspect.Signature.empty
    )
    return made


class PlannedMethod(Generic[R]):
    """A method whose arguments make a job: ``x.f(...)`` runs it, ``x.f.plan(...)`` counts it."""

    def __init__(self, job: Callable[..., Any], run: Callable[..., R]) -> None:
        self.__doc__, self.__name__ = run.__doc__, run.__name__
        self._job, self._run = job, run

    @overload
    def __get__(self, owner: None, kind: type) -> PlannedMethod[R]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Routine[..., R]: ...

    def __get__(self, owner: object | None, kind: type) -> Any:
        """Bind it."""
        if owner is None:
            return self
        bound = types.MethodType(self._run, owner)
        return Routine(bound, lambda *args, **options: self._job(owner, *args, **options).plan())


def planned_by(job: Callable[..., Any]) -> Callable[[Callable[..., R]], PlannedMethod[R]]:
    """Give a method a plan: that of the job which `job(self, ...)`, with the same arguments, returns."""
    return lambda run: PlannedMethod(job, run)
