"""Runs cases of entries, each entry in a process of its own, and prints what each held.

A line of standard input names an entry and its cases (JSON). Its process is forked from this one, which has
imported and warmed up what a first call would: that takes 2 s of a processor, a fork a hundredth of it. No
worker of ours has started before a fork; OpenBLAS and Arrow end and restart theirs around it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import flagstone as fl
from tests.support.processes import peak_memory, reset_peak
from tests.support.register import ENTRIES

MiB = 1 << 20
STEP = 2 * MiB
#: What calls load late: their pages would count as what a call holds.
LATE = (
    "gzip",
    "h5py",
    "numpy.lib.format",
    "numpy.ma",
    "pyarrow.parquet",
    "scipy.sparse",
    "scipy.sparse.linalg",
)


def load_modules() -> None:
    """Import what a first call would import."""
    for name in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    warm_up()
    for module in pkgutil.walk_packages(fl.__path__, "flagstone."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    fl._core.trim()  # what the heap keeps would hide what calls take


def warm_up() -> None:
    """Let libraries make what they keep: thread pools, packing buffers of BLAS, the code that they run."""
    for dtype in ("float32", "float64"):
        np.ones((20_000, 96), dtype) @ np.ones((96, 5), dtype)
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({f"c{i}": np.ones(50_000, "float32") for i in range(16)})
        place = io.BytesIO()
        pyarrow.parquet.write_table(table, place, use_dictionary=False, row_group_size=20_000)
        pyarrow.parquet.read_table(io.BytesIO(place.getvalue()))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.subplots().imshow(np.eye(64))
    figure.savefig(io.BytesIO(), format="png")


def field(file: str, name: str) -> int:
    """A number of /proc/self."""
    lines = Path(f"/proc/self/{file}").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def settled() -> int:
    """Resident bytes without what is kept for the next result, which any call that needs room takes back."""
    gc.collect()
    fl._core.release_pages()
    return field("status", "VmRSS") << 10


def moved() -> int:
    """Bytes of files: read past the page cache and through it, and written."""
    return sum(field("io", name) for name in ("rchar", "wchar"))


def measured(name: str, variant: str, limit: int, workers: int) -> dict[str, Any]:
    """Makes the case, calls it under the limit, and says what the process held and moved."""
    call = ENTRIES[name].make(variant)
    entry = settled()
    told: dict[str, Any] = {"case": variant, "limit": limit, "workers": workers, "entry": entry}
    disk = field("io", "read_bytes") + field("io", "write_bytes")
    through = moved()
    reset_peak()
    try:
        with fl.Runtime(memory=limit, workers=workers):
            result = call()
    except fl.BudgetError as error:
        told |= {"least": error.least, "message": str(error)}
        error.__traceback__ = None
    else:
        del result
    told["peak"] = peak_memory()
    told["moved"] = moved() - through
    told["disk"] = field("io", "read_bytes") + field("io", "write_bytes") - disk
    del call
    told["after"] = settled()
    return told


def cases(name: str, variant: str, workers: int, steps: list[int] | str) -> list[dict[str, Any]]:
    """A limit that is too small, twice; then so many steps of 2 MiB above the least, up to twice that."""
    first = measured(name, variant, MiB, workers)
    refused = measured(name, variant, MiB, workers)  # again: nothing is loaded for the first time
    least = refused.get("least", 2 * refused["entry"])
    grid = range(0, least // STEP + 1) if steps == "all" else steps
    runs = [measured(name, variant, min(least + int(k) * STEP, 2 * least), workers) for k in grid]
    return [first, refused, *runs]


def answer(name: str, asked: list[list[Any]]) -> None:
    """Run an entry's cases, print a line for each, and leave as an interpreter does."""
    try:
        warm_up()  # what is mapped from files a fork leaves out
        for case in asked:
            print(json.dumps(cases(name, *case)), flush=True)
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    load_modules()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            answer(*json.loads(line))
        print(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
