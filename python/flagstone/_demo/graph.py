"""The demonstration of graphs: edges as text, mapped within a limit, beside SciPy under the same cap."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import numpy as np

from .. import _core
from .._edges.edges import open_graph
from .._graph.embedding import spectral_embedding
from .._graph.result import EmbeddingResult
from .._runtime.plan import comparison, format_seconds
from .._runtime.progress import Bar
from .._runtime.runtime import Runtime, stats
from .._sparse.array import SparseArray
from .._terminal.graph_map import gap_of, write_map
from .agreement import adjusted_mutual_information
from .capped import run_apart, run_capped, say
from .communities import Communities
from .demo import indented, make_directory

__all__ = ["run_edges", "run_graph", "scipys", "write_edges"]

_DEGREE = 400  # edges' ends a vertex: what is planted stands clear of the noise
_MORE = 1  # pair beyond the communities, so that the gap of the spectrum is seen
_LINE = 16  # bytes of text
_TOL = 0.05  # the pair beyond the gap lies at the edge of the noise, whose values are close together


def scipys(path: str, k: int) -> None:
    """Map the graph as SciPy's users do; runs in the capped child."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import eigsh

    start = time.perf_counter()
    text = not path.endswith(".npy")
    edges = np.loadtxt(path, np.int64, comments=["#", "%"]) if text else np.load(path)
    edges = edges[:, :2]
    _, dense = np.unique(edges, return_inverse=True)
    one, other = dense.reshape(edges.shape).T
    n = int(dense.max()) + 1
    a = sp.coo_array((np.ones(len(one)), (one, other)), (n, n)).tocsr()
    a = ((a + a.T) > 0).astype(np.float64)
    a.setdiag(0)
    _, labels = connected_components(a)
    keep = np.flatnonzero(labels == np.bincount(labels).argmax())
    a = a[keep][:, keep]
    root = sp.diags_array(1 / np.sqrt(a.sum(axis=1)))
    loaded = time.perf_counter()
    eigsh(root @ a @ root, k, which="LA", tol=_TOL)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"loaded in {format_seconds(loaded - start)}, {k} pairs in "
        f"{format_seconds(time.perf_counter() - loaded)}, peak {_core.format_bytes(peak)}"
    )


def try_scipy(path: str, k: int, memory: int) -> bool:
    """Run SciPy under the cap, say what happened and whether it finished."""
    code = "import sys; from flagstone._demo.graph import scipys; scipys(sys.argv[1], int(sys.argv[2]))"
    return run_capped("SciPy", code, [path, str(k)], memory)


def write_edges(edges: int, vertices: int, path: str) -> None:
    """Write the text."""
    with open(path, "wb") as file:
        for lines in Communities(edges, vertices).lines():
            file.write(lines)


def _written(graph: Communities, path: Path) -> None:
    code = (
        "import sys; from flagstone._demo.graph import write_edges; "
        "write_edges(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"
    )
    run_apart("edges", code, [str(graph.edges), str(graph.vertices), str(path)])


def _mapped(
    path: str, k: int, memory: int, out: str, clusters: int | None = None
) -> tuple[SparseArray, EmbeddingResult]:
    """Import, print the plan, run with the bar, print predicted against actual."""
    with Runtime(memory=memory) as runtime:
        start = time.perf_counter()
        with Bar("edges", None, memory) as bar:
            runtime.progress = bar.update
            matrix = open_graph(path)
        runtime.progress = False
        say(
            f"  sorted into {matrix.shape[0]:,} vertices and {matrix.stored_values:,} stored values in "
            f"{format_seconds(time.perf_counter() - start)}; {_core.format_bytes(matrix.stored_bytes)} on "
            "disk."
        )
        plan = spectral_embedding.plan(matrix, k, clusters=clusters, tol=_TOL, out=out)
        say("Plan, before the matrix is read:")
        say(indented(str(plan)))
        with Bar("embed", plan, memory) as bar:
            runtime.progress = bar.update
            found = spectral_embedding(matrix, k, clusters=clusters, tol=_TOL, out=out)
        runtime.progress = False
        done = stats()
    say("Predicted against actual (peak memory: the kernel's VmHWM during the call):")
    say(comparison(plan, done))
    say(f"The graph: {found.told}. Residuals are at most {found.residual.max():.1e}.")
    if gap := gap_of(found.w):
        step = found.w[gap - 1] - found.w[gap]
        say(f"The largest gap of the spectrum, {step:.3g}, comes after {gap} values.")
    return matrix, found


def run_graph(memory: int, output: str, edges: int, keep: bool = False) -> None:
    """Run the demonstration on planted communities."""
    started = time.perf_counter()
    graph = Communities(edges, max(400, 2 * edges // _DEGREE))
    k = graph.communities + _MORE
    # The text, its columns as they are sorted, the matrix: 90 bytes an edge.
    folder = make_directory(output, (90 + _LINE) * edges)
    path, out = folder / "edges.txt", str(folder / "map.zarr")
    say(
        f"Writing {edges / 1e6:g} million edges of {graph.vertices:,} vertices in {graph.communities} "
        f"communities, {graph.inside:.0%} of them inside one ..."
    )
    start = time.perf_counter()
    _written(graph, path)
    try:
        size = os.path.getsize(path)
        say(
            f"  {_core.format_bytes(size)} of text, written in {format_seconds(time.perf_counter() - start)}."
        )
        try_scipy(str(path), k, memory)
        begun = time.perf_counter()
        say(f"Ours, within {_core.format_bytes(memory)}:")
        matrix, found = _mapped(str(path), k, memory, out, graph.communities)
        taken = time.perf_counter() - begun
        truth = graph.labels()[graph.vertices_of(np.asarray(found.ids))]
        agreement = adjusted_mutual_information(truth, found.clusters)
        say(f"Adjusted mutual information with the planted communities: {agreement:.3f} (chance: 0).")
        title = f"{edges / 1e6:g} million edges within {_core.format_bytes(memory)} of memory"
        picture = write_map(out, matrix, found, title, "demo")
    finally:
        if not keep:
            path.unlink(missing_ok=True)
    say(
        f"Picture: {picture}    results: {out}    {format_seconds(taken)} from text to map, "
        f"{format_seconds(time.perf_counter() - started)} in all."
    )


def run_edges(source: str, k: int, memory: int, output: str) -> None:
    """Run the demonstration on the user's own list of edges."""
    folder = make_directory(output, os.path.getsize(source) if os.path.exists(source) else 0)
    try_scipy(source, k, memory)
    out = str(folder / f"{Path(source).name.partition('.')[0]}-map.zarr")
    matrix, found = _mapped(source, k, memory, out)
    picture = write_map(out, matrix, found, f"{Path(source).name}: {found.told}", "demo")
    say(f"Picture: {picture}    results: {out}")
