"""Numbers of a CSV file: to Zarr within the limit, against pandas and pyarrow, which read it into memory.

Normal numbers with 17 digits, 100 columns with names, written by pyarrow. Everybody runs in a fresh process,
in turn; medians. The file lies in the page cache: what is measured is parsing (and writing the array, which
the others do not).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def convert(source: str, target: str, memory: str) -> dict:
    import flagstone as fl
    from flagstone._formats.text import csv  # noqa: F401 - the code is there, as that of the others is

    with fl.Runtime(memory=memory), harness.measured() as run:
        fl.convert(source, target, overwrite=True)
    x = fl.open(target)
    return vars(run) | {"sum": float(x[:100].sum()), "rows": x.shape[0], "peak": fl.stats().peak_memory}


def by_pandas(source: str, memory: str) -> dict:
    import pandas as pd

    with harness.measured() as run:
        table = pd.read_csv(source)
    return vars(run) | {"sum": float(table[:100].to_numpy().sum()), "rows": len(table)}


def by_pyarrow(source: str, memory: str) -> dict:
    import pyarrow.csv

    with harness.measured() as run:
        table = pyarrow.csv.read_csv(source)
    first = table.slice(0, 100).to_pandas().to_numpy()
    return vars(run) | {"sum": float(first.sum()), "rows": table.num_rows}


def made(place: Path, mb: int, columns: int, seed: int) -> Path:
    """Write a file of about so many megabytes, by blocks."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    rng, rows = np.random.default_rng(seed), 20_000
    names = [f"c{j}" for j in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pyarrow.csv.CSVWriter(place, schema) as file:
        while place.stat().st_size < mb * 1_000_000:
            block = rng.standard_normal((columns, min(rows, 1 + mb * 1_000_000 // (20 * columns))))
            file.write_table(pa.table(dict(zip(names, block, strict=True)), schema))
    return place


def run() -> int:
    args = harness.options(
        __doc__, mb=(1000, 5), columns=(100, 20), seed=(1, 1), rounds=(5, 1), memory=("256MiB", "256MiB")
    )
    source = made(args.data / "csv.csv", args.mb, args.columns, args.seed)
    target = args.data / "csv.zarr"
    child = partial(harness.child, __file__, timeout=args.timeout, memory=args.memory, source=source)
    runs = {
        "flagstone": partial(child, convert, target=target),
        "pandas": partial(child, by_pandas),
        "pyarrow": partial(child, by_pyarrow),
    }
    for one in runs.values():
        one()  # the file and the libraries are in the page cache
    results = harness.alternate(args.rounds, runs, cold=False)
    for other in ("pandas", "pyarrow"):
        assert results[other][0]["rows"] == results["flagstone"][0]["rows"]
    found = {name: one[0]["sum"] for name, one in results.items()}
    assert max(found.values()) - min(found.values()) < 1e-9, f"the first rows sum to {found}"
    rows = [shown(args, results, "pandas", ">= 3"), shown(args, results, "pyarrow", ">= 0.9")]
    harness.remove(source, target)
    return harness.report(__file__, args, rows, runs=results)


def shown(args, results: dict, other: str, target: str) -> harness.Row:
    ours, theirs = harness.median(results["flagstone"]), harness.median(results[other])
    what = f"CSV of {args.mb} MB, {args.columns} columns, to Zarr in {args.memory}: times as fast as {other}"
    return harness.figure(what, f"{ours:.2f} s", f"{theirs:.2f} s", theirs / ours, target, args.full_size)


if __name__ == "__main__":
    harness.main(__file__, run, convert, by_pandas, by_pyarrow)
