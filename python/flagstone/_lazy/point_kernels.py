"""The kernels that the core knows, by name and with scikit-learn's parameters."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._runtime.arguments import numbers_of

__all__ = ["KERNELS", "PointKernel", "named_kernel"]

#: Name of a kernel: the parameters that it takes.
KERNELS = {
    "rbf": ("length_scale", "gamma"),
    "matern12": ("length_scale",),
    "matern32": ("length_scale",),
    "matern52": ("length_scale",),
    "linear": (),
    "polynomial": ("gamma", "coef0", "degree"),
    "cosine": (),
}

_DIFFERENCES = 32  # dimensions up to which distances come from differences (kernel/pairwise)
_SAMPLED, _TOGETHER = 4096, 64  # points that a centre is the mean of, and how many lie beside each other


@dataclass
class PointKernel:
    """A kernel as the core takes it.

    Attributes
    ----------
    name : str
    gamma, coef0, degree : float
    length : list of float
        One for each coordinate, or one, or none.
    centre : list of float
        What is subtracted from points before distances come from products.
    """

    name: str
    gamma: float = 0.5
    coef0: float = 1.0
    degree: float = 3.0
    length: list[float] = field(default_factory=list)
    centre: list[float] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """Return everything that decides bits, as JSON."""
        return dataclasses.asdict(self)


def named_kernel(
    name: Any, x: Any, *, length_scale: Any, gamma: Any, coef0: Any, degree: Any, who: str = "kernel_matrix"
) -> PointKernel:
    """Return a kernel for points like those of `x`, its parameters checked."""
    if not isinstance(name, str) or name not in KERNELS:
        known = ", ".join(f"'{one}'" for one in KERNELS)
        raise ValueError(f"{who}: kernel is {shown(name)}; choose {known} or a callable.")
    given = {"length_scale": length_scale, "gamma": gamma, "coef0": coef0, "degree": degree}
    for parameter, value in given.items():
        if value is not None and parameter not in KERNELS[name]:
            raise TypeError(f"{who}: {parameter} was given and kernel '{name}' has none; leave it out.")
    if length_scale is not None and gamma is not None:
        raise TypeError(
            f"{who}: length_scale and gamma were given; both say how far 'rbf' reaches, give one."
        )
    dimensions = x.shape[1]
    made = PointKernel(name, length=_length(who, length_scale, dimensions))
    if name == "polynomial":
        made.gamma = 1 / max(1, dimensions)
    if gamma is not None:
        made.gamma = _positive(who, "gamma", gamma)
    made.coef0 = 1.0 if coef0 is None else _number(who, "coef0", coef0)
    made.degree = 3.0 if degree is None else _positive(who, "degree", degree)
    if dimensions > _DIFFERENCES and KERNELS[name][:1] == ("length_scale",):
        made.centre = centre_of(x)
    return made


def _number(who: str, what: str, given: Any) -> float:
    values = numbers_of(who, what, given)
    if values.ndim or values.dtype.kind not in "biuf" or not np.isfinite(values):
        raise ValueError(f"{who}: {what} is {shown(given)}; a finite number is needed.")
    return float(values)


def _positive(who: str, what: str, given: Any) -> float:
    number = _number(who, what, given)
    if number <= 0:
        raise ValueError(f"{who}: {what} is {given!r}; a number above 0 is needed.")
    return number


def _length(who: str, given: Any, dimensions: int) -> list[float]:
    if given is None:
        return []
    values = numbers_of(who, "length_scale", given)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{who}: length_scale is {shown(given)}; numbers above 0 are needed.")
    if values.ndim > 1 or (values.ndim == 1 and values.size not in (1, dimensions)):
        raise ShapeError(
            f"{who}: length_scale has {values.size} values and points have {dimensions} coordinates; give a "
            f"number "
            "or one for each coordinate."
        )
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"{who}: length_scale is {shown(given)}; numbers above 0 are needed.")
    return [float(one) for one in values.reshape(-1)]


def centre_of(x: Any) -> list[float]:
    """Return about the mean of points: of at most 4,096 of them, in runs that are spread evenly.

    Any point near all of them serves: distances do not change, and products of what is left are small.
    """
    n = x.shape[0]
    if n <= _SAMPLED:
        starts = range(0, n, _TOGETHER)
    else:
        starts = range(0, n - _TOGETHER + 1, (n - _TOGETHER) // (_SAMPLED // _TOGETHER - 1))
    total, number = np.zeros(x.shape[1]), 0
    for start in starts:
        part = np.asarray(x[start : min(n, start + _TOGETHER)], np.float64)
        total += part.sum(axis=0)
        number += len(part)
    centre = total / max(1, number)
    return [float(one) for one in np.where(np.isfinite(centre), centre, 0)]
