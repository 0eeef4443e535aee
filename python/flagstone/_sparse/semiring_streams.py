"""Products over semirings whose vectors need not fit: X, the product, its mask and what it adds to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, values_of
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._output.codec_choice import Choice
from .._output.destination import kept_choice
from .._output.place import IN_MEMORY, Place
from .._resume.identity import identity
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._runtime.routine import At, How
from .index import chosen
from .semiring import SWAPPED, Over, OverSemiring, dtypes_of, is_frontier

__all__ = ["StreamedSemiring", "streams"]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything


def streams(x: Any, out: Any) -> bool:
    """Say whether X is on disk, or computed where it is loaded, or the product goes to the disk."""
    if isinstance(out, np.ndarray) or out is None:
        return hasattr(x, "nbytes") and not isinstance(x, np.ndarray) and not _in_memory(x)
    return not is_frontier(x)


def _in_memory(x: Any) -> bool:
    return is_frontier(x) or (isinstance(x, Array) and values_of(x) is not None)


class StreamedSemiring(OverSemiring):
    """A X or X A over a semiring, X or the product on disk: run it or plan it.

    Inside everything is A X: of X A the transposes are taken, of a transposed A the sums over stored rows.
    """

    operation = "semiring product"

    def __init__(
        self, call: Call, a: Any, x: Any, over: Over, *, left: bool = False, out: Any = None
    ) -> None:
        over.check(call.who)
        if over.accumulate and out is None:
            raise ShapeError(f"{call.who}: accumulate needs an out= that holds Y; give one or leave it out.")
        a = a._whole(call.who, call.memory)
        self.a, self.over, self.left = a, over, left
        self.semiring = SWAPPED.get(over.semiring, over.semiring) if left else over.semiring
        call.on(a.path)
        matrix = a.T if left else a
        self.outer, self.turned = matrix.shape[0], matrix._transposed
        x = self._vectors(call, x, matrix.shape[1])
        block, read_as = dtypes_of(call.who, self.semiring, a, np.dtype(x.dtype), over.dtype)
        self.dtype = block if over.dtype is None else over.dtype
        self.x = self._operand(call, x, read_as)
        self.mask = None if over.mask is None else self._mask(call)
        rows = matrix.T if self.turned else matrix  # as they are stored
        self.compact, self.seen = False, rows.shape[0]
        self.operand = self._wanted(call, rows)
        chunks = _core.csrmm_chunks(self.operand, self.turned, self.width, self.dtype.name)
        chunks = chunks[:1] if self.vector else chunks[::-1] if left else chunks
        target = IN_MEMORY if out is None and isinstance(x, np.ndarray) else out
        self.place = Place(call, self._seen, self.dtype, target, tuple(chunks), called="product",
                           advice="they must agree")  # fmt: skip
        if target is not IN_MEMORY:
            self.place.codec = Choice(kept_choice(out).codec)
            self.place.reads = [*self.x.reads, *([] if self.mask is None else self.mask.reads)]
        super().__init__(call, [self.place])
        self.old = self.place.old("accumulate") if over.accumulate else None
        self.notes = _core.CsrmmNotes()
        call.on(*self.x.paths)
        call.outputs = self.place.named()

    # Arguments --------------------------------------------------------------------------------------------

    def _vectors(self, call: Call, x: Any, inner: int) -> Any:
        """Return X, an Array or an ndarray with a column for each vector."""
        x = lazy_operand(call, x) if hasattr(x, "nbytes") else array_of(call.who, "X", x)
        self.vector = x.ndim == 1
        if x.ndim not in (1, 2) or np.dtype(x.dtype).kind not in "biuf":
            raise ShapeError(
                f"{call.who}: X is {shape_text(tuple(x.shape))} {x.dtype}; a vector or a matrix of real "
                "numbers is needed."
            )
        along = x.shape[-1 if self.left else 0]
        if along != inner:
            name = "rows must equal X's columns" if self.left else "columns must equal X's rows"
            raise ShapeError(
                f"{call.who}: A's {name} and X is {shape_text(tuple(x.shape))}; {inner} are needed."
            )
        self.width = 1 if self.vector else x.shape[0 if self.left else 1]
        return x

    def _operand(self, call: Call, x: Any, dtype: np.dtype[Any]) -> Operand:
        if self.semiring in ("plus_pair", "min_first"):  # which pairs there are is all that counts
            return Operand.of(np.broadcast_to(np.True_, x.shape))
        if isinstance(x, np.ndarray):
            x = off_the_map(call, x)
            if isinstance(x, np.ndarray) and x.dtype != dtype:
                if x.size * dtype.itemsize > _SMALL:
                    call.room(f"X in {dtype}", x.size * dtype.itemsize)
                x = x.astype(dtype)
        elif x.dtype != dtype:
            x = lazy_operand(call, x.astype(dtype))
        if isinstance(x, Array):
            x.flush()
        operand = Operand.plain(call, x, "X")
        if operand.given_lazily:
            call.scratch_in_run()
        return operand

    def _mask(self, call: Call) -> Operand:
        """Return which elements are wanted: one for each row of the product, in memory, or of its shape."""
        mask = self.over.mask
        if hasattr(mask, "to_scipy") or is_frontier(mask):
            mask = self._dense(call, mask)
        elif hasattr(mask, "nbytes"):
            mask = lazy_operand(call, mask)
        else:
            mask = array_of(call.who, "the mask", mask)
        if np.dtype(mask.dtype).kind != "b":
            raise ShapeError(f"{call.who}: the mask is {mask.dtype}; bool is needed (mask != 0).")
        if tuple(mask.shape) == (self.outer,):
            if not isinstance(mask, np.ndarray) and mask.nbytes > _SMALL:
                call.room("the mask", mask.nbytes)
            return Operand.of(np.ascontiguousarray(mask))
        if tuple(mask.shape) != self._seen:
            way = "column" if self.left and not self.vector else "row"
            raise ShapeError(
                f"{call.who}: the mask is {shape_text(tuple(mask.shape))}; one bool for each of {self.outer} "
                f"{way}s, or {shape_text(self._seen)} is needed."
            )
        if isinstance(mask, Array):
            mask.flush()
        call.on(*Operand.of(mask).paths)
        return Operand.plain(call, mask, "the mask")

    def _dense(self, call: Call, mask: Any) -> NDArray[np.bool_]:
        """Return a pattern as truths in memory."""
        nbytes = int(np.prod(mask.shape, dtype=object))
        if nbytes > _SMALL:
            call.room("the mask", nbytes + (mask.nbytes if hasattr(mask, "to_scipy") else 0))
        entries = (mask.to_scipy() if hasattr(mask, "to_scipy") else mask).tocoo()
        there = np.zeros(mask.shape, np.bool_)
        there[entries.row, entries.col] = True
        return there

    def _wanted(self, call: Call, rows: Any) -> Any:
        """Return A's operand: where a mask leaves rows out, that of the chunks that hold the others."""
        mask = None if self.mask is None else self.mask.values
        if self.turned or mask is None or mask.shape != (self.outer,):
            return rows.operand()
        left = int(np.count_nonzero(mask)) if not self.over.complement else int((~mask).sum())
        if left == rows.shape[0]:
            return rows.operand()
        if 8 * left > _SMALL:
            call.room("which rows are wanted", 8 * left)
        picked = chosen(mask != self.over.complement, 0, rows.shape[0])
        self.compact, self.seen = True, left
        return _core.touched_csr(rows._of_rows(picked).operand())

    # The call ---------------------------------------------------------------------------------------------

    def how(self, job: Any) -> How:
        """Say how it is computed, and which rows are read."""
        told = [self.notes.text] if self.notes.text else []
        if self.compact:
            told.append(f"{self.seen:,} of {self.outer:,} stored rows")
        return How("row panels", passes=self.notes.reads, note="; ".join(told))

    def _factor(self, operand: Operand) -> _core.Operand:
        turned = len(operand.core.shape) == 2 and operand.transposed != self.left
        return _core.Operand(operand.core, turned, False)

    def job(self, at: At) -> _core.Job:
        """Return the job."""
        to = at(self.place)
        return _core.csr_semiring_job(
            self.operand, self.semiring, self.turned, self._factor(self.x), None,
            _core.Operand(to, self.left and not self.vector, False), None, self.old,
            None if self.mask is None else self._factor(self.mask), self.over.complement, self.compact,
            self.place.checkpoint, self.notes,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits."""
        a, x = identity(self.a), self.x.identity
        return {
            "a": x if self.left else a, "b": a if self.left else x, "semiring": self.over.semiring,
            "mask": None if self.mask is None else self.mask.identity, "complement": self.over.complement,
            "accumulate": self.over.accumulate, "dtype": self.dtype.name, "chunks": list(self.place.chunks),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes; a value costs what some tens of flops of BLAS do."""
        return 40.0 * self.a.stored_values * self.width, self.place.nbytes
