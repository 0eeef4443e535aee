"""Least squares on a matrix larger than the limit: one read of it for a whole ridge path."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

m, n, limit = 400_000, 100, "192MiB"
rng = np.random.default_rng(0)
truth = rng.standard_normal(n) * (rng.random(n) < 0.2)

with tempfile.TemporaryDirectory(dir=".") as name:
    a = fl.create(Path(name) / "a.zarr", (m, n), "float64")
    y = np.empty(m)
    for row in range(0, m, 20_000):
        block = rng.standard_normal((20_000, n)) + 1.0
        a[row : row + 20_000, :] = block
        y[row : row + 20_000] = block @ truth + 3.0 + 2.0 * rng.standard_normal(20_000)

    print(fl.linalg.lstsq.plan(a, y, intercept=True, memory=limit))
    values = [0.0, 1e2, 1e4, 1e6]
    fit = fl.linalg.lstsq(a, y, ridge=values, intercept=True, memory=limit)
    for i, value in enumerate(values):
        print(
            f"ridge {value:9g}: constant {fit.intercept[i]:.3f}, {fit.degrees_of_freedom[i]:6.2f} degrees of "
            f"freedom, GCV {fit.gcv[i]:.4f}"
        )
    x, _, rank, singular_values = fl.linalg.lstsq(a, y, intercept=True, memory=limit)  # NumPy's four
    assert rank == n
    assert np.array_equal(x, fit.x[0])
    assert np.all(np.abs(x - truth) < 6 * fit.stderr[0])
    stats = fl.stats()
    print(f"{a.nbytes / 2**20:.0f} MiB; limit {limit}; peak {stats.peak_memory / 2**20:.0f} MiB")
    assert stats.peak_memory <= stats.memory
