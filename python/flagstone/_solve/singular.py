"""Condition numbers in the 2-norm: from R of a QR, in memory, or by its extreme singular values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._expression.expression import as_expression
from .._factor.qr import triangle_call
from .._lazy.creation import planned
from .._lazy.structure import triangular
from .._linalg.matmul import matmul
from .._linalg.operands import one_matrix
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import Routine, least_of
from .._runtime.runtime import current, remember, stats
from .._spectral.eigsh import eigsh
from .systems import Solve, matrix, triangle

__all__ = ["spectral"]

_MOST = 4096  # columns of R whose singular values are computed, in memory
_COPIES = 4  # of R, in memory: it, what LAPACK overwrites, and its work
_TOL = 1e-6  # of squares of singular values
_BLOCK = 4  # vectors at a time
_USUAL = 15  # passes of such a block, each two reads of R


def spectral(call: Call, x: Any) -> _InMemory | _Extremes:
    """Return the checked arguments of one condition number."""
    x = one_matrix(call.who, "x", x)
    shape = tuple(x.shape)
    if len(shape) != 2 or not min(shape):
        raise ShapeError(f"cond: x is {shape_text(shape)}; a matrix with elements is needed.")
    tall = x if shape[0] >= shape[1] else x.T
    return (_InMemory if min(shape) <= _MOST else _Extremes)(call, tall, shape[0] < shape[1])


class _InMemory:
    """Singular values of R, all of them."""

    def __init__(self, call: Call, x: Any, turned: bool) -> None:
        self.call, self.qr = call, triangle_call(call, x, turned)
        dtype = np.dtype(x.dtype)
        factored = dtype.kind in "fc" and dtype != np.float16  # the others in float64
        item = dtype.itemsize if factored else 8
        self.held = _COPIES * x.shape[1] ** 2 * item

    def least(self, beside: int = 0) -> int:
        """Return the least limit: of the QR, and of the singular values after it."""
        after = int(_core.resident_bytes() + self.held + _core.allowed_drift)
        return max(self.qr.least(), after) + beside

    def plan(self) -> Plan:
        """Count it."""
        counted = self.qr.plan()
        return replace(
            counted, note="singular values of R",
            least_memory=max(counted.least_memory, self.call.rounded(self.least())),
        )  # fmt: skip

    def run(self) -> float:
        """Do it."""
        self.call.check_chain(self.least())
        r = self.qr.run()
        self.call.room("R and its singular values", self.held)
        s = np.linalg.svd(np.asarray(r), compute_uv=False)
        return float(s[0] / s[-1]) if s[-1] > 0 else float("inf")


class _Operator:
    """A matrix that is only applied to blocks of vectors."""

    def __init__(self, n: int, dtype: np.dtype[Any], apply: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.shape, self.dtype, self.apply = (n, n), dtype, apply

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the product."""
        return self.apply(np.ascontiguousarray(x))


class _Extremes:
    """The largest singular values of R and of its inverse, R on disk."""

    def __init__(self, call: Call, x: Any, turned: bool) -> None:
        self.call, self.x, self.n = call, x, int(x.shape[1])
        self.qr = triangle_call(call, x, turned)
        self.dtype = np.result_type(x.dtype, np.float64)
        self.done: list[Stats] = []

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"cond {shape_text(tuple(self.x.shape))}, {np.dtype(self.x.dtype)}"

    def _solving(self, r: Any, b: NDArray[Any], trans: int) -> Routine[Any]:
        call = Call("cond", self.call.memory)
        given = matrix(call, r)
        return Solve(call, given, [triangle(given, False, trans)], b, None, warns=False, given=False)

    def _planned(self) -> tuple[Any, NDArray[Any]]:
        edge = _core.qr_tile((self.n, self.n), self.dtype.name)[1]
        r = planned((self.n, self.n), self.dtype, chunks=(edge, edge))
        return r, np.empty((self.n, _BLOCK), self.dtype)

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        memory, (r, block) = self.call.memory, self._planned()
        held = beside + 40 * block.nbytes + _core.allowed_drift  # a basis of 28 vectors, and blocks
        product = least_of(matmul, triangular(r, "upper"), block, memory=memory)
        solve = max(self._solving(r, block, trans).least(held) for trans in (0, 2))
        return max(self.qr.least(), product + held, solve)

    def plan(self) -> Plan:
        """Count it, with the usual number of passes."""
        memory, (r, block) = self.call.memory, self._planned()
        parts = [self.qr.plan()]
        parts += [matmul.plan(triangular(r, "upper"), block, memory=memory)] * (2 * _USUAL)
        parts += [self._solving(r, block, 2).plan(), self._solving(r, block, 0).plan()] * _USUAL
        whole: Plan = together(self.what, parts)
        note = f"extreme singular values of R, {_USUAL} passes for each are counted"
        return replace(whole, note=note, least_memory=self.call.rounded(self.least()))

    def run(self) -> float:
        """Do it."""
        self.call.check_least(self.least())
        made = self.qr.run()
        self.done.append(stats())
        r = as_expression(made, "cond").astype(self.dtype)
        upper = triangular(r, "upper")
        lower = as_expression(upper, "cond").T.conj()

        def product(x: NDArray[Any]) -> NDArray[Any]:
            for one in (upper, lower):
                x = np.asarray(matmul(one, x, memory=self.call.memory))
                self.done.append(stats())
            return x

        def solved(x: NDArray[Any]) -> NDArray[Any]:
            for trans in (2, 0):
                x = np.asarray(self._solving(r, x, trans).run())
                self.done.append(stats())
            return x

        try:
            squared = self._largest(product) * self._largest(solved)
        except NumericalError as error:
            if error.index is None:  # no zero on the diagonal
                raise
            squared = np.inf
        note = f"extreme singular values of R, {len(self.done) - 1} reads of R"
        remember(current(), replace(together(self.what, self.done), note=note))
        return float(np.sqrt(squared))

    def _largest(self, apply: Callable[[NDArray[Any]], NDArray[Any]]) -> float:
        seen = _Operator(self.n, self.dtype, apply)
        found = eigsh(
            seen, 1, which="LA", tol=_TOL, block=_BLOCK, verify=False, return_eigenvectors=False,
            memory=self.call.memory,
        )  # fmt: skip
        return float(found[0])
