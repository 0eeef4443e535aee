"""Norms of matrices, also the largest singular value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._factor.qr import qr
from .._linalg import norms
from .._output.create import from_numpy
from .._output.place import check_out
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, least_of, routine
from .._spectral.svds import Svds

__all__ = ["matrix_norm"]

_TOL = 1e-8  # of the residual; the error of the value is its square over the gap, where there is one
_MOST = 4096  # columns of R whose singular values are computed in memory


class _TwoNorm:
    """The checked arguments of one largest singular value: by block Krylov, of a complex matrix from R."""

    def __init__(self, call: Call, x: Any, keepdims: bool, out: Any) -> None:
        self.call, self.out = call, out
        self.x = x if hasattr(x, "shape") else np.asarray(x)
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
        if self.complex and min(shape) > _MOST:
            raise ShapeError(
                f"matrix_norm: x is {shape_text(shape)} {kind} and ord is 2, which of complex ones takes "
                f"singular values of R, up to {_MOST} of them; take eigsh of xᴴx."
            )
        self.tall = self.x if shape[0] >= shape[1] else self.x.T
        self.svds: Svds | None = None
        if not self.complex and not self.empty:
            self.svds = Svds(
                call, self.x, 1, False, None, None, call.memory, tol=_TOL, method="auto", block=None,
                ncv=None, keep=None, maxiter=None, passes=None, seed=0, verify=True,
            )  # fmt: skip

    def _r(self) -> dict[str, Any]:
        return {"mode": "r", "memory": self.call.memory}

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        if self.svds is not None:
            return self.svds.least(beside)
        return least_of(qr, self.tall, **self._r()) + beside

    def plan(self) -> Plan:
        """Count it."""
        if self.svds is not None:
            return self.svds.plan()
        return replace(qr.plan(self.tall, **self._r()), note="singular values of R")

    def run(self) -> Any:
        """Do it."""
        value = np.full(self.shape, 0.0 if self.empty else self._largest(), self.dtype)
        if self.out is None:
            return value if value.shape else value[()]
        if isinstance(self.out, (str, bytes)) or hasattr(self.out, "__fspath__"):
            return from_numpy(value, self.out, overwrite=True)
        self.out[...] = value
        return self.out

    def _largest(self) -> float:
        if self.svds is not None:
            return float(self.svds.run()[0])
        r = qr(self.tall, **self._r())
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
    NumericalError
        `ord` is 2 and x holds NaN or Inf.
    ConvergenceError
        `ord` is 2 and the largest singular values are too close to be told apart.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads x once; 2 flops an element. Sums of float64 are compensated, sums of float32 are in float64. NaN
    gives NaN, as LAPACK 3.12's ``lange``. 1 and inf hold 16 bytes for each column or row of a tile. The
    matrix without elements has norm 0. `ord` 2: `svds` of one value to a residual of 1e-8 of it, some five
    to twenty reads of x with 4 m n flops a vector of the block (``stats().passes``); of a complex x R of a
    QR, and its singular values in memory.
    """
    if ord == 2:
        return _TwoNorm(Call("matrix_norm", memory), x, keepdims, out)
    return norms.prepared(x, keepdims, ord, out, memory)
