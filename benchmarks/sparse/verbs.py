"""What is done with one matrix of random values, against SciPy (and MKL) in memory.

``--only transposed,gram,gemv,turn,cosines,bytes`` chooses: Aᵀ X; Aᵀ(A X) ÷ A X and its first call ÷ the
second; the least memory of both for four times the columns; A x; A turned round (csrcsc); the ten
largest cosines of each row; bytes a stored value of every layout. A and what is written lie on disk,
caches are dropped before each run. SciPy holds its operands in memory, without a limit, on one thread;
with ``--mkl PYTHON`` (the Python of an environment with SciPy and sparse_dot_mkl) MKL runs beside it,
with ``--graphblas PYTHON`` (SciPy and python-graphblas) SuiteSparse:GraphBLAS on all processors, with
``--topn PYTHON`` (SciPy and sparse_dot_topn) the peer of the cosines. The default takes two minutes;
the targets' size is ``--rows 1048576 --cols 131072 --share 1e-3 --memory 1GiB``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.sparse.csrmm import blocks

ALL = "transposed,gram,gemv,turn,cosines,bytes"


def least(folder: str, a, what: str, memory: str, width: int) -> dict:
    """The least memory of 4 times the columns, X on disk; the sums in float64, a panel of X and 160 MiB."""
    import flagstone as fl

    shape = (a.shape[1 if what == "gram" else 0], 4 * width)
    x = fl.create(f"{folder}/x.zarr", shape, "float32", overwrite=True)
    with fl.Runtime(memory):
        plan = a.gram.plan(x) if what == "gram" else fl.matmul.plan(a.T, x)
    panel = min(a.shape[0], max(1, (2 << 20) * a.shape[0] // max(1, a.nnz)))  # rows of two million values
    held = 4 * width * (8 * a.shape[1] + 4 * panel) + (160 << 20)
    return {"least": plan.least_memory, "allowed": held}


def ours(folder: str, what: str, memory: str, width: int) -> dict:
    """One routine of ours; gram is measured three times, A X beside it."""
    import numpy as np

    import flagstone as fl

    a = fl.open(f"{folder}/a.zarr")
    rng = np.random.default_rng(3)
    told = {"nnz": a.nnz, "stored_bytes": a.stored_bytes}
    if what in ("transposed", "gram"):
        told |= least(folder, a, what, memory, width)
    with fl.Runtime(memory):
        if what == "gram":
            x = rng.random((a.shape[1], 4 * width), "f4")
            seconds = []
            for _ in range(3):
                with harness.measured() as run:
                    a.gram(x)
                seconds.append(run.seconds)
            with harness.measured() as plain:
                a @ x
            return (
                vars(run) | told | {"first": seconds[0], "seconds": min(seconds[1:]), "plain": plain.seconds}
            )
        x = {
            "transposed": lambda: rng.random((a.shape[0], width), "f4"),
            "gemv": lambda: rng.random(a.shape[1], "f4"),
        }.get(what, lambda: None)()
        with harness.measured() as run:
            if what == "transposed":
                a.T @ x
            elif what == "gemv":
                a @ x
            elif what == "turn":
                fl.transpose(a, out=f"{folder}/turned.zarr")
            else:
                fl.matmul(a, a.T, top=10, out=f"{folder}/top.zarr")
        return vars(run) | told | {"stats": fl.stats().as_dict()}


def graphblas(a, x, what: str) -> dict:
    """SuiteSparse:GraphBLAS; its own matrices are made before."""
    import time

    import graphblas as gb

    matrix = gb.io.from_scipy_sparse(a)
    matrix.wait("materialize")
    other = gb.Matrix.from_dense(x) if what == "transposed" else gb.Vector.from_dense(x)
    start = time.perf_counter()
    if what == "turn":
        made = matrix.T.new()
    elif what == "transposed":
        made = matrix.T.mxm(other, gb.semiring.plus_times).new()
    else:
        made = matrix.mxv(other, gb.semiring.plus_times).new()
    made.wait("materialize")
    seconds, version = time.perf_counter() - start, gb.ss.about["library_version"]
    return {"seconds": seconds, "version": ".".join(map(str, version)), "threads": gb.ss.config["nthreads"]}


def in_memory(folder: str, what: str, width: int, peer: str) -> dict:
    """The same of a peer: SciPy, MKL, GraphBLAS, sparse_dot_topn; its matrix comes from a .npz file."""
    import time

    import numpy as np
    import scipy.sparse as sp

    a = sp.load_npz(f"{folder}/a.npz").tocsr()
    rng = np.random.default_rng(3)
    x = rng.random((a.shape[0], width), "f4") if what == "transposed" else rng.random(a.shape[1], "f4")
    if peer == "GraphBLAS":
        return graphblas(a, x, what)
    if peer == "MKL":
        from sparse_dot_mkl import dot_product_mkl as product
    elif peer == "topn":
        from sparse_dot_topn import sp_matmul_topn

        turned = a.T.tocsr()
    else:

        def product(one, other):
            return one @ other

    start = time.perf_counter()
    if what == "turn":
        a.tocsc()
    elif what == "cosines":
        sp_matmul_topn(a, turned, top_n=10, sort=True, n_threads=2)
    else:
        product(
            a.T.tocsr() if peer == "MKL" and what == "transposed" else a.T if what == "transposed" else a, x
        )
    return {"seconds": time.perf_counter() - start}


def raw_read(folder: str) -> dict:
    """The disk's own time for A: its files read past the page cache, eight requests of 1 MiB at a time."""
    import mmap
    import os
    import time
    from concurrent.futures import ThreadPoolExecutor

    step = 1 << 20
    files = [p for p in Path(folder, "a.zarr").rglob("*") if p.is_file() and p.stat().st_size >= step]
    opened = [os.open(p, os.O_RDONLY | os.O_DIRECT) for p in files]
    parts = [(f, at) for f in opened for at in range(0, os.fstat(f).st_size, step)]

    def read(some: list) -> int:
        buffer = mmap.mmap(-1, step)  # aligned to pages
        return sum(os.preadv(f, [buffer], at) for f, at in some)

    start = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        nbytes = sum(pool.map(read, [parts[i::8] for i in range(8)]))
    seconds = time.perf_counter() - start
    for f in opened:
        os.close(f)
    return {"seconds": seconds, "bytes": nbytes}


def layouts(folder: str) -> dict:
    """Bytes a stored value of counts of words and of a random graph, as each layout has them."""
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(5)
    n = 1 << 20
    number = 20 * n if Path(folder, "full").exists() else 1 << 18
    edges = rng.integers(0, n if number > n else 1 << 14, (2, number))
    graph = fl.from_coo(tuple(edges), symmetric=True, duplicates="first", layout="triangle+pattern+bitpacked")
    words = fl.from_blocks(_bags(rng, 140_000, 200 if number > n else 4), dtype="uint8")
    found = {"graph": graph.stored_bytes / graph.nnz, "words": words.stored_bytes / words.nnz, "seconds": 0.0}
    fl.convert(words, f"{folder}/words.zarr", layout="bitpacked")
    packed = fl.open(f"{folder}/words.zarr")
    return found | {"packed words": packed.stored_bytes / packed.nnz}


def _bags(rng, words: int, blocks_: int):
    """Documents of about 120 different words drawn by Zipf's law, counted."""
    import numpy as np
    import scipy.sparse as sp

    share = 1 / np.arange(1, words + 1) ** 1.05
    ends = np.cumsum(share / share.sum())
    for _ in range(blocks_):
        drawn = np.searchsorted(ends, rng.random((2000, 200)))
        rows = np.repeat(np.arange(2000), 200)
        yield sp.coo_matrix((np.ones(drawn.size, "u1"), (rows, drawn.ravel())), (2000, words)).tocsr()


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(1 << 17, 3000),
        cols=(1 << 16, 2000),
        share=(1e-3, 1e-2),
        width=(64, 8),
        memory=("1GiB", "512MiB"),
        rounds=(3, 1),
        only=(ALL, ALL),
        mkl=("", ""),
        topn=("", ""),
        graphblas=("", ""),
    )
    import scipy.sparse as sp

    import flagstone as fl

    folder = args.data / "verbs"
    harness.remove(folder)
    folder.mkdir()
    rows, results = [], {}
    only = args.only.split(",")
    try:
        made = list(blocks(args.rows, args.cols, args.share))
        fl.from_blocks(made, folder / "a.zarr")
        sp.save_npz(folder / "a.npz", sp.vstack(made).tocsr(), compressed=False)
        del made
        if args.full_size:
            (folder / "full").touch()
        one = partial(harness.child, __file__, timeout=args.timeout, folder=str(folder))
        for what in only:
            if what == "bytes":
                results[what] = [one(layouts)]
                rows += _bytes(results[what][0], args.full_size)
                continue
            runs = {"flagstone": partial(one, ours, what=what, memory=args.memory, width=args.width)}
            if what == "gemv":
                runs["disk"] = partial(one, raw_read)
            if what in ("transposed", "gemv", "turn"):
                runs["SciPy"] = partial(one, in_memory, what=what, width=args.width, peer="SciPy")
            for name, python in (("MKL", args.mkl), ("topn", args.topn), ("GraphBLAS", args.graphblas)):
                beside = ("gram",) if name == "GraphBLAS" else ("gram", "turn")
                if python and (what == "cosines") == (name == "topn") and what not in beside:
                    runs[name] = partial(
                        one, in_memory, what=what, width=args.width, peer=name, python=python
                    )
            found = results[what] = harness.alternate(args.rounds, runs, [folder])
            rows += _figures(what, found, args)
            for written in ("turned.zarr", "top.zarr"):
                harness.remove(folder / written)
    finally:
        if not args.keep:
            harness.remove(folder)
    return harness.report(__file__, args, rows, runs=results)


def _bytes(found: dict, judged: bool) -> list:
    return [
        harness.figure(
            "bytes a stored value, counts of 140,000 words, bitpacked",
            f"{found['packed words']:.2f}",
            f"csr {found['words']:.2f}",
            found["packed words"],
            "<= 2.5",
            judged,
        ),
        harness.figure(
            "the same, random graph of 2^20 vertices, one triangle, pattern, bitpacked",
            f"{found['graph']:.2f}",
            "entropy 2.0",
            found["graph"],
            "<= 2.6",
            judged,
        ),
    ]


def _figures(what: str, found: dict, args) -> list:
    seconds = {name: harness.median(runs) for name, runs in found.items()}
    first, judged = found["flagstone"][0], args.full_size
    name = f"{what}, {args.rows} x {args.cols}, {first['nnz']:,} values"
    rows = []
    if "least" in first:
        rows.append(
            harness.figure(
                f"{name}: least memory ÷ (sums in float64 + a panel + 160 MiB), {4 * args.width} columns",
                f"{first['least'] >> 20} MiB",
                f"{first['allowed'] >> 20} MiB",
                first["least"] / first["allowed"],
                "<= 1.0",
                judged,
            )
        )
    if what == "gram":
        plain, begun = (harness.median(found["flagstone"], key) for key in ("plain", "first"))
        return [
            *rows,
            harness.figure(
                f"{name}: Aᵀ(A X) ÷ A X, {4 * args.width} columns",
                f"{seconds['flagstone']:.2f} s",
                f"{plain:.2f} s",
                seconds["flagstone"] / plain,
                "<= 2.3",
                judged,
            ),
            harness.figure(
                f"{name}: first call ÷ second",
                f"{begun:.2f} s",
                f"{seconds['flagstone']:.2f} s",
                begun / seconds["flagstone"],
                "<= 1.3",
                judged,
            ),
        ]
    if what == "gemv":  # a product of one vector can be no faster than A comes from the disk
        peers = {peer: time for peer, time in seconds.items() if peer != "flagstone"}
        slowest = max(seconds["disk"], min(time for peer, time in peers.items() if peer != "disk"))
        told = ", ".join(f"{peer} {time:.2f} s" for peer, time in peers.items())
        return [
            harness.figure(
                f"{name}: ours ÷ max(best peer in memory, A from the disk)",
                f"{seconds['flagstone']:.2f} s",
                told,
                seconds["flagstone"] / slowest,
                "<= 1.3",
                judged,
            )
        ]
    target = {"transposed": ">= 1.5", "turn": ">= 1.2", "cosines": ">= 1.0"}[what]
    for peer in found:
        if peer != "flagstone":
            rows.append(
                harness.figure(
                    f"{name}: {peer} in memory ÷ ours",
                    f"{seconds['flagstone']:.2f} s",
                    f"{seconds[peer]:.2f} s",
                    seconds[peer] / seconds["flagstone"],
                    target,
                    judged,
                )
            )
    if what == "turn":
        stats = first["stats"]
        least = 2 * first["stored_bytes"] + 16 * first["nnz"]
        moved = stats["bytes_read"] + stats["bytes_written"]
        rows.append(
            harness.figure(
                f"{name}: bytes ÷ (A and Aᵀ once + 16 a value)",
                f"{moved >> 20} MiB",
                f"{least >> 20} MiB",
                moved / least,
                "<= 1.1",
                judged,
            )
        )
    if not rows:
        harness.note(f"{what}: no peer is named; {seconds['flagstone']:.2f} s of ours")
    return rows


if __name__ == "__main__":
    harness.main(__file__, run, ours, in_memory, raw_read, layouts)
