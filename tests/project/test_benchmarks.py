"""The benchmarks run: each at sizes that take seconds. Figures are judged at full size only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
TOOLS_MISSING = 3

sys.path.insert(0, str(BENCHMARKS))
from run_all import SCRIPTS  # noqa: E402


@pytest.mark.parametrize("name", SCRIPTS)
def test_smoke(tmp_path, name):
    done = subprocess.run(
        [
            sys.executable,
            str(BENCHMARKS / f"{name}.py"),
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
