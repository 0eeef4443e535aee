"""Rank-k updates: A A^H of what is as it is, or centred, scaled and filled where it is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._lazy.structure import note_triangle, seen_whole, triangle_attribute
from .._output.codec_choice import Choice
from .._output.destination import kept_choice
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import a_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .standardized import standardized

__all__ = ["RankK", "rank_2k_update", "rank_k_update"]


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
        call.scratch_in_run()  # sums of groups, and what is computed, may be kept there
        super().__init__(call, [self.place])
        call.on(*(path for one in given for path in one.paths))
        call.outputs = self.place.named()

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
