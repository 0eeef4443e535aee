"""Functions of rows as Numba compiles them, in this process; and what tells one function from another."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

__all__ = ["c_function", "digest_of"]


def c_function(function: Callable[..., None], wrapper: str, dtype: np.dtype[Any]) -> Any:
    """Return ``row(n, to, rows)``, the wrapper of a function, as a C function of Numba's."""
    try:
        import numba
    except ImportError:
        raise ImportError(
            "row_kernel: Numba, which compiles functions of rows, is not installed; pip install numba, or "
            "give stencil a function of neighbours."
        ) from None
    element = numba.from_dtype(dtype)
    pointer: Any = numba.types.CPointer
    rows = pointer(pointer(element))
    signature = numba.void(numba.int64, rows, rows)
    inner = function if hasattr(function, "py_func") else numba.njit(error_model="numpy")(function)
    names: dict[str, Any] = {"function": inner}
    exec(f"from numba import carray\n{wrapper}", names)
    try:
        return numba.cfunc(signature, error_model="numpy")(names["row"])
    except numba.core.errors.NumbaError as error:
        said = str(error).strip().splitlines()
        raise TypeError(
            f"row_kernel: Numba cannot compile the function for rows of {dtype}: {said[0]}"
        ) from error


def digest_of(function: Any, within: tuple[Any, ...] = ()) -> str:
    """Return a digest of a function's code, its constants, its defaults and what it closes over.

    `within`: the functions and sequences that it was met in; one that is met again is told by its number.
    """
    digest = hashlib.sha256()

    def add(code: CodeType) -> None:
        digest.update(code.co_code)
        digest.update(repr(code.co_names).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add(constant)
            else:
                digest.update(repr(constant).encode())

    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    add(code)
    closed = inspect.getclosurevars(function)
    defaults = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    named = {**closed.globals, **closed.nonlocals, **{f"={name}": value for name, value in defaults.items()}}
    for name, value in sorted(named.items()):
        digest.update(f"{name} ".encode() + _told(value, (*within, function)))
    return digest.hexdigest()


def _told(value: Any, within: tuple[Any, ...]) -> bytes:
    """Return what tells a value from another: of arrays, in tuples too, all elements (NumPy prints some)."""
    value = getattr(value, "py_func", value)  # of Numba's
    for number, one in enumerate(within):  # functions that call one another, a list that holds itself
        if value is one:
            return f"number {number} again".encode()
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.str} {value.shape}".encode() + value.tobytes()
    if isinstance(value, (tuple, list)):
        return repr(type(value)).encode() + b",".join(_told(one, (*within, value)) for one in value)
    return (digest_of(value, within) if hasattr(value, "__code__") else repr(value)).encode()
