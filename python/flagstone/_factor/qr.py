"""QR and LQ of matrices that are larger than memory."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import FormatError
from .._expression.operand import lazy_operand
from .._output.codec_choice import Choice
from .._output.parts import Part, PartsPlace
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import array_of, one_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .lu import LuFactor, LuResult, opened_lu, opened_lu_factor
from .reflectors import QrFactor, opened_qr, reflectors_place

__all__ = ["QrResult", "lq", "matrix_operand", "open_factor", "qr", "triangle_call"]

_MODES = ("reduced", "complete", "r", "raw")


class QrResult(NamedTuple):
    """What `fl.linalg.qr` returns: A = Q R."""

    Q: Array
    R: Array


class LqResult(NamedTuple):
    """What `fl.linalg.lq` returns: A = L Q."""

    L: Array
    Q: Array


def matrix_operand(call: Call, given: Any, name: str = "x") -> Operand:
    """Return a matrix of floats as the core takes it; integers in memory become float64."""
    given = lazy_operand(call, given)
    if not isinstance(given, Array):
        values = array_of(call.who, name, given)
        if values.dtype.kind in "biu" or values.dtype == np.float16:
            call.room(f"{name} in float64", values.size * 8)
            values = values.astype(np.float64)
        given = values
    return Operand.matrix(call, given, name)


class _Qr(Routine[Any]):
    """The checked arguments of one factorization; of an LQ, of that of the adjoint."""

    def __init__(
        self, call: Call, x: Any, mode: str, out: Any, left: bool = False, turned: bool = False
    ) -> None:
        """Check them; `turned`: x is the transpose of what was given, of which NaN and Inf are told."""
        self.mode, self.left = one_of(call.who, "mode", mode, *_MODES), left
        self.turned = left or turned
        self.operation = call.who if call.who in ("qr", "lq") else ""
        self.x = matrix_operand(call, x)
        self.a = _core.Operand(self.x.core, self.x.transposed ^ left, self.x.conjugated ^ left)
        _core.check_qr(call.who, self.a)
        self.given, self.dtype = self.x.shape, self.x.dtype
        self.shape: tuple[int, int] = (
            (self.given[1], self.given[0]) if left else (self.given[0], self.given[1])
        )
        super().__init__(call)
        self.place: Any = self._place(call, out)
        self.places = [self.place]
        call.outputs = self.place.named({"r": 1, "raw": 3}.get(mode, 2))
        call.on(*self.x.paths)

    def _turned(self, shape: tuple[int, int]) -> tuple[int, int]:
        return (shape[1], shape[0]) if self.left else shape

    def _place(self, call: Call, out: Any) -> Any:
        m, n = self.shape
        rows, cols = _core.qr_tile(self.shape, self.dtype.name)
        size = m if self.mode == "complete" else min(m, n)
        if self.mode == "r":
            place = Place(
                call, self._turned((min(m, n), n)), self.dtype, out, self._turned((cols, cols)),
                called="triangle", advice="they must agree",
            )  # fmt: skip
            place.codec, place.chunks = Choice("raw"), self._turned((cols, cols))  # tiles are written whole
            return place
        if self.mode == "raw":
            return reflectors_place(call, self.shape, self.left, self.dtype, out)
        parts = [
            Part("q", self._turned((m, size)), self._turned((rows, cols)), ["q_0", "q_1"]),
            Part("l" if self.left else "r", self._turned((size, n)), self._turned((cols, cols)),
                 ["r_0", "r_1"]),
        ]  # fmt: skip
        return PartsPlace(call, out, parts, self.dtype, {"flagstone": {"routine": call.who}})

    @property
    def what(self) -> str:
        return f"{self.call.who} {shape_text(self.given)} {self.dtype}, {self.mode}"

    def job(self, at: At) -> Any:
        made: Any = at(self.place)
        checkpoint, saved = self.place.checkpoint, self.saves(self.place)  # once the place is open
        who = self.call.who
        if self.mode == "raw":
            v, t, r = made
            return _core.qr_factor_job(who, self.turned, self.a, v, t, r, None, saved, checkpoint)
        of = [_core.Operand(one, self.left, self.left) for one in ([made] if self.mode == "r" else made)]
        q = None if self.mode == "r" else of[0]
        return _core.qr_job(who, self.turned, self.a, q, of[-1], checkpoint, saved)

    def arguments(self) -> dict[str, Any]:
        return {"x": self.x.identity, "mode": self.mode}

    def effort(self) -> tuple[float, float]:
        (m, n), k = self.shape, min(self.shape)
        flops = 4.0 * max(m, n) * k * k * (4 if self.dtype.kind == "c" else 1)
        return flops, 2.0 * m * n * self.dtype.itemsize

    def how(self, job: Any) -> How:
        return How(f"tree of tiles, {job.order}" if job.order else "tree of tiles")

    def result(self, job: Any) -> Any:
        made = self.place.close()
        if self.mode == "r":
            return made
        if self.mode == "raw":
            return QrFactor(self.shape, self.left, *made)
        return LqResult(made[1], made[0]) if self.left else QrResult(*made)


def triangle_call(call: Call, x: Any, turned: bool) -> Routine[Any]:
    """Return the checked call of R of x, for what is computed from it; `turned`: of what is the transpose."""
    return _Qr(call, x, "r", None, turned=turned)


@routine
def qr(
    x: Any, /, *, mode: str = "reduced", out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the QR factorization of a matrix, inside a memory limit.

    Parameters
    ----------
    x : Array, Expression or ndarray, m x n
        float32, float64, complex64 or complex128, on disk, in memory or lazy, transposed or not.
    mode : {"reduced", "complete", "r", "raw"}
        "reduced": Q m x k and R k x n with k = min(m, n). "complete": Q m x m and R m x n. "r": R alone, and
        Q is never formed. "raw": the reflectors, for `apply_q`.
    out : path, Array or ndarray, optional
        Where the result goes, as in `matmul`; for Q and R, and for "raw", the path of a Zarr group that holds
        the parts. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    QrResult, Array or QrFactor
        (Q, R); R where `mode` is "r"; the factor where it is "raw".

    Raises
    ------
    ShapeError
        x is no matrix.
    NumericalError
        x holds NaN or Inf; names the first row and column that was met.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    2 n² (m - n/3) flops for R (m ≥ n; complex: four times as many), as many more for Q. Up to 512 columns R
    takes one read of x and writes nothing else. Beyond, reflectors go to scratch where memory ends: slabs of
    w columns read (m n² / 2 - n³ / 6) / w elements of them. Householder reflectors in a tree: orthogonal to
    rounding for any condition (Demmel, Grigori, Hoemmen and Langou 2012).
    """
    return _Qr(Call("qr", memory), x, mode, out)


@routine
def lq(
    x: Any, /, *, mode: str = "reduced", out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the LQ factorization of a matrix: the QR of its adjoint, without a transposed copy.

    Parameters
    ----------
    x : Array, Expression or ndarray, m x n
        As for `qr`.
    mode : {"reduced", "complete", "r", "raw"}
        "reduced": L m x k and Q k x n with k = min(m, n). "complete": L m x n and Q n x n. "r": L alone.
        "raw": the reflectors of the adjoint's Q, for `apply_q`.
    out : path, Array or ndarray, optional
        As for `qr`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LqResult, Array or QrFactor
        (L, Q); L where `mode` is "r"; the factor of the adjoint where it is "raw".

    Raises
    ------
    ShapeError
        x is no matrix.
    NumericalError
        x holds NaN or Inf; names the first row and column that was met.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    2 m² (n - m/3) flops for L (n ≥ m), as many more for Q; traffic as for `qr` of the adjoint.
    """
    return _Qr(Call("lq", memory), x, mode, out, left=True)


def _again(call: Any, path: str, told: dict[str, Any]) -> Again:
    return (
        call,
        (operand("x", told["x"]),),
        {"mode": told["mode"], "out": old_output(path, told) if "into" in told else path},
    )


@resumable("qr")
def _qr_again(path: str, told: dict[str, Any]) -> Again:
    return _again(qr, path, told)


@resumable("lq")
def _lq_again(path: str, told: dict[str, Any]) -> Again:
    return _again(lq, path, told)


def open_factor(path: str | os.PathLike[str]) -> QrFactor | LuResult | LuFactor:
    """Open a factor that ``lu(a, out=path)``, `lu_factor`, or qr or lq with ``mode="raw"`` left.

    Parameters
    ----------
    path : path
        The group.

    Returns
    -------
    QrFactor, LuResult or LuFactor
        As it was returned then.

    Raises
    ------
    FormatError
        The group holds no factor: one array, as `cholesky` stores it, or an explicit Q.

    Notes
    -----
    Reads the metadata of two or three arrays, and of an LU the n numbers of p or piv.
    """
    where = os.fspath(path)
    text, _, _ = _core.open_group(where)
    about = json.loads(text).get("flagstone", {})
    if "qr" in about:
        return opened_qr(where, about["qr"])
    if "lu" in about:
        return opened_lu(where, about["lu"])
    if about.get("routine") == "lu_factor":
        return opened_lu_factor(where)
    if about.get("routine") in ("qr", "lq"):
        raise FormatError(
            f"open_factor: '{where}' holds Q and {'L' if about['routine'] == 'lq' else 'R'} as arrays; open "
            "each by its name in the group, or give the path of a factor with mode='raw'."
        )
    raise FormatError(
        f"open_factor: '{where}' holds no factor of several parts; give the path that was out= of lu or "
        "lu_factor, or of qr or lq with mode='raw' (cholesky stores one array, for open)."
    )
