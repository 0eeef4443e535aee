"""Structures that say what cannot be: refused when they are opened, before any number comes of them."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

import flagstone as fl
from tests.support.error_sentences import fails

FORMATS = ["h5ad", "zarr", "npz"]
KINDS = ["csr", "csc"]


def write(tmp_path, form, kind, shape, pointers):
    """A matrix of four stored values that says this of itself."""
    data, indices, indptr = np.ones(4, "f4"), np.array([0, 1, 0, 1], "i4"), np.array(pointers, "i8")
    path = tmp_path / f"m.{form}"
    if form == "npz":
        np.savez(path, format=kind.encode(), shape=shape, data=data, indices=indices, indptr=indptr)
        return path
    about = {"encoding-type": f"{kind}_matrix", "encoding-version": "0.1.0", "shape": [int(n) for n in shape]}
    if form == "h5ad":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            group = file.create_group("X")
            group.attrs.update(about)
            group["data"], group["indices"], group["indptr"] = data, indices, indptr
        return path
    group = zarr.open_group(path, mode="w", zarr_format=3, attributes=about)
    for name, values in (("data", data), ("indices", indices), ("indptr", indptr)):
        group.create_array(name, data=values)
    return path


def shaped(kind, major, minor):
    return (major, minor) if kind == "csr" else (minor, major)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_one_opens(tmp_path, form, kind):
    opened = fl.open(write(tmp_path, form, kind, shaped(kind, 2, 3), [0, 2, 4]))
    dense = np.array([[1, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(opened.to_scipy().toarray(), dense if kind == "csr" else dense.T)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_pointers_that_do_not_begin_at_0(tmp_path, form, kind):
    path = write(tmp_path, form, kind, shaped(kind, 2, 3), [1, 2, 4])
    with fails(fl.FormatError, "open", f"m.{form}", "begin.* at 1", "0 is needed"):
        fl.open(path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("minor", [-3, 2**44, 2**62])
def test_extents_that_cannot_be(tmp_path, form, kind, minor):
    path = write(tmp_path, form, kind, shaped(kind, 2, minor), [0, 2, 4])
    with fails(fl.FormatError, "open", f"m.{form}", "shape"):
        fl.open(path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("major", [-2, 2**62])
def test_rows_that_cannot_be(tmp_path, form, major):
    with fails(fl.FormatError, "open", f"m.{form}", "shape|indptr|pointers"):
        fl.open(write(tmp_path, form, "csr", (major, 3), [0, 2, 4]))


def test_blocks_of_scipy(tmp_path):
    block = sp.csr_matrix(np.eye(3))
    block.indptr[0] = 1
    block.data, block.indices = block.data[1:], block.indices[1:]  # lengths agree, rows do not
    with fails(fl.FormatError, "from_blocks", "begin at 1", "0 is needed"):
        fl.from_blocks([block], tmp_path / "b.zarr")
    for cols in (-3, 2**62):
        with fails(fl.FormatError, "from_blocks", "shape", str(cols)):
            fl.from_blocks([(np.ones(1), np.zeros(1, int), np.array([0, 1]), cols)], tmp_path / "b.zarr")
    part = (np.ones(2), np.array([1, 2]), np.array([5, 6, 7]), 3)  # rows of a larger one, as a tuple: as ever
    np.testing.assert_array_equal(
        fl.from_blocks([part], tmp_path / "b.zarr").to_scipy().toarray(), np.eye(3)[1:]
    )


def test_a_dense_text_that_no_disk_holds(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix array real general\n{2**50} {2**50}\n1.5\n")
    with fails(fl.FormatError, "a.mtx", "no file holds"):
        fl.open(path)


# Members of Zarr v3 metadata that are not known ----------------------------------------------------------


def add_member(file, name, value):
    root = json.loads(file.read_text())
    root[name] = value
    file.write_text(json.dumps(root))


UNKNOWN = [{"must_understand": True}, {"kind": "x"}, 3, None, [], {"must_understand": "false"}]


@pytest.mark.parametrize("value", UNKNOWN)
def test_unknown_members_of_an_array_are_refused(tmp_path, value):
    made = zarr.create_array(str(tmp_path / "a.zarr"), shape=(4,), dtype="f8", zarr_format=3)
    made[...] = np.arange(4)
    add_member(tmp_path / "a.zarr" / "zarr.json", "meaning", value)
    with fails(fl.FormatError, "open", "a.zarr/zarr.json", "'meaning'", "must_understand: false"):
        fl.open(tmp_path / "a.zarr")


@pytest.mark.parametrize("value", UNKNOWN)
def test_unknown_members_of_a_group_are_refused(tmp_path, value):
    fl.from_numpy(np.ones((3, 2)), tmp_path / "g.zarr")
    fl.from_blocks([sp.csr_matrix(np.eye(3))], tmp_path / "s.zarr")
    for name in ("g.zarr", "s.zarr"):
        add_member(tmp_path / name / "zarr.json", "meaning", value)
        with fails(fl.FormatError, "open", f"{name}/zarr.json", "'meaning'"):
            fl.open(tmp_path / name)


def test_members_that_nobody_must_understand(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=3)
    group.create_array("a", data=np.arange(3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr-python, that the standard has no such member
        zarr.consolidate_metadata(tmp_path / "g.zarr")  # it says must_understand: false of it
    add_member(tmp_path / "g.zarr" / "a" / "zarr.json", "meaning", {"must_understand": False, "x": 1})
    np.testing.assert_array_equal(fl.open(tmp_path / "g.zarr")[...], np.arange(3.0))
