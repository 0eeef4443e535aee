"""Imports in scratch: swept when nobody needs them; the quota where nobody names one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._scratch import quota, scratch


def write(path: Path, seed: int) -> None:
    """A file that is imported to be opened."""
    sp.save_npz(path, sp.random(300, 200, 0.1, "coo", random_state=seed))


def imports(place: Path) -> list[str]:
    return sorted(p.name for p in (place / "imports").glob("*.zarr"))


#: Opens files in a process of its own, and waits with them open where it is told to.
OPEN = """
import sys
import flagstone as fl
held = [fl.open(path) for path in sys.argv[2:]]
print("open", flush=True)
sys.argv[1] == "wait" and sys.stdin.readline()
assert all(one.shape == (300, 200) and one.sum() > 0 for one in held)
"""


def opened(place: Path, *paths: Path, wait: bool = False) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN, "wait" if wait else "", *map(str, paths)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "FLAGSTONE_SCRATCH": str(place)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    if not wait:
        process.communicate()
    return process


@pytest.fixture
def place(tmp_path):
    return tmp_path / "scratch"


def test_what_has_gone_or_changed_goes_with_the_next_import(tmp_path, place):
    """Five versions of one file leave one import; a file that is as it was keeps its own."""
    write(tmp_path / "kept.npz", 1)
    write(tmp_path / "gone.npz", 2)
    opened(place, tmp_path / "kept.npz", tmp_path / "gone.npz")
    assert len(imports(place)) == 2
    (tmp_path / "gone.npz").unlink()
    for seed in range(5):
        write(tmp_path / "m.npz", seed)
        opened(place, tmp_path / "m.npz")
        assert len(imports(place)) == 2
    left = sorted(p.name for p in (place / "imports").iterdir())
    assert len(left) == 6, left  # each with .json and .used
    opened(place, tmp_path / "kept.npz")
    assert len(imports(place)) == 2


def test_what_a_process_uses_stays(tmp_path, place):
    write(tmp_path / "m.npz", 1)
    process = opened(place, tmp_path / "m.npz", wait=True)
    try:
        write(tmp_path / "m.npz", 2)
        assert scratch.sweep_imports(place) == 0
        assert len(imports(place)) == 1
    finally:
        process.communicate("\n")
    assert process.returncode == 0
    assert scratch.sweep_imports(place) > 0
    assert imports(place) == []


def test_what_nobody_used_for_a_month_goes(tmp_path, place):
    write(tmp_path / "m.npz", 1)
    opened(place, tmp_path / "m.npz")
    (used,) = (place / "imports").glob("*.used")
    old = time.time() - 29 * 86400
    os.utime(used, (old, old))
    assert scratch.sweep_imports(place) == 0
    opened(place, tmp_path / "m.npz")  # is a use
    assert used.stat().st_mtime > time.time() - 3600
    old = time.time() - 31 * 86400
    os.utime(used, (old, old))
    assert scratch.sweep_imports(place) > 0
    assert list((place / "imports").iterdir()) == []


def test_the_quota_where_nobody_names_one(tmp_path, place):
    """Half of what is free at first; it stays, for all processes, and features() tells it."""
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    with fl.Runtime(scratch=place):
        most = fl.features()["scratch_quota"]
        assert abs(most - free / 2) < free / 20
        assert not place.exists()
        a = fl.from_numpy(np.ones((64, 64))) + 1
        kept = fl.compute(a)
        noted = int((place / "quota").read_text())
        assert abs(noted - free / 2) < free / 20
        (place / "quota").write_text("100000")
        assert fl.features()["scratch_quota"] == 100_000
        with pytest.raises(fl.StorageError, match="its quota of 97.7 KiB"):
            fl.compute(fl.from_numpy(np.ones((512, 512))) + 1)
        assert kept.shape == (64, 64)


def test_a_quota_that_is_used_up_sweeps_before_it_refuses(tmp_path, place):
    write(tmp_path / "m.npz", 1)
    opened(place, tmp_path / "m.npz")
    held = quota.held(place)
    (tmp_path / "m.npz").unlink()
    a = fl.from_numpy(np.ones((64, 64)))
    with fl.Runtime(scratch=place, scratch_quota=held + 4096):
        assert fl.compute(a + 1).shape == (64, 64)
    assert imports(place) == []
