"""Files of others: PCA of an .h5ad in place against our packed CSR; how fast .npz, .mtx and text come in.

The matrix is that of pca.py (an uncompressed .npz). The .h5ad holds it as AnnData writes it without
compression; both are computed on in fresh processes in turn, medians. An import's bytes are the file's; the
raw rates are those of fio, 1 MiB blocks at depth 16. Caches dropped.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.sparse import pca
from benchmarks.storage import ring


def decompose(path: str, k: int, memory: str) -> dict:
    import flagstone as fl

    x = fl.open(path)
    with fl.Runtime(memory=memory), harness.measured() as run:
        found = fl.pca(x, k)
    return {**vars(run), "sigma": found.singular_values.tolist(), "stats": fl.stats().as_dict()}


def convert(source: str, target: str, memory: str) -> dict:
    import flagstone as fl

    with fl.Runtime(memory=memory), harness.measured() as run:
        fl.convert(source, target, overwrite=True)
    return vars(run) | {"bytes": Path(source).stat().st_size}


def bring(source: str, memory: str) -> dict:
    """Import into an empty scratch directory."""
    import tempfile

    import flagstone as fl

    with (
        tempfile.TemporaryDirectory(dir=Path(source).parent) as scratch,
        fl.Runtime(memory=memory, scratch=scratch),
        harness.measured() as run,
    ):
        fl.open(source)
    return vars(run) | {"bytes": Path(source).stat().st_size}


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(400_000, 10_000),
        cols=(5_000, 600),
        k=(50, 10),
        seed=(0, 0),
        rounds=(3, 1),
        memory=("512MiB", "512MiB"),
        text_rows=(20_000, 1_000),
        gib=(4.0, 0.125),
    )
    npz = pca.matrix(args)
    h5ad = args.data / "formats.h5ad"
    mtx, part = args.data / "formats.mtx", args.data / "formats-part.npz"
    child = partial(harness.child, __file__, timeout=args.timeout, memory=args.memory)
    harness.remove(h5ad)
    child(convert, source=npz, target=h5ad)
    child(decompose, path=npz, k=args.k)  # imports into scratch
    text(npz, part, mtx, args.text_rows)
    runs = {
        "packed": partial(child, decompose, path=npz, k=args.k),
        "h5ad": partial(child, decompose, path=h5ad, k=args.k),
        "npz": partial(child, bring, source=npz),
        "mtx": partial(child, bring, source=mtx),
    }
    results = harness.alternate(args.rounds, runs, [npz, h5ad, mtx])
    first, second = results["packed"][0]["sigma"][0], results["h5ad"][0]["sigma"][0]
    assert abs(first - second) < 1e-5 * first, f"PCA in place: σ₁ is {second}, packed {first}"
    rows = [shown_pca(args, results)]
    if shutil.which("fio"):
        raw = {kind: rate(args, kind) for kind in ("read", "write")}
        rows += [shown_import(args, results, raw, "npz"), shown_import(args, results, raw, "mtx")]
    else:
        harness.note("formats: fio was not found; the rates of imports have nothing to be compared with.")
    harness.remove(h5ad, mtx, part)
    return harness.report(__file__, args, rows, runs=results)


def text(npz: str, part: Path, mtx: Path, rows: int) -> None:
    """The first rows as MatrixMarket, by SciPy."""
    import scipy.io
    import scipy.sparse as sp

    scipy.io.mmwrite(mtx, sp.load_npz(npz).tocsr()[:rows], field="integer")


def rate(args, kind: str) -> float:
    file = args.data / "formats-fio"
    engine = ring.fio_engine(args.data)
    try:
        ring.fio("write", file, args.gib, "1m", "16", engine, args.timeout)
        return ring.fio(kind, file, args.gib, "1m", "16", engine, args.timeout)["rate"]
    finally:
        harness.remove(file)


def shown_pca(args, results: dict) -> harness.Row:
    place, packed = harness.median(results["h5ad"]), harness.median(results["packed"])
    what = f"PCA (k = {args.k}) of an uncompressed .h5ad in place, seconds ÷ packed CSR"
    return harness.figure(what, f"{place:.1f} s", f"{packed:.1f} s", place / packed, "<= 1.5", args.full_size)


def shown_import(args, results: dict, raw: dict, kind: str) -> harness.Row:
    seconds, nbytes = harness.median(results[kind]), results[kind][0]["bytes"]
    least = min(raw.values())
    what = f"import of .{kind} ({nbytes / 1e6:.0f} MB) to packed CSR: bytes a second ÷ slower of read, write"
    shown = f"{nbytes / seconds / 1e9:.2f} GB/s", f"{least / 1e9:.2f} GB/s (fio)"
    target = ">= 0.5" if kind == "npz" else ">= 0"
    return harness.figure(what, *shown, nbytes / seconds / least, target, args.full_size)


if __name__ == "__main__":
    harness.main(__file__, run, decompose, convert, bring)
