"""`resize` where nothing can be written: the project's error, and nothing is changed."""

from __future__ import annotations

import errno
import subprocess

import numpy as np
import pytest
import zarr

import flagstone as fl
from tests.support.faults.bad_disk import environment


def group(place):
    """An array in a group whose metadata are consolidated, which a resize would have to forget."""
    fl.from_numpy(np.arange(600.0).reshape(20, 30), place / "g.zarr")
    zarr.consolidate_metadata(str(place / "g.zarr"))
    (place / "g.zarr" / ".zmetadata").write_text("{}")
    return place / "g.zarr"


def bits(place):
    return {str(f.relative_to(place)): f.read_bytes() for f in sorted(place.rglob("*")) if f.is_file()}


def test_on_read_only_media(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    try:
        path = group(place)
        before = bits(path)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        a = fl.open(path, mode="r+")
        with pytest.raises(fl.StorageError) as caught:
            a.resize((5, 5))
        assert caught.value.errno == errno.EROFS
        assert isinstance(caught.value, PermissionError)
        assert str(path) in str(caught.value)
        assert bits(path) == before
        assert a.shape == (20, 30)
        assert fl.open(path)[19, 29] == 599
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_where_the_disk_takes_no_change(isolated):
    """As above where nothing can be mounted; and when it can be changed again, it is."""
    shape, said = isolated(
        """
        import errno
        from pathlib import Path
        from tests.storage.test_resize_read_only import bits, group
        from tests.support.faults.bad_disk import Disk
        place = Path("place").absolute()
        place.mkdir()
        path = group(place)
        a = fl.open(path, mode="r+")
        a[0, 0] = 1
        before = bits(path)
        disk = Disk(place)
        disk.fail(errno.EROFS, kinds="grow change")
        try:
            a.resize((5, 5))
            said = ""
        except fl.StorageError as error:
            said = [error.errno, str(error)]
        disk.heal()
        after = bits(path)
        assert {k: v for k, v in after.items() if "lock" not in k} == {
            k: v for k, v in before.items() if "lock" not in k}
        a.resize((5, 5))
        result = [list(fl.open(path).shape), said]
        """,
        env=environment(),
    )
    assert shape == [5, 5]
    assert said[0] == errno.EROFS
    assert "\n" not in said[1]
