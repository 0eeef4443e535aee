"""Kernels over several named fields: stages, each of which replaces some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._expression.expression import Expression, as_expression
from .given.arguments import shown
from .trace import StandIn, branched, lowered_all, told_expression

__all__ = ["set_stages"]


def set_stages(
    who: str, core: _core.Stencil, kernel: Any, names: Sequence[str], ndim: int, dtype: np.dtype[Any],
    coefficients: int,
) -> tuple[str, str, list[int]]:  # fmt: skip
    """Tell the core the stages of a step.

    Returns how plans call them, a text that tells them apart, and how many stages replace each field.
    """
    given = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
    if not given or not all(callable(stage) for stage in given):
        raise TypeError(
            f"{who}: the kernel is {shown(kernel)} and the state has fields; a function of these, or a list "
            "of such (stages), is needed."
        )
    told = []
    number_of = [0] * len(names)
    core.names(list(names))
    for stage in given:
        values = _traced(who, stage, names, ndim, dtype, coefficients)
        program, numbers, inputs = lowered_all(list(values.values()), dtype)
        replaced = [(names.index(name), number) for name, number in zip(values, numbers, strict=True)]
        core.stage(program, replaced, inputs)
        for field, _ in replaced:
            number_of[field] += 1
        told.append(";".join(f"{name}={told_expression(value)}" for name, value in values.items()))
    stages = f"{len(given)} stages" if len(given) > 1 else "one stage"
    return f"{stages} of {len(names)} fields", "|".join(told), number_of


def _traced(
    who: str, stage: Callable[..., Any], names: Sequence[str], ndim: int, dtype: np.dtype[Any],
    coefficients: int,
) -> dict[str, Expression]:  # fmt: skip
    made: dict[Any, Any] = {}
    fields = {name: StandIn(who, "neighbour", i, ndim, dtype, made) for i, name in enumerate(names)}
    others = [StandIn(who, "coefficient", i, ndim, dtype, made) for i in range(coefficients)]
    try:
        parameters = list(inspect.signature(stage).parameters.values())
    except (TypeError, ValueError):  # of some functions in C nobody knows
        parameters = []
    if not parameters or any(p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in parameters):
        raise TypeError(
            f"{who}: the kernel is {shown(stage)}, whose parameters have no names; a function of fields "
            f"({', '.join(names)}) is needed."
        )
    arguments: dict[str, Any] = {}
    rest = iter(others)
    for parameter in parameters:
        value = fields.get(parameter.name)
        if value is None:
            value = next(rest, None)
        if value is None and parameter.default is parameter.empty:
            raise TypeError(
                f"{who}: the kernel has a parameter '{parameter.name}', which is no field "
                f"({', '.join(names)}), and {coefficients} coefficients were given."
            )
        if value is not None:
            arguments[parameter.name] = value
    answer = branched(who, lambda: stage(**arguments))
    if not isinstance(answer, Mapping) or not answer or not set(answer) <= set(names):
        raise TypeError(
            f"{who}: a stage returned {shown(answer)}; a dict of the fields that it replaces is needed, such "
            f"as {{'{names[0]}': ...}}."
        )
    numbers = (int, float, complex)
    return {
        name: as_expression(np.asarray(value, dtype) if isinstance(value, numbers) else value, who)
        for name, value in answer.items()
    }
