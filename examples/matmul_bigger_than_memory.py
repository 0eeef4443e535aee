"""A product whose three matrices together are larger than the memory that the process may use."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

n, limit = 5120, "256MiB"
rng = np.random.default_rng(0)

with tempfile.TemporaryDirectory(dir=".") as name:
    folder = Path(name)
    for file in ("a.zarr", "b.zarr"):
        array = fl.create(folder / file, (n, n), "float32")
        for row in range(0, n, 512):
            array[row : row + 512, :] = rng.standard_normal((512, n), dtype=np.float32)

    a, b = fl.open(folder / "a.zarr"), fl.open(folder / "b.zarr")
    print(fl.matmul.plan(a, b, out=folder / "c.zarr", memory=limit))
    c = fl.matmul(a, b, out=folder / "c.zarr", memory=limit)

    stats = fl.stats()
    print(
        f"{3 * c.nbytes / 2**20:.0f} MiB of matrices; limit {limit}; peak {stats.peak_memory / 2**20:.0f} MiB"
    )
    assert stats.peak_memory <= stats.memory
    assert np.allclose(c[:8, :], a[:8, :] @ np.asarray(b), rtol=1e-3, atol=1e-2)
