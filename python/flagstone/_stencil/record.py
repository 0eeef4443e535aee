"""The record of a time loop: what decides its bits, and the call that it stands for."""

from __future__ import annotations

from typing import Any

from .._array.handle import Operand
from .._errors.classes import Error
from .._resume.openers import old_output, operand, told_values
from .._resume.registers import Again, resumable
from .snapshots import Snapshot

__all__ = ["told_call", "told_weights"]


def told_weights(weights: dict[tuple[int, ...], complex]) -> list[Any]:
    """Return weights as JSON."""
    return [[list(at), weight.real] for at, weight in sorted(weights.items())]


def told_call(
    states: list[Operand], coefficients: list[Operand], snapshots: list[Snapshot], sources: list[Any],
    **others: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the call as JSON; `others` are JSON already."""
    return others | {
        "state": [one.identity | {"dtype": one.dtype.name} for one in states],
        "coefficients": [one.identity | {"dtype": one.dtype.name} for one in coefficients],
        "snapshots": {s.name: [s.steps, s.field, s.first, s.number, s.stride, s.kept] for s in snapshots},
        "sources": [[index, told_values(series), field] for index, series, field in sources],
    }


def _key(first: list[int], number: list[int], stride: list[int], kept: list[int]) -> tuple[Any, ...]:
    return tuple(
        slice(at, at + (n - 1) * step + 1, step) if d in kept else at
        for d, (at, n, step) in enumerate(zip(first, number, stride, strict=True))
    )


@resumable("stencil")
def _again(path: str, told: dict[str, Any]) -> Again:
    from .stencil import stencil

    if not isinstance(told["kernel"], list):
        raise Error(
            f"resume: the kernel of '{path}' was a Python function; make the same call again, with it and "
            "with out=: it goes on."
        )
    kernel = {tuple(at): weight for at, weight in told["kernel"]}
    states = [operand("the state", one) for one in told["state"]]
    state = states[0] if len(states) == 1 else (states[1], states[0])
    names = ("boundary", "receivers", "reductions", "until", "check", "spacing", "dt")
    options = {name: told[name] for name in names}
    options["boundary"] = [
        tuple(rule if rule != "fixed" else {"fixed": _fixed(what, value)} for rule, what, value in axis)
        for axis in told["boundary"]
    ]
    options["receivers"] = [tuple(index) for index, _ in told["receivers"]]
    options["coefficients"] = [operand(f"coefficient {i}", one) for i, one in enumerate(told["coefficients"])]
    options["sources"] = [
        (tuple(index), operand("the series of a source", series)) for index, series, _ in told["sources"]
    ]
    options["snapshots"] = {
        name: (steps, _key(*points)) for name, (steps, _, *points) in told["snapshots"].items()
    }
    options["out"] = old_output(path, told) if "into" in told else path
    return stencil, (kernel, state, told["steps"]), options


def _fixed(what: str, told: Any) -> Any:
    if what == "number":
        return _number(told)
    values = operand("a fixed boundary", told)
    return values if what == "face" else lambda step: values[step]


def _number(told: list[float]) -> complex | float:
    value = complex(*told)
    return value if value.imag else value.real
