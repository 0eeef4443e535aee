"""H' = ZᵀHZ of a matrix that is made by blocks and a basis that lies on disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _core
from .._array.array import open_core, shape_text
from .._errors.classes import BudgetError, ShapeError
from .._errors.messages import shown
from .._output.parts import Part, PartsPlace
from .._resume.identity import file_identity
from .._resume.openers import check_unchanged, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import array_of, is_whole, one_of, size_bytes, whole_number
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._runtime.runtime import remember, stats
from .basis import MOST_ROWS, PAGE, file_count
from .deal import dealt, dealt_layout
from .keep import check_kept, kept_bytes, store_rows
from .stored import BlockBasis, PlannedBasis, ProjectedMatrix, open_stored
from .stored_rows import StoredRows, rows_of

__all__ = ["Blocks", "project"]

_ROUNDING = 1e-6  # of the largest value: what a symmetric matrix in float32 may be off
_REHEARSAL = 0.2  # seconds of blocks made for a plan
_WRITING = 1.1  # of their time, where H' goes to the disk meanwhile: caches are shared
_KEEP = "project: keep_h"
_CHUNK = 16384  # bytes: runs of H' begin where one does


class Blocks:
    """A symmetric matrix whose blocks a function makes.

    Parameters
    ----------
    function : callable
        ``function(i, j)``, i >= j: the block of groups i and j, a SciPy matrix or an ndarray, or None.
    rows : sequence of int
        Of each group.
    pattern : sequence of sequences of int
        Of each group i the groups j <= i whose blocks may not be zero.
    """

    __module__ = "flagstone.subspace"

    def __init__(
        self, function: Callable[[int, int], Any], rows: Sequence[int], pattern: Sequence[Sequence[int]]
    ) -> None:
        if not callable(function):
            raise ShapeError(f"Blocks: function is {shown(function)}; a function (i, j) is needed.")
        for name, given in (("rows", rows), ("pattern", pattern)):
            if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
                raise ShapeError(f"Blocks: {name} is {shown(given)}; a sequence is needed.")
        rows, pattern = list(rows), list(pattern)
        if len(rows) != len(pattern):
            raise ShapeError(
                f"Blocks: {len(rows)} groups have rows and {len(pattern)} a pattern; give both of each."
            )
        self.function = function
        self.rows = [whole_number("Blocks", f"rows[{i}]", d, 0, MOST_ROWS) for i, d in enumerate(rows)]
        self.pattern = [_coupled(i, row) for i, row in enumerate(pattern)]

    def block_source(self, basis: BlockBasis) -> _core.BlockSource:
        """Return it as the core takes it."""
        return _core.called_source(self._made, self.rows, self.pattern)

    def identity(self) -> dict[str, Any] | None:
        """None: nobody knows whether it is the same function, so such a call is begun again."""
        return None

    def _made(self, i: int, j: int) -> Any:
        block = self.function(i, j)
        if block is None:
            return None
        block = block if hasattr(block, "tocsr") else array_of("project", f"block ({i}, {j})", block)
        shape = (self.rows[i], self.rows[j])
        if block.dtype.kind not in "biuf":
            raise ShapeError(
                f"project: the function made block ({i}, {j}) of {block.dtype}; real numbers are needed."
            )
        if tuple(block.shape) != shape:
            raise ShapeError(
                f"project: the function made block ({i}, {j}) of {shape_text(tuple(block.shape))}; "
                f"{shape_text(shape)} is needed."
            )
        from scipy.sparse import csr_matrix

        made = csr_matrix(block)
        _check_whole(made, f"block ({i}, {j})", symmetric=i == j)
        return made.indptr.astype(np.int32), made.indices.astype(np.int32), made.data.astype(np.float64)


def _coupled(i: int, row: Any) -> list[int]:
    """Return the groups that group i couples with, ascending."""
    given = list(row) if isinstance(row, Iterable) else [row]
    for j in given:
        if not is_whole(j) or not 0 <= j <= i:
            raise ShapeError(f"Blocks: pattern[{i}] holds {shown(j)}; groups from 0 to {i} are needed.")
    return sorted({int(j) for j in given})


def _check_whole(matrix: Any, name: str, symmetric: bool) -> None:
    """Refuse pointers and indices that do not fit, and what is not symmetric where it must be."""
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ShapeError(f"project: {name} is damaged ({error}); make a whole CSR matrix.") from None
    if symmetric and matrix.nnz and abs(matrix - matrix.T).max() > _ROUNDING * abs(matrix).max():
        raise ShapeError(f"project: {name} is not symmetric; H must be.")


def _counted(job: _core.ProjectJob, done: _core.Statistics) -> dict[str, Any]:
    """Return the fields of stats() that are a projection's own."""
    moved = max(done.bytes_read + done.bytes_written, 1)
    components = {
        "make": job.making, "multiply": job.multiplying,
        "read": done.ring_busy_seconds * done.bytes_read / moved,
        "write": done.ring_busy_seconds * done.bytes_written / moved,
        "wait": done.worker_idle_seconds,
    }  # fmt: skip
    return {"pairs": job.pairs, "nonzeros": job.nonzeros, "components": components}


class Project(Routine[ProjectedMatrix]):
    """The checked arguments of one call."""

    operation = "project"

    def __init__(
        self, H: Any, Z: BlockBasis, out: Any, order: str, panel: Any, files: Any, keep_h: Any, memory: Any
    ) -> None:
        call = Call("project", memory)
        if not isinstance(Z, BlockBasis):
            raise ShapeError(
                f"project: Z is {type(Z).__name__}; a BlockBasis of subspace.basis or "
                "nuclear.basis_of_j is needed."
            )
        one_of("project", "order", order, "panels", "columns")
        if panel is not None and order == "columns":
            raise ShapeError("project: order 'columns' has no panel; leave it out.")
        self.H = H if hasattr(H, "block_source") else rows_of(H, Z, call)
        if keep_h is not None and not hasattr(H, "block_source"):
            raise ShapeError("project: keep_h is of an H that is made by blocks; this one is stored already.")
        check_kept(_KEEP, keep_h)
        self.Z, self.order, self.keep_h = Z, order, keep_h
        told = self.H.identity()
        if told is None:
            self.operation = ""
        self.told = told
        self.layout = Z.layout
        self.dealt: BlockBasis | None = None  # made when it runs
        if files is not None and (count := file_count("project", files)) != len(Z.layout.lengths):
            self.layout = dealt_layout(Z, count)
        self.panel = 0 if panel is None else size_bytes("project: panel", panel)
        if isinstance(self.H, StoredRows):
            self._refuse_early(call, self.H)
        self.source = self.H.block_source(Z)
        self.projection = self._projection(self.source)
        call.tidy()  # what the pattern took on its way
        made = self.projection
        self.runs = np.array(made.runs, np.int64).reshape(-1, 6)
        stripes, groups = len(self.layout.stripes), len(Z.rows)
        about = {
            "kind": "projected matrix", "nonzeros": made.nonzeros, "version": _core.__version__,
            "basis": Z.about,
        }  # fmt: skip
        parts = [
            Part("values", (made.length,), (_CHUNK // Z.dtype.itemsize,), ["element"], kept=True),
            Part("blocks", (made.blocks, 2), (1 << 14, 2), ["block", "side"], "int32"),
            Part("columns", (groups,), (max(groups, 1),), ["group"], "int64"),
            Part("stripes", (stripes,), (stripes,), ["stripe"], "int64"),
            Part("runs", self.runs.shape, (max(len(self.runs), 1), 6), ["run", "field"], "int64"),
        ]
        self.place = PartsPlace(call, out, parts, Z.dtype, {"flagstone": about})
        super().__init__(call, [self.place])
        call.on(Z.path or None)
        call.outputs = self.place.named(len(parts))

    def _projection(self, source: _core.BlockSource) -> _core.Projection:
        return _core.Projection(source, self._cores(), self.layout, self.order == "columns", self.panel)

    def _refuse_early(self, call: Call, rows: StoredRows) -> None:
        """Refuse a limit in which no couplings would fit, before H is looked through for its own.

        Its values decide how many a task reads: the limit that is named has room for those of equal rows.
        """
        scan = _core.resident_bytes() + rows.scan_bytes()
        if max(self._least_alike(call, rows, 0), scan) > call.memory:
            call.check_least(max(self._least_alike(call, rows, rows.count), scan))

    def _least_alike(self, call: Call, rows: StoredRows, count: int) -> int:
        made, kind = self._projection(rows.alike(count)), self.Z.dtype
        values = _core.planned_array([max(made.length, 1)], kind.name, [_CHUNK // kind.itemsize])
        blocks = _core.planned_array([max(made.blocks, 1), 2], "int32", [1 << 14, 2])
        return call.engine.least_memory(_core.project_job(made, values, blocks, None))

    def _cores(self) -> list[_core.Array]:
        """Return the files of Z, each so often that no two readers share a part of one."""
        times = _core.column_handles
        files = self.Z.files if self.layout is self.Z.layout else self.dealt and self.dealt.files
        if not files:
            chunks = [PAGE // self.Z.dtype.itemsize]
            lengths = [n for _ in range(times) for n in self.layout.lengths]
            return [_core.planned_array([n], self.Z.dtype.name, chunks) for n in lengths]
        return [open_core(str(values.path), "r") for _ in range(times) for values in files]

    @property
    def what(self) -> str:
        n = self.Z.shape[1]
        return f"project {shape_text((self.Z.shape[0],) * 2)} on {n} columns {self.Z.dtype}"

    def job(self, at: At) -> _core.ProjectJob:
        values, blocks = at(self.place)[:2]  # type: ignore[index]
        self.projection.read_from(self._cores())
        return _core.project_job(self.projection, values, blocks, self.place.checkpoint)

    def plan(self) -> Plan:
        """Count it, at the pace of a rehearsal."""
        if self.source.on_its_own and self.call.runtime.machine is None:
            self._rehearse()
        plan = super().plan()
        return plan if self.keep_h is None else replace(plan, least_memory=self.call.rounded(self.least()))

    def _rehearse(self) -> None:
        """Make some blocks, so that the plan knows how long this machine takes for them."""
        workers = self.call.engine.workers
        try:
            self.call.room("a rehearsal of its blocks", 2 * workers * self.projection.workspace)
        except BudgetError:
            return
        rates = self.call.use_profile().rates
        flops, touched, seconds = self.projection.rehearse(_REHEARSAL, workers)
        self.call.tidy()
        if touched > 0:
            beside = seconds - flops / rates[f"flops_{self.Z.dtype.name}"]
            self.projection.pace = _WRITING * max(beside, 0.0) * rates["memory_bytes_per_second"] / touched

    def arguments(self) -> dict[str, Any]:
        return {"h": self.told, "z": file_identity(self.Z.path)}

    def least(self, beside: int = 0) -> int:
        """Return the bytes that the run needs, and then storing H where that is asked for."""
        least = super().least(beside)
        if self.keep_h is None:
            return least
        stored = kept_bytes(_KEEP, self.source, self.Z.rows.tolist(), self.keep_h, self.told)
        return max(least, _core.resident_bytes() + stored + _core.allowed_drift + beside)

    def check(self, beside: int = 0) -> int:
        """Refuse a limit in which either has no room."""
        if self.keep_h is not None:
            self.call.check_least(self.least(beside))
        return super().check(beside)

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes."""
        made = self.projection
        return 2 * made.multiply_adds, float(made.length * self.Z.dtype.itemsize + self.Z.nbytes)

    def how(self, job: _core.ProjectJob) -> How:
        panels = f"{job.panels} panels of Z" if job.panels != 1 else "one panel of Z"
        told = "a block stays" if self.order == "columns" else panels
        if job.pairs:
            told += (
                f"; {job.pairs} pairs, {job.nonzeros} nonzeros of H made in {job.making:.2f} s, "
                f"multiplied in {job.multiplying:.2f} s of workers"
            )
        return How(self.order, 1, told, counted=lambda done: _counted(job, done))

    def result(self, job: _core.ProjectJob) -> ProjectedMatrix:
        self.place.write("columns", np.asarray(self.Z.columns, np.int64))
        self.place.write("stripes", np.array(self.Z.layout.stripes, np.int64))
        self.place.write("runs", self.runs)
        values = self.place.close()[0]
        return ProjectedMatrix(self.place.path, self.place.about["flagstone"], values)

    def run(self) -> ProjectedMatrix:
        if isinstance(self.Z, PlannedBasis):
            raise ShapeError(
                f"project: Z is {self.Z!r}, which is for plans; nuclear.basis_of_j makes one with values."
            )
        return super().run()

    def execute(self, stack: contextlib.ExitStack) -> Any:
        if self.Z.values.path is not None and not os.path.exists(self.Z.values.path):
            raise FileNotFoundError(f"project: Z '{self.Z.path}' went away.")
        if self.layout is not self.Z.layout:
            self.dealt = dealt(self.call, self.Z, self.layout)
        job = super().execute(stack)
        if self.keep_h is not None:
            done = stats()
            store_rows(_KEEP, self.source, self.Z.rows.tolist(), self.keep_h, self.told)
            remember(self.call.runtime, done)
        return job


@routine
def project(
    H: Any, Z: BlockBasis, *, out: str | os.PathLike[str] | None = None, order: str = "panels",
    panel: int | str | None = None, files: int | None = None, keep_h: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> Prepared[ProjectedMatrix]:  # fmt: skip
    """Project a symmetric matrix on a block-diagonal basis, ZᵀHZ, inside a memory limit.

    Parameters
    ----------
    H : Blocks, nuclear.Space, SparseArray or SciPy matrix
        Blocks are made where they are needed, on and below the diagonal, and never stored. A sparse matrix
        has both triangles and Z's rows; it is read once for its couplings, and once for each panel.
    Z : BlockBasis
        On disk; its groups are H's. For a plan the shapes suffice: `nuclear.planned_basis`.
    out : path, optional
        A Zarr group for H', replaced at once and whole. Default: scratch; deleted when the last handle dies.
    order : {"panels", "columns"}
        "panels": stripes that fill the limit stay, the others stream past them. "columns": algorithm 1 of
        Aktulga et al. (Euro-Par 2012), a block stays and those that couple to it are read for it alone.
    panel : int or str, optional
        Bytes of Z that stay at most; default: what the limit leaves.
    files : int, optional
        Arrays that Z is dealt to, group i to number i mod files; default: as it is stored. A Z of another
        number is copied to scratch.
    keep_h : path, optional
        Where H is stored too, as a CSR matrix with both triangles and its groups; one that was there is
        replaced.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    ProjectedMatrix

    Raises
    ------
    ShapeError
        Groups of H and Z differ; a function makes a block of another shape.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads, of panels P of stripes (512 KiB of Z), Σ_P (``|Z_P|`` + what couples behind P), in order "columns"
    ``|Z|`` + Σ_pairs ``|Z_i|``, i > j, each block in whole pages of 4 KiB; writes H' once. Of
    a pair min(nnz z_j + d_i z_i z_j, nnz z_i + z_i d_j z_j) multiply-adds, and making its block of H. A
    block of H' is computed whole and in one way: the same bits for every order, panel, limit and number of
    workers, of files, and whether equal blocks of Z are stored once or not. A killed call goes on behind its
    finished pairs of stripes. Source: Aktulga et al., Euro-Par 2012.
    """
    return Project(H, Z, out, order, panel, files, keep_h, memory)


@resumable("project")
def _again(path: str, told: dict[str, Any]) -> Again:
    h = told["h"]
    known = h["rows"] if "rows" in h else {"lazy": ["nuclear space", [h["space"], h["interaction"]]]}
    check_unchanged("Z", told["z"])
    return project, (operand("H", known), open_stored(told["z"]["path"])), {"out": path}
