"""Arrays that exchange roles: the last committed epoch, whole, here, in other processes and programs."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import ROOT

SHAPE = (70, 50)


def heat(u: np.ndarray) -> np.ndarray:
    fresh = u.copy()
    fresh[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return fresh


def peers_current(path) -> np.ndarray:
    """As a program that knows nothing of flagstone finds it."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="r")
    return np.asarray(group[group.attrs["flagstone"]["epochs"]["current"]][...])


def test_an_iteration_goes_on_where_it_was_killed(tmp_path):
    path = tmp_path / "heat.zarr"
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np, flagstone as fl
from tests.storage.test_epochs import SHAPE, heat
with fl.epochs({str(path)!r}, SHAPE, chunks=(16, 16)) as u:
    if u.epoch == 0:
        u.next[...] = np.eye(*SHAPE)
        u.commit()
    while u.epoch < 12:
        u.next[...] = heat(u.current[...])
        if u.epoch % 4 == 3 and len(sys.argv) > 1 and u.epoch > int(sys.argv[1]):
            os._exit(9)
        u.commit({{"step": u.epoch, "residual": np.float64(1) / 3}})
"""
    for arguments, status in (["0"], 9), (["3"], 9), ([], 0):
        done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, timeout=120)
        assert done.returncode == status
    expected = np.eye(*SHAPE)
    for _ in range(11):
        expected = heat(expected)
    with fl.epochs(path, mode="r") as u:
        assert u.epoch == 12
        assert np.array_equal(u.current[...], expected)
        assert u.values == {"step": 11, "residual": 1 / 3}
        assert fl.check(u.current.path).ok
    assert np.array_equal(peers_current(path), expected)


def test_several_arrays_turn_together(tmp_path):
    path = tmp_path / "cg.zarr"
    ring = fl.epochs(path, {"x": (40, "float32"), "r": ((40, 3), "float64")}, slots=3)
    assert ring.fields == ("r", "x") or ring.fields == ("x", "r")
    for k in range(1, 8):
        x, r = ring.next["x"], ring.next["r"]
        x[...] = k
        with fl.graph() as g:
            g.add(lambda tile, k=k: tile.fill(-k), fl.write(r.tiles[0, 0]))
        if k % 2:
            r[...] = ring.current["r"] * 0.0 - float(k)  # an expression, computed by parts
        ring.commit()
        assert ring.epoch == k
        assert (ring.current["x"][...] == k).all()
        assert (ring.current["r"][...] == -k).all()
        with pytest.raises(fl.StorageError, match="open for reading"):
            x[...] = 0  # that is the committed one now
    other = fl.epochs(path, mode="r")
    seen = other.current["x"]
    assert (seen[...] == 7).all()
    ring.next["x"][...] = 100
    assert (other.current["x"][...] == 7).all()
    ring.close()
    with fl.epochs(path) as again:
        assert again.epoch == 7
        assert (again.next["x"][...] == 0).all()  # what was not committed is forgotten
    assert (peers := json.loads((path / "zarr.json").read_text())["attributes"]["flagstone"]["epochs"])
    assert peers["current"] == str(7 % 3)


def test_readers_hear_when_their_state_is_overwritten(tmp_path):
    path = tmp_path / "u.zarr"
    with fl.epochs(path, (64, 64), chunks=(16, 16)) as u:
        for k in (1, 2):
            u.next[...] = k
            u.commit()
        reader = fl.epochs(path, mode="r")
        held = reader.current
        assert (held[...] == 2).all()
        u.next[...] = 3
        u.commit()
        assert (held[...] == 2).all()  # still whole
        u.next[:16] = 4
        with pytest.raises(fl.StorageError, match="being overwritten"):
            held[...]
        for _ in range(3):  # every time, not only when it is noticed
            with pytest.raises(fl.StorageError, match="being overwritten"):
                held[...]
        assert (reader.current[...] == 3).all()
        u.commit()
        for _ in range(3):
            with pytest.raises(fl.StorageError, match="overwritten by a later one") as caught:
                held[...]
            assert caught.value.errno == errno.ESTALE
        fresh = reader.current
        assert (fresh[:16] == 4).all()
        assert reader.current is fresh
        left = u.current
    assert (left[:16] == 4).all()
    with fl.epochs(path) as u:  # the former writer's handle is a reader's now
        for k in (5, 6):
            u.next[...] = k
            u.commit()
    for array in (left, fresh):
        with pytest.raises(fl.StorageError, match="overwritten by a later one"):
            array[...]


def replaced(path, how: str) -> None:
    code = {
        "ring": f"fl.epochs({str(path)!r}, (8, 8), overwrite=True).close()",
        "slots": f"""
with fl.epochs({str(path)!r}, (8, 8), slots=20, overwrite=True) as w:
    for i in range(19):
        w.next[...] = i
        w.commit()""",
        "fields": f"fl.epochs({str(path)!r}, {{'x': (8, 'f8'), 'y': (3, 'f8')}}, overwrite=True).close()",
        "array": f"fl.create({str(path)!r}, (8, 8), 'f8', overwrite=True)",
    }
    run = f"import flagstone as fl\n{code[how]}"
    subprocess.run([sys.executable, "-c", run], check=True, timeout=60)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("how", ["ring", "slots", "fields", "array", "moved"])
def test_a_ring_that_was_replaced_is_said_to_be(tmp_path, how, written):
    path, aside = tmp_path / "u.zarr", tmp_path / "aside.zarr"
    with fl.epochs(path, (8, 8)) as u:
        u.next[...] = 1
        u.commit()
    reader = fl.epochs(path, mode="r")
    held = reader.current
    writer = fl.epochs(path)
    if written:
        writer.next[...] = 2
    path.rename(aside)  # replacing it asks for its locks, other programs do not
    if how != "moved":
        replaced(path, how)
        shutil.rmtree(aside)
    asked = [
        lambda: reader.epoch,
        lambda: reader.values,
        lambda: reader.current,
        lambda: writer.next,
        lambda: writer.commit({"x": 1}),
    ]
    for ask in asked:
        with pytest.raises(fl.StorageError, match="ring was replaced, moved or removed meanwhile") as caught:
            ask()
        assert caught.value.errno == errno.ESTALE
    assert "epoch 1" in repr(reader)
    writer.close()
    if how == "ring":
        with fl.epochs(path, mode="r") as fresh:
            assert fresh.epoch == 0
            assert fresh.values == {}
            assert (fresh.current[...] == 0).all()
    if how != "moved":
        with pytest.raises(fl.Error):
            np.asarray(held)


def test_a_ring_that_is_written_is_not_replaced(tmp_path):
    path = tmp_path / "u.zarr"
    with fl.epochs(path, (8, 8)) as u:
        u.next[...] = 1
        u.commit()
        with pytest.raises(fl.StorageError, match="being written by") as caught:
            fl.epochs(path, (9, 9), overwrite=True)
        assert caught.value.errno == errno.EBUSY
        u.next[...] = 2
        u.commit()
        assert (u.current[...] == 2).all()
    assert [entry.name for entry in tmp_path.iterdir()] == ["u.zarr"]
    with fl.epochs(path, (9, 9), overwrite=True) as u:
        assert u.epoch == 0
        assert u.current.shape == (9, 9)


def test_values_are_read_back_or_refused(tmp_path):
    values = {"least": -(2**63), "most": 2**64 - 1, "x": 0.1, "deep": [{"n": np.int64(-5)}]}
    with fl.epochs(tmp_path / "u.zarr", (8, 8)) as u:
        for n in (2**64, -(2**63) - 1, 2**70):
            with pytest.raises(fl.ShapeError, match="at most 64 bits"):
                u.commit({"deep": [{"n": n}]})
        assert u.epoch == 0
        u.commit(values)
    with fl.epochs(tmp_path / "u.zarr", mode="r") as r:
        assert r.values == {**values, "deep": [{"n": -5}]}


def test_slots_and_fields_are_checked_first(tmp_path):
    for slots in (1, -1, 129, 10**6, 2**40, 2**70, "2", 2.0, None, True):
        with pytest.raises(fl.ShapeError, match="whole number from 2"):
            fl.epochs(tmp_path / "u.zarr", (8, 8), slots=slots)
    for name in ("zarr.json", "a/b", ".x", "..", "__x"):
        with pytest.raises(fl.ShapeError, match="is no name"):
            fl.epochs(tmp_path / "u.zarr", {name: ((3,), "f8")})
    for fields in ({"x": (3,)}, {"x": 3}, {1: ((3,), "f8")}, {"x": ((3,), "f8", 4)}):
        with pytest.raises(fl.ShapeError, match="mapping of names"):
            fl.epochs(tmp_path / "u.zarr", fields)
    for name in ("a\0b", "\ud800"):
        with pytest.raises(fl.FormatError):
            fl.epochs(tmp_path / "u.zarr", {name: ((3,), "f8")})
    with pytest.raises(fl.ShapeError, match="0 arrays"):
        fl.epochs(tmp_path / "u.zarr", {})
    assert not list(tmp_path.iterdir())
    with fl.epochs(tmp_path / "u.zarr", (3,), slots=np.int64(3)) as u:
        assert u.slots == 3


def test_bad_input(tmp_path):
    path = tmp_path / "u.zarr"
    with pytest.raises(FileNotFoundError, match="give a shape"):
        fl.epochs(path)
    with fl.epochs(path, (8, 8)) as u:
        with pytest.raises(fl.StorageError, match="being written by"):
            fl.epochs(path)
        with pytest.raises(fl.StorageError, match="slot of a ring"):
            fl.matmul(np.eye(8), np.eye(8), out=u.next)
        with pytest.raises(fl.ShapeError, match="store arrays as fields"):
            u.commit({"x": np.nan})
        with pytest.raises(fl.StorageError, match=r"ring of epochs|being written"):
            fl.open(path / "1", mode="r+")[0, 0] = 1
        assert u.epoch == 0
    with pytest.raises(fl.Error, match="closed"):
        _ = u.epoch
    with pytest.raises(fl.ShapeError, match="overwrite=True"):
        fl.epochs(path, (9, 8))
    with pytest.raises(fl.ShapeError, match="two slots"):
        fl.epochs(tmp_path / "one.zarr", (8, 8), slots=1)
    with fl.epochs(path, mode="r") as r, pytest.raises(fl.StorageError):
        r.commit()
    fl.from_numpy(np.eye(3), tmp_path / "plain.zarr")
    with pytest.raises(fl.FormatError, match="no ring of epochs"):
        fl.epochs(tmp_path / "plain.zarr")
    assert not (tmp_path / "one.zarr").exists()
