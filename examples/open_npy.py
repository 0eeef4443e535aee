"""A `.npy` file opens in place, without a copy, and mixes with NumPy arrays in one product."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

with tempfile.TemporaryDirectory(dir=".") as name:
    path = Path(name) / "measurements.npy"
    np.save(path, np.random.default_rng(0).standard_normal((4000, 300)))

    x = fl.open(path)
    print(x)
    print("rows 10 to 12:", x[10:12, :3])

    # The operand on disk is read in tiles; the weights are already in memory.
    weights = np.linspace(0, 1, 300 * 5).reshape(300, 5)
    scores = fl.matmul(x, weights, out=Path(name) / "scores.zarr")
    gram = x.T @ x
    assert np.allclose(scores[:, :], np.load(path) @ weights)
    assert np.allclose(gram[:, :], np.load(path).T @ np.load(path))
    print("scores", scores.shape, scores.dtype, "gram", gram.shape)
