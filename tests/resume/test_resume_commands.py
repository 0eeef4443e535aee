"""The command line lists what killed calls left, of Python and C++, goes on with it or deletes it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import flagstone as fl
from tests.resume.test_resume import PRODUCT
from tests.support.error_sentences import fails
from tests.support.killed_calls import cpp_example, left_at


def test_command_line(process, factors):
    def flagstone(*arguments):
        place = os.path.join(os.path.dirname(sys.executable), "flagstone")
        return subprocess.run([place, *arguments], cwd=factors, capture_output=True, text=True, check=False)

    process(PRODUCT, kill=2, memory="160MiB", workers=1)
    listed = flagstone("scratch").stdout
    assert "resumable" in listed
    assert "c.zarr, matmul" in listed
    facts = json.loads(flagstone("scratch", "--json").stdout)["begun"]
    assert [one["operation"] for one in facts if one["path"] == str(factors / "c.zarr")] == ["matmul"]
    assert "--all deletes it too" in flagstone("scratch", "--clear", "--yes").stdout
    done = flagstone("resume", "c.zarr", "--memory", "300MiB", "--json")
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["from"] < 1
    assert fl.check(factors / "c.zarr").ok
    again = flagstone("resume", "c.zarr")
    assert again.returncode == 1
    assert "has nothing to resume" in again.stderr
    assert str(factors) not in flagstone("scratch").stdout
    process(PRODUCT, kill=2, memory="160MiB", workers=1)
    assert "Deleted" in flagstone("scratch", "--clear", "--all", "--yes").stdout
    assert not left_at(factors / "c.zarr")


def test_what_a_killed_cpp_program_left_is_listed_and_named(tmp_path):
    """One scratch, one listing for both languages; only the program itself can go on."""
    program = cpp_example("long_program")
    always = {**os.environ, "FLAGSTONE_CHECKPOINT_SECONDS": "0"}

    def run(*arguments):
        return subprocess.run([program, str(tmp_path), *arguments], env=always, check=False).returncode

    def flagstone(*arguments):
        place = os.path.join(os.path.dirname(sys.executable), "flagstone")
        return subprocess.run([place, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    def listed():
        begun = json.loads(flagstone("scratch", "--json").stdout)["begun"]
        return [one for one in begun if one["path"] == str(tmp_path / "centred.zarr")]

    assert run("9") == -signal.SIGKILL
    (told,) = listed()
    assert (told["operation"], told["checkpoints"], told["done"]) == ("centring", 9, 0.75)
    assert told["resumable"]
    assert not told["running"]
    assert "centred.zarr, centring 75% done" in flagstone("scratch").stdout
    wanted = (
        r"resume: '.*centred\.zarr' is computed by a C\+\+ program \(centring\); start that program again: "
        r"it goes on at 75%\.$"
    )
    with fails(fl.Error, wanted):
        fl.resume(tmp_path / "centred.zarr")
    refused = flagstone("resume", "centred.zarr")
    assert refused.returncode == 1
    assert re.search(wanted, refused.stderr.strip())
    assert "Traceback" not in refused.stderr
    assert run() == 0
    assert not listed()
    x = np.fromfile(tmp_path / "x.bin").reshape(4096, 512)
    centred = np.asarray(fl.open(tmp_path / "centred.zarr"))
    assert np.max(np.abs(centred - (x - x.mean(axis=0)))) <= 4096 * np.finfo(float).eps * np.abs(x).max()
    assert run("3") == -signal.SIGKILL  # Python's call with the same out= says what it throws away
    with pytest.warns(fl.LeftoverWarning, match="a centring that was 56% done is thrown away"):
        fl.from_numpy(np.ones((2, 2)), tmp_path / "centred.zarr", overwrite=True)
    assert not listed()
