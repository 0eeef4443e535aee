"""Kernels over several named fields: stages, each of which replaces some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from .._expression.expression import Expression
from .given.arguments import shown
from .given.operands import StepField
from .kernel.machine_code import loop_code
from .kernel.rows import RowKernel, set_row_stage
from .trace import StandIn, branched, lowered_all, next_value, told_expression, told_kernel

__all__ = ["given_stages", "set_stages"]


def given_stages(kernel: Any, of: StepField) -> list[Any]:
    """Return the stages of a step: functions of fields, or of their rows."""
    given = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
    if not given or not all(callable(stage) or isinstance(stage, RowKernel) for stage in given):
        raise TypeError(
            f"{of.who}: the kernel is {shown(kernel)} and the state has fields; a function of these, or a "
            "list of such (stages), is needed."
        )
    return given


def set_stages(
    core: _core.Stencil, stages: Sequence[Any], of: StepField, updates: float
) -> tuple[str, str, list[int]]:
    """Tell the core the stages of a step, for so many updates.

    Returns how plans call them, a text that tells them apart, and how many stages replace each field.
    """
    texts: dict[str, None] = {}  # in order, each once
    told, number_of = [], [0] * len(of.names)
    core.names(list(of.names))
    for stage in stages:
        if isinstance(stage, RowKernel):
            text = f"function {stage.name} of rows"
            key, replaced = set_row_stage(core, stage, of)
        else:
            text, key, replaced = _set_traced(core, stage, of, updates)
        texts[text] = None
        told.append(key)
        for field in replaced:
            number_of[field] += 1
    named = f"{len(stages)} stages" if len(stages) > 1 else "one stage"
    return f"{named} of {len(of.names)} fields: {' and '.join(texts)}", "|".join(told), number_of


def _set_traced(
    core: _core.Stencil, stage: Callable[..., Any], of: StepField, updates: float
) -> tuple[str, str, list[int]]:
    """Make a function of fields the next stage; both ways to run it have the same bits."""
    values = _traced(getattr(stage, "py_func", stage), of)  # of Numba's, which would not take stand-ins
    roots, replaced = list(values.values()), [of.names.index(name) for name in values]
    program, numbers, inputs = lowered_all(roots, of.dtype)
    core.stage(program, list(zip(replaced, numbers, strict=True)), inputs)
    code, why = loop_code(roots, of.dtype, updates)
    if code is not None:
        core.compiled_stage(*code)
    text = told_kernel(len(inputs), code is not None, why)
    return text, ";".join(f"{name}={told_expression(value)}" for name, value in values.items()), replaced


def _traced(stage: Callable[..., Any], of: StepField) -> dict[str, Expression]:
    who, names, ndim, dtype = of.who, of.names, of.ndim, of.dtype
    made: dict[Any, Any] = {}
    fields = {name: StandIn(who, "neighbour", i, ndim, dtype, made) for i, name in enumerate(names)}
    others = [StandIn(who, "coefficient", i, ndim, dtype, made) for i in range(of.coefficients)]
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
                f"({', '.join(names)}), and {of.coefficients} coefficients were given."
            )
        if value is not None:
            arguments[parameter.name] = value
    answer = branched(who, lambda: stage(**arguments))
    if not isinstance(answer, Mapping) or not answer or not set(answer) <= set(names):
        raise TypeError(
            f"{who}: a stage returned {shown(answer)}; a dict of the fields that it replaces is needed, such "
            f"as {{'{names[0]}': ...}}."
        )
    return {name: next_value(who, value, dtype) for name, value in answer.items()}
