"""Sparse matrices in headerless files: opened in place, as every other; values by row and column."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flagstone as fl
from tests.sparse_algebra.test_algebra import equals
from tests.support.error_sentences import fails
from tests.support.processes import random_csr


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_flat_files_are_a_matrix(tmp_path, index, rng):
    a = random_csr(300, 140, 0.06, 1, "float32")
    files = [tmp_path / name for name in ("values.bin", "columns.bin", "pointers.bin")]
    for file, part in zip(files, (a.data, a.indices.astype(index), a.indptr.astype(index)), strict=True):
        part.tofile(file)
    s = fl.open_raw_csr(*files, a.shape, dtype="float32", index_dtype=index)
    equals(s, a)
    x = rng.standard_normal((140, 5)).astype("f4")
    np.testing.assert_allclose(s @ x, a @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(s.T @ (s @ x), a.T @ (a @ x), rtol=1e-4, atol=1e-4)
    equals(fl.transpose(s), a.T)
    equals(pickle.loads(pickle.dumps(s.T)), a.T)
    mask = np.arange(300) == 77
    got = fl.matmul(s, x, mask=mask)
    np.testing.assert_allclose(got[77], (a @ x)[77], rtol=1e-4, atol=1e-5)
    assert not got[~mask].any()


def test_refusals(tmp_path):
    a = random_csr(30, 20, 0.2, 1)
    files = [tmp_path / name for name in ("values.bin", "columns.bin", "pointers.bin")]
    for file, part in zip(files, (a.data, a.indices, a.indptr), strict=True):
        part.tofile(file)

    def opened(shape=(30, 20), dtype="float64", index_dtype="int32"):
        return fl.open_raw_csr(*files, shape, dtype=dtype, index_dtype=index_dtype)

    with fails(fl.ShapeError, r"open_raw_csr: shape is 30; two whole numbers, rows and columns, are needed"):
        opened(30)
    with fails(fl.ShapeError, r"open_raw_csr: index_dtype is uint8; int64 or int32 is needed"):
        opened(index_dtype="u1")
    with fails(fl.ShapeError, r"open_raw_csr: dtype is bool; values are numbers"):
        opened(dtype="?")
    with pytest.raises(fl.Error):
        opened((300, 20))  # pointers end before
    with pytest.raises(fl.FormatError):
        opened((30, 3)) @ np.ones((3, 2))  # a column beyond
    (a.indptr[::-1] - 5).astype("i4").tofile(files[2])
    with pytest.raises(fl.FormatError):
        opened()


def test_numbers_of_values_are_scipys():
    a = random_csr(300, 140, 0.06, 2)
    s = fl.from_blocks([a])
    for op, twin in (
        (s, a),
        (s.T, a.T.tocsr()),
        (s[10:90, ::3], a[10:90, ::3]),
        (s[10:90].T, a[10:90].T.tocsr()),
    ):
        assert op.getnnz() == twin.nnz
        for axis in (0, 1, -1):
            got = op.getnnz(axis)
            assert got.dtype == "i8"
            np.testing.assert_array_equal(got, twin.getnnz(axis % 2))
    with fails(fl.ShapeError, r"getnnz: axis is 2; 0 \(columns\), 1 \(rows\) or None is needed"):
        s.getnnz(2)
