"""A sparse matrix from an iterator of row blocks: it is never whole in memory."""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl


def blocks(rows: int = 20_000, cols: int = 800, step: int = 2_000):
    """Each block could come from a database, a socket or a directory of files."""
    rng = np.random.default_rng(0)
    for _ in range(0, rows, step):
        yield sp.random(step, cols, density=0.05, format="csr", dtype=np.float32, random_state=rng)


with tempfile.TemporaryDirectory(dir=".") as name:
    matrix = fl.from_blocks(blocks(), path=Path(name) / "counts.zarr")
    print(matrix)

    x = np.random.default_rng(1).standard_normal((matrix.shape[1], 4))
    y = matrix @ x  # one read of the matrix, in row panels
    in_memory = sp.vstack(list(blocks())).tocsr()
    assert np.allclose(np.asarray(y), in_memory @ x)
    z = matrix.T @ np.asarray(y)
    assert np.allclose(np.asarray(z), in_memory.T @ (in_memory @ x))
    print("A @ X", y.shape, " Aᵀ @ (A @ X)", z.shape)
