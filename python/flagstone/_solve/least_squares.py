"""One least-squares problem: its checked arguments, and what is given back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._errors.classes import NumericalError, ShapeError
from .._errors.messages import not_finite
from .._expression.expression import Expression, as_expression
from .._expression.operand import lazy_operand
from .._factor.reflectors import QrFactor, apply_call
from .._factor.right import refuse_not_finite
from .._lazy.join import concat
from .._lazy.places import expand_dims
from .._output.create import from_numpy
from .._output.place import Place, check_out
from .._runtime.arguments import array_of, check_flags, numbers_of, one_of, real_number
from .._runtime.call import Call
from .._runtime.routine import Routine

__all__ = ["MOST", "LstsqResult", "Problem", "long_solution"]

MOST = 4096  #: columns of which the singular values are computed, in memory


class LstsqResult:
    """What `fl.linalg.lstsq` returns; unpacks as ``x, residuals, rank, singular_values``, as NumPy's.

    NumPy's residuals are those of full rank and m > n, one of them for a vector b; of other fits there are
    none among the four (0 where those of right-hand sides would be). The attribute always has them.

    Attributes
    ----------
    x : ndarray
        n coefficients for each right-hand side; a leading axis for a sequence of ridge values.
    residuals : ndarray
        Squared lengths of b - A x - intercept (weighted where there are weights), for every right-hand side;
        inf beyond the largest number.
    rank : int or None
        Singular values of A (without the intercept) above rcond times the largest. Beyond 4096 of them n, or
        None where A is deficient and a ridge made up for it.
    singular_values : ndarray
        Of A; with an intercept, of A without what a constant explains. Beyond 4096 of them empty.
    condition : float
        Of the same matrix, largest over least singular value. Beyond 4096 of them an estimate in the 1-norm.
    intercept : ndarray or None
        Where one was asked for.
    stderr : ndarray
        Standard errors of x. nan where nothing is left to estimate the noise from.
    intercept_stderr : ndarray or None
        That of the intercept.
    degrees_of_freedom : float or ndarray
        Used by the fit: the rank, or the sum of s² / (s² + ridge); one more for an intercept.
    gcv : ndarray
        Generalised cross-validation, m RSS / (m - degrees_of_freedom)²; m: rows of weight above 0.
    """

    def __init__(self, **parts: Any) -> None:
        self.x: NDArray[Any] = parts["x"]
        self.residuals: NDArray[Any] = parts["residuals"]
        self.rank: int | None = parts["rank"]
        self.singular_values: NDArray[Any] = parts["singular_values"]
        self.condition: float = parts["condition"]
        self.intercept: NDArray[Any] | None = parts["intercept"]
        self.stderr: NDArray[Any] = parts["stderr"]
        self.intercept_stderr: NDArray[Any] | None = parts["intercept_stderr"]
        self.degrees_of_freedom: Any = parts["degrees_of_freedom"]
        self.gcv: NDArray[Any] = parts["gcv"]
        self.total: NDArray[Any] = parts["total"]  #: squared length of b, less its mean with an intercept
        self._told: NDArray[Any] = parts["told"]

    def __iter__(self) -> Iterator[Any]:
        """Give NumPy's four."""
        return iter((self.x, self._told, self.rank, self.singular_values))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        """Return one of NumPy's four."""
        return tuple(self)[i]

    def __repr__(self) -> str:
        return f"<flagstone.LstsqResult: x {shape_text(self.x.shape)}, rank {self.rank}>"


class Problem:
    """The checked arguments of one fit: min ‖W½ (b - A x - intercept)‖² + λ ‖x‖²."""

    def __init__(
        self, call: Call, a: Any, b: Any, *, rcond: float | None, ridge: Any, weights: Any, intercept: bool,
        method: str, out: Any,
    ) -> None:  # fmt: skip
        check_flags("lstsq", intercept=intercept)
        self.call, self.intercept, self.out = call, bool(intercept), out
        self.method = one_of("lstsq", "method", method, "qr", "normal")
        self.ridge, self.path = _ridge(ridge)
        self.a, self.b = (_matrix(call, name, one) for name, one in (("a", a), ("b", b)))
        if self.a.ndim != 2 or self.b.ndim not in (1, 2) or self.b.shape[0] != self.a.shape[0]:
            raise ShapeError(
                f"lstsq: a is {shape_text(tuple(self.a.shape))} and b is {shape_text(tuple(self.b.shape))}; "
                "a matrix and as many rows of right-hand sides are needed."
            )
        self.m, self.n = int(self.a.shape[0]), int(self.a.shape[1])
        self.vector = self.b.ndim == 1
        self.sides = 1 if self.vector else int(self.b.shape[1])
        self.dtype = np.result_type(self.a.dtype, self.b.dtype)
        if self.dtype.kind in "biu" or self.dtype == np.float16:
            self.dtype = np.dtype(np.float64)
        self.rcond = _rcond(rcond, self.dtype, max(self.m, self.n))
        self.given_weights = None if weights is None else _checked_weights(weights, self.m)
        self.weights = None if self.given_weights is None else np.sqrt(self.given_weights)
        #: rows that degrees of freedom count: one of weight 0 says nothing
        self.observations = self.m if self.weights is None else int(np.count_nonzero(self.weights))
        if self.intercept and not self.m:
            raise ShapeError("lstsq: a has no rows, and intercept=True needs one; leave the intercept out.")
        ones = np.ones(self.m) if self.weights is None else self.weights
        #: the column of the intercept, its rows scaled
        self.constant = ones[:, None].astype(self.dtype) if self.intercept else None
        check_out("lstsq", out, self.shape, self.dtype, "solution", "they must agree")

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of x, without the axes that were not given."""
        return (
            *((len(self.ridge),) if self.path else ()), self.n, *(() if self.vector else (self.sides,)),
        )  # fmt: skip

    @property
    def wide(self) -> bool:
        """Whether there are fewer equations than unknowns."""
        return self.m < self.n

    @property
    def first(self) -> int:
        """Columns in front of those of A."""
        return int(self.intercept)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"lstsq {shape_text((self.m, self.n))} {self.dtype}, {self.sides} right-hand sides"

    def columns(self, given: Any) -> Any:
        """Return a matrix, in the dtype of both, with its rows scaled."""
        if given.ndim == 1:
            given = expand_dims(given, 1) if isinstance(given, Array) else given[:, None]
        if self.weights is None and given.dtype == self.dtype:
            return given
        made: Expression = as_expression(given, "lstsq").astype(self.dtype)
        if self.weights is not None:
            made = made * self.weights[:, None].astype(np.empty(0, self.dtype).real.dtype)
        return made

    def joined(self) -> Array:
        """Return [1 A b], of which nothing is stored."""
        parts = [self.columns(self.a), self.columns(self.b)]
        if self.constant is not None:
            parts.insert(0, self.constant)
        return concat(parts, axis=1)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Say of a or b which NaN or Inf a factorization of [1 a b] met, or of a where that is wide."""
        try:
            yield
        except NumericalError as error:
            if error.row is None or error.column is None:
                raise
            name, column = ("a", error.column) if self.wide else self._whose(error.column)
            counted = error.row if name == "b" else max(error.row, column)  # as the core does
            raise not_finite("lstsq", name, error.row, column, counted + 1) from None

    def _whose(self, column: int) -> tuple[str, int]:
        """Return whose that of [1 a b] is, and which of its columns."""
        at = column - self.first
        if at < 0:
            return "the column of the intercept, scaled by weights,", 0
        return ("a", at) if at < self.n else ("b", at - self.n)

    def check_squares(self, squares: NDArray[Any]) -> None:
        """Refuse squared lengths of the columns of [1 a b] that are NaN or Inf."""
        bad = np.flatnonzero(~np.isfinite(squares))
        if bad.size:
            name, column = self._whose(int(bad[0]))
            raise NumericalError(
                f"lstsq: {name} has NaN or Inf in column {column}, or its squares are beyond {self.dtype}; "
                "replace such values, or leave method out: the QR squares nothing and names the row."
            )

    @property
    def right_shape(self) -> tuple[int, int]:
        """Return the shape of b as a matrix."""
        return self.m, self.sides

    @property
    def right_bytes(self) -> int:
        """Bytes that `right` takes: b as it lies, converted and scaled."""
        stored = int(self.b.nbytes) if isinstance(self.b, Array) else 0
        return stored + 2 * self.m * self.sides * int(self.dtype.itemsize)

    def right(self) -> NDArray[Any]:
        """Return b in memory, as a matrix with its rows scaled."""
        b = np.asarray(self.b).astype(self.dtype, copy=False).reshape(self.m, self.sides)
        refuse_not_finite("lstsq", b)
        return b if self.weights is None else (b * self.weights[:, None]).astype(self.dtype)

    def shaped(self, fit: dict[str, Any], place: Place | None = None) -> LstsqResult:
        """Return results without the axes that were not given; `place`: x goes there, if it is open."""
        fit["told"] = self._as_numpys(fit)
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
        if "condition" not in fit:
            s = fit["singular_values"]
            fit["condition"] = float(s[0] / s[-1]) if s.size and s[-1] > 0 else float("inf")
        if place is not None:
            assert place.destination is not None
            x = np.ascontiguousarray(fit["x"])
            self.call.engine.write_boxes(place.destination.core, [([0] * x.ndim, x)], 1 << 20)
            place.close()
        elif isinstance(self.out, (Array, np.ndarray)):
            self.out[...] = fit["x"]
        elif self.out is not None:
            from_numpy(fit["x"], self.out, overwrite=True)
        return LstsqResult(**fit)

    def _as_numpys(self, fit: dict[str, Any]) -> NDArray[Any]:
        """Return the residuals that NumPy would: none where the rank is not full or no row is left over."""
        squares: NDArray[Any] = fit["residuals"]
        if fit["rank"] != self.n or self.m <= self.n:
            squares = squares[:, :0]
        return squares if self.path else squares[0]


def long_solution(problem: Problem, factor: QrFactor, y: NDArray[Any]) -> Routine[NDArray[Any]]:
    """Return the call of x = Qᴴ y of a wide a = L Q, of the factor that the fit has made."""
    if not np.isfinite(y).all():
        raise NumericalError(
            f"lstsq: the solution is beyond the largest number of {problem.dtype}; scale a up or b down."
        )
    padded = np.zeros((problem.n, problem.sides), problem.dtype)
    padded[: problem.m] = y
    return apply_call(Call("lstsq", problem.call.memory), factor, padded, True)


def _matrix(call: Call, name: str, given: Any) -> Any:
    """Return an operand: an Array, or numbers in memory."""
    if hasattr(given, "tocsr"):
        raise TypeError(
            f"lstsq: {name} is a sparse matrix; the QR of a dense one is taken, give {name}.toarray()."
        )
    given = lazy_operand(call, given)
    if isinstance(given, Array):
        return given
    values = array_of("lstsq", name, given)
    if values.dtype.kind not in "biufc" or values.dtype.char in "gG":
        raise TypeError(f"lstsq: {name} holds {values.dtype}; numbers of at most 64 bits a part are needed.")
    return values


def _ridge(given: Any) -> tuple[list[float], bool]:
    """Return the values, and whether a sequence was given."""
    path = isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, (str, bytes))
    path = path and getattr(given, "ndim", 1) > 0
    if path and not len(given):
        raise ShapeError("lstsq: ridge is an empty sequence; a number of 0 or more is needed, or several.")
    needed = "numbers of 0 or more, and finite, are needed"
    return [
        real_number("lstsq", "ridge", one, lambda value: 0 <= value < np.inf, needed)
        for one in (given if path else [given])
    ], path


def _rcond(given: Any, dtype: np.dtype[Any], longest: int) -> float:
    """Return NumPy's rule: epsilon times the longer side by default, epsilon where it is negative."""
    epsilon = float(np.finfo(dtype).eps)
    if given is None:
        return epsilon * longest
    value = real_number("lstsq", "rcond", given, np.isfinite, "a finite number, or None, is needed")
    return epsilon if value < 0 else value


def _checked_weights(given: Any, m: int) -> NDArray[Any]:
    values = numbers_of("lstsq", "weights", given)
    if values.dtype.kind not in "biuf":
        raise ShapeError(f"lstsq: weights are {values.dtype}; real numbers of 0 or more are needed.")
    values = values.astype(np.float64)
    if values.shape != (m,) or not np.all(values >= 0) or not np.all(np.isfinite(values)):
        raise ShapeError(
            f"lstsq: weights are {shape_text(values.shape)} and a has {m} rows; one number of 0 or more for "
            "each row is needed."
        )
    if m and not values.any():
        raise ShapeError("lstsq: weights are all 0; one above 0 is needed at least.")
    return values
