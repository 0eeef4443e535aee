"""Interleavings of updates, crashes, reopened handles and readers agree with a model; what that found."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl

HARNESS = Path(__file__).with_name("harness")
TOOLS_MISSING = 3


def interleavings(tmp_path: Path, environment: dict[str, str], *options: str) -> tuple[int, dict, str]:
    result = tmp_path / "result.json"
    script = str(HARNESS / "interleavings.py")
    command = [sys.executable, script, "--json", str(result), "--data", str(tmp_path), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == TOOLS_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return (
        done.returncode,
        json.loads(result.read_text()) if result.exists() else {},
        done.stdout + done.stderr,
    )


@pytest.mark.parametrize("examples", [16, pytest.param(35, marks=pytest.mark.slow)])
def test_interleavings_agree_with_the_model(tmp_path, with_steps, examples):
    seen: Counter[str] = Counter()
    for seed in (
        "7",
        "8",
        "9",
    ):  # where a process dies follows the order of its threads too: some runs see few
        some = ["--examples", str(examples), "--steps", "40", "--seed", seed]
        code, told, printed = interleavings(tmp_path, with_steps, *some)
        assert code == 0, printed[-8000:]
        seen.update({kind: told[kind] for kind in ("operations", "deaths", "stops", "errors", "reads")})
        if min(seen[kind] for kind in ("deaths", "stops", "errors", "reads")) > 5:
            break
    assert seen["operations"] > 200
    assert min(seen[kind] for kind in ("deaths", "stops", "errors", "reads")) > 5, seen


def test_updates_that_are_not_atomic_are_found_out(tmp_path, with_steps):
    """The model can disagree: where a transaction is several, a state is found that was never committed."""
    script = tmp_path / "script"
    lines = [
        ("perform", ("create", "A", (6,), (3,), "float64", "raw", "sidecar"), 0, None),
        ("perform", ("create", "B", (6,), (3,), "float64", "raw", "sidecar"), 0, None),
        ("perform", ("block", (("A", ((0, 6, 1),), 1), ("B", ((0, 6, 1),), 2)), True), 0, None),
    ]
    script.write_text(repr(lines))
    code, _, printed = interleavings(tmp_path, with_steps, "--replay", str(script))
    assert code == 0, printed[-4000:]
    for step in range(10, 60, 5):
        lines[2] = (*lines[2][:3], ("die", step, False, 0))
        script.write_text(repr(lines))
        code, _, printed = interleavings(tmp_path, with_steps, "--torn", "--replay", str(script))
        if code:
            break
    assert "what is stored is none of 2 states" in printed


# What it found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", ["sidecar", "none"])
def test_zeros_of_an_array_that_was_deleted_are_not_made_up(tmp_path, checksum):
    """What was assigned after a handle was opened, and not looked at, went with the array: that is said."""
    path = tmp_path / "a.zarr"
    fl.create(path, (4,), "f8", chunks=(2,), checksum=checksum).close()
    reader = fl.open(path)
    with fl.open(path, mode="r+") as writer:
        writer[1:3] = 7
    fl.delete(path)
    with pytest.raises(fl.StorageError, match="replaced or removed") as caught:
        reader[...]
    assert caught.value.errno == errno.ESTALE


def test_zeros_of_an_array_that_grew_and_was_deleted_are_not_made_up(tmp_path):
    path = tmp_path / "a.zarr"
    fl.create(path, (4,), "f8", chunks=(2,)).close()
    reader = fl.open(path)
    with fl.open(path, mode="r+") as writer:
        writer.resize((9,))
        writer[1:3] = 7
    fl.delete(path)
    with pytest.raises(fl.StorageError, match="replaced or removed"):
        reader[...]


def test_an_array_that_was_cut_off_and_then_deleted_is_not_shown_with_zeros(tmp_path):
    path = tmp_path / "a.zarr"
    fl.from_numpy(np.ones((8, 2)), path).close()
    reader = fl.open(path)
    with fl.open(path, mode="r+") as writer:
        writer.resize((3, 2))
    fl.delete(path)
    with pytest.raises(fl.StorageError, match="open it again"):
        reader[...]


def test_an_array_of_zeros_is_kept_by_who_has_it_open(tmp_path):
    path = tmp_path / "a.zarr"
    fl.from_numpy(np.zeros((4, 4)), path)
    reader = fl.open(path)
    fl.from_numpy(np.ones((3, 3)), path, overwrite=True)
    assert not reader[...].any()
    assert reader.shape == (4, 4)


def test_what_a_dead_resize_left_does_not_keep_an_array_from_being_deleted_or_replaced(tmp_path):
    """The new metadata lie beside the old for a moment: whoever dies then leaves them there."""
    for finish in (fl.delete, lambda path: fl.from_numpy(np.ones(3), path, overwrite=True).close()):
        path = tmp_path / "data.zarr" / "a"
        fl.create(path, (4,), "f8").close()
        (path / "zarr.json.part").write_text("{}")
        finish(path)
        assert not (path / "zarr.json.part").exists()
    assert np.array_equal(fl.open(path)[...], np.ones(3))


@pytest.mark.parametrize("checksum", ["sidecar", "none"])
def test_a_handle_of_an_array_that_is_gone_shows_it_as_it_was_last(tmp_path, checksum):
    """It read before the first update, which took a free slot, and the second, which took the old one."""
    path = tmp_path / "a.zarr"
    old = np.arange(16.0).reshape(4, 4) + 1
    fl.from_numpy(old, path, checksum=checksum)
    reader = fl.open(path)
    assert np.array_equal(reader[...], old)
    with fl.open(path, mode="r+") as writer:
        writer[0] = 50
        writer[1] = 60
    fl.delete(path)
    old[0], old[1] = 50, 60
    assert np.array_equal(reader[...], old)


def test_a_result_that_replaces_its_operand_is_no_change_of_it(tmp_path):
    path = tmp_path / "a.zarr"
    values = np.arange(16.0).reshape(4, 4)
    reader = fl.from_numpy(values, path)
    fl.compute(fl.open(path) * 2, out=path)
    assert np.array_equal(np.asarray(fl.open(path)), 2 * values)
    assert np.array_equal(reader[...], values)
