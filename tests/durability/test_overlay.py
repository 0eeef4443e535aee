"""Overlays: what a lower layer holds (data baked into an image) is changed, replaced and deleted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from tests.support.faults.bad_disk import environment

SHAPE = (96, 64)


def values(k: int) -> np.ndarray:
    return np.random.default_rng(k).standard_normal(SHAPE)


def stores(place: Path) -> None:
    """An array of its own, and a group with two members and attributes of a group inside."""
    fl.from_numpy(values(1), place / "a.zarr")
    for group in ("g.zarr", "g.zarr/deep"):
        (place / group).mkdir()
        _core.write_group(str(place / group), "{}")
    for k, name in ((2, "b"), (3, "c"), (4, "deep/d")):
        fl.create(place / "g.zarr" / name, SHAPE, "float64", chunks=(32, 32))[...] = values(k)
    np.save(place / "e.npy", values(5))


@pytest.fixture
def overlay(tmp_path):
    """A directory whose files a lower layer holds, and that layer."""
    place = tmp_path / "layers"
    place.mkdir()
    # Not on what may be an overlay itself: an upper layer must not be one.
    commands = [["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]]
    done = subprocess.run(commands[0], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    try:
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir()
        stores(place / "lower")
        layers = ",".join(f"{kind}dir={place}/{kind}" for kind in ("lower", "upper", "work"))
        mount = ["mount", "-t", "overlay", "overlay", "-o", layers, str(place / "merged")]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no overlay can be mounted here: {done.stderr.strip()}")
        yield place / "merged", place / "lower"
        subprocess.run(["umount", "-l", str(place / "merged")], check=True)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def names(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir())


def test_what_a_lower_layer_holds_is_replaced(overlay):
    """By every way that builds aside; the layer stays as it is, and nothing is left beside."""
    merged, lower = overlay
    before = names(merged)
    old = fl.open(merged / "a.zarr")
    fl.from_numpy(values(11), merged / "a.zarr", overwrite=True)
    assert np.array_equal(fl.open(merged / "a.zarr")[...], values(11))
    assert np.array_equal(old[...], values(1))  # who has it open keeps what is held open
    fl.compute(fl.open(merged / "a.zarr") + 1, out=merged / "a.zarr")  # now of the upper layer
    assert np.array_equal(fl.open(merged / "a.zarr")[...], values(11) + 1)
    fl.rechunk(fl.open(merged / "g.zarr", key="b"), (16, 64), out=merged / "g.zarr" / "c")
    assert np.array_equal(fl.open(merged / "g.zarr", key="c")[...], values(2))
    fl.convert(merged / "e.npy", merged / "g.zarr", overwrite=True)
    assert np.array_equal(fl.open(merged / "g.zarr")[...], values(5))
    fl.convert(merged / "a.zarr", merged / "e.npy", overwrite=True)
    assert np.array_equal(np.load(merged / "e.npy"), values(11) + 1)
    assert names(merged) == before
    assert np.array_equal(fl.open(lower / "g.zarr", key="c")[...], values(3))


def test_what_a_lower_layer_holds_is_deleted(overlay):
    merged, lower = overlay
    fl.delete(merged / "g.zarr", key="b")
    assert not (merged / "g.zarr" / "b").exists()
    assert np.array_equal(fl.open(merged / "g.zarr", key="c")[...], values(3))
    fl.delete(merged / "a.zarr")
    fl.delete(merged / "e.npy")
    assert names(merged) == ["g.zarr"]
    fl.from_numpy(values(6), merged / "a.zarr")
    assert np.array_equal(fl.open(merged / "a.zarr")[...], values(6))
    assert names(merged / "g.zarr") == [name for name in names(lower / "g.zarr") if name != "b"]


def test_what_a_lower_layer_holds_is_changed(overlay):
    merged, lower = overlay
    with fl.open(merged / "g.zarr", key="b", mode="r+") as b:
        b[:40] = 7
        b.resize((50, 64))
    seen = fl.open(merged / "g.zarr", key="b")[...]
    assert (seen[:40] == 7).all()
    assert np.array_equal(seen[40:], values(2)[40:50])
    assert np.array_equal(fl.open(lower / "g.zarr", key="b")[...], values(2))
    assert fl.check(merged / "g.zarr").ok


STEPS = """
import errno, os, shutil
from pathlib import Path
from tests.support.faults.bad_disk import Disk, told
runtime = fl.Runtime(io="threads", workers=1)
runtime.__enter__()
place = Path("place").absolute()
place.mkdir()
disk = Disk(place)
old, new = np.arange(600.0).reshape(20, 30), -np.arange(600.0).reshape(20, 30)
def replace():
    fl.from_numpy(new, place / "a.zarr", overwrite=True)
def delete():
    fl.delete(place / "a.zarr")
call = {"replace": replace, "delete": delete}[name]
result = []
for at in range(1, 200):
    disk.lower("")
    shutil.rmtree(place / "a.zarr", ignore_errors=True)
    fl.from_numpy(old, place / "a.zarr")
    disk.lower(place / "a.zarr")
    disk.heal()
    disk.fail(errno.EIO, at, times, kinds="change")
    try:
        call()
        said = ""
    except fl.StorageError as error:
        said = str(error)
    reached = disk.count("change") >= at
    disk.heal()
    if (place / "a.zarr" / "zarr.json").exists():
        stored = "new" if np.array_equal(fl.open(place / "a.zarr")[...], new) else "old"
        assert stored == "new" or np.array_equal(fl.open(place / "a.zarr")[...], old)
    else:
        stored = "gone"
    if said:
        result.append([said, stored])
    disk.lower("")  # inodes are used again
    fl.from_numpy(new, place / "a.zarr", overwrite=True)  # the next writer
    assert np.array_equal(fl.open(place / "a.zarr")[...], new)
    assert told(place) == ["a.zarr"], told(place)
    if not reached:
        break
assert at > 5
"""


@pytest.mark.parametrize("times", [1, 1 << 40])
@pytest.mark.parametrize("name", ["replace", "delete"])
def test_a_directory_that_cannot_be_renamed(isolated, name, times):
    """Each step fails in turn: the old one is there, or it is said what is, and the next writer goes on."""
    told = isolated(STEPS, env=environment(), name=name, times=times)
    assert any(stored == "old" for _, stored in told)
    for said, stored in told:
        assert "cross-device" not in said
        if stored != "old":
            assert "stored" in said or "is deleted" in said, (said, stored)
