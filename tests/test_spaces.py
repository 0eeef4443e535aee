"""Arrays written anew: other chunks, dtypes and orders of dimensions, from every source, in fixed memory."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import flagstone as fl
from test_bad_input import fails

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def values(shape, dtype, seed=0) -> np.ndarray:
    """Bits of any kind that are numbers of this dtype."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "fc":
        x = rng.standard_normal(shape)
        x = x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x
        return np.asarray(x).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 120, shape).astype(dtype)


def stored_as(x: np.ndarray, path, chunks) -> fl.Array:
    a = fl.create(str(path), x.shape, x.dtype, chunks)
    if x.size:
        a[...] = x
    return a


@st.composite
def shapes(draw):
    shape = tuple(draw(st.lists(st.integers(0, 40), min_size=0, max_size=4)))
    chunks = tuple(draw(st.integers(1, max(1, n + 3))) for n in shape)
    others = tuple(draw(st.integers(1, max(1, n + 3))) for n in shape)
    return shape, chunks, others


@settings(max_examples=20, deadline=None)
@given(shapes(), st.sampled_from(DTYPES), st.integers(0, 1000))
def test_there_and_back(tmp_path_factory, given_shapes, dtype, seed):
    shape, chunks, others = given_shapes
    folder = tmp_path_factory.mktemp("spaces")
    x = values(shape, dtype, seed)
    a = stored_as(x, folder / "a.zarr", chunks)
    b = fl.rechunk(a, others, out=str(folder / "b.zarr"))
    assert b.chunks == others
    assert b.dtype == x.dtype
    assert np.asarray(b).tobytes() == x.tobytes()
    assert np.array_equal(zarr.open(str(folder / "b.zarr"), mode="r")["array"][...], x)
    c = fl.rechunk(b, chunks)
    assert c.chunks == chunks
    assert np.asarray(c).tobytes() == x.tobytes()


@settings(max_examples=20, deadline=None)
@given(shapes(), st.sampled_from(DTYPES), st.randoms(use_true_random=False))
def test_transposed_twice(tmp_path_factory, given_shapes, dtype, random):
    shape, chunks, others = given_shapes
    folder = tmp_path_factory.mktemp("spaces")
    x = values(shape, dtype)
    a = stored_as(x, folder / "a.zarr", chunks)
    axes = random.sample(range(len(shape)), len(shape))
    b = fl.transpose(a, axes, chunks=tuple(others[d] for d in axes))
    assert np.array_equal(np.asarray(b), x.transpose(axes))
    c = fl.transpose(b, [axes.index(d) for d in range(len(shape))])
    assert np.array_equal(np.asarray(c), x)
    assert b.chunks == b.shape or c.chunks == others
    assert np.array_equal(np.asarray(fl.transpose(a.T)), x)
    assert np.array_equal(np.asarray(fl.rechunk(a.T.conj(), others[::-1])), x.T.conj())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "raw", "hdf5", "hdf5 packed", "zarr packed", "zarr 2", "memory"])
def test_every_source(tmp_path, kind, order):
    x = np.asarray(values((123, 57, 9), "float32"), order=order)
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
        a = fl.open(str(tmp_path / "x.npy"))
    elif kind == "raw":
        (tmp_path / "x.bin").write_bytes(b"head" * 3 + x.tobytes(order))
        a = fl.open_raw(str(tmp_path / "x.bin"), "float32", x.shape, order=order, offset=12)
    elif kind.startswith("hdf5"):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            packed = {"chunks": (20, 10, 9), "compression": "gzip", "shuffle": True}
            file.create_dataset("x", data=x, **(packed if "packed" in kind else {}))
        a = fl.open(str(tmp_path / "x.h5"), key="x")
    elif kind == "zarr packed":
        zarr.create_array(
            str(tmp_path / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=(50, 20, 4), fill_value=3.5,
            filters=[zarr.codecs.TransposeCodec(order=(2, 0, 1))] if order == "F" else None,
        )[:100] = x[:100]  # fmt: skip
        x[100:] = 3.5
        a = fl.open(str(tmp_path / "x.zarr"))
    elif kind == "zarr 2":
        zarr.create_array(
            str(tmp_path / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=(50, 20, 4), zarr_format=2,
            order=order, compressors=None,
        )[...] = x  # fmt: skip
        a = fl.open(str(tmp_path / "x.zarr"))
    else:
        a = x
    assert np.array_equal(np.asarray(fl.rechunk(a, (16, 57, 2))), x)
    assert np.array_equal(np.asarray(fl.transpose(a, (1, 2, 0))), x.transpose(1, 2, 0))
    flat = fl.transpose(a, (2, 0, 1), out=str(tmp_path / "t.npy"))
    assert np.array_equal(np.load(tmp_path / "t.npy"), x.transpose(2, 0, 1))
    assert flat.path.endswith(".npy")


@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize("wanted", ["int32", "float32", "float64", "complex128", "bool"])
def test_conversion(tmp_path, given, wanted):
    x = values((30, 40), given)
    a = stored_as(x, tmp_path / "a.zarr", (7, 40))
    if np.can_cast(given, wanted, "same_kind"):
        b = fl.rechunk(a, (30, 9), dtype=wanted)
    else:
        with pytest.raises(fl.ShapeError, match="casting='unsafe'"):
            fl.rechunk(a, (30, 9), dtype=wanted)
        if np.dtype(given).kind == "c":
            return
        b = fl.rechunk(a, (30, 9), dtype=wanted, casting="unsafe")
    assert b.dtype == wanted
    assert np.array_equal(np.asarray(b), x.astype(wanted))


def test_chunks_as_people_write_them(tmp_path):
    a = stored_as(values((30, 40), "int16"), tmp_path / "a.zarr", (7, 40))
    assert fl.rechunk(a, (-1, 8)).chunks == (30, 8)
    assert fl.rechunk(a, (5, None)).chunks == (5, 40)
    assert fl.rechunk(a).chunks == tuple(fl._core.default_chunks([30, 40], "int16"))
    for bad in [(5,), (0, 4), (-2, 4), (2.5, 4), "ab"]:
        with pytest.raises((fl.ShapeError, TypeError), match="rechunk"):
            fl.rechunk(a, bad)
    for axes in [(0,), (0, 0), (0, 2), 3, "ab"]:
        with pytest.raises(fl.ShapeError, match="transpose: axes"):
            fl.transpose(a, axes)
    with pytest.raises(TypeError, match="lazy expression"):
        fl.rechunk(a + 1, (3, 3))


def test_out_follows_the_rules_of_every_routine(tmp_path):
    x = values((30, 40), "float64")
    a = stored_as(x, tmp_path / "a.zarr", (7, 40))
    zarr.open(str(tmp_path / "a.zarr"))["array"].attrs["unit"] = "kg"
    again = fl.open(str(tmp_path / "a.zarr"), mode="r")
    assert fl.rechunk(a, (30, 4), out=a) is a  # in place of its own source: exchanged when it is complete
    assert a.chunks == (30, 4)
    assert np.array_equal(np.asarray(a), x)
    assert again.chunks == (7, 40)
    assert np.array_equal(np.asarray(again), x)
    assert zarr.open(str(tmp_path / "a.zarr"))["array"].attrs["unit"] == "kg"
    here = np.zeros((40, 30))
    assert fl.transpose(a, out=here) is here
    assert np.array_equal(here, x.T)
    with pytest.raises(fl.ShapeError, match="must agree|agrees"):
        fl.transpose(a, out=np.zeros((30, 40)))
    with pytest.raises(fl.StorageError, match="open for reading"):
        fl.rechunk(a, (3, 3), out=fl.open(str(tmp_path / "a.zarr"), mode="r"))
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "thesis.txt").write_text("mine")
    with pytest.raises(fl.StorageError, match="not replaced"):
        fl.rechunk(a, (3, 3), out=str(tmp_path / "keep"))
    fl.rechunk(a, (5, 5), out=str(tmp_path / "sum.zarr"), checksum="inner")
    assert fl.check(str(tmp_path / "sum.zarr")).ok
    assert "crc32c" in (tmp_path / "sum.zarr" / "array" / "zarr.json").read_text()
    assert not [name for name in os.listdir(tmp_path) if "flagstone-tmp" in name]


@pytest.mark.parametrize("to", [[512, 512], [2048, 64], [1, 2048]])
@pytest.mark.parametrize("extra", [0, 6, 60])
def test_plan_limit_and_bytes(isolated, to, extra):
    """From row stripes: one pass or two, what was planned is what happens, and the limit is kept."""
    done = isolated(
        """
        a = fl.create("a.zarr", (2048, 2048), "float32", (16, 2048))
        for i in range(0, 2048, 256):
            a[i:i + 256] = np.random.default_rng(i).standard_normal((256, 2048), dtype="float32")
        least = fl.rechunk.plan(a, to).least_memory
        limit = least + (extra << 20)
        plan = fl.rechunk.plan(a, to, memory=limit)
        b = fl.rechunk(a, to, memory=limit, out="b.zarr")
        done = fl.stats()
        same = all(np.array_equal(a[i:i + 64], b[i:i + 64]) for i in range(0, 2048, 64))
        result = dict(limit=limit, peak=done.peak_memory, planned=[plan.bytes_read, plan.bytes_written],
                      moved=[done.bytes_read, done.bytes_written], passes=[plan.passes, done.passes],
                      note=plan.note, same=same)
        """,
        to=to, extra=extra,
    )  # fmt: skip
    nbytes = 2048 * 2048 * 4
    assert done["same"]
    assert done["peak"] <= done["limit"]
    assert done["passes"][0] == done["passes"][1]
    assert done["planned"][1] == done["moved"][1]
    # What is still in memory from the first pass is not read again: a matter of moments, more so since tiles
    # between are written where space was taken for them.
    slack = 0 if done["passes"][0] == 1 else 0.2
    assert done["moved"][0] == pytest.approx(done["planned"][0], rel=slack, abs=0)
    assert done["moved"][1] <= 1.1 * nbytes * done["passes"][0]
    assert ("through scratch" in done["note"]) == (done["passes"][0] == 2)
    if extra == 60:
        assert done["passes"] == [1, 1]
        assert sum(done["moved"]) <= 2.02 * nbytes


def test_refused_before_any_byte_moves(isolated):
    refused = isolated(
        """
        a = fl.create("a.zarr", (2048, 2048), "float32", (1024, 1024))
        try:
            fl.rechunk(a, (2048, 64), memory="40MiB", out="b.zarr")
        except fl.BudgetError as error:
            result = [str(error), os.path.exists("b.zarr")]
        """
    )
    assert "needs at least" in refused[0]
    assert "Raise memory=" in refused[0]
    assert not refused[1]


@pytest.mark.parametrize("ndim", [1, 2, 7, 20, 32])
def test_one_to_thirty_two_dimensions(tmp_path, ndim):
    shape = tuple(2 if d % 8 == 0 else 3 if d % 8 == 5 else 1 for d in range(ndim))
    x = values(shape, "int32")
    a = stored_as(x, tmp_path / "a.zarr", tuple(min(2, n) for n in shape))
    part = (0, *[slice(None, None, 2)] * (ndim - 1))
    assert np.array_equal(a[...], x)
    assert np.array_equal(a[part], x[part])
    b = fl.rechunk(a, (-1,) * ndim, out=str(tmp_path / "b.zarr"))
    assert b.chunks == shape
    assert np.array_equal(np.asarray(b), x)
    b.resize((*shape[:-1], shape[-1] + 3))
    grown = np.zeros(b.shape, "int32")
    grown[..., : shape[-1]] = x
    assert np.array_equal(zarr.open(str(tmp_path / "b.zarr"), mode="r")["array"][...], grown)
    b.resize(shape)
    assert np.array_equal(np.asarray(b), x)
    c = fl.transpose(b, out=str(tmp_path / "c.zarr"))
    assert np.array_equal(np.asarray(c), x.T)
    assert np.array_equal(zarr.open(str(tmp_path / "c.zarr"), mode="r")["array"][...], x.T)
    assert fl.check(str(tmp_path / "c.zarr")).ok


@st.composite
def extents(draw):
    ndim = draw(st.integers(1, 4))
    chunks = tuple(draw(st.integers(1, 7)) for _ in range(ndim))
    return chunks, [
        tuple(draw(st.integers(0, 20)) for _ in range(ndim)) for _ in range(draw(st.integers(2, 5)))
    ]


@settings(max_examples=15, deadline=None)
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


def test_a_resize_that_fails_after_its_commit_says_so(tmp_path, monkeypatch):
    """A full disk while the edges are cleaned: the array has its new shape, and so has the handle."""
    a = fl.from_numpy(np.ones((30, 30)), str(tmp_path / "a.zarr"))

    class Full:
        def __init__(self, engine):
            self.engine = engine

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def resize(self, path, extents, staging):
            self.engine.resize(path, extents, staging)
            raise fl.StorageError("storage: cannot write", errno.ENOSPC, path, 0)

    class Call(fl.extents.Call):
        def __init__(self, *given):
            super().__init__(*given)
            self.engine = Full(self.engine)

    with monkeypatch.context() as patch:
        patch.setattr(fl.extents, "Call", Call)
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


def test_command(tmp_path):
    x = values((60, 40), "float64")
    stored_as(x, tmp_path / "a.zarr", (5, 40))

    def flagstone(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "flagstone", "rechunk", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    done = flagstone("a.zarr", "b.zarr", "--chunks", "60,-1", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert "one pass" in done.stdout
    b = fl.open(str(tmp_path / "b.zarr"))
    assert b.chunks == (60, 40)
    assert np.array_equal(np.asarray(b), x.astype("float32"))
    done = flagstone("a.zarr", "t.npy", "--axes", "1,0", "--json", "--memory", "1GiB")
    assert json.loads(done.stdout)["stats"]["passes"] == 1
    assert np.array_equal(np.load(tmp_path / "t.npy"), x.T)
    assert "needs" not in flagstone("a.zarr", "b.zarr", "--plan").stderr
    assert flagstone("a.zarr", "b.zarr").returncode == 1
    assert flagstone("a.zarr", "c.zarr", "--chunks", "1,x").returncode == 2
