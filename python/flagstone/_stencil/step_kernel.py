"""What a step does, as it is given: weights, a function of neighbours or of rows, stages of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .fields import given_stages, set_stages
from .given.operands import StepField
from .given.weights import given_weights
from .kernel.rows import RowKernel, set_rows
from .record import told_weights
from .trace import set_function, traced

__all__ = ["StepKernel", "set_kernel"]

_FORMS = {
    (1, 0): "sum", (1, 1): "grow", (1, 2): "grow_source", (2, 0): "swing", (2, 1): "wave",
    (2, 2): "damped_wave",
}  #: of weights, by order of time and number of coefficients  # fmt: skip


@dataclass
class StepKernel:
    """A kernel that the core was told."""

    text: str  # as plans call it
    told: Any  # as records have it
    key: str  # another one for another kernel: of measured rates
    replaced: list[int] = field(default_factory=list)  # how many stages replace each field
    stages: int = 1
    called: list[RowKernel] = field(default_factory=list)  # by address: their code lives as long as these


def set_kernel(core: _core.Stencil, kernel: Any, of: StepField, updates: float) -> StepKernel:
    """Tell the core a kernel, for so many updates."""
    if of.names:
        stages = given_stages(kernel, of)
        text, told, replaced = set_stages(core, stages, of, updates)
        called = [stage for stage in stages if isinstance(stage, RowKernel)]
        return StepKernel(text, told, told, replaced, len(stages), called)
    if isinstance(kernel, (Mapping, np.ndarray)):
        return _set_weights(core, given_weights(of.who, kernel, of.ndim), of)
    if isinstance(kernel, RowKernel):
        told = set_rows(core, kernel, of)
        return StepKernel(f"function {kernel.name} of rows", told, told, called=[kernel])
    if not callable(kernel):
        raise TypeError(
            f"{of.who}: the kernel is {type(kernel).__name__}; weights (a mapping of offsets, an odd-shaped "
            "array), a function of neighbours or one of rows (row_kernel) is needed."
        )
    plain = getattr(kernel, "py_func", kernel)  # of Numba's, which would not take stand-ins
    value = traced(plain, of)
    text, key = set_function(core, value, of.dtype, updates)
    return StepKernel(text, key.removeprefix(text), key)


def _set_weights(core: _core.Stencil, weights: dict[tuple[int, ...], complex], of: StepField) -> StepKernel:
    form = _FORMS.get((of.order, of.coefficients))
    if form is None:
        raise ValueError(
            f"{of.who}: {of.coefficients} coefficients were given; a kernel of weights takes 2 at most."
        )
    if any(w.imag for w in weights.values()):
        raise TypeError(f"{of.who}: weights are complex; real ones are needed (or a function as the kernel).")
    real = np.empty(0, of.dtype).real.dtype
    most = float(np.finfo(real).max) if real.kind == "f" else 2.0**53 - 1  # whole numbers come as float64
    if beyond := [at for at, w in weights.items() if abs(w.real) > most]:
        raise ValueError(
            f"{of.who}: the weight at offset {beyond[0]} is {weights[beyond[0]].real:.6g} and the field "
            f"{of.dtype.name}; weights of it are {most:.6g} at most (or give a function as the kernel)."
        )
    core.weights(form, [(list(at), w) for at, w in sorted(weights.items())])
    return StepKernel(f"{len(weights)} weights", told_weights(weights), f"{form} {sorted(weights.items())}")
