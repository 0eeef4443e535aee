"""Arrays grown, cut down and deleted; peers agree on what is there."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._storage import resize
from tests.support.error_sentences import fails
from tests.support.examples import examples
from tests.support.strategies import DTYPES, stored_as, values


@st.composite
def extents(draw):
    ndim = draw(st.integers(1, 4))
    chunks = tuple(draw(st.integers(1, 7)) for _ in range(ndim))
    return chunks, [
        tuple(draw(st.integers(0, 20)) for _ in range(ndim)) for _ in range(draw(st.integers(2, 5)))
    ]


@examples(15)
@given(extents(), st.sampled_from(DTYPES), st.sampled_from(["sidecar", "inner", "none"]))
def test_resized_again_and_again(tmp_path_factory, given_extents, dtype, checksum):
    """What is kept is kept, what is new reads as fill, what was cut off never returns; zarr-python agrees."""
    chunks, shapes = given_extents
    path = tmp_path_factory.mktemp("extents") / "a.zarr"
    model = values(shapes[0], dtype)
    a = fl.create(str(path), shapes[0], dtype, chunks, checksum=checksum)
    if model.size:
        a[...] = model
    for number, shape in enumerate(shapes[1:]):
        fresh = np.zeros(shape, dtype)
        both = tuple(slice(0, min(n, m)) for n, m in zip(model.shape, shape, strict=True))
        fresh[both] = model[both]
        a.resize(shape)
        model = fresh
        assert a.shape == shape
        assert np.array_equal(np.asarray(a), model)
        assert np.array_equal(zarr.open(str(path), mode="r")["array"][...], model)
        if model.size and number % 2 == 0:
            model = values(shape, dtype, number + 1)
            a[...] = model
    report = fl.check(str(path))
    assert report.ok
    assert report.verified == (report.stored if checksum != "none" else 0)
    if model.size:
        ts = tensorstore.open(
            {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path / "array")}}
        ).result()
        assert np.array_equal(ts.read().result(), model)


def test_resized_by_turns_with_a_peer(tmp_path):
    """A fill value of its own, consolidated metadata, and old elements that a peer leaves outside."""
    g = str(tmp_path / "g.zarr")
    a = fl.create(f"{g}/x", (30, 30), "f4", (4, 4))
    about = json.loads((tmp_path / "g.zarr/x/zarr.json").read_text())
    (tmp_path / "g.zarr/x/zarr.json").write_text(json.dumps({**about, "fill_value": 7.5}))
    x = values((30, 30), "float32")
    a = fl.open(g, key="x", mode="r+")
    a[...] = x
    zarr.open(g, mode="r+")["x"].attrs["unit"] = "kg"
    zarr.open(f"{g}/x", mode="r+").resize((22, 30))  # keeps what it cut off
    with pytest.warns(UserWarning, match="onsolidated"):
        zarr.consolidate_metadata(g)
    a = fl.open(g, key="x", mode="r+")
    a.resize((40, 17))
    expected = np.full((40, 17), 7.5, "float32")
    expected[:22] = x[:22, :17]
    assert np.array_equal(np.asarray(a), expected)
    root = zarr.open(g, mode="r")
    assert np.array_equal(root["x"][...], expected)
    assert root["x"].attrs["unit"] == "kg"
    zarr.open(f"{g}/x", mode="r+").resize((40, 30))  # nor does what was cut off here come back to a peer
    assert (zarr.open(f"{g}/x", mode="r")[:, 17:] == 7.5).all()


@pytest.mark.parametrize("checksum", ["sidecar", "inner", "none"])
@pytest.mark.parametrize("written", [False, True])
def test_who_has_a_shard_open_that_was_cut_off_sees_what_is_there_now(tmp_path, checksum, written):
    a = fl.create(tmp_path / "a.zarr", (5, 6), "float64", chunks=(5, 2), checksum=checksum)
    a[...] = 1
    reader = fl.open(tmp_path / "a.zarr")
    assert np.asarray(reader).sum() == 30
    a.resize((0, 0))  # its shard is removed
    a.resize((8, 7))
    if written:
        a[2, 3] = 5
    assert np.asarray(reader).sum() == (5 if written else 0)
    assert fl.check(tmp_path / "a.zarr").ok


def test_a_resize_that_fails_after_its_commit_says_so(tmp_path, monkeypatch):
    """A full disk while the edges are cleaned: the array has its new shape, and so has the handle."""
    a = fl.from_numpy(np.ones((30, 30)), str(tmp_path / "a.zarr"))

    class Full:
        def __init__(self, engine):
            self.engine = engine

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def resize(self, path, extents):
            self.engine.resize(path, extents)
            raise fl.StorageError("storage: cannot write", errno.ENOSPC, path, 0)

    class Call(resize.Call):
        def __init__(self, *given):
            super().__init__(*given)
            self.engine = Full(self.engine)

    with monkeypatch.context() as patch:
        patch.setattr(resize, "Call", Call)
        with fails(fl.StorageError, "new shape", "No space left"):
            a.resize((20, 25))
    assert a.shape == (20, 25)
    np.testing.assert_array_equal(a[...], np.ones((20, 25)))
    a.resize((30, 30))
    assert a[...].sum() == 500


def test_shards_of_others_are_not_resized(tmp_path):
    x = values((30, 30), "float32")
    place = str(tmp_path / "x.zarr")
    zarr.create_array(place, shape=x.shape, dtype="f4", chunks=(4, 4), shards=(12, 12), compressors=None)[
        ...
    ] = x
    a = fl.open(place, mode="r+")
    with pytest.raises(fl.FormatError, match="do not lie in slots"):
        a.resize((20, 30))
    assert np.array_equal(np.asarray(fl.open(place)), x)
    a.resize((12, 30))  # whole shards go
    assert np.array_equal(zarr.open(place, mode="r")[...], x[:12])


def test_resized_beyond_what_could_be_looked_through(tmp_path):
    """Its grid has 10^10 places; a look at each would take hours."""
    x = values((100, 80), "float64")
    a = stored_as(x, tmp_path / "a.zarr", (30, 30))
    a.resize((1 << 40, 80))
    a[1 << 39, 5:9] = 7.0
    a.resize(((1 << 40) + 1, 80))
    assert np.array_equal(a[1 << 39, 4:10], [0, 7, 7, 7, 7, 0])
    assert np.array_equal(a[:100], x)
    a.resize((100, 81))
    a.resize((1 << 40, 81))
    assert not a[1 << 39].any()
    a.resize((95, 80))
    assert np.array_equal(np.asarray(a), x[:95])


def test_what_is_not_resized(tmp_path):
    a = stored_as(values((30, 40), "int16"), tmp_path / "a.zarr", (7, 40))
    np.save(tmp_path / "x.npy", np.zeros((3, 4)))
    for array, error in [
        (fl.open(str(tmp_path / "x.npy"), mode="r+"), fl.FormatError),
        (fl.from_numpy(np.zeros((3, 4))), fl.FormatError),
        (fl.open(str(tmp_path / "a.zarr")), fl.StorageError),
    ]:
        with pytest.raises(error, match="resize"):
            array.resize((5, 5))
    for shape in [(5,), (5, -1), (2.5, 3), "ab"]:
        with pytest.raises(fl.ShapeError, match="resize"):
            a.resize(shape)
    with fl.transaction(str(tmp_path / "a.zarr")):
        a[0] = 1
        with pytest.raises(fl.Error, match="open transaction"):
            a.resize((5, 5))
    late = fl.open(str(tmp_path / "a.zarr"), mode="r+")
    a.resize((31, 41))
    with pytest.raises(fl.StorageError, match="resized meanwhile"):
        late[0] = 2
    a.T.resize((42, 32))
    assert a.shape == (32, 42)


def test_deleted(tmp_path):
    g = tmp_path / "g.zarr"
    a, _b = (stored_as(values((30, 40), "int16"), g / name, (7, 40)) for name in "ab")
    other = fl.open(str(g), key="a")
    with fl.transaction(str(g)):
        a[0] = 1
        with pytest.raises(fl.StorageError, match="being written"):
            fl.delete(str(g), "a")
    fl.delete(str(g), "a")
    assert sorted(name for name in os.listdir(g)) == ["b", "zarr.json"]
    assert other[0, 0] == 1  # who has it open keeps what is held open
    (g / "b" / "notes.txt").write_text("mine")
    with pytest.raises(fl.StorageError, match=r"notes\.txt"):
        fl.delete(str(g))
    os.unlink(g / "b" / "notes.txt")
    fl.delete(str(g))
    assert os.listdir(tmp_path) == []
    np.save(tmp_path / "x.npy", np.zeros(3))
    (tmp_path / "x.txt").write_text("mine")
    fl.delete(str(tmp_path / "x.npy"))
    for path, key in [("x.txt", None), ("nothing", None), (".", None), ("x.txt", "../b")]:
        with pytest.raises((fl.StorageError, FileNotFoundError, ValueError), match="delete"):
            fl.delete(str(tmp_path / path), key)
    assert os.listdir(tmp_path) == ["x.txt"]
