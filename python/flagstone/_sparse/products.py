"""One product of a streamed sparse matrix with vectors in memory."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.plan import Plan

__all__ = ["Product"]

Floats = NDArray[Any]


class Product:
    """One product of a streamed sparse matrix with a block of vectors in memory: run it or plan it."""

    _JOBS: ClassVar = {
        "plain": _core.csr_multiply_job,
        "transposed": _core.csr_multiply_transposed_job,
        "gram": _core.csr_gram_job,
    }

    def __init__(
        self, a: Any, x: Floats, kind: str, memory: int | str | None = None,
        out: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        self.a, self.kind, self.out = a, kind, out
        self.call = Call("matmul" if kind != "gram" else "gram", memory)
        self.call.on(a.path)
        given = np.asarray(unmasked(self.call.who, x))
        self._vector = given.ndim == 1
        columns = given[:, None] if self._vector else given
        inner = a.shape[1]
        if given.ndim not in (1, 2) or columns.shape[0] != inner:
            raise ShapeError(
                f"{self.call.who}: A is {shape_text(a.shape)} and X is {shape_text(given.shape)}; "
                f"A's columns must equal X's rows ({inner}, {given.shape[0] if given.ndim else 'none'})."
            )
        if given.dtype.kind not in "biuf":
            raise ShapeError(f"{self.call.who}: X is {given.dtype}; float32 or float64 is needed.")
        self.dtype = np.dtype(np.float32 if given.dtype == np.float32 else np.float64)
        self.x = np.ascontiguousarray(columns, self.dtype)
        rows = a.shape[0] if kind != "gram" else inner
        # Sums over panels are kept in float64 whatever the precision of the products.
        kept = self.dtype if kind == "plain" else np.dtype(np.float64)
        self.shape, self.kept = (rows, self.x.shape[1]), kept

    def _job(self, y: _core.Array) -> _core.Job:
        return self._JOBS[self.kind](self.a.operand(), _core.memory_array(self.x), None, y)

    def _output(self) -> NDArray[Any]:
        y = np.empty(self.shape, self.kept)
        if y.size and self.x.size:
            self.call.check_memory(self._job(_core.memory_array(y)), beside=y.nbytes)
        y.fill(0)  # now, so that its pages count as held before the call
        return y

    @property
    def _what(self) -> str:
        return f"{self.call.who} {shape_text(self.a.shape)} sparse, {self.a.stored_values:,} stored values"

    def run(self) -> NDArray[Any]:
        """Stream the matrix and return the product."""
        y = self._output()
        if y.size and self.x.size:  # else there is nothing to add up
            done = self.call.run(self._job(_core.memory_array(y)))
            self.call.record(done, self._what, "row panels", 1)
        result = (y[:, 0] if self._vector else y).astype(self.dtype, copy=False)
        if self.out is None:
            return result
        self.out[...] = result
        return self.out

    def plan(self) -> Plan:
        """Count the product."""
        y = _core.memory_array(np.empty(self.shape, self.kept))  # never touched
        return self.call.as_plan(self._job(y), self._what, "row panels", 1)

    def least(self) -> int:
        """Return the bytes that the run needs."""
        y = np.empty(self.shape, self.kept)
        return self.call.engine.least_memory(self._job(_core.memory_array(y))) + y.nbytes
