"""Writers are killed at every step and at random, and disks lose their power: old or new, never else."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("harness")
TOOLS_MISSING = 3
#: Workloads, together as they take about the same time, and the least number of kills of each: 200 of all.
KILLED = [
    {"updates": 110},
    {"shards": 5, "epochs": 7},
    {"several shards": 20, "resize": 8, "repair": 9, "delete": 5},
    {"outputs": 8, "outputs in two steps": 8, "pack": 10, "obsm": 5},
    {"outputs over a layer": 8, "delete from a layer": 5},
    {"sparse": 4, "resume": 8, "resume sparse": 9},
]
CUT_OFF = [
    ["updates", "several shards"],
    ["resize", "epochs", "repair", "outputs"],
    ["outputs in two steps", "pack", "delete"],
    ["resume", "obsm"],
    ["outputs over a layer", "delete from a layer"],
    ["sparse"],
    ["resume sparse"],
]


def run(script: str, tmp_path: Path, environment: dict[str, str], *options: str) -> tuple[int, dict]:
    result = tmp_path / "result.json"
    command = [sys.executable, str(HARNESS / f"{script}.py"), "--smoke", "--json", str(result), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == TOOLS_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert result.exists(), (done.stdout[-2000:], done.stderr[-3000:])
    return done.returncode, json.loads(result.read_text())


def only(workloads: Iterable[str]) -> list[str]:
    """The option that chooses those of them that can run here."""
    has_anndata = all(importlib.util.find_spec(name) for name in ("anndata", "h5py"))
    return ["--only", ",".join(name for name in workloads if name != "obsm" or has_anndata)]


@pytest.mark.parametrize("kills", KILLED, ids=", ".join)
def test_killed_writers_leave_old_or_new(tmp_path, with_steps, kills):
    fewer = ["--stride", "52"] if "sparse" in kills else []  # these commits have hundreds of slow steps
    code, told = run("crash", tmp_path, with_steps, *only(kills), "--kills", str(len(kills)), *fewer)
    assert told["failures"] == []
    assert code == 0
    for row in told["rows"]:
        assert row["kills"] >= kills[row["workload"]], row
    assert sum(row.get("reads by peers", 0) for row in told["rows"]) > sum(kills.values()) / 2


@pytest.mark.slow
def test_killed_writers_leave_old_or_new_for_us_and_for_peers(tmp_path, with_steps):
    code, told = run("crash", tmp_path, with_steps)
    assert told["failures"] == []
    assert code == 0
    assert sum(row["kills"] for row in told["rows"]) > 200
    assert sum(row.get("reads by peers", 0) for row in told["rows"]) > 100


@pytest.mark.parametrize("workloads", CUT_OFF, ids=", ".join)
def test_power_loss_leaves_the_old_or_the_new(tmp_path, with_steps, workloads):
    stride = "15" if "resume sparse" in workloads else "11"
    fewer = ["--stride", stride] if len(workloads) == 1 else []
    code, told = run("power_loss", tmp_path, with_steps, *only(workloads), *fewer)
    assert told["failures"] == []
    assert code == 0
    for row in told["rows"]:
        assert min(row["old"], row["new"]) > 5, row


@pytest.mark.slow
def test_power_loss_leaves_old_or_new(tmp_path, with_steps):
    code, told = run("power_loss", tmp_path, with_steps)
    assert told["failures"] == []
    assert code == 0
    for row in told["rows"]:
        assert min(row["old"], row["new"]) > 5, row


def test_a_disk_that_lies_is_found_out(tmp_path, with_steps):
    """The replay can fail: where syncs do nothing, states that are neither old nor new are found."""
    code, told = run("power_loss", tmp_path, with_steps, "--lying", "--only", "updates,outputs")
    assert code == 1
    assert {failure.split(":")[0] for failure in told["failures"]} == {"updates", "outputs"}
