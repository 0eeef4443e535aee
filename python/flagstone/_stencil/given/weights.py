"""Kernels that are weights of neighbours."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._errors.classes import NumericalError, ShapeError
from .arguments import listed, shown
from .arguments import number as number_of

__all__ = ["given_weights", "laplacian", "points", "spacings"]

Weights = dict[tuple[int, ...], complex]

# Of u″ on a grid of spacing 1: the point itself, then neighbours 1, 2, ... away (Fornberg 1988).
_SECOND = {
    2: (Fraction(-2), Fraction(1)),
    4: (Fraction(-5, 2), Fraction(4, 3), Fraction(-1, 12)),
    6: (Fraction(-49, 18), Fraction(3, 2), Fraction(-3, 20), Fraction(1, 90)),
    8: (Fraction(-205, 72), Fraction(8, 5), Fraction(-1, 5), Fraction(8, 315), Fraction(-1, 560)),
}


_FARTHEST = 1 << 31  # of offsets


def spacings(who: str, ndim: int, spacing: float | Sequence[float]) -> list[float]:
    """Return the spacing of each axis."""
    several = isinstance(spacing, (Sequence, np.ndarray)) and np.ndim(spacing) > 0
    try:
        given = [float(h) for h in spacing] if several else [float(spacing)] * ndim  # type: ignore[union-attr, arg-type]
    except (TypeError, ValueError, OverflowError):
        given = []
    if len(given) != ndim or not all(0 < h < math.inf for h in given):
        raise ValueError(
            f"{who}: spacing is {shown(spacing)}; one positive number, or one for each axis, is needed."
        )
    return given


def laplacian(
    ndim: int, order: int = 2, spacing: float | Sequence[float] = 1.0
) -> dict[tuple[int, ...], float]:
    """Return the weights of the Laplace operator, a star of radius ``order / 2``.

    Parameters
    ----------
    ndim : {1, 2, 3}
        Dimensions.
    order : {2, 4, 6, 8}
        Order of accuracy.
    spacing : float or sequence of float
        Of the grid, for all axes or for each.

    Returns
    -------
    dict
        Weights by offset: a kernel for `stencil`, or part of one.
    """
    if not isinstance(ndim, (int, np.integer)) or ndim not in (1, 2, 3):
        raise ValueError(f"laplacian: ndim is {shown(ndim)}; 1, 2 or 3 is needed.")
    if not isinstance(order, (int, np.integer)) or order not in _SECOND:
        raise ValueError(f"laplacian: order is {shown(order)}; 2, 4, 6 or 8 is needed.")
    found: dict[tuple[int, ...], float] = {}
    for axis, h in enumerate(spacings("laplacian", ndim, spacing)):
        for j, weight in enumerate(_SECOND[order]):
            for side in (-j, j) if j else (0,):
                offset = tuple(side if d == axis else 0 for d in range(ndim))
                found[offset] = found.get(offset, 0.0) + float(weight) / (h * h)
    return found


#: Neighbours of 3-D kernels by number: how many coordinates may differ from 0.
_POINTS = {7: 1, 19: 2, 27: 3}


def points(number: int, weights: Sequence[float] | None = None) -> dict[tuple[int, ...], float]:
    """Return the weights of a 3-D kernel of 7, 19 or 27 points.

    Parameters
    ----------
    number : {7, 19, 27}
        Points: faces; edges too; corners too.
    weights : sequence of float, optional
        Of the point itself, of faces, edges, corners. Default: the mean of all points.

    Returns
    -------
    dict
        Weights by offset.
    """
    if not isinstance(number, (int, np.integer)) or number not in _POINTS:
        raise ValueError(f"points: {shown(number)} points were asked for; 7, 19 or 27 are possible.")
    away = _POINTS[int(number)]
    each = [1.0 / number] * (away + 1)
    if weights is not None:
        each = [number_of("points", "a weight", w) for w in listed("points", "weights", weights, "numbers")]
    if len(each) != away + 1:
        raise ValueError(f"points: {len(each)} weights were given and {away + 1} are needed.")
    return {
        offset: each[np.count_nonzero(offset)]
        for offset in itertools.product((-1, 0, 1), repeat=3)
        if np.count_nonzero(offset) <= away
    }


def given_weights(who: str, kernel: Mapping[Any, Any] | NDArray[Any], ndim: int) -> Weights:
    """Return the weights of a mapping of offsets or of an odd-shaped array."""
    if isinstance(kernel, np.ndarray):
        if kernel.dtype.kind not in "biufc":
            raise TypeError(f"{who}: the kernel's weights are {kernel.dtype}; numbers are needed.")
        if kernel.ndim != ndim or not all(n % 2 for n in kernel.shape):
            raise ShapeError(
                f"{who}: the kernel's weights are {' x '.join(map(str, kernel.shape))} and the field has "
                f"{ndim} dimensions; one odd extent for each is needed."
            )
        middle = [n // 2 for n in kernel.shape]
        found = {
            tuple(int(i) - m for i, m in zip(at, middle, strict=True)): complex(kernel[tuple(at)])
            for at in np.argwhere(kernel != 0)
        }
    else:
        found = {}
        for offset, weight in kernel.items():
            at = offset if isinstance(offset, tuple) else (offset,)
            if len(at) != ndim:
                raise ShapeError(
                    f"{who}: the kernel's offset {shown(offset)} is not one of {ndim} dimensions."
                )
            try:
                at, value = tuple(operator.index(i) for i in at), complex(weight)
            except (TypeError, ValueError, OverflowError):
                raise TypeError(
                    f"{who}: the kernel's weights say {shown(offset)}: {shown(weight)}; a number for each "
                    "offset of whole numbers is needed."
                ) from None
            found[checked_offset(who, at)] = value
    if not found:
        raise ValueError(f"{who}: the kernel has no neighbour at all; give one weight at least.")
    bad = [offset for offset, weight in found.items() if not np.isfinite(weight)]
    if bad:
        raise NumericalError(f"{who}: the weight at offset {bad[0]} is NaN or Inf; give finite ones.")
    return found


def checked_offset(who: str, offset: Sequence[Any]) -> tuple[int, ...]:
    """Return an offset as whole numbers; ShapeError where no axis is as long."""
    found = tuple(operator.index(i) for i in offset)
    if any(abs(i) >= _FARTHEST for i in found):
        raise ShapeError(f"{who}: the kernel's offset {found} reaches beyond any axis; give a nearer one.")
    return found
