"""Kernels that are functions of neighbours: called once with stand-ins, they give an expression."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._expression.expression import Expression, as_expression
from .._expression.program import ordered
from .._runtime.arguments import held_in
from .given.arguments import shown
from .given.operands import StepField
from .given.weights import checked_offset
from .kernel.machine_code import loop_code

__all__ = [
    "StandIn",
    "branched",
    "lowered",
    "lowered_all",
    "next_value",
    "set_function",
    "told_expression",
    "told_kernel",
    "traced",
]

Input = tuple[str, list[int], int]


class StandIn(Expression):
    """A field, the step before or a coefficient in a kernel's function: `u[0, 0, -1]` is a neighbour."""

    def __init__(
        self, who: str, kind: str, number: int, ndim: int, dtype: np.dtype[Any], made: dict[Any, Any]
    ) -> None:
        super().__init__("leaf", (), dtype, (), (kind, (0,) * ndim, number))
        self._who, self._kind, self._number, self._ndim, self._made = who, kind, number, ndim, made
        made.setdefault(self.payload, self)

    def __getitem__(self, key: Any) -> Any:
        at = key if isinstance(key, tuple) else (key,)
        try:
            offset = checked_offset(self._who, at)
        except TypeError:
            offset = ()
        if len(offset) != self._ndim:
            raise TypeError(
                f"{self._who}: the kernel asks for {key!r}; one whole number for each of {self._ndim} "
                "axes is "
                "needed, as u[" + ", ".join(["0"] * self._ndim) + "]."
            )
        if self._kind != "neighbour" and any(offset):
            raise ValueError(
                f"{self._who}: the kernel asks for a neighbour {offset} of what is read at the point itself "
                "(the step before, coefficients)."
            )
        payload = (self._kind, offset, self._number)
        return self._made.setdefault(payload, Expression("leaf", (), self.dtype, (), payload))

    def __bool__(self) -> bool:
        raise TypeError(_branch(self._who))


def _branch(who: str) -> str:
    return f"{who}: the kernel branches on a value; choose with fl.where(condition, x, y)."


def branched(who: str, call: Callable[[], Any]) -> Any:
    """Return what a kernel makes of stand-ins; one that looks at a value is told what to do instead."""
    try:
        return call()
    except RuntimeError as error:  # a stand-in has no elements: the core refuses to look at them
        if "bad_cast" not in str(error):
            raise
        raise TypeError(_branch(who)) from error


def next_value(who: str, answer: Any, dtype: np.dtype[Any]) -> Expression:
    """Return what a kernel made of a field's point as an expression; refuse what the field cannot be."""
    if isinstance(answer, (int, float, complex, np.generic, np.ndarray)) and np.ndim(answer) == 0:
        held = held_in(np.asarray(answer), dtype)
        if held is None:
            raise TypeError(
                f"{who}: the kernel returned {shown(answer)}; a number of {dtype.name} is needed."
            )
        answer = held
    value = as_expression(answer, who)
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(
            f"{who}: the kernel makes {value.dtype.name} of a field of {dtype.name}; take the real part, or "
            "give a complex field."
        )
    for node in ordered(value):
        if node.verb == "leaf" and not isinstance(node.payload, tuple):
            raise TypeError(
                f"{who}: the kernel uses an array of its own, {shape_text(node.payload.shape)} "
                f"{node.dtype.name}; give it in coefficients= and take it as a parameter."
            )
    return value


def traced(kernel: Callable[..., Any], of: StepField) -> Expression:
    """Return what a kernel's function makes of neighbours; constants take the field's dtype (NumPy)."""
    made: dict[Any, Any] = {}
    who, dtype = of.who, of.dtype
    arguments = [StandIn(who, "neighbour", 0, of.ndim, dtype, made)]
    if of.order == 2:
        arguments.append(StandIn(who, "before", 0, of.ndim, dtype, made))
    arguments += [StandIn(who, "coefficient", i, of.ndim, dtype, made) for i in range(of.coefficients)]
    _check_signature(kernel, len(arguments), of)
    answer = branched(who, lambda: kernel(*arguments))
    if isinstance(answer, (tuple, list, dict)) or answer is None:
        raise TypeError(
            f"{who}: the kernel returned {type(answer).__name__}; the field's next value is needed."
        )
    value = next_value(who, answer, dtype)
    if not any(node.verb == "leaf" and node.payload[0] == "neighbour" for node in ordered(value)):
        raise ValueError(f"{who}: the kernel looks at no neighbour at all of the field.")
    return value


def _check_signature(kernel: Callable[..., Any], arguments: int, of: StepField) -> None:
    try:
        inspect.signature(kernel).bind(*[None] * arguments)
    except ValueError:  # of some functions in C nobody knows
        return
    except TypeError:
        before = ["the step before"] * (of.order == 2)
        told = ["the field", *before, *["a coefficient"] * of.coefficients]
        raise TypeError(
            f"{of.who}: the kernel does not take {arguments} argument{'s' * (arguments > 1)} "
            f"({', '.join(told[:4])}{', ...' * (arguments > 4)}); give it as many parameters."
        ) from None


def lowered(root: Expression, dtype: np.dtype[Any]) -> tuple[_core.Program, int, list[Input]]:
    """Return the program of an expression, the number of its value (converted to `dtype`), its inputs."""
    program, (value,), told = lowered_all([root], dtype)
    return program, value, told


def lowered_all(
    roots: list[Expression], dtype: np.dtype[Any]
) -> tuple[_core.Program, list[int], list[Input]]:
    """Return the program of several expressions, the number of each one's value, and its inputs."""
    program = _core.Program()
    numbers: dict[int, int] = {}
    inputs: dict[Any, int] = {}
    told: list[Input] = []
    nodes = list({id(node): node for root in roots for node in ordered(root)}.values())
    for node in nodes:  # inputs first: the program numbers them so
        if node.verb != "leaf":
            continue
        if node.payload not in inputs:
            kind, offset, number = node.payload
            inputs[node.payload] = program.input(node.dtype.name)
            told.append((kind, list(offset), number))
        numbers[id(node)] = inputs[node.payload]
    for node in nodes:
        if node.verb == "constant":
            numbers[id(node)] = program.constant(np.ascontiguousarray(node.payload))
        elif node.verb == "cast":
            numbers[id(node)] = program.cast(numbers[id(node.args[0])], node.dtype.name)
        elif node.verb != "leaf":
            numbers[id(node)] = program.apply(node.verb, *(numbers[id(a)] for a in node.args))
    values = [
        numbers[id(root)] if root.dtype == dtype else program.cast(numbers[id(root)], dtype.name)
        for root in roots
    ]
    return program, values, told


def told_expression(value: Expression) -> str:
    """Return a text that is another one for another expression."""
    nodes = ordered(value)
    number = {id(node): k for k, node in enumerate(nodes)}
    return ";".join(
        f"{node.verb} {node.dtype.name} {[number[id(a)] for a in node.args]} {_told_payload(node)}"
        for node in nodes
    )


def _told_payload(node: Expression) -> str:
    """Of a constant all of its digits: NumPy prints eight, or as many as somebody asked for."""
    if node.verb != "constant":
        return repr(node.payload)
    constant = np.asarray(node.payload)
    return f"{constant.dtype.str} {constant.tobytes().hex()}"


def told_kernel(inputs: int, compiled: bool, why: str) -> str:
    """Return what plans call a traced function of so many operands; `why` it is not compiled, if asked."""
    named = f"{'compiled function' if compiled else 'fused expression'} of {inputs} operands"
    return f"{named} (not compiled: {why})" if why else named


def set_function(
    core: _core.Stencil, value: Expression, dtype: np.dtype[Any], updates: float
) -> tuple[str, str]:
    """Make what a function of neighbours became the kernel of so many updates; return how plans call it.

    And a text that is another one for another kernel. Both ways have the same bits.
    """
    program, number, inputs = lowered(value, dtype)
    core.expression(program, number, inputs)
    code, why = loop_code([value], dtype, updates)
    if code is not None:
        core.compiled(*code)
    named = told_kernel(len(inputs), code is not None, why)
    return named, f"{named} {told_expression(value)}"
