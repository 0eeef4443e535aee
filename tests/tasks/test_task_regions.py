"""What tasks name: a region once where it changes, two handles of one array as one, sizes as text, DLPack."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import flagstone as fl


def made(tmp_path, kind: str, values):
    """Write `values` and return what opens them, another handle each time."""
    path = tmp_path / f"y.{kind}"
    if kind == "zarr":
        fl.create(path, values.shape, values.dtype, chunks=(64, 50))[...] = values
    elif kind == "npy":
        np.save(path, values)
    else:
        values.tofile(path)

    def opened(mode: str = "r"):
        if kind == "raw":
            return fl.open_raw(path, values.dtype, values.shape, mode=mode)
        return fl.open(path, mode=mode)

    return opened


@pytest.mark.parametrize("kind", ["zarr", "npy", "raw"])
@pytest.mark.parametrize("first", ["read", "write"])
def test_two_handles_of_one_file_are_one_to_a_graph(tmp_path, kind, first):
    """What is read through one handle after it was written through the other is new; before, it is old."""
    opened = made(tmp_path, kind, np.full((128, 100), 5.0))
    seen = []

    def look(a):
        seen.append(a.copy())

    def fill(b):
        b[...] = 7

    reading, writing = opened(), opened("r+")
    for workers in (1, 2):
        seen.clear()
        writing[...] = 5
        writing.flush()
        with fl.Runtime(workers=workers), fl.graph() as g:
            for region in (reading.tiles[0, 0], reading.tiles[reading.tiles[0] - 1, 0]):
                key = tuple(slice(s, s + n) for s, n in zip(region.start, region.shape, strict=True))
                if first == "read" or kind != "zarr":
                    g.add(look, fl.read(region))
                g.add(fill, fl.write(fl.Region(writing, key)))
                g.add(look, fl.read(region))
            assert g.plan().bytes_written > 0
        values = [int(one.max()) for one in seen]
        assert all(one.min() == one.max() for one in seen)
        if kind == "zarr" and first == "write":
            assert values == [7, 7]
        elif kind == "zarr":
            assert sorted(values) == [5, 5, 7, 7]
        else:  # one tile, twice
            assert values == [5, 7, 7, 7]
    assert (opened()[:, :50] == 7).all()


def test_two_handles_that_both_write_are_one(tmp_path):
    opened = made(tmp_path, "npy", np.zeros((64, 50)))
    one, two = opened("r+"), opened("r+")

    def add(b):
        b += 1

    with fl.graph() as g:
        for _ in range(50):
            g.add(add, fl.update(one))
            g.add(add, fl.update(two))
    np.testing.assert_array_equal(opened()[...], 100)


def test_arrays_that_share_bytes_of_one_file_are_refused(tmp_path):
    path = tmp_path / "x.bin"
    np.zeros(1000).tofile(path)
    left = fl.open_raw(path, "f8", (600,), mode="r+")
    right = fl.open_raw(path, "f8", (600,), mode="r+", offset=400 * 8)
    apart = fl.open_raw(path, "f8", (400,), mode="r+", offset=600 * 8)

    def add(b):
        b += 1

    with pytest.raises(fl.ShapeError, match="another handle or pointer to the same file"), fl.graph() as g:
        g.add(lambda a, b: None, fl.update(left), fl.update(right))
    with fl.graph() as g:
        g.add(add, fl.update(left))
        g.add(add, fl.update(apart))
    np.testing.assert_array_equal(np.fromfile(path), 1)


@pytest.mark.parametrize("kind", ["zarr", "npy", "raw"])
@pytest.mark.parametrize("task", [
    lambda Y: (fl.read(Y.tiles[0, 0]), fl.write(Y.tiles[0, 0])),
    lambda Y: (fl.write(Y.tiles[0, 0]), fl.write(Y.tiles[0, 0])),
    lambda Y: (fl.update(Y.tiles[0, 0]), fl.read(Y)),
    lambda Y: (fl.read(Y.tiles[0, 0].grow(1)), fl.write(Y.tiles[0, 0])),
    lambda Y: (fl.read(Y.tiles[0, 0].grow(1, "periodic")), fl.write(Y.tiles[0, 0])),
    lambda Y: (fl.write(fl.Region(Y, (slice(0, 64),))), fl.write(Y.tiles[0, 0])),
    lambda Y: (fl.read(Y.T.tiles[0, 0]), fl.update(Y.tiles[0, 0])),
])  # fmt: skip
def test_what_a_task_changes_it_names_once(tmp_path, kind, task):
    """Views of one memory would show what is being written; of unequal boxes one would win."""
    Y = made(tmp_path, kind, np.full((128, 100), 5.0))("r+")
    g = fl.graph()
    with pytest.raises(
        fl.ShapeError, match=r"^graph: task 'f' is to .* share elements; name what it changes once"
    ):
        g.add(lambda a, b: None, *task(Y), name="f")
    assert len(g) == 0
    g.add(lambda a, b: None, fl.read(Y.tiles[0, 0]), fl.read(Y.tiles[0, 0]), name="f")
    g.run()
    np.testing.assert_array_equal(Y[...], 5)


def test_scratch_is_bytes_or_text(tmp_path):
    Y = made(tmp_path, "npy", np.zeros((64, 50)))()
    for scratch in ("1MiB", 1 << 20, np.int64(1 << 20)):
        with fl.graph() as g:
            g.add(lambda a: None, fl.read(Y), scratch=scratch)
    for bad in ("much", -1, "-1", True, None, 1 << 62):
        with pytest.raises(ValueError, match=r"^graph: scratch: .* is no size; give bytes or text"):
            fl.graph().add(print, fl.read(Y), scratch=bad)
    total = fl.fold(np.sum, operator.add, Y, scratch="1MiB", partial="1KiB")
    assert total == 0
    np.testing.assert_array_equal(fl.map_tiles(np.exp, Y, scratch="1MiB")[...], 1)


def test_an_exception_in_combine_is_said_to_be_there(tmp_path):
    Y = made(tmp_path, "zarr", np.zeros((128, 100)))()

    def total(a):
        return a.sum()

    def join(a, b):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        fl.fold(total, join, Y, block=(64, 50))
    notes = getattr(caught.value, "__notes__", None) or [str(caught.value.__cause__)]
    assert notes[0].startswith("in combine, 'join', after task 'total' (block 64 x 50 at ")


def test_tiles_of_tasks_speak_dlpack(tmp_path):
    """Pinned tiles are lent as they are: what another library writes is in the file; a loan has an end."""
    x = np.arange(12800.0).reshape(128, 100)
    opened = made(tmp_path, "zarr", x)
    Y = opened("r+")
    where = {}

    def double(a, b):
        seen, lent = np.from_dlpack(a), np.from_dlpack(b)
        where["same"] = seen.ctypes.data == a.ctypes.data and lent.ctypes.data == b.ctypes.data
        where["readonly"] = not seen.flags.writeable
        where["device"] = a.__dlpack_device__()
        lent[...] = 2 * seen

    with fl.graph() as g:
        g.add(double, fl.read(Y.tiles[0, 0]), fl.write(Y.tiles[1, 1]))
    assert where == {"same": True, "readonly": True, "device": (1, 0)}
    np.testing.assert_array_equal(opened()[64:, 50:], 2 * x[:64, :50])
    kept = []
    with pytest.raises(fl.Error, match=r"kept a view of its tile"), fl.graph() as g:
        g.add(lambda a: kept.append(np.from_dlpack(a)), fl.read(Y.tiles[0, 0]))
    np.testing.assert_array_equal(kept[0], x[:64, :50])  # the memory stays as long as the loan
