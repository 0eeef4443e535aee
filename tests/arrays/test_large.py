"""Sizes beyond 2^31 elements: extents, offsets and counts are 64-bit everywhere."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import beside

ROWS, COLS = 46_500, 46_400  # 2.16e9 elements


def test_elements_beyond_2_to_31_of_a_sparse_file(tmp_path):
    """Chunks that were never written take no space, so this one is cheap."""
    a = fl.create(str(tmp_path / "a.zarr"), (ROWS, COLS), "uint8")
    assert ROWS * COLS > 1 << 31
    corner = np.arange(300 * 200, dtype=np.uint8).reshape(300, 200)
    a[ROWS - 300 :, COLS - 200 :] = corner
    a.flush()
    again = fl.open(str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(again[ROWS - 300 :, COLS - 200 :], corner)
    assert again[ROWS - 301, COLS - 200 :].sum() == 0
    assert again.nbytes == ROWS * COLS


def test_npy_beyond_2_to_31_elements(tmp_path):
    path = str(tmp_path / "a.npy")
    stored = np.lib.format.open_memmap(path, "w+", np.uint8, (ROWS, COLS))  # holes
    stored[-1, -5:] = [1, 2, 3, 4, 5]
    stored[ROWS // 2] = 7
    del stored
    a = fl.open(path)
    np.testing.assert_array_equal(a[ROWS - 1 :, COLS - 5 :], [[1, 2, 3, 4, 5]])
    assert int(a[ROWS // 2 - 1 : ROWS // 2 + 2, :].sum(dtype=np.int64)) == 7 * COLS


@pytest.mark.slow
def test_product_of_more_than_2_to_31_elements(tmp_path, rng):
    """Writes 9 GB."""
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("12 GiB of free disk are needed")
    a, b = rng.standard_normal((ROWS, 8), np.float32), rng.standard_normal((8, COLS), np.float32)
    c = fl.matmul(a, b, out=str(tmp_path / "c.zarr"), memory=beside(900))
    for row in (0, 23_171, ROWS - 1):
        np.testing.assert_allclose(c[row : row + 1, :], a[row : row + 1] @ b, rtol=1e-4, atol=1e-5)
