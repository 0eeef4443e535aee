"""The demonstration: PCA of a matrix five times the memory limit, beside scikit-learn under that cap."""

from __future__ import annotations

import errno
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._decomposition.pca import pca
from .._decomposition.result import PcaResult
from .._errors.messages import storage_error
from .._formats.open import open_path
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, comparison, format_seconds
from .._runtime.progress import Bar
from .._runtime.runtime import Runtime, stats
from .._runtime.streaming import ahead
from .._scratch.builds import whole_or_nothing
from .._sparse.array import SparseArray
from .._sparse.builder import CsrBuilder
from .._terminal import report
from .capped import Cap, run_apart, run_capped, say
from .synthetic import Block, Cells

__all__ = ["Cap", "run_cells", "run_file", "scikit_learn", "write_blocks"]

_GENES = 5000
_COMPONENTS = 50
_TIMES = 5  # how much larger than the limit the matrix is, as SciPy holds it


# scikit-learn -----------------------------------------------------------------------------------------------


def scikit_learn(path: str, k: int, key: str | None = None) -> None:
    """Load a matrix as its users do and fit sklearn's PCA; runs in the capped child."""
    import scipy.sparse
    from sklearn.decomposition import PCA

    start = time.perf_counter()
    if path.endswith(".npz"):
        matrix = scipy.sparse.load_npz(path)
    elif path.endswith(".npy"):
        matrix = np.load(path)
    else:
        with Runtime(memory=1 << 50):  # the cap is the system's
            stored = open_path(path, key)
            matrix = stored.to_scipy() if isinstance(stored, SparseArray) else np.asarray(stored)
    loaded = time.perf_counter()
    PCA(k).fit(matrix)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"loaded in {format_seconds(loaded - start)}, fitted in "
        f"{format_seconds(time.perf_counter() - loaded)}, "
        f"peak {_core.format_bytes(peak)}"
    )


def try_scikit_learn(path: str, k: int, memory: int) -> bool:
    """Run scikit-learn under the cap, say what happened and whether it finished."""
    code = (
        "import sys; from flagstone._demo.demo import scikit_learn; "
        "scikit_learn(sys.argv[1], int(sys.argv[2]))"
    )
    return run_capped("scikit-learn's PCA", code, [path, str(k)], memory)


# Our run ----------------------------------------------------------------------------------------------------


def decompose(matrix: Any, k: int, memory: int, out: str) -> tuple[PcaResult, Plan, Stats]:
    """Print the plan, run with the bar, print predicted against actual."""
    with Runtime(memory=memory) as runtime:
        plan = pca.plan(matrix, k, out=out)
        say("Plan, before anything is read:")
        say(indented(str(plan)))
        with Bar("pca", plan, memory) as bar:
            runtime.progress = bar.update
            result = pca(matrix, k, out=out)
        done = stats()
    say("Predicted against actual (peak memory: the kernel's VmHWM during the call):")
    say(comparison(plan, done))
    relative = result.residual.max() / max(result.singular_values[0], 1e-300)
    say(f"Residual: |Xᵀu - σv| is at most {relative:.1e} of σ₁ over {k} components.")
    return result, plan, done


def indented(text: str) -> str:
    """Return the text two columns further right."""
    return "\n".join("  " + line for line in text.splitlines())


def separation(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the share of rows whose nearest type centre, learnt from other rows, is their own type."""
    learn, test = np.arange(0, len(labels), 2), np.arange(1, len(labels), 2)
    kinds = np.unique(labels[learn])
    centres = np.stack([scores[learn][labels[learn] == kind].mean(axis=0) for kind in kinds])
    distance = ((scores[test][:, None, :] - centres[None]) ** 2).sum(axis=2)
    return float((kinds[distance.argmin(axis=1)] == labels[test]).mean())


# Synthetic cells --------------------------------------------------------------------------------------------


def write_cells(count: int, path: str) -> None:
    """Write the synthetic matrix of so many cells, by row blocks."""
    cells = Cells(count, _GENES)
    write_blocks(cells.blocks(), path, cells.genes, np.dtype(cells.dtype))


def write_blocks(blocks: Iterator[Block], path: str, columns: int, dtype: np.dtype[Any]) -> None:
    """Write a sparse matrix that is made by row blocks."""
    builder = CsrBuilder(Call("demo"), path, columns, dtype, True)
    with whole_or_nothing(builder):
        for indptr, indices, data in ahead(blocks):
            builder.append(indptr, indices, data)
        builder.publish()


def _written(cells: Cells, path: str) -> SparseArray:
    code = (
        "import sys; from flagstone._demo.demo import write_cells; write_cells(int(sys.argv[1]), sys.argv[2])"
    )
    run_apart("matrix", code, [str(cells.cells), path])
    opened = open_path(path)
    assert isinstance(opened, SparseArray)
    return opened


def _cells_for(memory: int) -> Cells:
    """Return cells that make the matrix _TIMES larger than the limit (8 bytes a stored value in SciPy)."""
    probe = Cells(1, _GENES)
    return Cells(max(5000, round(_TIMES * memory / (8 * probe.nnz))), _GENES)


def make_directory(output: str, needed: int) -> Path:
    """Make the directory, on a disk with so many bytes of space."""
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(
            f"demo: cannot create '{output}' ({error.strerror}); name another place with --output.",
            error.errno or 0, output,
        ) from None  # fmt: skip
    free = _core.free_bytes(str(folder))
    if needed > free:
        raise storage_error(
            f"demo: '{output}' has {_core.format_bytes(free)} of space left and {_core.format_bytes(needed)} "
            "are "
            "needed; name a roomier place with --output, or a smaller --memory.",
            errno.ENOSPC, output,
        )  # fmt: skip
    return folder


def _labelled(result: PcaResult, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = report.sample_rows(result.scores)
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    return np.asarray(result.scores[::step], np.float64), labels[rows]


def run_cells(memory: int, output: str, keep: bool = False) -> None:
    """Run the demonstration on synthetic cells."""
    started = time.perf_counter()
    cells = _cells_for(memory)
    # About 3 packed bytes a value, with room to spare, and float32 scores.
    folder = make_directory(output, 4 * cells.nnz + 4 * _COMPONENTS * cells.cells)
    path, out = str(folder / "cells.zarr"), str(folder / "pca.zarr")
    say(
        f"Writing {cells.cells:,} cells x {cells.genes:,} genes, about {cells.nnz / 1e6:.0f} million counts "
        "of "
        f"{cells.types} cell types ..."
    )
    start = time.perf_counter()
    matrix = _written(cells, path)
    try:
        seconds = time.perf_counter() - start
        say(
            f"  {_core.format_bytes(matrix.nbytes)} as SciPy would hold it, {matrix.nbytes / memory:.1f} "
            "times the "
            f"limit of {_core.format_bytes(memory)}; {_core.format_bytes(matrix.stored_bytes)} packed on "
            "disk, "
            f"written in {format_seconds(seconds)}."
        )
        try_scikit_learn(path, _COMPONENTS, memory)
        result, plan, done = decompose(matrix, _COMPONENTS, memory, out)
        labels = cells.labels()
        scores, kinds = _labelled(result, labels)
        share = separation(scores, kinds)
        say(
            f"Planted cell types: {share:.1%} of a sample of {len(kinds):,} cells lie nearest to the centre "
            "of their "
            f"own type (chance: {1 / cells.types:.1%})."
        )
        facts = report.numbers(result, done, plan) | {"separation": share}
        title = f"{cells.cells:,} cells x {cells.genes:,} genes within {_core.format_bytes(memory)} of memory"
        picture, _ = report.write(out, result, facts, labels, title)
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)
    say(f"Picture: {picture}    results: {out}    {format_seconds(time.perf_counter() - started)} in all.")


def run_file(source: str, k: int, memory: int, output: str) -> None:
    """Run the demonstration on the user's own file."""
    with Runtime(memory=memory):
        matrix = open_path(source)
    spent = getattr(matrix, "import_seconds", 0.0)
    k = min(k, *matrix.shape)
    folder = make_directory(output, 8 * k * matrix.shape[0])
    say(repr(matrix))
    if spent:
        say(
            f"  imported into scratch in {format_seconds(spent)} (once; 'flagstone scratch' lists and "
            "clears)."
        )
    try_scikit_learn(source, k, memory)
    out = str(folder / f"{Path(source).stem}-pca.zarr")
    result, plan, done = decompose(matrix, k, memory, out)
    facts = report.numbers(result, done, plan)
    picture, _ = report.write(out, result, facts, title=f"{Path(source).name}, {k} components")
    say(f"Picture: {picture}    results: {out}")
