"""Kernels that were functions, told to the core: compiled where that pays, else a fused expression."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._expression.expression import Expression
from .compiled.loops import row_loop
from .compiled.machine_code import compiled, worth_compiling
from .trace import lowered, told_expression

__all__ = ["set_function"]


def set_function(
    core: _core.Stencil, value: Expression, dtype: np.dtype[Any], updates: float
) -> tuple[str, str]:
    """Make what a function of neighbours became the kernel of so many updates; return how plans call it.

    And a text that is another one for another kernel. Both ways have the same bits.
    """
    named = _set(core, value, dtype, updates)
    return named, f"{named} {told_expression(value)}"


def _set(core: _core.Stencil, value: Expression, dtype: np.dtype[Any], updates: float) -> str:
    program, number, inputs = lowered(value, dtype)
    core.expression(program, number, inputs)
    named = f"fused expression of {len(inputs)} operands"
    if not worth_compiling(updates):
        return named
    loop = row_loop(value, dtype)
    if loop is None:
        return f"{named} (not compiled: verbs or dtypes without an instruction of their own)"
    text, rows = loop
    made = compiled(text)
    if made is None:
        return f"{named} (not compiled: Numba's llvmlite is not installed, or not for this processor)"
    core.compiled(*made, rows)
    return f"compiled function of {len(inputs)} operands"
