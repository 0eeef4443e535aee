"""One product of a streamed sparse matrix with vectors in memory."""

from __future__ import annotations

from typing import Any, ClassVar

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

__all__ = ["Product"]

Floats = NDArray[Any]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything


class Product(Routine[Floats]):
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
        super().__init__(Call("matmul" if kind != "gram" else "gram", memory))
        self.a, self.kind, self.out = a, kind, out
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
        if given.dtype.kind not in "biuf":
            raise ShapeError(f"{self.call.who}: X is {given.dtype}; float32 or float64 is needed.")
        self.dtype = np.dtype(np.float32 if given.dtype == np.float32 else np.float64)
        self.x = np.ascontiguousarray(columns, self.dtype)
        rows = a.shape[0] if kind != "gram" else inner
        # Sums over panels are kept in float64 whatever the precision of the products.
        kept = self.dtype if kind == "plain" else np.dtype(np.float64)
        self.shape, self.kept = (rows, self.x.shape[1]), kept
        self.places.append(Place(self.call, self.shape, kept, IN_MEMORY, ()))

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
        return self._JOBS[self.kind](self.a.operand(), _core.memory_array(self.x), None, at(place))

    def run(self) -> Floats:
        """Stream the matrix and return the product."""
        if 0 in self.shape or not self.x.size:  # there is nothing to add up
            return self._given(np.zeros(self.shape, self.kept))
        return super().run()

    def result(self, job: Any) -> Floats:
        """Return the product in the precision of X, with as many dimensions."""
        return self._given(super().result(job))

    def _given(self, y: Floats) -> Floats:
        result = (y[:, 0] if self._vector else y).astype(self.dtype, copy=False)
        if self.out is None:
            return result
        self.out[...] = result
        return self.out
