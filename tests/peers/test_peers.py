"""Other libraries take our arrays: xarray, Dask, AnnData, binsparse, SciPy operators, DLPack."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import flagstone as fl
from tests.support.processes import random_matrix


@pytest.fixture
def cells(tmp_path, rng):
    matrix = sp.random(700, 60, 0.1, format="csr", random_state=4, dtype=np.float32)
    matrix.data = np.ceil(5 * matrix.data)
    return matrix, fl.from_blocks([matrix[:300], matrix[300:]], tmp_path / "cells.zarr")


# xarray -----------------------------------------------------------------------------------------------------


def test_xarray_opens_an_array(tmp_path, rng):
    xr = pytest.importorskip("xarray")
    x = rng.random((130, 70))
    fl.from_numpy(x, tmp_path / "a.zarr")
    with xr.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None) as opened:
        assert opened["array"].dims == ("dim_0", "dim_1")
        np.testing.assert_array_equal(opened["array"].values, x)


def test_xarray_opens_a_group_of_arrays(tmp_path, rng):
    """Names default to the array's own, so that extents never clash; dims= shares them on purpose."""
    xr = pytest.importorskip("xarray")
    x, y, z = rng.random((13, 7)), rng.random((7, 5)), rng.random(13)
    fl.from_numpy(x, tmp_path / "g.zarr" / "x")
    fl.create(tmp_path / "g.zarr" / "y", y.shape, y.dtype)[...] = y
    shared = fl.create(tmp_path / "g.zarr" / "z", z.shape, z.dtype, dims=["x_dim_0"])
    shared[...] = z
    shared.flush()
    with xr.open_zarr(tmp_path / "g.zarr", consolidated=False, chunks=None) as opened:
        assert opened["x"].dims == ("x_dim_0", "x_dim_1")
        assert opened["y"].dims == ("y_dim_0", "y_dim_1")
        assert opened["z"].dims == ("x_dim_0",)
        np.testing.assert_array_equal((opened["x"] * opened["z"]).values, x * z[:, None])


def test_xarray_opens_the_result_of_pca(tmp_path, rng):
    xr = pytest.importorskip("xarray")
    found = fl.pca(rng.random((200, 30)), 3, out=tmp_path / "pca.zarr")
    with xr.open_zarr(tmp_path / "pca.zarr", consolidated=False, chunks=None) as opened:
        assert opened["scores"].dims == ("row", "component")
        np.testing.assert_array_equal(opened["components"].values, found.components)


@pytest.mark.parametrize(
    ("dims", "wrong"),
    [
        (["a"], "dims are a and the shape is 3 x 4"),
        (["a", "a"], "dims are a, a and the shape is 3 x 4"),
        ("ab", "dims is 'ab'; a sequence of names is needed"),
        (["a", 1], "a sequence of names is needed"),
    ],
)
def test_names_of_dimensions_are_checked(tmp_path, dims, wrong):
    with pytest.raises(fl.ShapeError, match=wrong):
        fl.create(tmp_path / "a.zarr", (3, 4), "float32", dims=dims)
    assert not (tmp_path / "a.zarr").exists()


def test_a_npy_has_no_names(tmp_path):
    with pytest.raises(fl.ShapeError, match=r"\.npy file has no names"):
        fl.create(tmp_path / "a.npy", (3, 4), "float32", dims=["x", "y"])


# Dask -------------------------------------------------------------------------------------------------------


def test_dask_from_zarr_with_our_chunks(tmp_path, rng):
    da = pytest.importorskip("dask.array")
    x = rng.random((900, 700))
    a = fl.create(tmp_path / "a.zarr", x.shape, x.dtype, chunks=(64, 64))
    a[...] = x
    a.flush()
    chunks = fl.dask_chunks(a, "256KiB")
    theirs = da.from_zarr(str(tmp_path / "a.zarr"), component="array", chunks=chunks)
    np.testing.assert_allclose((theirs @ theirs.T).compute(), x @ x.T, rtol=1e-12)
    assert all(c % 64 == 0 or c == n for c, n in zip(chunks, a.shape, strict=True))


@pytest.mark.parametrize("kind", ["zarr", "npy", "memory", "transposed"])
def test_to_dask(tmp_path, rng, kind):
    da = pytest.importorskip("dask.array")
    x = rng.random((300, 200))
    if kind == "npy":
        np.save(tmp_path / "a.npy", x)
        a = fl.open(tmp_path / "a.npy")
    else:
        a = fl.from_numpy(x, None if kind == "memory" else tmp_path / "a.zarr")
    if kind == "transposed":
        a, x = a.T, x.T
    theirs = fl.to_dask(a, chunks=(128, 100))
    assert isinstance(theirs, da.Array)
    assert (theirs.shape, theirs.dtype) == (x.shape, x.dtype)
    np.testing.assert_array_equal(theirs[5:250:3, 7].compute(), x[5:250:3, 7])
    np.testing.assert_allclose((theirs + 1).sum(axis=0).compute(), (x + 1).sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(theirs.compute(scheduler="processes", num_workers=2), x)
    if kind != "memory":
        assert theirs.name == fl.to_dask(a, chunks=(128, 100)).name  # the same array has the same name


def test_dask_chunks_keep_stored_chunks_whole(tmp_path):
    a = fl.create(tmp_path / "a.zarr", (100_000, 50_000), "float32", chunks=(1024, 1024))
    assert fl.dask_chunks(a) == (8192, 4096)
    assert fl.dask_chunks(a, 1) == (1024, 1024)
    assert fl.dask_chunks(a, "1TiB") == a.shape
    tall = fl.create(tmp_path / "t.zarr", (1_000_000, 10), "float64", chunks=(1000, 10))
    assert fl.dask_chunks(tall, "16MiB") == (128_000, 10)


def test_dask_chunks_of_a_npy_follow_its_order(tmp_path):
    x = np.zeros((3000, 2000))
    np.save(tmp_path / "c.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    c, f = fl.open(tmp_path / "c.npy"), fl.open(tmp_path / "f.npy")
    assert fl.dask_chunks(c, "1MiB") == (65, 2000)
    assert fl.dask_chunks(f, "1MiB") == (3000, 43)
    assert fl.dask_chunks(f.T, "1MiB") == (43, 3000)


def test_to_dask_says_what_is_wrong(tmp_path, cells, monkeypatch):
    with pytest.raises(TypeError, match="SparseArray is no dense Array"):
        fl.to_dask(cells[1])
    with pytest.raises(TypeError, match="dask_chunks: ndarray is no Array"):
        fl.dask_chunks(np.ones(3))
    with pytest.raises(ValueError, match="nbytes: 0 is no size"):
        fl.dask_chunks(fl.from_numpy(np.ones(3)), 0)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(fl.Error, match=r"pip install 'dask\[array\]'"):
        fl.to_dask(fl.from_numpy(np.ones(3)))


# Sparse groups ----------------------------------------------------------------------------------------------


def test_anndata_sparse_dataset(tmp_path, cells):
    """AnnData reads rows of ours without loading the matrix."""
    io = pytest.importorskip("anndata.io")
    zarr = pytest.importorskip("zarr", minversion="3")
    matrix, _ = cells
    backed = io.sparse_dataset(zarr.open_group(str(tmp_path / "cells.zarr"), mode="r"))
    assert backed.shape == matrix.shape
    np.testing.assert_array_equal(backed[10:20].toarray(), matrix[10:20].toarray())
    np.testing.assert_array_equal(backed.to_memory().toarray(), matrix.toarray())


def test_binsparse_reads_ours(tmp_path, cells):
    binsparse = pytest.importorskip("binsparse")
    pytest.importorskip("zarr", minversion="3")
    from binsparse.conversions.scipy import to_scipy

    matrix, _ = cells
    theirs = to_scipy(binsparse.load_binsparse(tmp_path / "cells.zarr"))
    assert theirs.shape == matrix.shape
    np.testing.assert_array_equal(theirs.toarray(), matrix.toarray())


# SciPy's operators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("view", ["plain", "transposed", "conjugated"])
def test_an_array_is_a_linear_operator(tmp_path, rng, dtype, view):
    x = random_matrix(rng, (60, 40), dtype)
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    a, x = {"plain": (a, x), "transposed": (a.T, x.T), "conjugated": (a.conj(), x.conj())}[view]
    operator = spla.aslinearoperator(a)
    assert (operator.shape, operator.dtype) == (x.shape, x.dtype)
    m, n = x.shape
    close = {"rtol": 100 * np.finfo(dtype).eps, "atol": 100 * np.finfo(dtype).eps}
    vector, block = random_matrix(rng, (n,), dtype), random_matrix(rng, (n, 3), dtype)
    np.testing.assert_allclose(operator @ vector, x @ vector, **close)
    np.testing.assert_allclose(operator.matvec(vector[:, None]), (x @ vector)[:, None], **close)
    np.testing.assert_allclose(operator @ block, x @ block, **close)
    vector, block = random_matrix(rng, (m,), dtype), random_matrix(rng, (m, 3), dtype)
    np.testing.assert_allclose(operator.rmatvec(vector), x.conj().T @ vector, **close)
    np.testing.assert_allclose(operator.H @ block, x.conj().T @ block, **close)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_sparse_array_is_a_linear_operator(cells, rng, transposed):
    matrix, a = cells
    matrix, a = (matrix.T, a.T) if transposed else (matrix, a)
    operator = spla.aslinearoperator(a)
    m, n = matrix.shape
    for vectors in (rng.random(n), rng.random((n, 4))):
        np.testing.assert_allclose(operator @ vectors, matrix @ vectors, rtol=1e-6)
    for vectors in (rng.random(m), rng.random((m, 4))):
        np.testing.assert_allclose(operator.H @ vectors, matrix.T @ vectors, rtol=1e-6)


def test_solvers_run_on_what_is_on_disk(tmp_path, rng, cells):
    """svds of a sparse matrix, cg and eigsh of a dense one, against LAPACK."""
    matrix, a = cells
    sigma = np.sort(spla.svds(a, 5, return_singular_vectors=False, random_state=1))[::-1]
    expected = np.linalg.svd(matrix.toarray().astype(float), compute_uv=False)[:5]
    np.testing.assert_allclose(sigma, expected, rtol=1e-5)
    x = rng.random((80, 80))
    x = x @ x.T + 80 * np.eye(80)
    b = fl.from_numpy(x, tmp_path / "b.zarr")
    right = rng.random(80)
    solution, info = spla.cg(spla.aslinearoperator(b), right, rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(solution, np.linalg.solve(x, right), rtol=1e-8)
    largest = spla.eigsh(spla.aslinearoperator(b), 2, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(largest), np.linalg.eigvalsh(x)[-2:], rtol=1e-10)


def test_a_complex_vector_meets_a_real_matrix(tmp_path, rng):
    x = rng.random((6, 5))
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    v = rng.random(5) + 1j * rng.random(5)
    np.testing.assert_allclose(a.matvec(v), x @ v, rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda a: a.matvec(np.ones(7)), r"matvec: x is 7 x 1 float64; 5 rows of numbers are needed"),
        (lambda a: a.rmatmat(np.ones((5, 2))), r"rmatmat: x is 5 x 2 float64; 6 rows"),
        (lambda a: a.matvec(np.ones((5, 2))), r"a vector is needed, matmat takes blocks"),
        (lambda a: a.matmat(np.array([["a"] * 2] * 5)), r"rows of numbers"),
    ],
)
def test_operators_say_what_is_wrong(tmp_path, call, wrong):
    a = fl.from_numpy(np.ones((6, 5)), tmp_path / "a.zarr")
    with pytest.raises(fl.ShapeError, match=wrong):
        call(a)


def test_an_array_that_is_no_matrix_is_no_operator(tmp_path):
    with pytest.raises(fl.ShapeError, match="A has 3 dimensions; a matrix is needed"):
        fl.from_numpy(np.ones((2, 3, 4)), tmp_path / "a.zarr").matvec(np.ones(3))


# DLPack -----------------------------------------------------------------------------------------------------


def test_dlpack_lends_memory_without_a_copy(rng):
    x = rng.random((6, 5))
    a = fl.from_numpy(x)
    seen = np.from_dlpack(a)
    assert np.shares_memory(seen, x)
    np.testing.assert_array_equal(np.from_dlpack(a.T), x.T)
    assert a.__dlpack_device__() == x.__dlpack_device__()


def test_dlpack_of_parts_and_of_what_is_on_disk(tmp_path, rng):
    x = rng.random((6, 5))
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    np.testing.assert_array_equal(np.from_dlpack(a[2:4]), x[2:4])
    with pytest.raises(BufferError, match=r"is on disk and has no memory to lend; take a part first"):
        np.from_dlpack(a)
    assert Path(tmp_path / "a.zarr").exists()
