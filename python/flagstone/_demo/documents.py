"""The demonstration of topics: documents of known subjects, beside scikit-learn's LDA under the same cap."""

from __future__ import annotations

import resource
import shutil
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._formats.open import open_path
from .._runtime.plan import comparison, format_seconds
from .._runtime.progress import Bar
from .._runtime.runtime import Runtime, stats
from .._sparse.array import SparseArray
from .._terminal.topic_map import write_topics
from .._terminal.topic_table import numbers, table
from .._topics.held import hold_out
from .._topics.topics import topics
from .capped import run_apart, run_capped, say
from .demo import indented, make_directory, write_blocks
from .library import Library
from .subjects import COMMON

__all__ = ["run_documents", "scikit_learns", "write_documents"]

_TIMES = 5  # how much larger than the limit the counts are, as SciPy holds them
_HELD = 0.02  # of the documents, for perplexity


def scikit_learns(path: str, k: int) -> None:
    """Load counts as scikit-learn's users do and fit its LDA; runs in the capped child."""
    from sklearn.decomposition import LatentDirichletAllocation

    start = time.perf_counter()
    with Runtime(memory=1 << 50):  # the cap is the system's
        stored = open_path(path)
        assert isinstance(stored, SparseArray)
        counts = stored.to_scipy()
    loaded = time.perf_counter()
    LatentDirichletAllocation(k, learning_method="online").fit(counts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"loaded in {format_seconds(loaded - start)}, fitted in "
        f"{format_seconds(time.perf_counter() - loaded)}, peak {_core.format_bytes(peak)}"
    )


def write_documents(count: int, path: str) -> None:
    """Write so many documents, by row blocks."""
    library = Library(count)
    write_blocks(library.blocks(), path, len(library.vocabulary()), np.dtype(np.float32))


def _written(count: int, path: str) -> SparseArray:
    code = (
        "import sys; from flagstone._demo.documents import write_documents; "
        "write_documents(int(sys.argv[1]), sys.argv[2])"
    )
    run_apart("documents", code, [str(count), path])
    opened = open_path(path)
    assert isinstance(opened, SparseArray)
    return opened


def matched(found: NDArray[Any], planted: NDArray[Any]) -> list[tuple[int, int, float]]:
    """Return pairs (found, planted, Σ |difference|): the closest two first, each topic once."""
    away = np.abs(found[:, None] - planted[None]).sum(axis=2)
    pairs = []
    for _ in range(min(away.shape)):
        f, p = np.unravel_index(np.argmin(away), away.shape)
        pairs.append((int(f), int(p), float(away[f, p])))
        away[f], away[:, p] = np.inf, np.inf
    return pairs


def _beside(told: dict[str, Any], pairs: list[tuple[int, int, float]], names: list[str]) -> str:
    """Return each planted subject, the topic that it was found as, and how far the two are apart."""
    by_topic = {one["topic"]: one for one in told["topics"]}
    lines = [f"  {'planted':>10} {'topic':>6} {'error':>6}  first words found, but for common ones"]
    for f, p, error in sorted(pairs, key=lambda pair: pair[1]):
        words = " ".join(word["word"] for word in by_topic[f]["words"] if word["word"] not in COMMON)
        lines.append(f"  {names[p]:>10} {f:>6} {error:>6.3f}  {words}")
    return "\n".join(lines)


def run_documents(memory: int, output: str, documents: int | None = None, keep: bool = False) -> None:
    """Run the demonstration on documents of planted subjects: `documents`, or five times the limit."""
    started = time.perf_counter()
    probe = Library(1)
    library = Library(documents or max(20_000, round(_TIMES * memory / (8 * probe.nnz))))
    names, words = library.names(), library.vocabulary()
    k = len(names)
    folder = make_directory(output, 4 * library.nnz + 8 * k * len(words))
    path, out = str(folder / "documents.zarr"), str(folder / "topics.zarr")
    say(
        f"Writing {library.documents:,} documents of about {library.length} words, of a vocabulary of "
        f"{len(words)}; each mixes one or two of {k} subjects: {', '.join(names[:3])}, ..."
    )
    start = time.perf_counter()
    counts = _written(library.documents, path)
    try:
        say(
            f"  {_core.format_bytes(counts.nbytes)} as SciPy would hold them, "
            f"{counts.nbytes / memory:.1f} times the limit of {_core.format_bytes(memory)}; "
            f"{_core.format_bytes(counts.stored_bytes)} packed on disk, written in "
            f"{format_seconds(time.perf_counter() - start)}."
        )
        code = (
            "import sys; from flagstone._demo.documents import scikit_learns; "
            "scikit_learns(sys.argv[1], int(sys.argv[2]))"
        )
        run_capped("scikit-learn's LDA", code, [path, str(k)], memory)
        with Runtime(memory=memory) as runtime:
            seen, held = hold_out("demo", counts, _HELD, 0)
            plan = topics.plan(seen, k, out=out)
            say(f"Ours, within {_core.format_bytes(memory)}. Plan, before anything is read:")
            say(indented(str(plan)))
            with Bar("topics", plan, memory) as bar:
                runtime.progress = bar.update
                found = topics(seen, k, out=out)
            runtime.progress = False
            done = stats()
            told = numbers(found, counts, held, words)
            say(table(told))
            say("Predicted against actual (peak memory: the kernel's VmHWM during the call):")
            say(comparison(plan, done))
            pairs = matched(np.asarray(found.topics), library.topics())
            say("What was planted, and what was found (error: sum of differences; 0: the same, 2: no word):")
            say(_beside(told, pairs, names))
            planted = {names[p]: {"topic": f, "error": error} for f, p, error in pairs}
            title = f"{library.documents:,} documents within {_core.format_bytes(memory)} of memory"
            picture, _ = write_topics(out, found, told | {"planted": planted}, title)
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)
    say(
        f"Mean error {np.mean([error for _, _, error in pairs]):.3f}. Picture: {picture}    "
        f"results: {out}    "
        f"{format_seconds(time.perf_counter() - started)} in all."
    )
