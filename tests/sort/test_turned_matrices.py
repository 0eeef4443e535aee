"""Transposes through pieces: widths of places, stretches, values of every dtype, views, what is damaged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._sparse import external_sort
from tests.support.processes import random_csr


def short(monkeypatch, entries: int, columns: int, rows: int) -> None:
    """Buckets of so many entries, pieces of so many columns, stretches of so many rows."""
    monkeypatch.setattr(external_sort, "_BUCKET", entries)
    monkeypatch.setattr(external_sort, "_PIECE", columns)
    monkeypatch.setattr(external_sort, "_ROWS", rows)


def turned_as_scipy(s, a, out):
    found = fl.transpose(s, out=out)
    wanted = a.T.tocsr()
    wanted.sort_indices()
    got = found.to_scipy()
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got.indptr, wanted.indptr)
    np.testing.assert_array_equal(got.indices, wanted.indices)
    np.testing.assert_array_equal(got.data, wanted.data)
    assert fl.check(out).ok


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("cols", [200, 3000, 70_000])
def test_every_width_of_columns_and_values(tmp_path, monkeypatch, dtype, cols):
    short(monkeypatch, 500, 64, 900)
    a = random_csr(300, cols, 4000 / 300 / cols, 5, "float64")
    a.data = (np.round(a.data * 9) + 11).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a.data *= 1 + 2j
    s = fl.from_blocks([a[:100], a[100:]], tmp_path / "a.zarr")
    turned_as_scipy(s, a, tmp_path / "t.zarr")


def test_buckets_wider_than_their_places(tmp_path, monkeypatch):
    """Few entries in many columns: places of 32 bits, each stretch looked for on its own."""
    short(monkeypatch, 1 << 20, 1 << 16, 50_000)
    a = random_csr(70_000, 300_000, 20_000 / 70_000 / 300_000, 6, "float32")  # two pieces
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    turned_as_scipy(s, a, tmp_path / "t.zarr")


def test_more_columns_than_pieces_are_for(tmp_path):
    cols = (1 << 24) + 100
    columns = np.array([0, 5, cols - 1, 1 << 23])
    a = sp.csr_matrix((np.arange(1.0, 5), columns, [0, 2, 4]), (2, cols))
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    t = fl.transpose(s, out=tmp_path / "t.zarr")
    assert t.shape == (cols, 2)
    assert abs(t.to_scipy() - a.T).nnz == 0


def test_views_are_turned_as_they_are_seen(tmp_path, monkeypatch):
    short(monkeypatch, 300, 64, 100)
    a = abs(random_csr(400, 250, 0.05, 7))
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    turned_as_scipy(s[::3, 20:210].log1p(), a[::3, 20:210].log1p(), tmp_path / "t.zarr")


def test_a_file_that_changed_on_its_way_is_named(tmp_path, monkeypatch):
    a = random_csr(400, 250, 0.05, 8)
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    read = external_sort._read

    def damaged(descriptor, to):
        read(descriptor, to)
        to[18:20] = 255  # the first record's row

    monkeypatch.setattr(external_sort, "_read", damaged)
    with pytest.raises(fl.FormatError, match="an entry outside rows 0 to 249; the disk"):
        fl.transpose(s, out=tmp_path / "t.zarr")
    assert not (tmp_path / "t.zarr").exists()
