"""A bounded corpus of damaged files of every format: some forty each, always the same (fuzz.py runs more)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from tests.support.faults import fuzz, fuzz_files

NEEDS = {
    "zarr-v3": ["zarr"], "zarr-zstd": ["zarr"], "zarr-v2": ["zarr", "numcodecs"], "hdf5": ["h5py"],
    "csc-anndata": ["zarr", "anndata"], "hdf5-flat": ["h5py"], "h5ad": ["h5py"], "journal": ["h5py"],
    "hdf5-imported": ["h5py"],
    "zarr-nested": ["zarr"], "zarr-bz2": ["zarr", "numcodecs"], "parquet": ["pyarrow"], "arrow": ["pyarrow"],
}  # fmt: skip


@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_damaged_files_are_said_and_nothing_breaks(name):
    for module in NEEDS.get(name, []):
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, fuzz.__file__, "--only", name, "--count", "40"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{name}: 40 cases, 0 wrong" in done.stdout


def test_the_fuzzer_sees_what_it_looks_for(tmp_path):
    """Damage damages, the same number gives the same bytes, and wrong errors are told from right ones."""
    changed = set()
    for number in range(20):
        for turn in "ab":
            folder = tmp_path / f"{number}{turn}"
            folder.mkdir()
            path = fuzz_files.npy(folder)
            fuzz.damage(path, np.random.default_rng(number))
        twins = [(tmp_path / f"{number}{turn}" / "victim.npy").read_bytes() for turn in "ab"]
        assert twins[0] == twins[1]
        changed.add(twins[0])
    assert len(changed) > 15
    path = Path("victim.npy")
    assert fuzz.complaint(fl.FormatError("open: 'victim.npy' is damaged."), path) is None
    assert fuzz.complaint(fl.FormatError("open: it is damaged."), path) == "does not name the file"
    assert fuzz.complaint(fl.FormatError("victim.npy:\nno"), path) == "several lines"
    assert fuzz.complaint(KeyError("victim.npy"), path) == "not one of ours"
