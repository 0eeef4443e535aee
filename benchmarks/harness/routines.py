"""Every public routine on operands of a chosen size, and one measured call: for limits.py and plan.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import harness

PLANNED = (
    "matmul zarr",
    "matmul npy",
    "matmul transposed",
    "matmul complex",
    "matmul numpy",
    "matmul in place",
    "pca dense gram",
    "pca dense krylov",
    "pca wide gram",
    "pca sparse gram",
    "pca sparse krylov",
)
OTHERS = (
    "sparse A @ X",
    "sparse A.T @ X",
    "sparse gram",
    "import npz",
    "from_blocks",
    "from_numpy",
    "transform",
)
ALL = ",".join((*PLANNED, *OTHERS))
EVERYTHING = 3 << 30  # a limit that holds all operands at once


def row_blocks(n: int):
    """40 n x n/2 counts of cells in twelve types, 5.6 % stored."""
    from flagstone.datasets import Cells

    for indptr, indices, data in Cells(40 * n, n // 2, seed=5).blocks():
        yield data, indices, indptr, n // 2


def prepare(folder: str, n: int, only: str) -> dict:
    """Writes into `folder` the operands of the routines `only` (names, separated by commas)."""
    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl

    to, rng, names = Path(folder), np.random.default_rng(5), only.split(",")
    if any(name.startswith("matmul") or name == "from_numpy" for name in names):
        for name, dtype in (("a", "float32"), ("b", "float32"), ("z", "complex64")):
            shape = (n - 100, n - 300) if name != "b" else (n - 300, n + 50)
            values = rng.standard_normal(shape, dtype=np.float32).astype(dtype)
            np.save(to / f"{name}.npy", values)
            fl.from_numpy(values, to / f"{name}.zarr", overwrite=True)
    if any(name == "transform" or name.startswith(("pca dense", "pca wide")) for name in names):
        slope = np.geomspace(9, 0.5, 300, dtype=np.float32)
        tall = rng.standard_normal((80 * n, 300), dtype=np.float32) * slope + slope[::-1]
        np.save(to / "tall.npy", tall)
        np.save(to / "wide.npy", np.ascontiguousarray(tall.T))
        del tall
    if any("sparse" in name or name == "import npz" for name in names):
        counts = fl.from_blocks(row_blocks(n), path=to / "cells.zarr", overwrite=True)
        sp.save_npz(to / "cells.npz", counts.to_scipy(), compressed=False)
        np.save(to / "x.npy", rng.standard_normal((n // 2, 16)))
        np.save(to / "y.npy", rng.standard_normal((40 * n, 16)))
    return {}


def routine(name: str, folder: Path, n: int) -> tuple[Callable, tuple, dict[str, Any]]:
    """The function, its arguments and options; the operands are opened but not read."""
    import numpy as np

    import flagstone as fl

    def opened(file: str):
        return fl.open(folder / file)

    out = folder / "out.zarr"
    kind, *what = name.split()
    if kind == "pca":
        source, method = what
        x = opened({"dense": "tall.npy", "wide": "wide.npy", "sparse": "cells.zarr"}[source])
        return fl.pca, (x, 12), {"method": method, "out": out}
    if name == "matmul in place":
        c = fl.create(out, (n - 100, n + 50), "float32", overwrite=True)
        return fl.matmul, (opened("a.zarr"), opened("b.npy")), {"out": c, "beta": 0.5}
    if name == "matmul transposed":
        return fl.matmul, (opened("b.npy").T, opened("a.zarr").T), {"out": out, "alpha": -2}
    if name == "matmul complex":
        return fl.matmul, (opened("z.zarr"), opened("z.npy").T.conj()), {"out": out}
    if name == "matmul numpy":
        return fl.matmul, (np.load(folder / "a.npy"), opened("b.zarr")), {"out": out}
    if kind == "matmul":
        return fl.matmul, (opened(f"a.{what[0]}"), opened(f"b.{what[0]}")), {"out": out}
    return _other(name, folder, n)


def _other(name: str, folder: Path, n: int) -> tuple[Callable, tuple, dict[str, Any]]:
    """Routines that take their limit from the Runtime."""
    import numpy as np

    import flagstone as fl

    if name == "sparse A @ X":
        return lambda a, x: a @ x, (fl.open(folder / "cells.zarr"), np.load(folder / "x.npy")), {}
    if name == "sparse A.T @ X":
        return lambda a, y: a.T @ y, (fl.open(folder / "cells.zarr"), np.load(folder / "y.npy")), {}
    if name == "sparse gram":
        return lambda a, x: a.gram(x), (fl.open(folder / "cells.zarr"), np.load(folder / "x.npy")), {}
    if name == "import npz":
        (folder / "cells.npz").touch()  # an import is keyed by the file's time
        return fl.open, (folder / "cells.npz",), {}
    if name == "from_blocks":
        return lambda: fl.from_blocks(row_blocks(n), path=folder / "out.zarr", overwrite=True), (), {}
    if name == "from_numpy":
        values = np.load(folder / "a.npy")
        return lambda a: fl.from_numpy(a, folder / "out.zarr", overwrite=True), (values,), {}
    if name == "transform":
        found = fl.pca(np.load(folder / "tall.npy", mmap_mode="r")[:5000].copy(), 5)
        return found.transform, (fl.open(folder / "tall.npy"),), {}
    raise ValueError(name)


def measure(name: str, folder: str, n: int, factor: float, planned: bool) -> dict:
    """One call, in this fresh process, at `factor` times the least accepted limit (0: everything fits)."""
    import flagstone as fl

    function, arguments, options = routine(name, Path(folder), n)
    limit, plan, once = EVERYTHING, None, None
    if factor:
        with fl.Runtime(memory="1MiB"):
            try:
                function(*arguments, **options)
                raise AssertionError(f"{name}: a limit of 1 MiB was accepted")
            except fl.BudgetError as refused:
                limit = int(refused.least * factor)
    with fl.Runtime(memory=limit):
        if planned:
            plan = function.plan(*arguments, **options).as_dict()
            with fl.Runtime(memory=EVERYTHING):
                once = function.plan(*arguments, **options).bytes_read
        with harness.measured() as run:
            result = function(*arguments, **options)
        actual = fl.stats().as_dict() if plan else None
    del result
    return {**vars(run), "limit": limit, "plan": plan, "once": once, "actual": actual}
