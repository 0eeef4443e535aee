"""Expressions as operands of routines: Arrays whose elements are computed where they are loaded."""

from __future__ import annotations

import base64
import weakref
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import Lazy, Operand, is_anonymous, is_transposed, lazy_array
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._resume.identity import identity
from .._resume.openers import operand, told_values
from .._resume.registers import opener
from .._runtime.call import Call
from .._runtime.memory_map import is_mapped
from .expression import Expression, as_expression, broadcast, constant
from .program import leaves, lower, ordered
from .reductions import Reduced

__all__ = ["as_array", "lazy_operand"]


def lazy_operand(call: Call, given: Any) -> Any:
    """Return what a routine takes of an operand: an expression as an Array that is computed as it is loaded.

    A pending reduction is computed now, in a pass of its own.
    """
    if isinstance(given, Expression):
        given = as_array(call, given)
    if isinstance(given, Reduced):
        return np.asarray(given)
    if isinstance(given, Array) and is_anonymous(given):
        call.remark = "an operand is a function without key=: a killed call begins again"
    return off_the_map(call, given)


def as_array(call: Call, given: Expression) -> Array:
    """Return an expression as an Array: the same one every time, so that its tiles are found again."""
    if given.verb == "leaf" and isinstance(given.payload, Array):
        return given.payload
    made = given.made() if given.made is not None else None
    if made is None:
        made = _made(call, given)
        if not any(is_mapped(leaf.payload) for leaf in leaves(given)):
            given.made = weakref.ref(made)  # which holds the expression: results in scratch go with handles
    made.flush()
    return made


def _made(call: Call, given: Expression) -> Array:
    if _seen_turned(given):
        try:
            return _built(call, given.T).T
        except ShapeError:  # an Array of fewer dimensions: it is read as it is seen
            pass
    return _built(call, given)


def _seen_turned(given: Expression) -> bool:
    """Say whether the largest Array is seen transposed: so is the result then, and both lie alike."""
    arrays = [leaf.payload for leaf in leaves(given) if isinstance(leaf.payload, Array)]
    return bool(arrays) and is_transposed(max(arrays, key=lambda array: array.nbytes))


def _built(call: Call, given: Expression) -> Array:
    program, operands, (value,) = lower([given], call)
    core = _core.elementwise_array(program, value, operands, list(given.shape))
    members = tuple(off_the_map(call, leaf.payload) for leaf in leaves(given))
    arrays = len({Operand.of(member).core.id for member in members if isinstance(member, Array)})
    what = f"an expression of {arrays} array{'s' * (arrays != 1)}"
    return lazy_array(core, Lazy(what, members, "expression", lambda: [_told(given)]))


# Records ----------------------------------------------------------------------------------------------------


def _told(given: Expression) -> list[Any]:
    """Return the nodes of an expression, operands before what uses them."""
    nodes = ordered(given)
    number = {id(node): i for i, node in enumerate(nodes)}
    told: list[Any] = []
    for node in nodes:
        if node.verb == "leaf":
            payload = node.payload
            told.append(["leaf", identity(payload) if isinstance(payload, Array) else told_values(payload)])
        elif node.verb == "constant":
            told.append(
                ["constant", node.dtype.name, base64.b64encode(node.payload.tobytes()).decode("ascii")]
            )
        else:
            told.append([node.verb, node.dtype.name, [number[id(arg)] for arg in node.args]])
    return told


@opener("expression")
def _again(told: list[Any]) -> Array:
    nodes: list[Expression] = []
    for verb, about, *more in told:
        if verb == "leaf":
            nodes.append(as_expression(operand("a member", about), "resume"))
        elif verb == "constant":
            nodes.append(constant(np.frombuffer(base64.b64decode(more[0]), np.dtype(about))[0]))
        else:
            args = tuple(nodes[i] for i in more[0])
            nodes.append(Expression(verb, args, about, broadcast(verb, *args)))
    return as_array(Call("resume", light=True), nodes[-1])
