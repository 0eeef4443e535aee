"""Small operands of several tiles each, made once for all tests of devices."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import random_csr


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A folder: a, b, z (products), g (square), k (positive definite), tall, s (sparse), field."""
    folder = tmp_path_factory.mktemp("devices")
    rng = np.random.default_rng(5)
    chunks = (256, 256)
    fl.from_numpy(rng.standard_normal((1300, 700)), str(folder / "a.zarr"), chunks=chunks)
    fl.from_numpy(rng.standard_normal((700, 1200)), str(folder / "b.zarr"), chunks=chunks)
    for name in "ab":
        np.save(folder / f"{name}.npy", np.asarray(fl.open(folder / f"{name}.zarr")))
    i = np.arange(1100)
    k = 0.99 ** abs(i[:, None] - i[None, :]) + np.eye(1100)
    fl.from_numpy(k, str(folder / "k.zarr"), chunks=chunks)
    fl.from_numpy(rng.standard_normal((3000, 60)).astype("f4"), str(folder / "tall.zarr"), chunks=(500, 60))
    fl.from_numpy(rng.standard_normal((520, 520)), str(folder / "g.zarr"), chunks=(128, 128))
    z = rng.standard_normal((300, 260)) + 1j * rng.standard_normal((300, 260))
    fl.from_numpy(z, str(folder / "z.zarr"), chunks=(128, 128))
    fl.from_blocks(iter([random_csr(2000, 300, 0.05, 1, "float32")]), str(folder / "s.zarr"))
    fl.from_numpy(
        rng.standard_normal((40, 48, 44)).astype("f4"), str(folder / "field.zarr"), chunks=(16, 16, 44)
    )
    return folder
