"""Reductions that are not computed yet: what is folded, and how the result is made of it."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import shape_text
from .._array.basic_index import Key
from .._array.dispatch import dispatch
from .._array.elementwise import Elementwise
from .._errors.classes import ShapeError
from .expression import Expression, as_expression, cast

__all__ = ["Reduced", "reduce"]

Part = tuple[Expression, str, str, np.dtype[Any]]  # what is folded, how, how it is finished, as what


class Reduced(Elementwise):
    """A reduction that is not computed yet.

    ``fl.compute(a.mean(0), a.var(0))`` takes several in one pass over `a`; ``np.asarray(r)``, ``float(r)``,
    ``r[...]`` and arithmetic with `r` compute it alone, once: it keeps that value, whatever is assigned
    to its operands later (decision 31).
    """

    __module__ = "flagstone"

    def __init__(
        self, given: Expression, name: str, axis: Any, keepdims: bool, ddof: float = 0, dtype: Any = None
    ) -> None:
        self.name = name
        self.axes = axes_of(name, axis, given.ndim)
        self.keepdims = bool(keepdims)
        self.ddof = ddof
        asked = None if dtype is None else np.dtype(dtype)
        if asked is not None:
            if asked.kind not in ("fc" if name in ("var", "std") else "biufc"):
                raise TypeError(f"{name}: dtype is {asked}; a floating one is needed (numbers, for sums).")
            given = cast(given, asked.newbyteorder("="))
        self.source = given
        self.parts, self.dtype = _parts(given, name)
        if asked is not None and asked.kind in "biu":  # folded in 64 bits: the same modulo 2^bits
            self.dtype = asked.newbyteorder("=")
        reduced = [d in self.axes for d in range(given.ndim)]
        self.reduced = reduced
        self.shape = tuple(
            1 if r else n for n, r in zip(given.shape, reduced, strict=True) if self.keepdims or not r
        )
        self.part_shape = self.shape  # of what the parts give
        nothing = any(given.shape[d] == 0 for d in self.axes)
        if nothing and name in ("argmin", "argmax", "min", "max"):
            raise ShapeError(
                f"{name}: {shape_text(given.shape)} has no elements to choose from; give at least one."
            )
        self._value: Any = None

    def _flagstone_value(self) -> Any:
        if self._value is None:
            self._value = dispatch().compute(self)
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._flagstone_value(), dtype)

    def __getitem__(self, key: Key) -> Any:
        """Compute and return a part."""
        return np.asarray(self)[key]

    def _scalar(self) -> Any:
        return self._flagstone_value()

    def __format__(self, how: str) -> str:
        return format(self._scalar(), how) if how and not self.shape else repr(self)

    def __round__(self, decimals: int | None = None) -> Any:
        return round(self._scalar() if not self.shape else self, *(() if decimals is None else (decimals,)))

    def __repr__(self) -> str:
        return f"<flagstone.Reduced {self.name} {shape_text(self.shape)} {self.dtype.name}, pending>"

    def pass_key(self) -> Any:
        """Return what is equal for those that one pass takes, where that is not one over expressions."""
        return None

    def _of_nothing(self) -> Any:
        """Return the result where there is no element: NumPy's."""
        if self.name.startswith("arg"):
            return np.empty(self.shape, self.dtype)
        options: dict[str, Any] = {"axis": self.axes, "keepdims": self.keepdims}
        if self.name in ("var", "std"):
            options["ddof"] = self.ddof
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(np, self.name)(np.empty(self.source.shape, self.source.dtype), **options)
        return value.astype(self.dtype)  # the dtype that was asked for

    def _reduced_of(self, part: int) -> list[bool]:
        """Return which dimensions a part is folded along."""
        return self.reduced

    def _shape_of(self, part: int) -> tuple[int, ...]:
        """Return the shape of what a part gives."""
        return self.part_shape

    def combine(self, values: list[NDArray[Any]]) -> Any:
        """Return the result from what the parts gave."""
        out = values[0]
        if len(values) == 2 and self.name in ("sum", "mean"):
            out = np.empty(out.shape, self.dtype)
            out.real, out.imag = values
        elif len(values) == 2:
            out = values[0] + values[1]
            out = np.sqrt(out) if self.name == "std" else out
        out = out.astype(self.dtype, copy=False)
        return out if out.shape else out[()]


def axes_of(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that a reduction takes, none negative; errors as NumPy's."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    if name.startswith("arg") and isinstance(axis, tuple):
        raise TypeError(f"{name}: axis is a tuple; an integer or None is needed.")
    found = []
    for item in given:
        try:
            number = operator.index(item)
        except TypeError:
            raise TypeError(
                f"{name}: axis is {axis!r}; an integer, a tuple of integers or None is needed."
            ) from None
        if ndim == 0 and number in (0, -1):  # NumPy takes both
            continue
        if not -ndim <= number < ndim:
            raise np.exceptions.AxisError(number, ndim)
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(found)


def _parts(given: Expression, name: str) -> tuple[list[Part], np.dtype[Any]]:
    """Return what the kernel folds for a reduction, and the result's dtype (NumPy's)."""
    kind = given.dtype.kind
    bools, index = np.dtype(bool), np.dtype(np.int64)
    if name in ("any", "all"):
        return [(cast(given, bools), name, "value", bools)], bools
    if kind == "c":
        if name not in ("sum", "mean", "var", "std"):
            raise TypeError(f"{name}: complex numbers were given; this reduction takes real ones.")
        halves = [from_part(given, "real"), from_part(given, "imag")]
        half = halves[0].dtype
        fold, finish = (
            ("sum", "value" if name == "sum" else "mean") if name in ("sum", "mean") else ("var", "var")
        )
        return [(h, fold, finish, half) for h in halves], given.dtype if name in ("sum", "mean") else half
    result = given.dtype
    folded = cast(given, np.float32) if result == np.float16 else given
    if name in ("sum", "prod"):
        result = np.dtype(np.int64) if kind in "bi" else np.dtype(np.uint64) if kind == "u" else result
        return [(folded, name, "value", folded.dtype if kind == "f" else result)], result
    if name in ("mean", "var", "std"):
        if kind in "biu":
            folded = cast(given, np.float64)
            result = folded.dtype
        return [(folded, "sum" if name == "mean" else "var", name, folded.dtype)], result
    if name in ("argmin", "argmax"):
        return [(folded, name, "index", index)], index
    return [(folded, name, "value", folded.dtype)], result


def from_part(given: Expression, which: str) -> Expression:
    """Return the real or imaginary part as a node."""
    return given.real if which == "real" else given.imag  # type: ignore[no-any-return]


def reduce(given: Any, name: str, axis: Any, keepdims: bool, **more: Any) -> Reduced:
    """Return a reduction by its name, of what is an operand."""
    return Reduced(as_expression(given, name), name, axis, keepdims, **more)
