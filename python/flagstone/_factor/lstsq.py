"""Least squares: everything from one R."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression
from .._expression.operand import lazy_operand
from .._lazy.join import concat
from .._output.create import from_numpy
from .._output.place import IN_MEMORY, Place, check_out
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._scratch.scratch import prepare
from .qr import matrix_operand
from .reflectors import QrFactor, apply_q, reflectors_place
from .triangle import Triangle, from_gram, rank_of, spectral_fit

__all__ = ["LstsqResult", "lstsq"]

_MOST = 4096  # columns of which the singular values are computed, in memory


class LstsqResult:
    """What `fl.linalg.lstsq` returns; unpacks as ``x, residuals, rank, singular_values``, as NumPy's.

    Attributes
    ----------
    x : ndarray
        n coefficients for each right-hand side; a leading axis for a sequence of ridge values.
    residuals : ndarray
        Squared lengths of b - A x - intercept (weighted where there are weights), for every right-hand side.
    rank : int
        Singular values of A (without the intercept) above rcond times the largest.
    singular_values : ndarray
        Of A; with an intercept, of A without what a constant explains.
    intercept : ndarray or None
        Where one was asked for.
    stderr : ndarray
        Standard errors of x. nan where nothing is left to estimate the noise from.
    intercept_stderr : ndarray or None
        That of the intercept.
    degrees_of_freedom : float or ndarray
        Used by the fit: the rank, or the sum of s² / (s² + ridge); one more for an intercept.
    gcv : ndarray
        Generalised cross-validation, m RSS / (m - degrees_of_freedom)².
    """

    def __init__(self, **parts: Any) -> None:
        self.x: NDArray[Any] = parts["x"]
        self.residuals: NDArray[Any] = parts["residuals"]
        self.rank: int = parts["rank"]
        self.singular_values: NDArray[Any] = parts["singular_values"]
        self.intercept: NDArray[Any] | None = parts["intercept"]
        self.stderr: NDArray[Any] = parts["stderr"]
        self.intercept_stderr: NDArray[Any] | None = parts["intercept_stderr"]
        self.degrees_of_freedom: Any = parts["degrees_of_freedom"]
        self.gcv: NDArray[Any] = parts["gcv"]
        self.total: NDArray[Any] = parts["total"]  #: squared length of b, less its mean with an intercept

    def __iter__(self) -> Iterator[Any]:
        """Give NumPy's four."""
        return iter((self.x, self.residuals, self.rank, self.singular_values))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        """Return one of NumPy's four."""
        return tuple(self)[i]

    def __repr__(self) -> str:
        return f"<flagstone.LstsqResult: x {shape_text(self.x.shape)}, rank {self.rank}>"


class _Lstsq(Routine[LstsqResult]):
    """The checked arguments of one fit of a tall matrix."""

    def __init__(
        self, call: Call, a: Any, b: Any, rcond: float | None, ridge: Any, weights: Any, intercept: bool,
        method: str, out: Any,
    ) -> None:  # fmt: skip
        self.call, self.intercept, self.method, self.out = call, intercept, method, out
        a = lazy_operand(call, a)
        a = a if isinstance(a, Array) else np.asarray(unmasked("lstsq", a))
        b = lazy_operand(call, b)
        b = b if isinstance(b, Array) else np.asarray(unmasked("lstsq", b))
        if a.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
            raise ShapeError(
                f"lstsq: a is {shape_text(tuple(a.shape))} and b is {shape_text(tuple(b.shape))}; a matrix "
                "and as many rows of right-hand sides are needed."
            )
        self.m, self.n = int(a.shape[0]), int(a.shape[1])
        self.vector = b.ndim == 1
        self.sides = 1 if self.vector else int(b.shape[1])
        self.dtype = np.result_type(a.dtype, b.dtype)
        if self.dtype.kind in "biu" or self.dtype == np.float16:
            self.dtype = np.dtype(np.float64)
        self.ridge, self.path = _ridge(ridge)
        self.rcond = np.finfo(self.dtype).eps * max(self.m, self.n) if rcond is None else float(rcond)
        self.wide = self.m < self.n
        if min(self.m, self.n) > _MOST:
            raise ShapeError(
                f"lstsq: a is {shape_text((self.m, self.n))}; the smaller side may be {_MOST} at most, "
                "beyond it there are no singular values to tell the rank by."
            )
        if self.wide and intercept:
            raise ShapeError(
                f"lstsq: intercept=True needs as many rows as columns, and a is "
                f"{shape_text((self.m, self.n))}; centre the rows, or leave the intercept out."
            )
        self.weights = _square_roots(weights, self.m)
        sides = () if self.vector else (self.sides,)
        check_out(
            "lstsq", out, (*((len(self.ridge),) if self.path else ()), self.n, *sides), self.dtype,
            "solution", "they must agree",
        )  # fmt: skip
        self.paths = [path for one in (a, b) if isinstance(one, Array) for path in Operand.of(one).paths]
        super().__init__(call)
        call.on(*self.paths)
        self._prepare(a, b)

    def _columns(self, given: Any) -> Any:
        """Return a matrix, in the dtype of both, with its rows scaled."""
        if given.ndim == 1:
            given = given[:, None] if not isinstance(given, Array) else as_expression(given, "lstsq")[:, None]
        if self.weights is None and given.dtype == self.dtype:
            return given
        made: Expression = as_expression(given, "lstsq").astype(self.dtype)
        if self.weights is not None:
            made = made * self.weights[:, None].astype(np.empty(0, self.dtype).real.dtype)
        return made

    def _prepare(self, a: Any, b: Any) -> None:
        if isinstance(b, Array) and self.vector:
            self.call.room("b", b.nbytes)
            b = np.asarray(b)  # a vector, as x
        parts = [self._columns(a), self._columns(b)]
        if self.intercept:
            ones = np.ones((self.m, 1), self.dtype) if self.weights is None else self.weights[:, None]
            parts.insert(0, ones.astype(self.dtype))
        self.joined = matrix_operand(self.call, concat(parts, axis=1), "a")
        self.operand = self.joined.factor
        self.width = self.n + self.sides + int(self.intercept)
        _core.check_qr("lstsq", self.operand)
        rows = self.width if self.method == "normal" else min(self.m, self.width)
        self.place = Place(self.call, (rows, self.width), self.dtype, IN_MEMORY, (self.width, self.width))
        self.places = [self.place]
        if self.method == "normal":
            prepare(self.call.runtime.scratch)  # sums of groups of rows may be kept there

    @property
    def what(self) -> str:
        return f"lstsq {shape_text((self.m, self.n))} {self.dtype}, {self.sides} right-hand sides"

    @property
    def beside(self) -> int:
        # R, copies of it, and what an SVD of it and its factors take.
        return 12 * self.width * self.width * max(8, self.dtype.itemsize)

    def job(self, at: At) -> Any:
        made = at(self.place)
        if self.method == "normal":
            x = self.joined
            adjoint = _core.Operand(x.core, not x.transposed, not x.conjugated)
            options = _core.RankKOptions(1, 0, True, "both")
            return _core.rank_k_job(adjoint, None, None, made, options, None, _core.RankKNotes())
        return _core.qr_job(self.operand, None, _core.Operand(made, False, False))

    def how(self, job: Any) -> How:
        if self.method == "normal":
            return How("normal equations")
        return How(f"one R, {job.order}" if job.order else "one R")

    def result(self, job: Any) -> LstsqResult:
        r = self.place.close()
        if self.method == "normal":
            r = from_gram(r, self.n + int(self.intercept))
        fit = Triangle(r, self.m, self.n, self.intercept).fit(self.ridge, self.rcond)
        return self._shaped(fit)

    def _shaped(self, fit: dict[str, Any]) -> LstsqResult:
        """Return results without the axes that were not given."""
        for name in ("x", "residuals", "stderr", "gcv", "intercept", "intercept_stderr"):
            value = fit.get(name)
            if value is None:
                fit[name] = None
                continue
            if self.vector:
                value = value[..., 0]
            fit[name] = value if self.path else value[0]
        if not self.path:
            fit["degrees_of_freedom"] = float(fit["degrees_of_freedom"][0])
        if isinstance(self.out, (Array, np.ndarray)):
            self.out[...] = fit["x"]
        elif self.out is not None:
            from_numpy(fit["x"], self.out, overwrite=True)
        return LstsqResult(**fit)


class _WideLstsq(_Lstsq):
    """Fewer rows than columns: the shortest solution, from an LQ whose Q is kept in scratch."""

    def _prepare(self, a: Any, b: Any) -> None:
        self.call.room("b", b.nbytes)
        self.b = np.asarray(b).astype(self.dtype, copy=False).reshape(self.m, self.sides)
        if self.weights is not None:
            self.b = (self.b * self.weights[:, None]).astype(self.dtype)
        self.joined = matrix_operand(self.call, self._columns(a), "a")
        self.operand = _core.Operand(self.joined.core, not self.joined.transposed, not self.joined.conjugated)
        _core.check_qr("lstsq", self.operand)
        self.width = self.m
        self.reflectors = reflectors_place(self.call, (self.n, self.m), True, self.dtype, None)
        self.place = Place(self.call, (self.m, self.m), self.dtype, IN_MEMORY, (self.m, self.m))
        self.places = [self.reflectors, self.place]

    def how(self, job: Any) -> How:
        return How("one LQ")

    def job(self, at: At) -> Any:
        made: Any = at(self.reflectors)
        v, t, r = made
        return _core.qr_factor_job(self.operand, v, t, r, _core.Operand(at(self.place), False, False))

    def result(self, job: Any) -> LstsqResult:
        factor = QrFactor((self.n, self.m), True, *self.reflectors.close())
        left = np.triu(self.place.close()).conj().T  # A = L Q
        u, s, vh = np.linalg.svd(left)
        rank = rank_of(s, self.rcond)
        nothing = np.zeros(self.sides)
        fit = spectral_fit(u, s, vh, self.b, nothing, self.m, 0, self.ridge, rank)
        del fit["spread"], fit["sigma2"], left, u, vh
        fit["total"] = (np.abs(self.b).astype(np.float64) ** 2).sum(axis=0)
        fit["x"] = np.array([self._long(factor, y) for y in fit["x"]])
        fit["stderr"] = np.full(fit["x"].shape, np.nan, s.dtype)
        return self._shaped(fit)

    def _long(self, factor: QrFactor, y: NDArray[Any]) -> NDArray[Any]:
        """Return Qᴴ y."""
        padded = np.zeros((self.n, self.sides), self.dtype)
        padded[: self.m] = y
        made: NDArray[Any] = apply_q(factor, padded, trans=True, memory=self.call.memory)
        return made


def _ridge(ridge: Any) -> tuple[list[float], bool]:
    """Return the values, and whether a sequence was given."""
    path = isinstance(ridge, (Sequence, np.ndarray)) and np.ndim(ridge) == 1
    values = [float(one) for one in (ridge if path else [ridge])]
    for one in values:
        if not one >= 0:
            raise ShapeError(f"lstsq: ridge is {one}; numbers of 0 or more are needed.")
    return values, path


def _square_roots(weights: Any, m: int) -> NDArray[Any] | None:
    if weights is None:
        return None
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (m,) or not np.all(values >= 0) or not np.all(np.isfinite(values)):
        raise ShapeError(
            f"lstsq: weights are {shape_text(values.shape)} and a has {m} rows; one number of 0 or more for "
            "each row is needed."
        )
    return np.sqrt(values)


@routine
def lstsq(
    a: Any, b: Any, /, *, rcond: float | None = None, ridge: Any = 0, weights: Any = None,
    intercept: bool = False, method: str = "qr", out: Any = None, memory: int | str | None = None,
) -> Prepared[LstsqResult]:  # fmt: skip
    """Return the least-squares solution of a x = b, and what else follows from one R, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, m x n
        On disk, in memory or lazy, transposed or not; the smaller side at most 4096.
    b : Array, Expression or ndarray, m or m x k
        Right-hand sides.
    rcond : float, optional
        Singular values below `rcond` times the largest count as zero; the solution is the shortest one then.
        Default, as NumPy's: the dtype's epsilon times max(m, n).
    ridge : float or sequence of float
        λ of min ‖b - a x‖² + λ ‖x‖². A sequence gives x and the rest a leading axis; the intercept is not
        penalised.
    weights : array_like of m numbers, optional
        Of the rows: Σ w (b - a x)² is what is made small.
    intercept : bool
        Fit a constant too (m ≥ n).
    method : {"qr", "normal"}
        "normal" solves aᴴa x = aᴴb, at half the work and with the square of the condition: only where it is
        named.
    out : path, Array or ndarray, optional
        Where x goes too.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LstsqResult
        Unpacks as NumPy's four, and has standard errors, degrees of freedom and GCV.

    Raises
    ------
    ShapeError
        a and b do not conform; a negative ridge or weight.
    NumericalError
        a or b holds NaN or Inf; names row and column of [1 a b].
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    One read of a and b; 2 m (n + k)² flops, and some 20 n³ in memory for the singular values of R, from which
    all ridge values follow. Residuals are lengths of what R leaves, exact without a second pass. Fewer rows
    than columns: an LQ, its reflectors (m n) in scratch.
    """
    if method not in ("qr", "normal"):
        raise ShapeError(f"lstsq: method is {method!r}; choose 'qr' or 'normal'.")
    call = Call("lstsq", memory)
    shape = getattr(a, "shape", None) or np.shape(a)
    kind = _WideLstsq if len(shape) == 2 and shape[0] < shape[1] else _Lstsq
    return kind(call, a, b, rcond, ridge, weights, intercept, method, out)
