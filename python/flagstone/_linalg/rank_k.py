"""Rank-k updates: A A^H of what is as it is, or centred, scaled and filled where it is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_conjugated, is_transposed, owner_of
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._expression.expression import Expression, as_expression, cast, from_ufunc, where
from .._expression.operand import lazy_operand
from .._expression.program import ordered
from .._expression.reductions import Reduced
from .._lazy.structure import note_triangle, seen_whole, triangle_attribute
from .._output.codec_choice import Choice
from .._output.destination import kept_choice
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import a_number, dtype_of, numbers_of, unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._scratch.scratch import prepare

__all__ = ["RankK", "rank_2k_update", "rank_k_update"]

_SHORT = (np.dtype("i1"), np.dtype("u1"), np.dtype("i2"), np.dtype("u2"), np.dtype(bool))


class RankK(Routine[Any]):
    """The checked arguments of one update of a symmetric or Hermitian matrix."""

    operation = "rank_k_update"

    def __init__(
        self, call: Call, a: Any, b: Any = None, *, c: Any = None, alpha: complex = 1, beta: complex = 0,
        hermitian: bool = True, uplo: str | None = None, most: float = 0.0, out: Any = None,
    ) -> None:  # fmt: skip
        """Check them; `a`, `b`: what `lazy_operand` returned, of one dtype that is multiplied.

        `most`: what elements are clipped to; 0: nothing.
        """
        who = call.who
        if uplo not in (None, "lower", "upper"):
            raise ShapeError(f"{who}: uplo is {uplo!r}; 'lower', 'upper' or None (both halves) is needed.")
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise ShapeError(f"{who}: out is a read-only ndarray; give a writeable one.")
        self.a = Operand.matrix(call, a, "A")
        self.b = None if b is None else Operand.matrix(call, b, "B")
        self.alpha, self.beta = (
            complex(a_number(who, name, given)) for name, given in (("alpha", alpha), ("beta", beta))
        )
        self.hermitian, self.uplo, self.most = hermitian, uplo, most
        if beta and c is None:
            raise ShapeError(f"{who}: beta is {beta} and there is no C; give c= or leave beta out.")
        given_c = None if c is None else Operand.matrix(call, off_the_map(call, c), "C")
        if given_c is not None and (given_c.transposed or given_c.conjugated):
            raise ShapeError(
                f"{who}: C is a transposed or conjugated view; give C itself, which is symmetric."
            )
        self.options = _core.RankKOptions(self.alpha, self.beta, hermitian, uplo or "both", most)
        factors = self.a.factor, None if self.b is None else self.b.factor
        _core.check_rank_k(*factors, None if given_c is None else given_c.core, self.options)
        self.c = given_c if beta else None  # of beta 0 it is not read
        n = self.a.shape[0]
        self.dtype = self.a.dtype
        self.place = Place(
            call, (n, n), self.dtype, out, _core.output_chunks(n, n, self.dtype.name), called="result",
            advice="they must agree",
        )  # fmt: skip
        self.place.codec = Choice(kept_choice(out).codec)
        if uplo is not None:
            self.place.ours = triangle_attribute(hermitian and self.dtype.kind == "c", uplo)
        given = [one for one in (self.a, self.b, self.c) if one is not None]
        self.place.reads = [values for one in given for values in one.reads]
        self.notes = _core.RankKNotes()
        prepare(call.runtime.scratch)  # sums of groups, and what is computed, may be kept there
        super().__init__(call, [self.place])
        call.on(*(path for one in given for path in one.paths))
        call.outputs = 0 if self.place.in_memory else 1

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        rank = "k" if self.b is None else "2k"
        return f"rank-{rank} update of {shape_text(self.a.shape)}, {self.dtype}"

    def how(self, job: Any) -> How:
        """Say what becomes of a lazy A, and whether sums are dealt out."""
        return How("superblocks of one triangle", note=self.notes.text, between=self.notes.scratch_bytes)

    def job(self, at: At) -> _core.Job:
        """Return the update as a job."""
        c = at(self.place)  # first: the place is open from here on, and has its checkpoint
        b = None if self.b is None else self.b.factor
        old = None if self.c is None else self.c.core
        return _core.rank_k_job(self.a.factor, b, old, c, self.options, self.place.checkpoint, self.notes)

    def result(self, job: Any) -> Any:
        """Return it; of a triangle that is stored alone the matrix that it is of."""
        made = super().result(job)
        if made is self.place.out or not isinstance(made, Array) or str(made.path).endswith(".npy"):
            return made  # what the caller gave, and what cannot say so
        return seen_whole(note_triangle(made, self.place.ours))

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        return {
            "a": self.a.identity, "b": None if self.b is None else self.b.identity,
            "c": None if self.c is None else self.c.identity, "dtype": self.dtype.name,
            "alpha": [self.alpha.real, self.alpha.imag], "beta": [self.beta.real, self.beta.imag],
            "hermitian": self.hermitian, "uplo": self.uplo, "most": self.most,
            "chunks": list(self.place.chunks),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes."""
        n, k = self.a.shape
        terms = 1 if self.b is None else 2
        return 1.0 * terms * n * n * k * (4 if self.dtype.kind == "c" else 1), self.place.nbytes


def standardized(call: Call, a: Any, center: Any, scale: Any, missing: Any, dtype: DTypeLike | None) -> Any:
    """Return (a - center) / scale, what is `missing` as the mean, in a dtype that is multiplied; lazy."""
    a = off_the_map(call, a)
    if not hasattr(a, "dtype") or not hasattr(a, "shape"):
        a = np.asarray(unmasked(call.who, a))
    if len(a.shape) != 2:
        raise ShapeError(
            f"{call.who}: A has {len(a.shape)} dimensions ({shape_text(tuple(a.shape))}); 2 are needed."
        )
    kind = dtype_of(call.who, dtype) if dtype is not None else _accumulated(a.dtype)
    if kind.char not in "fdFD":
        raise ShapeError(f"{call.who}: dtype is {kind}; float32, float64, complex64 or complex128 is needed.")
    if center is None and scale is None and missing is None and a.dtype == kind:
        return lazy_operand(call, a)
    given = as_expression(a, call.who)
    value = cast(given, kind)
    gaps = _gaps(call.who, given, missing)
    if gaps is not None and center is None:
        value = where(gaps, np.asarray(_means(given, gaps), kind), value)
    if center is not None:
        value = from_ufunc(np.subtract, (value, _row(call.who, "center", center, a.shape[1], kind)))
    if scale is not None:
        by = _row(call.who, "scale", scale, a.shape[1], kind)
        if not np.all(by):
            where_zero = int(np.argmin(by != 0))
            raise ShapeError(f"{call.who}: scale is 0 at {where_zero}; leave out columns that do not vary.")
        value = from_ufunc(np.multiply, (value, (1 / by.astype(np.result_type(kind, "f8"))).astype(kind)))
    if gaps is not None and center is not None:
        value = where(gaps, kind.type(0), value)
    return lazy_operand(call, value)


def _accumulated(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "biu":
        return np.dtype(np.float32 if dtype in _SHORT else np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _gaps(who: str, given: Expression, missing: Any) -> Expression | None:
    """Return where there is no value: exactly what `missing` is in A's dtype, which must have it."""
    if missing is None:
        return None
    code = a_number(who, "missing", missing)
    if code != code and given.dtype.kind in "fc":
        return from_ufunc(np.isnan, (given,))
    if np.iscomplexobj(code) and given.dtype.kind in "f":
        raise ShapeError(f"{who}: missing is {shown(missing)} and A {given.dtype}; a real number is needed.")
    if not _holds(given.dtype, code):
        raise ShapeError(
            f"{who}: missing is {shown(missing)} and A {given.dtype}, which cannot hold it; give a code "
            "that A may hold, or leave missing out."
        )
    return from_ufunc(np.equal, (given, given.dtype.type(code)))


def _holds(dtype: np.dtype[Any], code: Any) -> bool:
    if dtype.kind in "biu":
        info = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return bool(np.isrealobj(code) and info[0] <= code <= info[1] and int(code) == code)
    with np.errstate(over="ignore"):
        return bool(np.isinf(code) or not np.isinf(dtype.type(code)))


def _means(given: Expression, gaps: Expression) -> NDArray[Any]:
    """Return the means of columns without what is missing: one read."""
    from .._expression.compute import compute

    wide = cast(given, np.result_type(given.dtype, np.float64))
    total, missed = compute(
        Reduced(where(gaps, wide.dtype.type(0), wide), "sum", 0, False), Reduced(gaps, "sum", 0, False)
    )
    left = given.shape[0] - np.asarray(missed)
    return np.asarray(np.asarray(total) / np.maximum(left, 1))


def _row(who: str, name: str, given: Any, n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    row = numbers_of(who, name, given)
    if row.dtype.kind not in ("biufc" if kind.kind == "c" else "biuf"):
        raise ShapeError(f"{who}: {name} is {row.dtype}; numbers that {kind} can hold are needed.")
    if row.ndim == 0:
        row = np.full(n, row)
    if row.shape != (n,):
        raise ShapeError(
            f"{who}: {name} is {shape_text(row.shape)} and A has {n} columns; give a number for each column."
        )
    return row.astype(kind)


@routine
def rank_k_update(
    a: Any, *, c: Any = None, alpha: float = 1, beta: float = 0, center: Any = None, scale: Any = None,
    missing: float | None = None, dtype: DTypeLike | None = None, uplo: str | None = None,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return alpha A A^H + beta C, each half computed once (BLAS's syrk and herk), inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x k
        On disk or in memory, in any layout; ``a.T`` gives AᵀA. Whole numbers are converted where they are
        loaded: int8, uint8, int16 and uint16 are summed in float32, others in float64.
    c : Array or ndarray, n x n, optional
        Symmetric (complex: Hermitian); of it the lower triangle is read (`uplo` "upper": the upper one).
    alpha, beta : float
        beta needs a `c`.
    center, scale : array of k numbers, optional
        Subtracted from each column, then divided by: A is (a - center) / scale, computed where a is loaded
        and stored nowhere.
    missing : number, optional
        What stands for no value (NaN too): it becomes the column's mean, which is `center` where that is
        given; else the means are computed in a read of their own.
    dtype : dtype, optional
        Of the arithmetic and the result.
    uplo : {"lower", "upper"}, optional
        Store this triangle alone; the chunks beside it are absent. Its metadata say so: the result, and what
        `open` gives of it, is the whole matrix (``open(path, decode=False)``: what is stored, zeros beside
        the triangle). In an ndarray, an Array or `.npy` the rest is zero. Default: both halves.
    out : path, Array or ndarray, optional
        Where the result goes, as in `matmul`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        n x n, exactly symmetric (`out` itself where that was an Array or ndarray).

    Raises
    ------
    ShapeError
        The operands do not conform; `scale` holds 0.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    n² k flops (complex: four times), half of a product's. Reads about s^1.5 n² k / sqrt(memory) bytes for
    s-byte elements, at least A once, where the bound is 1/√2 of it (Beaumont, Eyraud-Dubois, Langou, Vérité
    2022); writes s n², with `uplo` half of it. Where n is small beside k, the steps are dealt out to up to 16
    sums side by side, whose tree follows from the shape. The same bits for every limit and number of workers.
    """
    call = Call("rank_k_update", memory)
    return RankK(
        call,
        standardized(call, a, center, scale, missing, dtype),
        c=c,
        alpha=alpha,
        beta=beta,
        uplo=uplo,
        out=out,
    )


@routine
def rank_2k_update(
    a: Any, b: Any, *, c: Any = None, alpha: complex = 1, beta: float = 0, dtype: DTypeLike | None = None,
    uplo: str | None = None, out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return alpha A B^H + conj(alpha) B A^H + beta C, each half computed once (BLAS's syr2k and her2k).

    Parameters
    ----------
    a, b : Array, Expression or ndarray, n x k
        Of one dtype.
    c : Array or ndarray, n x n, optional
        Symmetric (complex: Hermitian); one triangle is read.
    alpha : number
        Complex where the matrices are.
    beta : float
        Needs a `c`.
    dtype : dtype, optional
        Of the arithmetic and the result.
    uplo : {"lower", "upper"}, optional
        Store this triangle alone.
    out : path, Array or ndarray, optional
        Where the result goes, as in `matmul`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        n x n, exactly symmetric.

    Raises
    ------
    ShapeError
        The operands do not conform.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    2 n² k flops (complex: four times). Reads twice what `rank_k_update` does.
    """
    call = Call("rank_2k_update", memory)
    left, right = (standardized(call, one, None, None, None, dtype) for one in (a, b))
    return RankK(call, left, right, c=c, alpha=alpha, beta=beta, uplo=uplo, out=out)


def with_its_adjoint(a: Any, b: Any) -> tuple[bool, bool]:
    """Say whether b is a's transpose, and whether conjugated: of one file, or in one memory."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        turned = (
            a.ndim == 2 and a.dtype == b.dtype and a.shape == b.shape[::-1] and a.strides == b.strides[::-1]
            and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        )  # fmt: skip
        return bool(turned), a.dtype.kind != "c"
    if isinstance(a, Expression) and isinstance(b, Expression):
        return _with_its_lazy_adjoint(a, b)
    if not isinstance(a, Array) or not isinstance(b, Array):
        return False, False
    one = owner_of(a) is owner_of(b) or Operand.of(a).core.id == Operand.of(b).core.id
    turned = one and len(a.shape) == 2 and is_transposed(a) != is_transposed(b)
    return bool(turned), a.dtype.kind != "c" or is_conjugated(a) != is_conjugated(b)


def _with_its_lazy_adjoint(a: Expression, b: Expression) -> tuple[bool, bool]:
    if a.ndim != 2 or a.shape != b.shape[::-1] or a.dtype != b.dtype:
        return False, False
    conjugated = [x.verb == "conjugate" for x in (a, b)]
    plain = [x.args[0] if conj else x for x, conj in zip((a, b), conjugated, strict=True)]
    try:
        turned = _alike(plain[0].T, plain[1]) or _alike(plain[0], plain[1].T)
    except ShapeError:  # an Array of fewer dimensions is broadcast
        turned = False
    return turned, a.dtype.kind != "c" or conjugated[0] != conjugated[1]


def _alike(a: Expression, b: Expression) -> bool:
    """Say whether two expressions do the same with the same elements."""
    one, other = ordered(a), ordered(b)
    if len(one) != len(other):
        return False
    places = [{id(node): i for i, node in enumerate(nodes)} for nodes in (one, other)]
    for x, y in zip(one, other, strict=True):
        if (x.verb, x.dtype, x.shape) != (y.verb, y.dtype, y.shape):
            return False
        if x.verb in ("leaf", "constant"):
            if not _same_leaf(x.payload, y.payload):
                return False
        elif [places[0][id(arg)] for arg in x.args] != [places[1][id(arg)] for arg in y.args]:
            return False
    return True


def _same_leaf(x: Any, y: Any) -> bool:
    if isinstance(x, Array) and isinstance(y, Array):
        one = owner_of(x) is owner_of(y)
        return one and (is_transposed(x), is_conjugated(x)) == (is_transposed(y), is_conjugated(y))
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.size > 1:
        return x.__array_interface__["data"] == y.__array_interface__["data"] and x.strides == y.strides
    return not isinstance(x, Array) and not isinstance(y, Array) and bool(np.array_equal(x, y))


@routine
def clipped_update(
    a: Any, *, most: float, alpha: float = 1, uplo: str | None = None, out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return alpha A A^H with elements within [-most, most]: correlations that are gone on with."""
    call = Call("corrcoef", memory)
    return RankK(call, lazy_operand(call, a), alpha=alpha, uplo=uplo, most=most, out=out)


@resumable("rank_k_update")
def _again(path: str, told: dict[str, Any]) -> Again:
    alpha, beta = (complex(*told[name]) if told[name][1] else told[name][0] for name in ("alpha", "beta"))
    options = {"alpha": alpha, "beta": beta, "uplo": told["uplo"], "out": old_output(path, told)}
    if told["c"] is not None:
        options["c"] = operand("C", told["c"])
    a = operand("A", told["a"])
    if told["most"]:
        options.pop("beta")
        return clipped_update, (a,), options | {"most": told["most"]}
    if told["b"] is not None:
        return rank_2k_update, (a, operand("B", told["b"])), options
    if not told["hermitian"]:
        from .matmul import matmul

        return matmul, (a, a.T), {"alpha": alpha, "out": options["out"]}
    return rank_k_update, (a,), options
