"""What the array-API standard asks of a namespace beside functions: dtypes, and what becomes an Array."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._array.array import Array, from_memory
from .._array.elementwise import Elementwise
from .._array.mapped import in_place
from .._runtime.arguments import unmasked
from . import functions
from .names import NAMESPACE

__all__ = NAMESPACE

bool = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64, complex64, complex128 = np.float32, np.float64, np.complex64, np.complex128
e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi


def _dtype(given: Any) -> Any:
    array: Any = given
    return array.dtype if isinstance(given, (Elementwise, np.ndarray)) else given


def isdtype(dtype: DTypeLike, kind: Any) -> builtins.bool:
    """Say whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        Of an array, say.
    kind : str, dtype or tuple
        "bool", "integral", "real floating", ..., as for ``np.isdtype``.

    Returns
    -------
    bool
    """
    return np.isdtype(np.dtype(dtype), kind)


def finfo(type: Any, /) -> Any:
    """Return the limits of a floating dtype, or of an array's: ``np.finfo``.

    Parameters
    ----------
    type : dtype or array
        Floating, or complex.

    Returns
    -------
    numpy.finfo
    """
    return np.finfo(_dtype(type))


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer dtype, or of an array's: ``np.iinfo``.

    Parameters
    ----------
    type : dtype or array
        Of integers.

    Returns
    -------
    numpy.iinfo
    """
    return np.iinfo(_dtype(type))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that arrays, dtypes and Python numbers have together, by NumPy's rules.

    Parameters
    ----------
    *arrays_and_dtypes : array, dtype or number
        A Python number takes the dtype of what it meets.

    Returns
    -------
    dtype
    """
    return np.result_type(*(_dtype(given) for given in arrays_and_dtypes))


def can_cast(from_: Any, to: DTypeLike, /) -> builtins.bool:
    """Say whether a dtype, or an array's, becomes another one without loss: ``np.can_cast``.

    Parameters
    ----------
    from_ : dtype or array
        What is converted.
    to : dtype
        Into what.

    Returns
    -------
    bool
    """
    return np.can_cast(_dtype(from_), to)


def astype(x: Any, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: Any = None) -> Any:
    """Return, lazily, every element converted to `dtype`; `x` itself where it has it and not `copy`.

    Parameters
    ----------
    x : Array or Expression
        What is converted.
    dtype : dtype
        Into what.
    copy : bool
        Whether an array that has the dtype becomes an expression too.
    device : {"cpu"}, optional
        There is one.

    Returns
    -------
    Expression
    """
    _on_device("astype", device)
    if not copy and x.dtype == np.dtype(dtype):
        return x
    return functions.astype(x, dtype)


def _on_device(who: str, device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"{who}: device is {device!r}; there is one, 'cpu'.")


def asarray(
    obj: Any, /, *, dtype: DTypeLike | None = None, device: Any = None, copy: builtins.bool | None = None
) -> Any:
    """Return what is given as an Array.

    Parameters
    ----------
    obj : Array, Expression, ndarray, sequence or number
        What lies in memory stays there: the Array is a view of it (``fl.from_numpy`` stores). What is lazy
        stays lazy.
    dtype : dtype, optional
        Another one: of what is on disk or lazy, a lazy conversion.
    device : {"cpu"}, optional
        There is one.
    copy : bool, optional
        Whether memory is copied; default: where it must be.

    Returns
    -------
    Array, or what is lazy
    """
    _on_device("asarray", device)
    if isinstance(obj, Elementwise):
        if copy:
            raise ValueError(
                "asarray: copy=True of what is on disk or lazy; store it with fl.compute(x, out=)."
            )
        return obj if dtype is None or obj.dtype == np.dtype(dtype) else functions.astype(obj, dtype)  # type: ignore[attr-defined]
    found = obj if copy else in_place(unmasked("asarray", obj))
    if isinstance(found, Array):  # the file behind a memory map
        return found if dtype is None or found.dtype == np.dtype(dtype) else functions.astype(found, dtype)
    values = np.asarray(found) if copy is None else np.array(found, copy=copy)
    if dtype is not None:
        values = values.astype(dtype, copy=False)
    if values.dtype.kind not in "biufc" or values.dtype.char in "gG":
        raise TypeError(f"asarray: {values.dtype} cannot be stored; numbers are needed.")
    return from_memory(values.astype(values.dtype.newbyteorder("="), copy=False), False, False)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Any:
    """Return an Array over the memory of another library's array, which stays there.

    Parameters
    ----------
    x : object
        With ``__dlpack__``.
    device : {"cpu"}, optional
        There is one.
    copy : bool, optional
        Whether the memory is copied.

    Returns
    -------
    Array
    """
    _on_device("from_dlpack", device)
    return asarray(np.from_dlpack(x), copy=copy)


def __array_namespace_info__() -> Any:
    """Return what there is: devices, dtypes and their defaults, as NumPy tells its own."""
    return np.__array_namespace_info__()
