"""Products of a streamed sparse matrix with dense ones, each on disk or in memory; Aᴴ (A X) in one read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, values_of
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.operand import lazy_operand
from .._output.codec_choice import Choice
from .._output.destination import kept_choice
from .._output.place import IN_MEMORY, Place
from .._resume.identity import identity
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .validation import check_listed

__all__ = ["Csrmm", "GramProduct"]

Floats = NDArray[Any]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything
_SUMS = 128 << 20  # bytes of sums of a block of columns that no chunk of a result crosses


class Csrmm(Routine[Any]):
    """alpha A X + beta Y, or alpha X A + beta Y, of a sparse A: run it or plan it.

    What is in memory gives an ndarray where no `out` is named; an X on disk an Array.
    """

    operation = "matmul"
    gram = False  #: Aᴴ (A X)

    def __init__(
        self, call: Call, a: Any, x: Any, *, left: bool = False, out: Any = None, alpha: complex = 1,
        beta: complex = 0,
    ) -> None:  # fmt: skip
        """Check the arguments; `left`: X A."""
        self.a, self.left, self.given = a, left, out
        self.alpha, self.beta = complex(alpha), complex(beta)
        call.on(a.path)
        x = self._vectors(call, x)
        inner, outer = self._extents
        if x.ndim not in (1, 2) or x.shape[-1 if left else 0] != inner:
            raise ShapeError(_misfit(call, a, x, left))
        check_listed(call.who, a.shape, max(a.shape), "values")
        self._vector = x.ndim == 1
        if self._vector and isinstance(x, np.ndarray):
            x = x[None, :] if left else x[:, None]
        self.x = self._operand(call, x)
        cols = 1 if self._vector else self.x.shape[0 if left else 1]
        self.shape = (cols, outer) if left else (outer, cols)
        #: a vector that goes where somebody said is stored as one
        self._flat = self._vector and not (out is None or isinstance(out, np.ndarray))
        # Of a stored triangle Aᵀ is its conjugate.
        self.operand = self._matrix(call)
        self.turned = not a.triangle and a._transposed != left
        chunks = self._chunks(cols)
        self.place = self._place(call, chunks[:1] if self._flat else chunks[::-1] if left else chunks)
        super().__init__(call, [self.place])
        self.notes = _core.CsrmmNotes()
        self.old = self.place.old("beta") if self.beta else None
        call.on(a.path, *self.x.paths)
        call.outputs = self.place.named()

    @property
    def _extents(self) -> tuple[int, int]:
        """How many rows (left: columns) X and the product have."""
        m, n = self.a.shape
        return (m, n) if self.left else (n, m)

    def _matrix(self, call: Call) -> _core.CsrOperand:
        return (self.a.T if self.left and self.a.triangle else self.a).product_operand()  # type: ignore[no-any-return]

    def _chunks(self, cols: int) -> list[int]:
        return _core.csrmm_chunks(self.operand, self.turned, cols, self.dtype.name)

    def _vectors(self, call: Call, x: Any) -> Any:
        """Return X as what has a shape, or refuse what holds no real numbers."""
        if hasattr(x, "tocsr"):
            raise TypeError(
                f"{call.who}: X is a sparse matrix in memory ({type(x).__name__}); fl.from_blocks([X]) makes "
                "a SparseArray of it, and the product of two is sparse (fl.matmul takes one of few columns)."
            )
        if not isinstance(x, (Array, Expression)):
            x = np.asarray(unmasked(call.who, x))
        if x.dtype.kind not in "biufc":
            raise ShapeError(f"{call.who}: X is {x.dtype}; numbers are needed.")
        single = x.dtype in (np.float32, np.complex64)
        if "c" in (x.dtype.kind, self.a.dtype.kind):
            self.dtype = np.dtype(np.complex64 if single else np.complex128)
        else:
            self.dtype = np.dtype(np.float32 if single else np.float64)
        self._check_factors()
        return x

    def _check_factors(self) -> None:
        for name, number in (("alpha", self.alpha), ("beta", self.beta)):
            if number.imag and self.dtype.kind != "c":
                raise ShapeError(
                    f"matmul: {name} is complex and the product is {self.dtype}; give a real one."
                )

    def _operand(self, call: Call, x: Any) -> Operand:
        if not isinstance(x, np.ndarray):
            x = x.astype(self.dtype) if self.dtype.kind == "c" and x.dtype != self.dtype else x
        elif x.dtype != self.dtype or not x.dtype.isnative:
            if x.nbytes > _SMALL:
                call.room(f"X in {self.dtype}", x.size * self.dtype.itemsize)
            x = x.astype(self.dtype)
        given = lazy_operand(call, off_the_map(call, x))
        if isinstance(given, Array) and given.ndim == 1:
            given.flush()
            operand = Operand.of(given)
        else:
            operand = Operand.matrix(call, given, "X")
        if operand.given_lazily:
            call.scratch_in_run()
        return operand

    def _place(self, call: Call, chunks: Any) -> Place:
        """Return where the product goes: a vector's result, like what is in memory, stays there."""
        out = self.given
        if out is None and self.beta:
            raise ShapeError("matmul: beta needs an out= that holds Y; give one or leave beta out.")
        if isinstance(out, np.ndarray) and self._vector and out.shape == self._seen:
            out = out.reshape(self.shape)
        elif isinstance(out, np.ndarray) and self._vector:
            raise ShapeError(
                f"{call.who}: the product with a vector is {shape_text(self._seen)}; give an ndarray of that "
                "shape, a path, or leave out."
            )
        on_disk = isinstance(self.x.given, Array) and values_of(self.x.given) is None and not self._vector
        target = IN_MEMORY if out is None and not on_disk else out
        place = Place(call, self._seen if self._flat else self.shape, self.dtype, target, tuple(chunks),
                      called="product", advice="they must agree")  # fmt: skip
        if target is not IN_MEMORY:
            place.codec = Choice(kept_choice(out).codec)
            place.reads = self.x.reads
        return place

    @property
    def _seen(self) -> tuple[int, ...]:
        """The shape of the product as the caller gets it."""
        return (self.shape[1 if self.left else 0],) if self._vector else self.shape

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.a.shape)} sparse, {self.a.stored_values:,} stored values"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("row panels", passes=self.notes.reads, note=self.notes.text)

    def job(self, at: At) -> _core.Job:
        """Return the job that adds up the product."""
        place = at(self.place)
        turned = len(self.x.core.shape) == 2 and self.x.transposed != self.left
        x = _core.Operand(self.x.core, turned, self.x.conjugated)
        return _core.csrmm_job(
            self.operand, self.turned, x, self.old,
            _core.Operand(place, self.left and not self._flat, False), self.alpha, self.beta,
            self.place.checkpoint, self.notes, self.gram,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits."""
        a, x = identity(self.a), self.x.identity
        return {
            "a": x if self.left else a, "b": a if self.left else x, "dtype": self.dtype.name,
            "alpha": [self.alpha.real, self.alpha.imag], "beta": [self.beta.real, self.beta.imag],
            "chunks": list(self.place.chunks),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes; a value costs what some tens of flops of BLAS do."""
        width = self.shape[0 if self.left else 1]
        each = 160.0 if self.dtype.kind == "c" else 40.0
        return each * self.a.stored_values * width, self.place.nbytes

    def result(self, job: Any) -> Any:
        """Return the product, with as many dimensions as X has."""
        made = super().result(job)
        if self.given is not None:
            return self.given if isinstance(self.given, np.ndarray) else made
        return made.reshape(self._seen) if self._vector else made


class GramProduct(Csrmm):
    """Aᴴ (A X) with one read of A: run it or plan it."""

    operation = "gram"
    gram = True

    def __init__(self, a: Any, x: Any, memory: int | str | None = None, *, out: Any = None) -> None:
        """Check the arguments."""
        if a._transposed:
            raise ShapeError("gram: Aᵀ is stored by columns; A (Aᵀ X) is two products, A @ (A.T @ X).")
        super().__init__(Call("gram", memory), a, x, out=out)

    @property
    def _extents(self) -> tuple[int, int]:
        return self.a.shape[1], self.a.shape[1]

    def _matrix(self, call: Call) -> _core.CsrOperand:
        return self.a.operand(call.memory)  # type: ignore[no-any-return]

    def _chunks(self, cols: int) -> list[int]:
        # Blocks of columns are whole chunks: the sums of one take 128 MiB, or are of 16 columns.
        widest = max(16, (_SUMS >> 3) // max(1, self.a.shape[1]) // 16 * 16)
        return _core.csrmm_chunks(self.operand, True, min(cols, widest), self.dtype.name)

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes: of two products."""
        flops, nbytes = super().effort()
        return 2 * flops, nbytes


def gram(a: Any, x: Any, *, out: Any = None, memory: int | str | None = None) -> Any:
    """Return Aᴴ (A X): `SparseArray.gram`, as records ask for it again."""
    return GramProduct(a, x, memory, out=out).run()


@resumable("gram")
def _again(path: str, told: dict[str, Any]) -> Again:
    return gram, (operand("A", told["a"]), operand("X", told["b"])), {"out": old_output(path, told)}


def _misfit(call: Call, a: Any, x: Any, left: bool) -> str:
    sparse, dense = f"A is {shape_text(a.shape)}", f"X is {shape_text(tuple(x.shape))}"
    if left:
        names, extents = f"{dense} and {sparse}; X's columns must equal A's rows", (x.shape[-1:], a.shape[0])
    else:
        names, extents = f"{sparse} and {dense}; A's columns must equal X's rows", (x.shape[:1], a.shape[1])
    given = extents[0][0] if extents[0] else "none"
    first, second = (given, extents[1]) if left else (extents[1], given)
    return f"{call.who}: {names} ({first}, {second})."
