"""Q kept as reflectors, and what it does to other matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._lazy.creation import planned
from .._output.codec_choice import Choice
from .._output.parts import Part, PartsPlace
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import array_of, check_flags, one_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine

__all__ = ["QrFactor", "apply_call", "apply_q", "opened_qr", "planned_factor", "reflectors_place"]


class QrFactor:
    """Q (m x m) and R of a matrix, Q as reflectors: what ``qr(x, mode="raw")`` returns.

    Attributes
    ----------
    shape : tuple of int
        Of the matrix that was factored (of an LQ, of its adjoint).
    v, t, r : Array
        Reflectors with R above them, their triangular factors, the triangles of groups; stored transposed.
    """

    def __init__(self, shape: tuple[int, int], adjoint: bool, v: Array, t: Array, r: Array) -> None:
        self.shape, self.adjoint = shape, adjoint
        self.v, self.t, self.r = v, t, r

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        return self.v.dtype

    def __repr__(self) -> str:
        return f"<flagstone.QrFactor {shape_text(self.shape)} {self.dtype}>"


def opened_qr(path: str, about: dict[str, Any]) -> QrFactor:
    """Open a factor that was left at a path."""
    parts = [Array(open_core(f"{path}/{name}", "r"), "r") for name in ("v", "t", "r")]
    m, n = about["shape"]
    return QrFactor((m, n), bool(about["adjoint"]), *parts)


def planned_factor(shape: tuple[int, int], dtype: np.dtype[Any]) -> QrFactor:
    """Return the factor of an LQ that does not exist: of m x n the adjoint, for what is planned ahead."""
    shapes = _core.reflector_shapes(shape, dtype.name)
    parts = [planned(tuple(extents), dtype, chunks=tuple(chunks)) for extents, chunks in shapes]
    return QrFactor(shape, True, *parts)


def reflectors_place(
    call: Call, shape: tuple[int, int], adjoint: bool, dtype: np.dtype[Any], out: Any
) -> PartsPlace:
    """Return where the reflectors of a matrix go."""
    shapes = _core.reflector_shapes(shape, dtype.name)
    parts = [
        Part(name, extents, chunks, [f"{name}_0", f"{name}_1"], kept=True)
        for name, (extents, chunks) in zip(("v", "t", "r"), shapes, strict=True)
    ]
    return PartsPlace(
        call, out, parts, dtype, {"flagstone": {"qr": {"shape": list(shape), "adjoint": adjoint}}}
    )


class _Apply(Routine[Any]):
    """The checked arguments of one product with Q."""

    def __init__(
        self, call: Call, f: Any, b: Any, trans: bool, side: str, out: Any, given: bool = True
    ) -> None:
        """`given`: f is the caller's, and may have NaN or Inf; else the call has made it."""
        if not isinstance(f, QrFactor):
            raise TypeError(
                f"apply_q: f is {type(f).__name__}; the factor that qr(x, mode='raw') returns is needed."
            )
        check_flags("apply_q", trans=trans)
        one_of("apply_q", "side", side, "left", "right")
        self.f, self.right, self.vector, self.given = f, side == "right", False, given
        b = lazy_operand(call, b)
        if not isinstance(b, Array):
            b = array_of("apply_q", "b", b)
            if b.dtype != f.dtype and np.result_type(b.dtype, f.dtype) == f.dtype:
                b = b.astype(f.dtype)
            self.vector = b.ndim == 1
            if self.vector:
                b = b[None, :] if self.right else b[:, None]
        self.in_memory = not isinstance(b, Array)
        self.b = Operand.matrix(call, b, "b")
        turned = self.right
        self.operand = _core.Operand(self.b.core, self.b.transposed ^ turned, self.b.conjugated ^ turned)
        if self.b.dtype != f.dtype:
            raise ShapeError(f"apply_q: b is {self.b.dtype} and Q is {f.dtype}; one dtype is needed.")
        if self.b.shape[1 if turned else 0] != f.shape[0]:
            raise ShapeError(
                f"apply_q: b is {shape_text(self.b.shape)} and Q is {f.shape[0]} x {f.shape[0]}; "
                f"b's {'columns' if turned else 'rows'} must be as many."
            )
        # B Q = (Qᴴ Bᴴ)ᴴ; an LQ's Q is the adjoint of what is kept.
        self.trans = bool(trans) ^ turned ^ f.adjoint
        rows, cols = _core.qr_tile(f.shape, f.dtype.name)
        chunks = (cols, rows) if turned else (rows, cols)
        self.place = Place(
            call, self.b.shape, f.dtype, IN_MEMORY if out is None and self.in_memory else out, chunks,
            called="product", advice="they must agree",
        )  # fmt: skip
        self.place.codec, self.place.chunks = Choice("raw"), chunks  # tiles are written whole
        super().__init__(call, [self.place])
        self.parts = [Operand.of(part).core for part in (f.v, f.t, f.r)]
        call.on(f.v.path, *self.b.paths)
        call.outputs = self.place.named()

    @property
    def what(self) -> str:
        return f"apply_q {shape_text(self.f.shape)} to {shape_text(self.b.shape)}, {self.f.dtype}"

    def how(self, job: Any) -> How:
        return How("tree of tiles")

    def job(self, at: At) -> _core.Job:
        out = _core.Operand(at(self.place), self.right, self.right)
        v, t, r = self.parts
        return _core.apply_q_job(
            self.call.who, self.f.shape, v, t, r, self.operand, self.trans, out, self.given
        )

    def result(self, job: Any) -> Any:
        made = self.place.close()
        if self.vector and isinstance(made, np.ndarray) and self.place.out is IN_MEMORY:
            made = made.reshape(-1)
        return made


def apply_call(call: Call, f: QrFactor, b: Any, trans: bool) -> Routine[Any]:
    """Return the checked call of a product with Q, for what has made the factor itself."""
    return _Apply(call, f, b, trans, "left", None, given=False)


@routine
def apply_q(
    f: QrFactor, b: Any, /, *, trans: bool = False, side: str = "left", out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return Q B, Qᴴ B, B Q or B Qᴴ for the Q of a factor, which is never formed.

    Parameters
    ----------
    f : QrFactor
        From ``qr(x, mode="raw")`` or `open_factor`.
    b : Array, Expression or ndarray
        As many rows (side "left") or columns ("right") as Q; a vector in memory too.
    trans : bool
        Apply the adjoint of Q.
    side : {"left", "right"}
        Where Q stands.
    out : path, Array or ndarray, optional
        As in `matmul`. Default: an ndarray for an ndarray, else scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array or ndarray
        As b was given.

    Raises
    ------
    NumericalError
        b has NaN or Inf: row and column are named; or the product has, where the factor has such values or
        numbers go beyond the largest one.
    ShapeError
        Q and b do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    4 m n k - 2 n² k flops for m x n reflectors and k columns of b (complex: four times as many). Reads the
    reflectors once for as many columns of b as stay in memory.
    """
    return _Apply(Call("apply_q", memory), f, b, trans, side, out)
