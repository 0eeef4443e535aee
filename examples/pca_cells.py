"""Principal components of a sparse matrix of counts, with the scores on disk and the limit held."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl
from flagstone.datasets import Cells

with tempfile.TemporaryDirectory(dir=".") as name:
    folder = Path(name)
    blocks = Cells(30_000, genes=1_000, seed=0).blocks()
    rows = ((data, indices, indptr, 1_000) for indptr, indices, data in blocks)
    x = fl.from_blocks(rows, folder / "cells.zarr")
    print(fl.pca.plan(x, 10, memory="256MiB"))
    result = fl.pca(x, 10, memory="256MiB", out=folder / "scores.zarr")

    print("explained variance ratio:", np.round(result.explained_variance_ratio, 4))
    print("residual:", np.max(result.residual))
    print("scores:", result.scores.shape, "peak:", fl.stats().peak_memory // 2**20, "MiB")

    # Another block of cells, projected onto the same components.
    more = np.random.default_rng(1).poisson(0.3, (5, 1_000)).astype(np.float32)
    print("projected:", np.asarray(result.transform(more)).shape)
