"""Files whose numbers contradict each other: indices outside the matrix, extents that nobody can hold."""

from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli


def _matrix(form: str):
    return sp.random(300, 200, 0.1, form, dtype="f4", random_state=np.random.default_rng(0))


def _written(path, form: str, part: str, at: int, value: int):
    """An AnnData file or store whose X has one number changed."""
    anndata = pytest.importorskip("anndata")
    one = anndata.AnnData(X=_matrix(form))
    if path.suffix == ".zarr":
        import zarr

        one.write_zarr(str(path))
        zarr.open_group(str(path), mode="r+")[f"X/{part}"][at] = value
    else:
        import h5py

        one.write_h5ad(path)
        with h5py.File(path, "r+") as file:
            file[f"X/{part}"][at] = value


@pytest.mark.parametrize("suffix", [".h5ad", ".zarr"])
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(
    ("part", "at", "value"), [("indices", 1000, 5000), ("indices", 7, -1), ("indptr", 9, 0)]
)
def test_a_wrong_index_or_pointer_is_noticed_by_everybody(tmp_path, suffix, form, part, at, value):
    path = tmp_path / f"odd{suffix}"
    _written(path, form, part, at, value)
    wrong = r"stored value \d+ has the index" if part == "indices" else "row|pointers"
    report = fl.check(path)
    assert not report.ok
    assert "odd" in str(report)
    for command in (["check", str(path)], ["info", str(path), "--check"]):
        assert CliRunner().invoke(cli, command).exit_code == 1
    for name in ("a.npz", "a.mtx", "a.h5ad", "a.zarr"):
        with pytest.raises(fl.FormatError, match=wrong):
            fl.convert(str(path), tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(fl.FormatError, match=wrong):
        fl.open(path).to_scipy()


def test_whole_matrices_still_are(tmp_path):
    for name, form in (("a.zarr", "csc"), ("b.zarr", "csr"), ("a.h5ad", "csc")):
        m = _matrix(form)
        _written(tmp_path / name, form, "data", 0, m.data[0])
        report = fl.check(tmp_path / name)
        assert report.ok, report
        assert abs(fl.open(tmp_path / name).to_scipy() - m).nnz == 0


# Nothing is allocated by a number in a file ----------------------------------------------------------------


@pytest.mark.parametrize("field", ["real", "complex"])
def test_many_rows_without_entries_take_no_memory(tmp_path, isolated, field):
    value = "2" if field == "real" else "2 3"
    text = (
        f"%%MatrixMarket matrix coordinate {field} general\n20000000 2 2\n1 1 {value}\n20000000 2 {value}\n"
    )
    (tmp_path / "tall.mtx").write_text(text)
    shape, ends, grown = isolated(
        """
        fl.open_raw  # loaded
        limit = fl._core.resident_bytes() + (300 << 20)
        with fl.Runtime(memory=limit, scratch="scratch"):
            m = fl.open("tall.mtx")
            held = fl.stats().peak_memory
            if isinstance(m, fl.SparseArray):
                seen = m.real if m.dtype.kind == "c" else m  # a complex result is beyond the limit by itself
                ends = [float(x) for x in (seen @ np.ones(2))[[0, -1]]]
            else:
                ends = [float(m[0, 0].real), float(m[-1, 1].real)]
        result = list(m.shape), ends, held - limit
        """
    )
    assert shape == [20000000, 2]
    assert ends == [2.0, 2.0]
    assert grown <= 0


def test_rows_that_no_disk_holds(tmp_path):
    head = "%%MatrixMarket matrix coordinate real general\n"
    (tmp_path / "odd.mtx").write_text(f"{head}999999999999999 5 1\n1 1 2\n")
    with pytest.raises(fl.StorageError, match=r"odd\.mtx.*999999999999999 rows"):
        fl.open(tmp_path / "odd.mtx")


def test_a_line_longer_than_the_limit(tmp_path, isolated):
    with gzip.open(tmp_path / "odd.mtx.gz", "wb", 1) as file:
        file.write(b"%%MatrixMarket matrix coordinate real general\n5 5 1\n")
        for _ in range(250):
            file.write(b"1" * (1 << 20))
    said, over = isolated(
        """
        limit = fl._core.resident_bytes() + (270 << 20)
        with fl.Runtime(memory=limit, scratch="scratch"):
            try:
                fl.open("odd.mtx.gz")
            except fl.BudgetError as error:
                said = str(error)
        result = said, fl._core.peak_resident_bytes() - limit
        """
    )
    assert "line 3 of 'odd.mtx.gz'" in said
    assert over <= 0


def _npz(path, **members: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in members.items():
            archive.writestr(f"{name}.npy", text)


def test_a_small_npz_that_unpacks_to_much(tmp_path, isolated):
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    tag = b"{'descr': '|S800000000', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
    _npz(tmp_path / "tag.npz", format=header + tag + bytes(320 << 20))
    _npz(
        tmp_path / "header.npz",
        format=b"\x93NUMPY\x02\x00" + (400 << 20).to_bytes(4, "little") + bytes(320 << 20),
    )
    said, peak = isolated(
        """
        said = []
        for name in ("tag.npz", "header.npz"):
            with fl.Runtime(memory="300MiB", scratch="scratch"):
                try:
                    fl.open(name)
                except fl.FormatError as error:
                    said.append(str(error))
        result = said, fl._core.peak_resident_bytes()
        """
    )
    assert "tag.npz" in said[0]
    assert "header.npz" in said[1]
    assert peak < 300 << 20


def test_one_long_row_of_an_npz_is_charged_first(tmp_path, isolated):
    data, n = np.ones(9_000_000, "f4"), 9_000_000  # in few columns, whose number is charged too
    m = sp.csr_matrix((data, (np.arange(n) % 100).astype("i4"), np.array([0, n], "i4")), (1, 100))
    sp.save_npz(tmp_path / "wide.npz", m, compressed=False)
    said, over = isolated(
        """
        limit = fl._core.resident_bytes() + (300 << 20)
        with fl.Runtime(memory=limit, scratch="scratch"):
            try:
                fl.open("wide.npz")
            except fl.BudgetError as error:
                said = str(error)
        result = said, fl._core.peak_resident_bytes() - limit
        """
    )
    assert "row 0" in said
    assert over <= 0
