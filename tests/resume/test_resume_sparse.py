"""Killed conversions of sparse matrices go on where they stopped, with the same bits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import flagstone as fl
from flagstone._formats.text.columns import entries_as_text
from flagstone._resume.leftovers import leftovers

SHAPE, VALUES = (3000, 1500), 1_300_000

_CONVERT = """
from flagstone import _core
source = fl.open(src).T if turned else src
fl.convert(source, "out.zarr", memory="700MiB")
s = fl.open("out.zarr")
known = _core.csr_statistics(s._matrix)
result = told() | {"digest": digest("out.zarr"), "squares": known.sum_squares,
                   "sums": hashlib.blake2b(repr(known.column_sums).encode()).hexdigest()}
"""


@pytest.fixture(scope="module")
def matrix() -> sp.csr_matrix:
    rng = np.random.default_rng(3)
    at = np.unique(rng.integers(0, SHAPE[0] * SHAPE[1], VALUES))
    values = rng.standard_normal(len(at))
    return sp.csr_matrix((values, (at // SHAPE[1], at % SHAPE[1])), SHAPE)


def _write(kind: str, matrix: sp.csr_matrix, folder: Path) -> str:
    """Write the matrix in a format, return its name."""
    if kind == "zarr":
        fl.from_blocks([matrix[:1000], matrix[1000:]], folder / "s.zarr")
        return "s.zarr"
    if kind == "turned":
        fl.from_blocks([matrix.T.tocsr()], folder / "s.zarr")
        return "s.zarr"
    if kind.startswith("npz"):
        stored = matrix.tocoo() if kind == "npz coo" else matrix
        sp.save_npz(folder / "s.npz", stored, compressed=kind == "npz packed")
        return "s.npz"
    if kind == "svmlight":
        with open(folder / "s.svm", "wb") as file:
            dump_svmlight_file(matrix, np.ones(SHAPE[0]), file, zero_based=False)
        return "s.svm"
    with open(folder / "s.mtx", "wb") as file:
        _core_text(matrix, file)
    if kind == "mtx.gz":
        (folder / "s.mtx.gz").write_bytes(gzip.compress((folder / "s.mtx").read_bytes(), 1))
        return "s.mtx.gz"
    return "s.mtx"


def _core_text(matrix: sp.csr_matrix, file) -> None:
    coo = matrix.tocoo()
    order = np.random.default_rng(0).permutation(coo.nnz)
    file.write(f"%%MatrixMarket matrix coordinate real general\n{SHAPE[0]} {SHAPE[1]} {coo.nnz}\n".encode())
    row, column = coo.row[order].astype(np.int64), coo.col[order].astype(np.int64)
    file.write(entries_as_text(row, column, "real", coo.data[order]))


@pytest.mark.parametrize(
    "kind", ["zarr", "turned", "npz", "npz packed", "npz coo", "svmlight", "mtx", "mtx.gz"]
)
def test_conversions_go_on(process, tmp_path, matrix, kind):
    src, out = _write(kind, matrix, tmp_path), tmp_path / "out.zarr"
    values = {"src": src, "turned": kind == "turned"}
    whole = process(_CONVERT, **values)
    out.rename(tmp_path / "whole.zarr")
    done = 0.0
    for kill in (1, 1):  # the second dies while it goes on
        process(_CONVERT, kill=kill, **values)
        (left,) = leftovers(str(out))
        assert left.resumable
        assert done < left.done <= 1
        assert not out.exists()
        done = left.done
    again = process(_CONVERT, **values)
    assert again["what"].endswith(f"resumed at {done:.0%}")
    for name in ("digest", "squares", "sums"):
        assert again[name] == whole[name], name
    assert not leftovers(str(out))
    assert fl.check(out).ok
    expected = sp.csr_matrix(matrix.astype(np.float64))
    assert abs(fl.open(out).to_scipy() - expected).max() < 1e-12
    if kind == "zarr":
        assert again["read"] < whole["read"]


def test_resume_by_path_and_changed_sources(process, tmp_path, matrix):
    src, out = _write("mtx", matrix, tmp_path), tmp_path / "out.zarr"
    process(_CONVERT, kill=2, src=src, turned=False)
    record = json.loads(leftovers(str(out))[0].record)
    assert record["operation"] == "convert"
    again = process("fl.resume('out.zarr')\nresult = told()")
    assert "resumed" in again["what"]
    assert abs(fl.open(out).to_scipy() - matrix).max() < 1e-12
    out.rename(tmp_path / "whole.zarr")
    process(_CONVERT, kill=2, src=src, turned=False)
    with open(tmp_path / src, "a") as file:
        file.write("% changed\n")
    with pytest.raises(fl.FormatError, match=r"src '.*s\.mtx' was changed since"):
        fl.resume(out)
    (tmp_path / src).unlink()
    with pytest.raises(FileNotFoundError, match="went away since"):
        fl.resume(out)


def test_what_lies_on_the_way_may_be_lost(process, tmp_path, matrix):
    """Bucket files or text entries that are gone or cut off are made again."""
    out = tmp_path / "out.zarr"
    for kind, name in (("mtx", "entries"), ("turned", "0")):
        values = {"src": _write(kind, matrix, tmp_path), "turned": kind == "turned"}
        whole = process(_CONVERT, **values)
        out.rename(tmp_path / f"whole-{name}.zarr")
        process(_CONVERT, kill=1, **values)
        (left,) = leftovers(str(out))
        victim = Path(left.notes) / "work" / name
        victim.write_bytes(victim.read_bytes()[:1000])
        again = process(_CONVERT, **values)
        assert again["digest"] == whole["digest"]
        assert again["sums"] == whole["sums"]
        out.rename(tmp_path / f"again-{name}.zarr")


def test_a_transpose_goes_on(process, tmp_path, matrix):
    _write("zarr", matrix, tmp_path)
    run = """
fl.transpose(fl.open("s.zarr"), out="out.zarr", memory="700MiB")
result = told() | {"digest": digest("out.zarr")}
"""
    whole = process(run)
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(run, kill=1)
    assert json.loads(leftovers(str(tmp_path / "out.zarr"))[0].record)["operation"] == "sparse transpose"
    again = process("fl.resume('out.zarr')\nresult = told() | {'digest': digest('out.zarr')}")
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert abs(fl.open(tmp_path / "out.zarr").to_scipy() - matrix.T).max() < 1e-12


def test_another_layout_goes_on(process, tmp_path, matrix):
    _write("zarr", matrix, tmp_path)
    run = """
fl.convert(fl.open("s.zarr"), "out.zarr", layout="bitpacked", memory="700MiB")
result = told() | {"digest": digest("out.zarr")}
"""
    whole = process(run)
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(run, kill=1)
    assert json.loads(leftovers(str(tmp_path / "out.zarr"))[0].record)["operation"] == "sparse layout"
    again = process("fl.resume('out.zarr')\nresult = told() | {'digest': digest('out.zarr')}")
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert fl.open(tmp_path / "out.zarr").layout == "bitpacked"
    assert abs(fl.open(tmp_path / "out.zarr").to_scipy() - matrix).max() < 1e-12
