"""Covariances and correlations: a read for means, a rank-k update of what is centred as it is loaded."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression, as_expression, cast, from_ufunc
from .._expression.operand import lazy_operand
from .._expression.reductions import Reduced
from .._lazy.join import concat
from .._runtime.arguments import dtype_of, unmasked
from .._runtime.call import Call
from .._runtime.plan import together
from .._runtime.routine import Prepared, routine
from .._runtime.runtime import current, remember, stats
from .rank_k import RankK

__all__ = ["corrcoef", "cov"]


def _variables(who: str, m: Any, y: Any, rowvar: bool, dtype: DTypeLike | None) -> Expression:
    """Return what is correlated, a variable in each row."""
    rows = _rows(who, m, rowvar)
    if y is not None:
        more = _rows(who, y, rowvar)
        if more.shape[1] != rows.shape[1]:
            raise ShapeError(
                f"{who}: m has {rows.shape[1]} observations and y {more.shape[1]}; they must be as many."
            )
        both = np.result_type(rows.dtype, more.dtype)
        rows = as_expression(concat([cast(rows, both), cast(more, both)]), who)
    wide = np.result_type(rows.dtype, np.float64) if dtype is None else dtype_of(who, dtype)
    if wide.char not in "fdFD":
        raise ShapeError(f"{who}: dtype is {wide}; float32, float64, complex64 or complex128 is needed.")
    return cast(rows, wide)


def _rows(who: str, given: Any, rowvar: bool) -> Expression:
    if not hasattr(given, "dtype") or not hasattr(given, "shape"):
        given = np.asarray(unmasked(who, given))
    if isinstance(given, Reduced):
        given = np.asarray(given)
    if len(given.shape) > 2:
        raise ShapeError(f"{who}: m is {shape_text(tuple(given.shape))}; one or two dimensions are needed.")
    if len(given.shape) < 2:
        return as_expression(np.asarray(given).reshape(1, -1), who)
    rows = as_expression(given, who)
    return rows if rowvar or rows.shape[0] == 1 else rows.T


def _weights(who: str, fweights: Any, aweights: Any, n: int) -> tuple[NDArray[Any] | None, float]:
    """Return NumPy's weights of the observations, and the sum of w · aweights that `ddof` is taken times."""
    found: NDArray[Any] | None = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        values = np.asarray(given, np.float64)
        if values.shape != (n,):
            raise ShapeError(
                f"{who}: {name} is {shape_text(values.shape)}; one for each of {n} observations is needed."
            )
        if name == "fweights" and not np.all(values == np.around(values)):
            raise TypeError("fweights must be integer")
        if np.any(values < 0):
            raise ValueError(f"{name} cannot be negative")
        found = values if found is None else found * values
    if found is None:
        return None, float(n)
    again = found if aweights is None else found * np.asarray(aweights, np.float64)
    return found, float(again.sum())


def _degrees(w: NDArray[Any] | None, again: float, n: int, ddof: float, weighted: bool) -> float:
    """Return by what the sum of products is divided: NumPy's."""
    total = float(n) if w is None else float(w.sum())
    left = total - ddof if not weighted or ddof == 0 else total - ddof * again / total
    if left <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=5)
        return 0.0
    return left


class _Covariance:
    """The checked arguments of one call: means first, then the update."""

    def __init__(
        self, who: str, given: Expression, ddof: float, fweights: Any, aweights: Any, correlated: bool,
        uplo: str | None, out: Any, memory: Any,
    ) -> None:  # fmt: skip
        self.who, self.given, self.memory, self.out, self.uplo = who, given, memory, out, uplo
        self.correlated = correlated
        n = given.shape[1]
        self.w, again = _weights(who, fweights, aweights, n)
        self.left = _degrees(self.w, again, n, ddof, aweights is not None)

    def _moments(self) -> list[Reduced]:
        given = self.given
        if self.w is None:
            asked = [Reduced(given, "mean", 1, True)]
            return asked + ([Reduced(given, "var", 1, True)] if self.correlated else [])
        row = self.w.astype(given.dtype)[None, :] / given.dtype.type(self.w.sum())
        return [Reduced(from_ufunc(np.multiply, (given, row)), "sum", 1, True)]

    def _update(self, mean: Any, spread: Any) -> RankK:
        call = Call(self.who, self.memory)
        value = from_ufunc(np.subtract, (self.given, np.asarray(mean, self.given.dtype)))
        if self.w is not None:
            value = from_ufunc(np.multiply, (value, np.sqrt(self.w).astype(value.real.dtype)[None, :]))
        alpha = 1 / self.left if self.left else np.inf
        if spread is not None:
            value = from_ufunc(np.multiply, (value, np.asarray(1 / spread, value.real.dtype)))
            alpha = 1.0
        most = 1.0 if self.correlated else 0.0
        return RankK(call, lazy_operand(call, value), alpha=alpha, uplo=self.uplo, most=most, out=self.out)

    def _standard(self, moments: list[Any]) -> Any:
        """Return what a variable is divided by, √(sum of squares)."""
        with np.errstate(all="ignore"):
            return np.sqrt(moments[1] * self.given.shape[1]) if self.correlated else None

    def _counted(self) -> RankK:
        """Return the update as it is counted: of means that nobody knows yet."""
        one = np.ones((self.given.shape[0], 1))
        return self._update(one, one if self.correlated else None)

    def run(self) -> Any:
        if self.given.size:
            self._counted().check()  # the larger of the two: refused before anything is read
        with np.errstate(all="ignore"):
            found = compute(*self._moments(), memory=self.memory)
            moments = list(found) if isinstance(found, tuple) else [found]
            read = stats()
            update = self._update(moments[0], self._standard(moments))
        made = update.run()
        done = stats()
        remember(current(), replace(together(done.what, [read, done]), method=done.method))
        return made

    def plan(self) -> Any:
        update = self._counted().plan()
        read = compute.plan(*self._moments(), memory=self.memory)
        return replace(together(update.what, [read, update]), method=update.method)


class _One(_Covariance):
    """Of one variable, with nowhere to write to: a number, as NumPy's."""

    def run(self) -> Any:
        return np.asarray(super().run())[0, 0]


def _covariance(who: str, given: Expression, by: float, fweights: Any, aweights: Any, correlated: bool,
                uplo: str | None, out: Any, memory: Any) -> _Covariance:  # fmt: skip
    made = _One if given.shape[0] == 1 and out is None else _Covariance
    return made(who, given, by, fweights, aweights, correlated, uplo, out, memory)


@routine
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: DTypeLike | None = None, uplo: str | None = None,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the covariance matrix of variables, as ``np.cov``, inside a memory limit.

    Parameters
    ----------
    m : Array, Expression or ndarray
        A variable in each row, an observation in each column; of any dtype.
    y : Array, Expression or ndarray, optional
        More variables of the same observations.
    rowvar : bool
        False: a variable in each column.
    bias, ddof
        Divide by N - 1; with `bias` by N; with `ddof` by N - ddof.
    fweights, aweights : array of numbers, optional
        How often an observation was made, and what it weighs.
    dtype : dtype, optional
        Of the arithmetic and the result. Default: NumPy's, at least float64.
    uplo : {"lower", "upper"}, optional
        Store this triangle alone.
    out : path, Array or ndarray, optional
        Where the result goes, as in `matmul`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        n x n for n variables, exactly symmetric. Of one variable a number, as NumPy's (in `out` 1 x 1).

    Raises
    ------
    ShapeError
        The operands do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    A read of m for the means, then `flagstone.linalg.rank_k_update` of what is centred where it is loaded:
    n² k flops for k observations, nothing centred is stored. ``cov.plan(...)`` counts both.
    """
    given = _variables("cov", m, y, rowvar, dtype)
    by = ddof if ddof is not None else 0 if bias else 1
    if int(by) != by:
        raise ValueError("ddof must be integer")
    return _covariance("cov", given, by, fweights, aweights, False, uplo, out, memory)


@routine
def corrcoef(
    x: Any, y: Any = None, rowvar: bool = True, *, dtype: DTypeLike | None = None, uplo: str | None = None,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return Pearson's correlations of variables, as ``np.corrcoef``, inside a memory limit.

    Parameters
    ----------
    x : Array, Expression or ndarray
        A variable in each row, an observation in each column; of any dtype.
    y : Array, Expression or ndarray, optional
        More variables of the same observations.
    rowvar : bool
        False: a variable in each column.
    dtype : dtype, optional
        Of the arithmetic and the result. Default: NumPy's, at least float64.
    uplo : {"lower", "upper"}, optional
        Store this triangle alone.
    out : path, Array or ndarray, optional
        Where the result goes, as in `matmul`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        n x n for n variables, exactly symmetric; NaN in rows and columns of a variable that does not vary. Of
        one variable a number, as NumPy's (in `out` 1 x 1).

    Raises
    ------
    ShapeError
        The operands do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    A read of x for means and variances, then `flagstone.linalg.rank_k_update` of what is standardised where
    it is loaded: n² k flops. Values (complex: their parts) are clipped to [-1, 1], as NumPy's.
    """
    given = _variables("corrcoef", x, y, rowvar, dtype)
    return _covariance("corrcoef", given, 0, None, None, True, uplo, out, memory)
