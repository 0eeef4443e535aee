"""What is registered by name, beside what it is: how operands are opened and how calls are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

__all__ = ["CALLS", "OPENERS", "Again", "Register", "load_with", "opener", "resumable"]

#: Routine, operands, options.
Again = tuple[Any, tuple[Any, ...], dict[str, Any]]

Function = TypeVar("Function", bound=Callable[..., Any])

_load: Callable[[], object] | None = None


def load_with(load: Callable[[], object]) -> None:
    """Say what loads every room that registers something; it is called when a register is first read."""
    global _load
    _load = load


def _loaded() -> None:
    global _load
    if _load is not None:
        _load()
        _load = None


class Register(Mapping[str, Callable[..., Any]]):
    """Functions by name; who looks for one sees those of rooms that nobody has used yet, too."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def add(self, name: str) -> Callable[[Function], Function]:
        """Register a function under a name that stands in pickles or records."""

        def register(function: Function) -> Function:
            self._functions[name] = function
            return function

        return register

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            _loaded()
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        _loaded()
        return iter(self._functions)

    def __len__(self) -> int:
        _loaded()
        return len(self._functions)


#: Name: the function that opens, given the same arguments (JSON) as before.
OPENERS = Register()

#: Operation: what makes of an output's path and the arguments of its record the call that they stand for.
CALLS = Register()

opener, resumable = OPENERS.add, CALLS.add
