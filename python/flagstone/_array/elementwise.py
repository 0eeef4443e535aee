"""What arrays, lazy expressions and pending reductions share: Python's operators and NumPy's protocols.

The operators build lazy expressions; the rooms above lend how (`Dispatch`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .dispatch import dispatch

__all__ = ["Elementwise", "one_ddof"]


def _of(ufunc: np.ufunc, *operands: Any) -> Any:
    return dispatch().ufunc(ufunc, operands)


def one_ddof(who: str, ddof: float | None, correction: float | None) -> float:
    """Return what is subtracted from n: NumPy's `ddof`, the array API's `correction`."""
    if ddof is not None and correction is not None:
        raise ValueError(f"{who}: ddof and correction are two words for one number; give one of them.")
    return ddof if ddof is not None else correction or 0


class Shaped(Protocol):
    """What `Elementwise` needs to know."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""


class Elementwise:
    """Operators and NumPy functions of something lazy. Nothing here loads an element."""

    __hash__ = object.__hash__

    @property
    def ndim(self: Shaped) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self: Shaped) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self: Shaped) -> int:
        """Bytes of all elements, once computed and unpacked."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self: Shaped) -> int:
        if not self.shape:
            raise TypeError("len() of something without dimensions")
        return self.shape[0]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Return the lazy expression of ``np.exp(A)``, ``ndarray + A``, ...; never loads by accident."""
        return dispatch().numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        """Return the lazy form of ``np.mean(A)``, ``np.where(...)``, ...; refuse what would load."""
        return dispatch().numpy_function(self, function, args, kwargs)

    def _scalar(self: Any) -> Any:
        """Return the one element of what has no dimensions: that is asked for, and no accident."""
        if self.shape:
            shape = " x ".join(map(str, self.shape))
            raise TypeError(
                f"{type(self).__name__}: {shape} elements are not one number; take one (A[i]) or reduce them."
            )
        return self[()]

    def __format__(self: Any, how: str) -> str:
        return format(self._scalar(), how) if how and not self.shape else object.__format__(self, how)

    def __round__(self: Any, decimals: int | None = None) -> Any:
        return round(self._scalar(), decimals) if not self.shape else self.round(decimals or 0)

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        return operator.index(self._scalar())

    def __bool__(self: Any) -> bool:
        if self.shape:
            raise TypeError(
                "bool: the truth of an Array is not defined; compare a part of it, or use any() or all()."
            )
        return bool(self._scalar())

    @property
    def _data(self) -> Any:
        # numpy.ma takes an operand's `_data`, and where there is none it loads the operand.
        raise TypeError("numpy.ma: masked arrays do not work with this one; fill them (x.filled(value)).")

    def __add__(self, other: Any) -> Any:
        return _of(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _of(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _of(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _of(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _of(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _of(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _of(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _of(np.true_divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _of(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _of(np.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _of(np.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _of(np.remainder, other, self)

    def __pow__(self: Any, other: Any) -> Any:
        if type(other) is int and other == 2 and self.dtype == np.bool_:
            return _of(np.square, self)  # int8 as NumPy's operator; np.power has int64
        return _of(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _of(np.power, other, self)

    def __and__(self, other: Any) -> Any:
        return _of(np.bitwise_and, self, other)

    def __rand__(self, other: Any) -> Any:
        return _of(np.bitwise_and, other, self)

    def __or__(self, other: Any) -> Any:
        return _of(np.bitwise_or, self, other)

    def __ror__(self, other: Any) -> Any:
        return _of(np.bitwise_or, other, self)

    def __xor__(self, other: Any) -> Any:
        return _of(np.bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _of(np.bitwise_xor, other, self)

    def __lshift__(self, other: Any) -> Any:
        return _of(np.left_shift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _of(np.left_shift, other, self)

    def __rshift__(self, other: Any) -> Any:
        return _of(np.right_shift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _of(np.right_shift, other, self)

    def __neg__(self) -> Any:
        return _of(np.negative, self)

    def __pos__(self) -> Any:
        return _of(np.positive, self)

    def __abs__(self) -> Any:
        return _of(np.absolute, self)

    def __invert__(self) -> Any:
        return _of(np.invert, self)

    def __eq__(self, other: object) -> Any:
        if other is None:
            return NotImplemented
        return _of(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return NotImplemented
        return _of(np.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return _of(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _of(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _of(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _of(np.greater_equal, self, other)

    def __matmul__(self, other: Any) -> Any:
        return dispatch().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return dispatch().matmul(other, self)

    @property
    def real(self) -> Any:
        """The real part; lazy."""
        return dispatch().numpy_function(self, np.real, (self,), {})

    @property
    def imag(self) -> Any:
        """The imaginary part; lazy."""
        return dispatch().numpy_function(self, np.imag, (self,), {})

    @property
    def mT(self: Any) -> Any:
        """The transpose of a matrix; its last two dimensions are all that there are."""
        if len(self.shape) != 2:
            raise ValueError(f"mT: there are {len(self.shape)} dimensions; 2 are needed (T reverses all).")
        return self.transpose()

    def transpose(self: Any, *axes: Any) -> Any:
        """Return the transpose, a view, as `T` is; another order of dimensions is `flagstone.transpose`."""
        ndim = len(self.shape)
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(range(ndim))[::-1] if not axes or given is None else tuple(d % ndim for d in given)
        if sorted(order) != list(range(ndim)):
            raise ValueError(f"transpose: axes are {given!r} of {ndim} dimensions; name each once.")
        if order == tuple(range(ndim)):
            return self
        if order != tuple(range(ndim))[::-1]:
            raise ValueError(
                f"transpose: axes are {given!r}; a view reverses all of them (flagstone.transpose writes "
                "another order)."
            )
        return self.T if hasattr(self, "T") else np.asarray(self).T

    def dot(self, other: Any) -> Any:
        """Return the product of matrices or vectors, ``self @ other``; with a number each element's."""
        return dispatch().numpy_function(self, np.dot, (self, other), {})

    @property
    def device(self) -> str:
        """The one that there is, "cpu"."""
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Return this: there is one device."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"to_device: {device!r} was asked for; there is one device, 'cpu'.")
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the package, for code that is written for the array-API standard."""
        package = dispatch().namespace()
        if api_version not in (None, "2021.12", "2022.12", "2023.12", package.__array_api_version__):
            raise ValueError(
                f"__array_namespace__: version {api_version!r} of the standard was asked for; there is "
                f"{package.__array_api_version__}."
            )
        return package

    # Reductions and conversions, lazy too -------------------------------------------------------------------

    def astype(self, dtype: Any) -> Any:
        """Return the lazy expression of every element converted to `dtype`."""
        return dispatch().astype(self, dtype)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Return the lazy expression of every element held between `min` and `max`."""
        return dispatch().clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        """Return the lazy expression of every element rounded to `decimals`."""
        return dispatch().round(self, decimals)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the pending sum along `axis`; see `flagstone.sum`."""
        return dispatch().reduce(self, "sum", axis, keepdims, dtype=dtype)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the pending product along `axis`."""
        return dispatch().reduce(self, "prod", axis, keepdims, dtype=dtype)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the pending mean along `axis`."""
        return dispatch().reduce(self, "mean", axis, keepdims, dtype=dtype)

    def var(
        self, axis: Any = None, ddof: float | None = None, keepdims: bool = False,
        *, correction: float | None = None,
    ) -> Any:  # fmt: skip
        """Return the pending variance along `axis` (divided by n - ddof, also called `correction`)."""
        return dispatch().reduce(self, "var", axis, keepdims, ddof=one_ddof("var", ddof, correction))

    def std(
        self, axis: Any = None, ddof: float | None = None, keepdims: bool = False,
        *, correction: float | None = None,
    ) -> Any:  # fmt: skip
        """Return the pending standard deviation along `axis`; `ddof` or `correction` as for `var`."""
        return dispatch().reduce(self, "std", axis, keepdims, ddof=one_ddof("std", ddof, correction))

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the pending minimum along `axis`; NaN where one is."""
        return dispatch().reduce(self, "min", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the pending maximum along `axis`; NaN where one is."""
        return dispatch().reduce(self, "max", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Return the pending index of the first minimum along `axis`."""
        return dispatch().reduce(self, "argmin", axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Return the pending index of the first maximum along `axis`."""
        return dispatch().reduce(self, "argmax", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return, pending, whether any element along `axis` is true."""
        return dispatch().reduce(self, "any", axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return, pending, whether all elements along `axis` are true."""
        return dispatch().reduce(self, "all", axis, keepdims)
