"""Edges to CSR, breadth-first search and what a frontier reads, against SciPy in memory.

``--only edges,search`` chooses. Edges: pairs of random ids, 5 % of them twice, unsorted in a ``.npy``, to CSR
in 256 MiB, against ``coo_matrix(…).tocsr()``. Search: levels from one vertex of a random graph whose vertices
lie near their neighbours, in a quarter of its CSR; bytes that a hundred vertices read ÷ the stored chunks
that hold their rows. SciPy holds everything in memory, without a limit. The default takes a minute; the
targets' size is ``--edges 100000000 --vertices 4194304``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

STEP = 1 << 22


def make(path: str, edges: int, vertices: int, near: int) -> dict:
    """Writes pairs of ids; `near`: targets lie at most so far away, 0: anywhere."""
    import numpy as np

    rng = np.random.default_rng(1)
    with harness.measured() as run:
        to = np.lib.format.open_memmap(path, "w+", "i8", (edges, 2))
        for first in range(0, edges, STEP):
            number = min(STEP, edges - first)
            source = rng.integers(0, vertices, number)
            target = (
                rng.integers(0, vertices, number)
                if not near
                else (source + rng.integers(1, near, number)) % vertices
            )
            twice = number // 20
            source[-twice:], target[-twice:] = source[:twice], target[:twice]
            to[first : first + number, 0], to[first : first + number, 1] = source, target
        to.flush()
    return vars(run)


def opened(path: str, memory: str) -> dict:
    import flagstone as fl

    with harness.measured() as run:
        a = fl.open_edges(path, memory=memory)
    return vars(run) | {"nnz": a.nnz}


def in_memory(path: str) -> dict:
    import numpy as np
    import scipy.sparse as sp

    with harness.measured() as run:
        edges = np.load(path)
        a = sp.coo_matrix((np.ones(len(edges), "i4"), (edges[:, 0], edges[:, 1]))).tocsr()
    return vars(run) | {"nnz": int(a.nnz)}


def search(path: str, share: float) -> dict:
    """Levels of all vertices as examples/breadth_first.py finds them, then what a frontier of 100 reads."""
    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl
    from examples.breadth_first import levels

    a = fl.open_edges(path, symmetric=True, duplicates="first")
    n = a.shape[0]
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    limit = resident + (96 << 20) + int(share * a.nbytes) + 40 * n
    with harness.measured() as run, fl.Runtime(limit):
        found = levels(a, 0)
    few = np.sort(np.random.default_rng(0).choice(max(200, n // 100), 100, replace=False))
    x = sp.csr_matrix((np.ones(100, bool), (few, np.zeros(100, int))), (n, 1))
    fl.matmul(a.T, x, semiring="or_and")
    read = fl.stats().bytes_read
    pointers = fl.open(f"{a.path}/indptr")[...]
    chunks = set()
    for row in few:
        chunks.update(range(int(pointers[row]) >> 19, (int(pointers[row + 1]) - 1 >> 19) + 1))
    held = len(chunks) * (a.stored_bytes / max(1, -(-a.nnz >> 19)))
    return vars(run) | {
        "stored": a.stored_bytes,
        "levels": int(found.max()),
        "sum": int(found.sum()),
        "read": read,
        "held": held,
    }


def search_in_memory(path: str) -> dict:
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    edges = np.load(path)
    n = int(edges.max()) + 1
    a = sp.coo_matrix((np.ones(len(edges), "i4"), (edges[:, 0], edges[:, 1])), (n, n)).tocsr()
    a = (a + a.T).tocsr()
    with harness.measured() as run:
        order, before = breadth_first_order(a, 0)
    levels = np.full(n, -1)
    levels[0] = 0
    for vertex in order[1:]:
        levels[vertex] = levels[before[vertex]] + 1
    return vars(run) | {"levels": int(levels.max()), "sum": int(levels.sum())}


def run() -> int:
    args = harness.options(
        __doc__,
        edges=(4_000_000, 60_000),
        vertices=(1 << 18, 4000),
        memory=("256MiB", "256MiB"),
        rounds=(3, 1),
        only=("edges,search", "edges,search"),
        disk=(2e9, 2e9),
    )
    path = args.data / "edges.npy"
    child = partial(harness.child, __file__, timeout=args.timeout)
    rows, results = [], {}
    judged = args.full_size
    try:
        for what in args.only.split(","):
            near = 0 if what == "edges" else max(64, args.vertices // 64)
            child(make, path=path, edges=args.edges, vertices=args.vertices, near=near)
            if what == "edges":
                runs = {
                    "flagstone": partial(child, opened, path=path, memory=args.memory),
                    "SciPy": partial(child, in_memory, path=path),
                }
            else:
                runs = {
                    "flagstone": partial(child, search, path=path, share=0.25),
                    "SciPy": partial(child, search_in_memory, path=path),
                }
            found = results[what] = harness.alternate(args.rounds, runs, [path])
            ours, theirs = (harness.median(found[name]) for name in ("flagstone", "SciPy"))
            first, peer = found["flagstone"][0], found["SciPy"][0]
            if what == "edges":
                assert first["nnz"] == peer["nnz"], "the matrices differ"
                rows.append(
                    harness.figure(
                        f"{args.edges:,} edges to CSR, {args.memory}: SciPy in memory ÷ ours",
                        f"{ours:.2f} s",
                        f"{theirs:.2f} s",
                        theirs / ours,
                        ">= 1.3",
                        judged,
                    )
                )
                continue
            assert (first["levels"], first["sum"]) == (peer["levels"], peer["sum"]), "the levels differ"
            allowed = theirs + 3 * first["stored"] / args.disk
            rows += [
                harness.figure(
                    f"breadth-first search, {args.edges:,} edges, a quarter: time ÷ (SciPy + 3 reads)",
                    f"{ours:.2f} s",
                    f"{allowed:.2f} s",
                    ours / allowed,
                    "<= 1.5",
                    judged,
                ),
                harness.figure(
                    "bytes read for 100 vertices ÷ the stored chunks of their rows",
                    f"{first['read'] >> 10} KiB",
                    f"{int(first['held']) >> 10} KiB",
                    first["read"] / first["held"],
                    "<= 1.2",
                    judged,
                ),
            ]
    finally:
        if not args.keep:
            harness.remove(path)
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, opened, in_memory, search, search_in_memory)
