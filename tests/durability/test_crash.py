"""Writers are killed at every step and at random, and disks lose their power: old or new, never else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("harness")
TOOLS_MISSING = 3


def run(script: str, tmp_path: Path, *options: str) -> tuple[int, dict]:
    result = tmp_path / "result.json"
    command = [sys.executable, str(HARNESS / f"{script}.py"), "--smoke", "--json", str(result), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == TOOLS_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert result.exists(), (done.stdout[-2000:], done.stderr[-3000:])
    return done.returncode, json.loads(result.read_text())


def test_killed_writers_leave_old_or_new_for_us_and_for_peers(tmp_path):
    code, told = run("crash", tmp_path)
    assert told["failures"] == []
    assert code == 0
    assert sum(row["kills"] for row in told["rows"]) > 200
    assert sum(row.get("reads by peers", 0) for row in told["rows"]) > 100


def test_power_loss_leaves_old_or_new(tmp_path):
    code, told = run("power_loss", tmp_path)
    assert told["failures"] == []
    assert code == 0
    for row in told["rows"]:
        assert min(row["old"], row["new"]) > 5, row


def test_a_disk_that_lies_is_found_out(tmp_path):
    """The replay can fail: where syncs do nothing, states that are neither old nor new are found."""
    code, told = run("power_loss", tmp_path, "--lying", "--only", "updates,outputs")
    assert code == 1
    assert {failure.split(":")[0] for failure in told["failures"]} == {"updates", "outputs"}
