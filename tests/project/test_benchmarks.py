"""The benchmarks run: each at sizes that take seconds. Figures are judged at full size only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.harness.run_all import SCRIPTS, script

TOOLS_MISSING = 3


@pytest.mark.parametrize("name", SCRIPTS)
def test_smoke(tmp_path, name):
    done = subprocess.run(
        [
            sys.executable,
            str(script(name)),
            "--smoke",
            "--data",
            str(tmp_path),
            "--json",
            str(tmp_path / "r.json"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == TOOLS_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-3000:])
    assert json.loads((tmp_path / "r.json").read_text())["rows"]
