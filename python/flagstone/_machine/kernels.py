"""How fast each kernel is on tiles, as a share of the flop rate: measured, and put as two numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import _core
from .probe import Load

__all__ = ["EDGES", "kernel_shares", "two_numbers"]

#: Tiles that are measured: those of factorizations, and smaller ones at ragged edges.
EDGES = (128, 256, 512, 1024)
_SECONDS = 0.1


def kernel_shares(
    load: Load, workers: int, flop_rates: dict[str, float], step: Callable[[str], None]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return (most, half_edge) by precision and kernel, with every worker busy.

    `flop_rates`: by "float32" and "float64", a second of one worker. Holds 3 tiles of 1024 x 1024 a worker.
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for dtype, flop_rate in flop_rates.items():
        found[dtype] = {}
        for name in _core.rated_kernels():
            step(f"{name} {dtype}")
            points = []
            for n in EDGES:
                measure = _Measure(name, dtype, n, workers)
                rate = load.rate(measure)
                points.append(((measure.flops / 2) ** (1 / 3), rate / flop_rate))
            found[dtype][name] = two_numbers(points)
    return found


@dataclass
class _Measure:
    """One kernel on tiles of one size; `flops` of a call once it was measured."""

    name: str
    dtype: str
    n: int
    workers: int
    flops: float = 0.0

    def __call__(self) -> _core.Rate:
        work = _core.kernel_rate(self.name, self.dtype, self.n, self.workers, _SECONDS)
        self.flops = work.flops
        return work.rate


def two_numbers(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return (most, half_edge) of pairs (edge, share): share = most edge / (edge + half_edge).

    1 / share is a line in 1 / edge; by least squares of relative errors, half_edge not below 0.
    """
    edges, shares = (np.array(column) for column in zip(*points, strict=True))
    design = np.stack([shares, shares / edges], axis=1)  # of 1 / most and half_edge / most
    (inverse, slope), *_ = np.linalg.lstsq(design, np.ones(len(points)), rcond=None)
    if slope <= 0 or inverse <= 0:
        return float(shares.mean()), 0.0
    return float(1 / inverse), float(slope / inverse)
