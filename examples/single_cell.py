"""Single cells on disk: normalise, log1p, choose genes, principal components, without a matrix in between."""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl


def cells():
    """20,000 cells of four kinds, 3,000 genes, in blocks."""
    rng = np.random.default_rng(0)
    means = np.geomspace(1e-3, 5, 3000)
    kinds = means * np.where(rng.random((4, 3000)) < 0.2, rng.gamma(0.5, 2, (4, 3000)), 1)
    for _ in range(10):
        rates = kinds[rng.integers(0, 4, 2000)] * rng.gamma(4, 0.25, (2000, 1))
        yield sp.csr_matrix(rng.poisson(rates).astype("float32"))


with tempfile.TemporaryDirectory() as folder:
    X = fl.from_blocks(cells(), Path(folder) / "cells.zarr")  # or fl.open("cells.h5ad")
    found = fl.single_cell(X, 10, genes=500, out=Path(folder) / "cells-pca.zarr", memory="1GiB")
    print(X)
    print(f"chose {len(found.genes)} genes, the first {found.genes[:8]}")
    print("explained variance", np.round(found.pca.explained_variance, 2))
    print(fl.stats())

    # The same steps by hand: lazy views of X, each applied while the matrix streams.
    view = np.log1p(X.scale(rows=1e4 / found.totals))[:, found.genes]
    scores = found.pca.transform(view)
    assert np.allclose(np.asarray(scores), np.asarray(found.pca.scores), atol=1e-3)
