"""What operators and methods of arrays need from the rooms above: one record, made when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # every `import flagstone` pays for what is loaded here
    import numpy as np

    from .basic_index import BasicIndexer, Key

__all__ = ["Dispatch", "dispatch", "make_with"]


class Reduce(Protocol):
    """Makes a pending reduction; `more` is what that one takes (dtype, ddof)."""

    def __call__(self, given: Any, name: str, axis: Any, keepdims: bool, **more: Any) -> Any: ...


class Matmul(Protocol):
    """Multiplies two operands, into `out` where there is one."""

    def __call__(self, a: Any, b: Any, /, *, out: Any = None) -> Any: ...


class Dispatch(NamedTuple):
    """The functions that rooms below call and rooms above define."""

    ufunc: Callable[[np.ufunc, tuple[Any, ...]], Any]  #: the lazy expression of a ufunc
    numpy_ufunc: Callable[[np.ufunc, str, tuple[Any, ...], dict[str, Any]], Any]  #: ``np.exp(A)``
    numpy_function: Callable[[Any, Callable[..., Any], Any, Any], Any]  #: ``np.mean(A)``
    astype: Callable[[Any, Any], Any]
    clip: Callable[[Any, Any, Any], Any]
    round: Callable[[Any, int], Any]
    reduce: Reduce
    part: Callable[[Any, BasicIndexer, str], Any]  #: computes a part of an expression
    assign: Callable[[Any, Key, Any], None]  #: stores an expression into a part of an Array
    compute: Callable[[Any], Any]
    matmul: Matmul
    sparse: Callable[[str], Callable[..., Any]]  #: what makes sparse matrices of sparse ones, by name
    numbered: Callable[..., list[Any]]  #: sparse matrices with the columns that occur
    resize: Callable[[Any, Any, Any], None]
    placed: Callable[[str], Callable[..., Any] | None]  #: NumPy's functions that put arrays together, by name
    columns: Callable[[Any], list[str | None] | None]
    dims: Callable[[Any], tuple[str | None, ...] | None]
    attrs: Callable[[Any], Any]
    describe: Callable[[Any, Any, Any], None]  #: writes attributes, or names of dimensions
    names: Callable[[Any, int], np.ndarray[Any, Any] | None]  #: of rows (0) or columns (1)
    namespace: Callable[[], Any]  #: the package, which array-API code asks for functions


_make: Callable[[], Dispatch]
_made: Dispatch | None = None


def make_with(make: Callable[[], Dispatch]) -> None:
    """Say what loads the rooms above and lends their functions."""
    global _make
    _make = make


def dispatch() -> Dispatch:
    """Return the functions of the rooms above, which the first call loads."""
    global _made
    if _made is None:
        _made = _make()
    return _made
