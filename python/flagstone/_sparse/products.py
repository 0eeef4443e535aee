"""Aᴴ (A X) of a streamed sparse matrix with vectors in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.elementwise import Elementwise
from .._errors.classes import ShapeError
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine

__all__ = ["GramProduct"]

Floats = NDArray[Any]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything


class GramProduct(Routine[Floats]):
    """Aᴴ (A X) with one read of A: run it or plan it."""

    def __init__(self, a: Any, x: Floats, memory: int | str | None = None) -> None:
        super().__init__(Call("gram", memory))
        self.a = a
        self.call.on(a.path)
        if isinstance(x, Elementwise) and x.nbytes > _SMALL:  # a lazy one is computed into memory
            self.call.room("X", x.nbytes)
        given = np.asarray(unmasked(self.call.who, x))
        self._vector = given.ndim == 1
        columns = given[:, None] if self._vector else given
        inner = a.shape[1]
        if given.ndim not in (1, 2) or columns.shape[0] != inner:
            raise ShapeError(
                f"{self.call.who}: A is {shape_text(a.shape)} and X is {shape_text(given.shape)}; "
                f"A's columns must equal X's rows ({inner}, {given.shape[0] if given.ndim else 'none'})."
            )
        if given.dtype.kind not in "biufc":
            raise ShapeError(f"{self.call.who}: X is {given.dtype}; numbers are needed.")
        single, pair = given.dtype in (np.float32, np.complex64), "c" in (given.dtype.kind, a.dtype.kind)
        self.dtype = np.result_type(
            np.float32 if single else np.float64, np.complex64 if pair else np.float32
        )
        self.x = np.ascontiguousarray(columns, self.dtype)
        self.shape = (inner, self.x.shape[1])
        # Sums over panels are kept in double precision whatever that of the products.
        self.sums = np.dtype(np.complex128 if pair else np.float64)
        self.places.append(Place(self.call, self.shape, self.sums, IN_MEMORY, ()))

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.a.shape)} sparse, {self.a.stored_values:,} stored values"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("row panels")

    def job(self, at: At) -> _core.Job:
        """Return the job that adds up the product."""
        (place,) = self.places
        return _core.csr_gram_job(self.a.operand(), _core.memory_array(self.x), None, at(place))

    def run(self) -> Floats:
        """Stream the matrix and return the product."""
        if 0 in self.shape or not self.x.size:  # there is nothing to add up
            return self._given(np.zeros(self.shape, self.sums))
        return super().run()

    def result(self, job: Any) -> Floats:
        """Return the product in the precision of X, with as many dimensions."""
        return self._given(super().result(job))

    def _given(self, y: Floats) -> Floats:
        return (y[:, 0] if self._vector else y).astype(self.dtype, copy=False)
