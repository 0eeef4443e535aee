"""Several files as one array: a list of paths, or a pattern."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flagstone as fl
from tests.support.strategies import stored_as, values


@pytest.fixture
def parts(tmp_path):
    """Ten parts of other lengths, in three formats, and what they are together."""
    whole = []
    for i in range(10):
        x = values((20 + 3 * i, 7), "float32", i)
        whole.append(x)
        if i % 3 == 2:
            stored_as(x, tmp_path / f"part-{i}.zarr", (9, 4))
        elif i % 3 == 1:
            np.save(tmp_path / f"part-{i}.npy", np.asfortranarray(x))
        else:
            np.save(tmp_path / f"part-{i}.npy", x)
    return tmp_path, np.concatenate(whole)


def test_a_pattern_is_the_rows_of_its_files_in_order(parts):
    folder, whole = parts
    a = fl.open(str(folder / "part-*"))
    assert isinstance(a, fl.Array)
    assert (a.shape, a.dtype, a.mode, a.path) == (whole.shape, whole.dtype, "r", None)
    assert np.array_equal(a[...], whole)
    assert np.array_equal(a[15:60:7, ::-2], whole[15:60:7, ::-2])
    assert np.array_equal(a[[3, 100, 200]], whole[[3, 100, 200]])
    assert np.array_equal(np.stack(list(a)), whole)
    assert float(a.max()) == whole.max()
    assert "10 arrays joined" in repr(a)
    assert np.array_equal(pickle.loads(pickle.dumps(a.T))[...], whole.T)


def test_a_list_keeps_its_order(parts):
    folder, _ = parts
    names = [folder / f"part-{i}.npy" for i in (3, 0)]
    a = fl.open(names)
    assert np.array_equal(a[...], np.concatenate([np.load(name) for name in names]))
    assert np.array_equal(fl.open(names[:1])[...], np.load(names[0]))


def test_nothing_is_moved_until_it_is_read(parts):
    folder, _ = parts
    a = fl.open(str(folder / "part-*.npy"))
    fl.compute(a.sum())
    parted = fl.stats().bytes_read
    stored = fl.from_numpy(a[...], folder / "whole.npy")
    fl.compute(stored.sum())
    assert parted <= fl.stats().bytes_read + 10 * 2 * 4096  # pages at both ends of each file


def test_what_is_assigned_to_a_part_is_seen(parts):
    folder, whole = parts
    a = fl.open(str(folder / "part-*"))
    one = fl.open(folder / "part-2.zarr", mode="r+")
    one[0] = 7
    assert np.array_equal(a[43], np.full(7, 7, "float32"))
    assert np.array_equal(a[44], whole[44])


def test_refusals(parts, tmp_path):
    folder, _ = parts
    np.save(folder / "wide.npy", np.ones((3, 8), "float32"))
    np.save(folder / "other.npy", np.ones((3, 7)))
    np.save(folder / "point.npy", np.float32(3))
    first = folder / "part-0.npy"
    for given, error, match in [
        (str(folder / "none-*.npy"), fl.StorageError, "matches nothing"),
        ([], ValueError, "list of parts is empty"),
        ([first, folder / "gone.npy"], fl.StorageError, "gone.npy' does not exist"),
        ([first, folder / "wide.npy"], fl.ShapeError, "is 20 x 7 and .*wide.npy' is 3 x 8; parts must agree"),
        ([first, folder / "other.npy"], fl.FormatError, "is float32 and .*other.npy' is float64; parts must"),
        ([folder / "point.npy"], fl.ShapeError, "has no dimensions"),
    ]:
        with pytest.raises(error, match=match):
            fl.open(given)
    with pytest.raises(fl.StorageError, match="one array for reading"):
        fl.open([first], mode="r+")
    fl.from_blocks([__import__("scipy.sparse").sparse.eye(7, format="csr")], tmp_path / "s.zarr")
    with pytest.raises(fl.FormatError, match="is no dense array"):
        fl.open([first, tmp_path / "s.zarr"])
    sparse = fl.open(tmp_path / "s.zarr")
    with pytest.raises(TypeError, match="a sparse matrix was given"):
        fl.stack([sparse])
    for mixed in ([sparse, np.eye(7)], [np.eye(7), sparse]):
        with pytest.raises(TypeError, match="is ndarray; a SparseArray is needed"):
            fl.concat(mixed)


def test_a_part_that_changes_its_length_while_it_is_read_is_an_error(parts):
    folder, _ = parts
    a = fl.open(str(folder / "part-*.npy"))
    with open(folder / "part-9.npy", "r+b") as file:
        file.truncate(200)
    with pytest.raises(fl.FormatError, match=r"part-9\.npy is truncated"):
        fl.compute(a.sum())
