"""Booleans of any byte: everything but 0 is true, as NumPy has it. Masks are saved as 0 and 255 too."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

BYTES = np.array([[0, 255, 2, 1, 0], [128, 0, 1, 3, 255], [1, 1, 0, 254, 0]], np.uint8)
OTHER = np.array([[1, 1, 0, 2, 0], [0, 4, 1, 0, 255], [255, 0, 0, 1, 7]], np.uint8)


def stored(kind, path, values):
    """The array on disk, with these very bytes."""
    given = values.view(bool)
    if kind == "npy":
        np.save(f"{path}.npy", given)
        return fl.open(f"{path}.npy")
    if kind == "fortran":
        np.save(f"{path}.npy", np.asfortranarray(given))
        return fl.open(f"{path}.npy")
    if kind == "raw":
        values.tofile(f"{path}.bin")
        return fl.open_raw(f"{path}.bin", "?", values.shape)
    if kind == "memory":
        return fl.from_numpy(given)
    made = fl.create(f"{path}.zarr", values.shape, "?", codec="zstd" if kind == "packed" else "raw")
    made[...] = given
    assert (
        np.asarray(made).view(np.uint8) == values
    ).all()  # what is read is what was stored, as np.load's is
    return made


KINDS = ["npy", "fortran", "raw", "memory", "zarr", "packed"]
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all"]
UNARY = [np.invert, np.logical_not, np.absolute, np.square, np.sqrt, np.exp, np.isnan, np.conjugate]
BINARY = [
    np.add, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.logical_and, np.logical_or,
    np.logical_xor, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.maximum,
    np.minimum, np.true_divide, np.hypot, np.left_shift,
]  # fmt: skip


def same(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    if wanted.dtype == bool:  # 0 or 1, so that other programs agree
        found, wanted = found.view(np.uint8), wanted.view(np.uint8)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions(tmp_path, kind):
    A, a = stored(kind, tmp_path / "a", BYTES), BYTES.view(bool)
    for name in REDUCTIONS:
        for axis in (None, 0, 1):
            wanted = getattr(a, name)(axis=axis)
            found = np.asarray(getattr(A, name)(axis=axis))
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(float).eps, err_msg=name)
            assert found.dtype == wanted.dtype
    assert int(fl.count_nonzero(A)) == np.count_nonzero(a)
    assert float(A.mean()) <= 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_operations(tmp_path, kind):
    A, B = stored(kind, tmp_path / "a", BYTES), stored("npy", tmp_path / "b", OTHER)
    a, b = BYTES.view(bool), OTHER.view(bool)
    for ufunc in UNARY:
        same(ufunc(A), ufunc(a))
    for ufunc in BINARY:
        same(ufunc(A, B), ufunc(a, b))
        same(ufunc(A, True), ufunc(a, True))
    for dtype in ("i1", "u1", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
        same(A.astype(dtype), a.astype(dtype))
    same(fl.where(A, 2.5, B), np.where(a, 2.5, b))
    same(A * 1.0, a * 1.0)
    same(A.T & B.T, a.T & b.T)
    same(A[:, ::2], a[:, ::2])


def test_what_is_computed_is_0_or_1(tmp_path):
    A = stored("npy", tmp_path / "a", BYTES)
    made = fl.compute(A, out=tmp_path / "c.zarr")
    assert (np.asarray(made).view(np.uint8) == (BYTES != 0)).all()
    turned = fl.rechunk(A, (2, 2), out=tmp_path / "r.zarr", dtype="f4")
    np.testing.assert_array_equal(turned[...], BYTES != 0)


def test_as_indices(tmp_path):
    A = stored("npy", tmp_path / "a", BYTES)
    values = fl.from_numpy(np.arange(15.0).reshape(3, 5))
    np.testing.assert_array_equal(values[A[...]], values[...][BYTES != 0])
    np.testing.assert_array_equal(values[:, A[0]], values[...][:, BYTES[0] != 0])


def test_a_vector_in_memory(tmp_path):
    X = fl.from_numpy(np.arange(15.0).reshape(3, 5), tmp_path / "x.zarr")
    np.testing.assert_array_equal(X @ BYTES[0].view(bool), X[...] @ (BYTES[0] != 0))


@pytest.mark.parametrize("suffix", ["mtx", "svm", "parquet", "npz", "h5"])
def test_exports(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    pytest.importorskip("h5py")
    path = tmp_path / f"e.{suffix}"
    fl.convert(stored("npy", tmp_path / "a", BYTES), path)
    opened = fl.open(path)
    found = opened.to_scipy().toarray() if isinstance(opened, fl.SparseArray) else opened[...]
    np.testing.assert_array_equal(found.astype("f8"), (BYTES != 0).astype("f8"))


def test_values_of_a_sparse_matrix(tmp_path):
    matrix = sp.csr_matrix(BYTES.view(bool))
    matrix.data[:] = np.array([255, 2, 1, 128, 1, 3, 255, 1, 7, 254], np.uint8)[: matrix.nnz].view(bool)
    dense = (BYTES != 0).astype("f8")
    built = fl.from_blocks([matrix], tmp_path / "b.zarr")
    np.testing.assert_array_equal(built @ np.eye(5), dense)
    np.testing.assert_array_equal(built.sum(0), dense.sum(0))
    sp.save_npz(tmp_path / "m.npz", matrix)
    np.testing.assert_array_equal(fl.open(tmp_path / "m.npz") @ np.eye(5), dense)


def test_values_of_a_stored_csr_group(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "c.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": (2, 3)})
        group["indices"], group["indptr"] = [0, 1, 2], [0, 2, 3]
        group["data"] = np.array([True, True, True])
        at = group["data"].id.get_offset()
    with open(tmp_path / "c.h5ad", "r+b") as file:  # HDF5 itself writes 0 and 1
        file.seek(at)
        file.write(bytes([255, 1, 2]))
    X = fl.open(tmp_path / "c.h5ad")
    np.testing.assert_array_equal(X @ np.eye(3), [[1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(X.sum(0), [1, 1, 1])
    np.testing.assert_array_equal(X.sum(1), [2, 1])


def test_principal_components_of_a_mask(tmp_path):
    rng = np.random.default_rng(0)
    mask = rng.random((300, 12)) < 0.3
    plain, loud = tmp_path / "p.npy", tmp_path / "l.npy"
    np.save(plain, mask)
    np.save(loud, (mask * np.uint8(255)).view(bool))
    np.testing.assert_array_equal(
        fl.pca(fl.open(loud), 3).explained_variance, fl.pca(fl.open(plain), 3).explained_variance
    )
