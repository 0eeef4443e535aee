"""The benchmarks run: each at sizes that take seconds. Figures are judged at full size only."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks.harness.routines import ALL, PLANNED
from benchmarks.harness.run_all import SCRIPTS, script

TOOLS_MISSING = 3
#: What a smoke leaves out: every part of these benchmarks.
WHOLE = {
    "product": {"zarr_memory": "256MiB"},
    "unaligned": {"inner": "200"},
    "product_memmap": {"grid": "256x256x256,512x512x512"},
    "storage": {"only": "rows,columns,blocks,small,peers,elements,writes,checksums,updates"},
    "pca": {"baselines": "covariance_eigh,randomized"},
    "limits": {"only": ALL, "n": "2500"},
    "plan": {"only": ",".join(PLANNED), "n": "2500"},
    "plan_seconds": {"only": "first,spectra,limits"},
    "packed": {"only": "cold,warm,write", "codecs": "blosc-lz4,zstd"},
    "resume": {"n": "4096", "memory": "140MiB"},
    "peers": {"only": "products,components,slices"},
}


def smoke(name, tmp_path, **options):
    result = tmp_path / "r.json"
    command = [sys.executable, str(script(name)), "--smoke", "--data", str(tmp_path), "--json", str(result)]
    command += [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
    threads = {
        name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"
    }  # baselines take all
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=threads)
    if done.returncode == TOOLS_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-3000:])
    assert json.loads(result.read_text())["rows"]


#: The first of each folder; the others, a minute of CI, are of `make test-all`.
FIRST = {folder: name for name, folder in reversed(SCRIPTS.items())}.values()


@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in SCRIPTS]
)
def test_smoke(tmp_path, name):
    smoke(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_smoke_of_every_part(tmp_path, name):
    smoke(name, tmp_path, **WHOLE[name])
