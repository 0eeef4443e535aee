"""Exports to SVMlight, tables and `.npz`: scikit-learn, pyarrow, NumPy and SciPy judge what comes back."""

from __future__ import annotations

import gzip
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli
from tests.support.error_sentences import fails
from tests.support.processes import random_csr


def _counts(rng, form="csr", shape=(60, 30)):
    m = sp.random(*shape, 0.2, "csr", random_state=rng)
    m.data = np.ceil(9 * m.data) / 8
    m[0], m[7] = 0, 0  # rows without entries, the first one too
    m[3, shape[1] - 1] = 2.5  # text knows no more columns than it names
    m = sp.csr_matrix(m)
    m.eliminate_zeros()
    return m.asformat(form)


# SVMlight ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".svm", ".libsvm.gz"])
@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_is_read_by_scikit_learn_and_by_us(tmp_path, rng, suffix, form, zero_based):
    datasets = pytest.importorskip("sklearn.datasets")
    m = _counts(rng, "csr")
    m[1, 0] = 4  # column 0 is there, so that readers see from what indices count
    if form == "dense":
        source = fl.from_numpy(m.toarray())
    else:
        sp.save_npz(tmp_path / "m.npz", m.asformat(form))
        source = fl.open(tmp_path / "m.npz")
        if form == "csc":
            h5py = pytest.importorskip("h5py")
            with h5py.File(tmp_path / "m.h5", "w") as file:
                group = file.create_group("X")
                group.attrs.update({"encoding-type": "csc_matrix", "shape": m.shape})
                for name in ("data", "indices", "indptr"):
                    group[name] = getattr(m.tocsc(), name)
            source = fl.open(tmp_path / "m.h5", key="X")
            assert source._transposed
    labels = rng.integers(-3, 4, m.shape[0]) / 2
    path = tmp_path / f"a{suffix}"
    fl.convert(source, path, labels=labels, zero_based=zero_based)
    X, y = datasets.load_svmlight_file(str(path))
    np.testing.assert_array_equal(X.toarray(), m.toarray())
    np.testing.assert_array_equal(y, labels)
    assert abs(fl.open(path).to_scipy() - m).nnz == 0
    np.testing.assert_array_equal(fl.open(path, key="labels")[...], labels)
    fl.convert(str(path), tmp_path / "b.svm")  # the labels travel
    np.testing.assert_array_equal(fl.open(tmp_path / "b.svm", key="labels")[...], labels)
    fl.convert(source, tmp_path / "c.svm")  # and are zeros where there are none
    assert not fl.open(tmp_path / "c.svm", key="labels")[...].any()


def test_columns_count_from_one_unless_asked(tmp_path):
    m = sp.csr_matrix(([1.5, 2], ([0, 0], [0, 3])), (1, 4))
    source = fl.from_blocks([m])
    fl.convert(source, tmp_path / "one.svm")
    fl.convert(source, tmp_path / "zero.svm", zero_based=True)
    assert (tmp_path / "one.svm").read_text() == "0 1:1.5 4:2\n"
    assert (tmp_path / "zero.svm").read_text() == "0 0:1.5 3:2\n"
    fl.convert(fl.from_blocks([m.astype("i4")]), tmp_path / "whole.svm")
    assert (tmp_path / "whole.svm").read_text() == "0 1:1 4:2\n"


def test_svmlight_from_the_command_line(tmp_path, rng):
    m = _counts(rng)
    sp.save_npz(tmp_path / "m.npz", m)
    np.save(tmp_path / "y.npy", np.arange(m.shape[0], dtype="i4"))
    given = [str(tmp_path / name) for name in ("m.npz", "m.svm", "y.npy")]
    done = CliRunner().invoke(cli, ["convert", given[0], given[1], "--labels", given[2], "--zero-based"])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(fl.open(given[1], key="labels")[...], np.arange(m.shape[0]))


def test_svmlight_refusals(tmp_path):
    source = fl.from_blocks([sp.eye(3, format="csr")])
    with fails(fl.ShapeError, "labels", "3 rows"):
        fl.convert(source, tmp_path / "a.svm", labels=[1, 2])
    with fails(fl.FormatError, "complex128"):
        fl.convert(fl.from_numpy(np.eye(2) * 1j), tmp_path / "a.svm")
    with pytest.raises(TypeError, match=r"'labels' is no option of npz"):
        fl.convert(source, tmp_path / "a.npz", labels=[1, 2, 3])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.svm", "a.txt", "a.svm.gz", "a"])
def test_svmlight_whose_first_rows_are_empty(tmp_path, name):
    """What dump_svmlight_file writes of a matrix whose first rows have no entries."""
    datasets = pytest.importorskip("sklearn.datasets")
    m = sp.csr_matrix(([1.0, 2.0], ([2, 2], [0, 5])), (4, 6))
    datasets.dump_svmlight_file(m, np.zeros(4), str(tmp_path / "plain"), zero_based=False)
    text = (tmp_path / "plain").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    np.testing.assert_array_equal(fl.open(tmp_path / name).to_scipy().toarray(), m.toarray())


def test_several_labels_are_said(tmp_path):
    (tmp_path / "a.svm").write_text("1,2 1:3\n0 2:1\n")
    assert fl.open(tmp_path / "a.svm").shape == (2, 2)
    with fails(fl.FormatError, "several labels", "a.svm"):
        fl.open(tmp_path / "a.svm", key="labels")


# Tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("dtype", ["bool", "i1", "u8", "f4", "f8"])
@pytest.mark.parametrize("shape", [(5000, 7), (300,), (1, 40), (0, 3)])
def test_columns_there_and_back(tmp_path, rng, suffix, dtype, shape):
    pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    x = (50 * rng.random(shape)).astype(dtype)
    path = tmp_path / f"a{suffix}"
    fl.convert(fl.from_numpy(x), path)
    read = pyarrow.parquet.read_table if suffix == ".parquet" else pyarrow.feather.read_table
    table = read(path)
    cols = x.reshape(len(x), -1) if x.size else x.reshape(0, 3)
    assert table.column_names == [f"c{j}" for j in range(cols.shape[1])]
    for j, name in enumerate(table.column_names):
        column = table.column(name).to_numpy()
        np.testing.assert_array_equal(column, cols[:, j])
        assert column.dtype == x.dtype
    opened = fl.open(path)
    np.testing.assert_array_equal(opened[...], cols)
    assert opened.dtype == x.dtype


def test_tables_in_many_row_groups(tmp_path, rng, monkeypatch):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    from flagstone._formats import tables

    monkeypatch.setattr(tables, "_GROUP", 1 << 14)
    x = rng.random((5000, 9))
    a = fl.create(tmp_path / "a.zarr", x.shape, "f8", chunks=(700, 4))
    a[...] = x
    for name in ("a.parquet", "a.arrow"):
        fl.convert(a, tmp_path / name)
        np.testing.assert_array_equal(fl.open(tmp_path / name)[...], x)
    metadata = pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").metadata
    assert metadata.num_row_groups == 8  # a row of chunks each


def test_tables_refuse_what_they_cannot_hold(tmp_path):
    pytest.importorskip("pyarrow")
    for value, words in [(np.eye(2) * 1j, "complex128"), (np.zeros((2, 2, 2)), "2 x 2 x 2")]:
        with fails(fl.FormatError, words):
            fl.convert(fl.from_numpy(value), tmp_path / "a.parquet")
    with fails(fl.FormatError, "sparse"):
        fl.convert(fl.from_blocks([sp.eye(3, format="csr")]), tmp_path / "a.arrow")
    assert not list(tmp_path.iterdir())


def test_exports_stay_within_the_limit(tmp_path, isolated):
    pytest.importorskip("pyarrow")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((150_000, 50)))
    m = random_csr(100_000, 500, 0.04, 0)
    sp.save_npz(tmp_path / "m.npz", m, compressed=False)
    for source, target in [
        ("x.npy", "x.parquet"),
        ("x.npy", "x.arrow"),
        ("x.npy", "x.npz"),
        ("m.npz", "m.svm"),
    ]:
        over = isolated(
            """
            from tests.support.processes import peak_memory, reset_peak
            limit = fl._core.resident_bytes() + (270 << 20)
            with fl.Runtime(memory=limit, scratch="scratch"):
                reset_peak()
                fl.convert(source, target)
                result = peak_memory() - limit
            """,
            source=source, target=target,
        )  # fmt: skip
        assert over <= 0, target
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["arr_0"], np.load(tmp_path / "x.npy"))
    assert abs(fl.open(tmp_path / "m.svm").to_scipy() - m).nnz == 0


# Dense .npz -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "i2", ">f4", "f8", "c16", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_dense_npz_of_numpy(tmp_path, rng, dtype, order, save):
    x = np.asarray((50 * rng.random((70, 33))).astype(dtype), order=order)
    y = np.arange(5)
    save(tmp_path / "a.npz", x=x, y=y, z=np.float64(2.5), none=np.zeros((0, 4)))
    opened = fl.open(tmp_path / "a.npz", key="x")
    assert opened.dtype == x.dtype.newbyteorder("=")
    np.testing.assert_array_equal(opened[...], x)
    np.testing.assert_array_equal(opened[3:60:2, 5], x[3:60:2, 5])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], x)
    np.testing.assert_array_equal(fl.open(tmp_path / "a.npz", key="y")[...], y)
    assert fl.open(tmp_path / "a.npz", key="z")[...] == 2.5
    assert fl.open(tmp_path / "a.npz", key="none").shape == (0, 4)
    assert opened.import_seconds == 0 or save is np.savez_compressed
    with fails(fl.FormatError, "a.npz", "x, y, z, none", "key="):
        fl.open(tmp_path / "a.npz")
    with fails(FileNotFoundError, "'w'", "x, y"):
        fl.open(tmp_path / "a.npz", key="w")
    save(tmp_path / "one.npz", x)
    np.testing.assert_array_equal(fl.open(tmp_path / "one.npz")[...], x)
    fl.convert(str(tmp_path / "one.npz"), tmp_path / "one.zarr")
    np.testing.assert_array_equal(fl.open(tmp_path / "one.zarr")[...], x)
    told = CliRunner().invoke(cli, ["info", str(tmp_path / "one.npz"), "--check"])
    assert told.exit_code == 0, told.output
    assert fl.check(tmp_path / "a.npz").ok


@pytest.mark.parametrize("shape", [(), (0,), (5, 0), (300,), (40, 30, 7)])
def test_dense_npz_is_written_as_numpy_does(tmp_path, rng, shape):
    x = rng.random(shape)
    a = fl.from_numpy(x, tmp_path / "a.zarr") if shape and x.size else fl.from_numpy(x)
    fl.convert(a, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_array_equal(found["arr_0"], x)
    np.testing.assert_array_equal(fl.open(tmp_path / "a.npz")[...], x)


def test_a_dense_npz_is_opened_where_it_lies(tmp_path, rng):
    x = rng.random((512, 512))
    np.savez(tmp_path / "a.npz", x=x)
    before = {p.name for p in tmp_path.iterdir()}
    with fl.Runtime(scratch=str(tmp_path / "scratch")):
        opened = fl.open(tmp_path / "a.npz")
        np.testing.assert_allclose(fl.matmul(opened, np.eye(512)), x)
    assert {p.name for p in tmp_path.iterdir()} - before <= {"scratch"}
    assert not list((tmp_path / "scratch").glob("imports/*"))


def test_damage_in_a_dense_npz(tmp_path, rng):
    np.savez(tmp_path / "odd.npz", x=rng.random(3000))
    text = bytearray((tmp_path / "odd.npz").read_bytes())
    text[9000] ^= 1
    (tmp_path / "odd.npz").write_bytes(text)
    report = fl.check(tmp_path / "odd.npz")
    assert not report.ok
    assert "odd.npz" in str(report)
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("x.npy", bytes(text[:0]) + b"\x93NUMPY\x01\x00v\x00" + b"{}".ljust(117) + b"\n")
    with fails(fl.FormatError, "short.npz"):
        fl.open(tmp_path / "short.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([None, 1]))
    with fails(fl.FormatError, "objects.npz", "object"):
        fl.open(tmp_path / "objects.npz")


# Names and places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["c.mtx.bz2", "c.bz2", "c.mtx.xz", "c.parquet.gz"])
def test_packers_that_are_not_written_are_refused(tmp_path, name):
    with fails(fl.FormatError, name, "not written"):
        fl.convert(fl.from_numpy(np.eye(2)), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_banner_in_capitals(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MATRIXMARKET MATRIX COORDINATE REAL GENERAL\n2 2 1\n1 2 3\n")
    np.testing.assert_array_equal(fl.open(tmp_path / "a.mtx").to_scipy().toarray(), [[0, 3], [0, 0]])


def test_an_entry_outside_is_named_as_it_stands(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n5 5 1\n6 1 1\n")
    with fails(fl.FormatError, "a.mtx", "line 3", "row 6, column 1", "5 x 5"):
        fl.open(tmp_path / "a.mtx")


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_a_damaged_member_is_not_an_empty_group(tmp_path, what):
    a = fl.from_numpy(np.eye(4), tmp_path / "x.zarr")
    a.close()
    metadata = tmp_path / "x.zarr" / "array" / "zarr.json"
    metadata.write_text("{") if what == "damaged" else metadata.unlink()
    with pytest.raises(fl.Error, match=r"x\.zarr/array/zarr\.json"):
        fl.open(tmp_path / "x.zarr")
    told = CliRunner().invoke(cli, ["info", str(tmp_path / "x.zarr")])
    assert told.exit_code == 1
    assert "array/zarr.json" in told.output


@pytest.mark.parametrize("suffix", [".h5ad", ".zarr"])
def test_anndata_without_x_opens_nothing_else(tmp_path, suffix):
    anndata = pytest.importorskip("anndata")
    one = anndata.AnnData(obs={"a": np.arange(5)})
    path = tmp_path / f"n{suffix}"
    one.write_zarr(str(path)) if suffix == ".zarr" else one.write_h5ad(path)
    with fails(fl.FormatError, f"n{suffix}", "has no X", "holds", "key="):
        fl.open(path)
    np.testing.assert_array_equal(fl.open(path, key="obs/a")[...], np.arange(5))
    assert CliRunner().invoke(cli, ["info", str(path)]).exit_code == 0


@pytest.mark.parametrize("form", ["csc", "dense", "chunked"])
def test_the_recipe_takes_counts_of_any_layout(tmp_path, rng, form):
    anndata = pytest.importorskip("anndata")
    m = sp.csr_matrix(rng.poisson(rng.gamma(1, 1, (1, 200)), (300, 200)).astype("f4"))
    anndata.AnnData(X=m).write_h5ad(tmp_path / "rows.h5ad")
    value = m.tocsc() if form == "csc" else m.toarray()
    how = {"compression": "gzip"} if form == "chunked" else {}
    anndata.AnnData(X=value).write_h5ad(tmp_path / "other.h5ad", **how)
    expected = fl.single_cell(fl.open(tmp_path / "rows.h5ad"), 4, genes=50)
    given = fl.open(tmp_path / "other.h5ad")
    assert fl.single_cell.plan(given, 4, genes=50).passes > 0
    found = fl.single_cell(given, 4, genes=50)
    np.testing.assert_array_equal(found.genes, expected.genes)
    np.testing.assert_allclose(found.pca.components, expected.pca.components, atol=1e-4)
    if form == "csc":
        rows = fl.pca(fl.open(tmp_path / "rows.h5ad"), 3)
        np.testing.assert_allclose(fl.pca(given, 3).singular_values, rows.singular_values, rtol=1e-5)
        kept = given[5:, [1, 2]]
        np.testing.assert_array_equal(kept.to_scipy().toarray(), m[5:, [1, 2]].toarray())
        centered = m[5:, [1, 2]].toarray() - m[5:, [1, 2]].toarray().mean(0)
        largest = np.linalg.svd(centered, compute_uv=False)[0]
        np.testing.assert_allclose(fl.pca(kept, 1).singular_values, largest, rtol=1e-5)


# What is no file --------------------------------------------------------------------------------------------


def test_a_pipe_is_refused_at_once(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with fails(fl.FormatError, "pipe"):
        fl.open(tmp_path / "pipe")
    with fails(fl.FormatError, "pipe"):
        fl.open_raw(tmp_path / "pipe", "f4", (3,))
    assert CliRunner().invoke(cli, ["info", str(tmp_path / "pipe")]).exit_code == 1


def test_calibrate_of_nothing_is_refused(tmp_path):
    with fails(FileNotFoundError, "nowhere", "does not exist"):
        fl.calibrate(tmp_path / "nowhere")
