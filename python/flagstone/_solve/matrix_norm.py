"""Norms of matrices, also the largest singular value."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ConvergenceError, ShapeError
from .._expression.compute import compute
from .._expression.expression import as_expression, from_ufunc
from .._expression.reductions import Reduced
from .._factor.qr import qr
from .._linalg import norms
from .._linalg.operands import one_matrix
from .._output.create import from_numpy
from .._output.place import check_out
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import Prepared, least_of, routine
from .._runtime.runtime import current, remember, stats
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._spectral.svds import Svds

__all__ = ["matrix_norm"]

_TOL = 1e-8  # of the residual; the error of the value is its square over the gap, where there is one
_MOST = 4096  # columns of R whose singular values are computed in memory
_BLOCK = 16  # what `svds` takes for one value
_MOST_PASSES = 1000
#: Powers of two between which magnitudes are multiplied as they are: squares of float64, summed over any
#: matrix, stay finite, and what underflows is 1e-154 of the largest.
_SAFE = 256


def _most_passes(n: int) -> int:
    """Return the reads within which n values are told apart that lie like cosines of even angles.

    So lie those of second differences and of paths: between the largest and the value after b columns lies
    1 - cos(pi b / (2 n)) of it, of squares sin(pi b / (2 n))^2. A read multiplies the residual by
    exp(-2 sqrt(g)) of such a gap g (Chebyshev polynomials of the block Krylov space, Musco and Musco 2015); a
    quarter more and three. Even distances and noise, whose edges are sparser, take fewer.
    """
    root = math.sin(math.pi / 2 * min(1.0, _BLOCK / n))
    reads = math.ceil(math.log(0.5 / _TOL**2) / (4 * root))
    return min(_MOST_PASSES, math.ceil(1.25 * reads) + 3)


class _TwoNorm:
    """The checked arguments of one largest singular value: by block Krylov, of a complex matrix from R."""

    def __init__(self, call: Call, x: Any, keepdims: bool, out: Any) -> None:
        self.call, self.out = call, out
        self.x = x
        if hasattr(self.x, "tocsr") and not isinstance(self.x, SparseArray):
            self.x = from_blocks([self.x])
        shape = tuple(self.x.shape)
        if len(shape) != 2:
            raise ShapeError(
                f"matrix_norm: x is {shape_text(shape)} and ord is 2; one matrix is needed (of a stack, one "
                "after the other)."
            )
        kind = np.dtype(self.x.dtype)
        self.dtype = np.empty(0, kind if kind.kind in "fc" and kind.itemsize > 2 else np.float64).real.dtype
        self.shape = (1, 1) if keepdims else ()
        check_out("matrix_norm", out, self.shape, self.dtype, "norm", "they must agree")
        self.empty = 0 in shape
        self.complex = kind.kind == "c"
        if self.complex and min(shape) > _MOST and not isinstance(self.x, SparseArray):
            raise ShapeError(
                f"matrix_norm: x is {shape_text(shape)} {kind} and ord is 2, which of complex ones takes "
                f"singular values of R, up to {_MOST} of them; take eigsh of xᴴx."
            )
        if self.empty:
            return
        given = self.x
        sparse = isinstance(given, SparseArray)
        self.magnitude: Reduced = abs(given).max() if sparse else norms.largest(given)
        self.solver = self._solver(given)

    def _solver(self, x: Any) -> Svds | None:
        """Return the search for the value; None of complex ones, which have R."""
        if self.complex and not isinstance(x, SparseArray):
            return None
        return Svds(
            self.call, x, 1, False, None, None, self.call.memory, tol=_TOL, method="auto", block=None,
            ncv=None, keep=None, maxiter=_most_passes(min(x.shape)), passes=None, seed=0, verify=True,
        )  # fmt: skip

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"2-norm of {shape_text(tuple(self.x.shape))}, {np.dtype(self.x.dtype)}"

    def _r(self, x: Any) -> tuple[Any, dict[str, Any]]:
        tall = x if x.shape[0] >= x.shape[1] else x.T
        return tall, {"mode": "r", "memory": self.call.memory}

    def _held(self) -> int:
        """Return the bytes of R of a complex matrix while its singular values are computed."""
        return int(4 * min(self.x.shape) ** 2 * np.dtype(self.x.dtype).itemsize)

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        if self.empty:
            return _core.resident_bytes() + beside
        least = least_of(compute, self.magnitude, memory=self.call.memory)
        if self.solver is not None:
            return max(least + beside, self.solver.least(beside))
        x, options = self._r(self.x)
        values = _core.resident_bytes() + self._held() + int(_core.allowed_drift)
        return max(least, least_of(qr, x, **options), values) + beside

    def plan(self) -> Plan:
        """Count it: a read for the largest magnitude, then those of the search."""
        if self.empty:
            return self.call.nothing(self.what)
        first = compute.plan(self.magnitude, memory=self.call.memory)
        if self.solver is None:
            x, options = self._r(self.x)
            search = replace(qr.plan(x, **options), note="singular values of R")
        else:
            search = self.solver.plan()
        least = self.call.rounded(self.least())
        whole: Plan = self._together([first, search])
        return replace(
            whole, least_memory=least,
            most_passes=search.most_passes and search.most_passes + 1,
            least_seconds=search.least_seconds and search.least_seconds + first.seconds,
            most_seconds=search.most_seconds and search.most_seconds + first.seconds,
        )  # fmt: skip

    def _together(self, parts: list[Any]) -> Any:
        """Return both as one, called what the search is."""
        first, search = parts
        whole = together(self.what, parts)
        return replace(whole, method=search.method, note=search.note, passes=first.passes + search.passes)

    def run(self) -> Any:
        """Do it."""
        value = np.full(self.shape, self._largest(), self.dtype)
        if self.out is None:
            return value if value.shape else value[()]
        if isinstance(self.out, (str, bytes)) or hasattr(self.out, "__fspath__"):
            return from_numpy(value, self.out, overwrite=True)
        self.out[...] = value
        return self.out

    def _largest(self) -> float:
        """Return the value; of elements whose squares would overflow or vanish that of a multiple by 2^-e."""
        if self.empty:
            self.call.did_nothing(self.what)
            return 0.0
        self.call.check_chain(self.least())
        size = float(compute(self.magnitude, memory=self.call.memory))
        if size == 0 or not math.isfinite(size):
            return size
        first, exponent = stats(), math.frexp(size)[1]
        # A power of two changes no digits; one of 2^1073 is no number.
        by = 0 if abs(exponent) <= _SAFE else max(-1000, min(1000, -exponent))
        try:
            value = self._searched(self._multiplied(2.0**by) if by else self.x)
        except ConvergenceError as error:
            raise self._not_told_apart(float(np.ldexp(error.partial.s[0], -by))) from None
        remember(current(), self._together([first, stats()]))
        return float(np.ldexp(value, -by))

    def _not_told_apart(self, reached: float) -> ConvergenceError:
        """Return the error of values that are too close; its `partial` is what was reached."""
        error = ConvergenceError(
            f"matrix_norm: ord is 2 and the largest singular values of x are too close to be told apart in "
            f"{_most_passes(min(self.x.shape))} reads; take svds(x, 1) with a larger tol, as 1e-4 (the value "
            "reached, a lower bound, is the error's `partial`)."
        )
        error.partial = reached
        return error

    def _multiplied(self, factor: float) -> Any:
        if isinstance(self.x, SparseArray):
            return self.x * factor
        return from_ufunc(np.multiply, (as_expression(self.x, "matrix_norm"), factor))

    def _searched(self, x: Any) -> float:
        if self.solver is not None:
            return float((self.solver if x is self.x else self._solver(x)).run()[0])  # type: ignore[union-attr]
        tall, options = self._r(x)
        r = qr(tall, **options)
        self.call.room("R and its singular values", 4 * r.nbytes)
        return float(np.linalg.svd(np.asarray(r), compute_uv=False)[0])


@routine
def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: float | str = "fro", out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the norms of the matrices in the last two dimensions.

    Parameters
    ----------
    x : Array or Expression
        With two dimensions or more; of `ord` 2 a matrix.
    keepdims : bool
        Leave the last two dimensions in place with extent 1.
    ord : {"fro", "max", 1, -1, inf, -inf, 2}
        "fro": the square root of the sum of squares, which neither overflow nor underflow. "max": the largest
        absolute value. 1 and ``fl.inf``: the largest sum of absolute values of a column, of a row; -1 and
        ``-fl.inf``: the least. 2: the largest singular value, computed now.
    out : path, Array or ndarray, optional
        Where the norms go; computed now.
    memory : int or str, optional
        Most resident memory of the whole process; computed now.

    Returns
    -------
    Reduced
        Pending until needed: ``fl.compute(...)`` takes several of one array in one pass. With `out` or
        `memory`, and of `ord` 2, the number, the ndarray or `out`.

    Raises
    ------
    ShapeError
        x has one dimension; `ord` is none of these; `ord` is 2 and x complex with more than 4096 rows and
        columns.
    ConvergenceError
        `ord` is 2 and the value was not found within ``plan.most_passes`` reads: the largest singular values
        are closer than those of second differences, or n is beyond 2000; `partial` is the value reached.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads x once; 2 flops an element. Sums of float64 are compensated, sums of float32 are in float64. NaN
    gives NaN, Inf without NaN Inf, as LAPACK 3.12's ``lange``. 1 and inf hold 16 bytes for each column or row
    of a tile. The matrix without elements has norm 0.

    `ord` 2: a read for the largest magnitude, by which x is scaled (by a power of two) where squares would
    overflow or underflow; then `svds` of one value to a residual of 1e-8 of it, which leaves the value about
    its square over the gap: 4 m n flops a read and vector of a block of 16. The reads depend on the spectrum:
    ``matrix_norm.plan(x, ord=2)`` states the usual count (`passes`) and the count after which the call gives
    up (`most_passes`, about 0.45 n of n = min(m, n) values that lie like those of second differences, 1000 at
    most; noise takes fewer). ``stats().passes`` says what they were. Of a complex x one read for the
    magnitude, R of a QR, and its singular values in memory.
    """
    x = one_matrix("matrix_norm", "x", x)
    if ord == 2:
        return _TwoNorm(Call("matrix_norm", memory), x, keepdims, out)
    return norms.prepared(x, keepdims, ord, out, memory)
