"""Graphs of expressions: their nodes in order, and the program of the kernel that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import is_transposed
from .._array.mapped import off_the_map
from .._runtime.call import Call

if TYPE_CHECKING:
    from .expression import Expression

__all__ = ["leaves", "lower", "ordered"]


def ordered(*roots: Expression) -> list[Expression]:
    """Return all nodes, operands before what uses them (deep chains included)."""
    seen: set[int] = set()
    result: list[Expression] = []
    stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        item, done = stack.pop()
        if done:
            result.append(item)
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((a, False) for a in reversed(item.args))
    return result


def leaves(*roots: Expression) -> list[Expression]:
    """Return the operands behind expressions."""
    return [item for item in ordered(*roots) if item.verb == "leaf"]


def lower(
    roots: list[Expression], call: Call
) -> tuple[_core.Program, list[tuple[_core.Array, bool]], list[int]]:
    """Return the kernel's program, its operands (array, transposed), and the values of `roots`."""
    program = _core.Program()
    nodes = ordered(*roots)
    numbers: dict[int, int] = {}
    inputs: dict[Any, int] = {}
    operands: list[tuple[_core.Array, bool]] = []
    for item in nodes:  # inputs first: the program numbers them so
        if item.verb != "leaf":
            continue
        leaf = off_the_map(call, item.payload)
        core = leaf._core if isinstance(leaf, Array) else _core.memory_array(leaf)
        turned = isinstance(leaf, Array) and is_transposed(leaf)
        key = (core.id, turned) if isinstance(leaf, Array) else id(leaf)
        if key not in inputs:
            inputs[key] = program.input(item.dtype.name)
            operands.append((core, turned))
        numbers[id(item)] = inputs[key]
    for item in nodes:
        if item.verb == "constant":
            numbers[id(item)] = program.constant(np.ascontiguousarray(item.payload))
        elif item.verb == "cast":
            numbers[id(item)] = program.cast(numbers[id(item.args[0])], item.dtype.name)
        elif item.verb != "leaf":
            numbers[id(item)] = program.apply(item.verb, *(numbers[id(a)] for a in item.args))
    return program, operands, [numbers[id(root)] for root in roots]
