"""Every entry of the register holds its limit, is refused before it moves data, and told what works.

VmHWM, reset before, is at most the limit (what was resident at entry and 4 MiB, where that is more), for
calls that succeed and for calls that are refused; afterwards the process holds what it held at entry. The
grid: from the least limit to twice that in steps of 2 MiB, for 1 to 4 workers. A draw from it, by a printed
seed, runs for each entry; all of it in `make test-all`, a process for each entry. FLAGSTONE_TEST_SEED names
a draw: `.ci/nightly` takes a new one each time, `make test` the same, so that a commit is judged alike.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable

import pytest

from tests.support import unsynced
from tests.support.processes import ROOT
from tests.support.register import ENTRIES
from tests.support.register.data import prepare

MiB = 1 << 20
HEADERS = 1 << 20  #: of files that are looked at before a refusal, a packed chunk of pointers too
STEPS = 40  #: steps of 2 MiB that are drawn from; beyond twice the least it is that
SEED = os.environ.get("FLAGSTONE_TEST_SEED") or "1"


@pytest.fixture(scope="module")
def register_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("register")
    prepare(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def measurer(register_data):
    """The process of measure.py, which forks one for each entry that it is asked for."""
    path = os.pathsep.join(p for p in (os.environ.get("PYTHONPATH"), str(ROOT)) if p)
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests/support/register/measure.py")],
        cwd=register_data,
        env={**unsynced.environment(), "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield process
        process.stdin.close()


def run(measurer: subprocess.Popen[str], name: str, cases: list[list], timeout: float) -> list[list[dict]]:
    """What measure.py says of each case: refused, refused again, then one run for each step."""
    late = threading.Timer(timeout, os.killpg, (measurer.pid, signal.SIGKILL))
    late.start()
    print(json.dumps([name, cases]), file=measurer.stdin, flush=True)
    told, line = [], ""
    for line in measurer.stdout:
        if line.startswith("ended"):
            break
        told.append(line)
    late.cancel()
    assert line == "ended 0\n", (name, cases, line)  # it printed why, or was killed: too late
    return [json.loads(line) for line in told]


def faults(name: str, told: Iterable[list[dict]]) -> list[str]:
    """What breaks a promise, one line each."""
    found = []
    for _, refused, *runs in told:  # what the first call holds of code and tables is no other's
        passed = False
        for one in (refused, *runs):
            where = (
                f"{name} ({one['case']}), workers={one['workers']}, limit {one['limit'] / MiB:.0f} MiB, "
                f"{one['entry'] / MiB:.0f} MiB at entry:"
            )
            over = one["peak"] - max(one["limit"], one["entry"] + ENTRIES[name].headers * MiB)
            if over > 0:
                found.append(f"{where} held {one['peak'] / MiB:.1f} MiB, {over / MiB:.1f} too many")
            again = one is refused or passed  # what goes through for the first time loads its code
            passed |= "least" not in one
            if again and one["after"] > one["entry"] + ENTRIES[name].stays * MiB:
                found.append(f"{where} {one['after'] / MiB:.1f} MiB stay")
            if one in runs and "least" in one and not ENTRIES[name].refused_late:
                found.append(f"{where} refused again: {one['message']}")
        early = max(refused["moved"], refused["disk"])  # a direct read counts in both
        if "least" in refused and early > HEADERS and not ENTRIES[name].refused_late:
            found.append(
                f"{name} ({refused['case']}), workers={refused['workers']}: moved {early / MiB:.1f} MiB "
                "before it was refused"
            )
    return found


def drawn(name: str) -> list:
    """A case of the grid: a variant, workers, and two limits, the least among them now and then."""
    chance = random.Random(f"{SEED} {name}")
    steps = [0, chance.randrange(1, STEPS)] if chance.random() < 0.5 else chance.sample(range(STEPS), 2)
    return [chance.choice(ENTRIES[name].variants), chance.randint(1, 4), steps]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_draw_of_limits(measurer, name):
    case = drawn(name)
    found = faults(name, run(measurer, name, [case], 300))
    assert not found, f"FLAGSTONE_TEST_SEED={SEED}, case {case}:\n" + "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_every_limit(measurer, name, capsys):
    cases = [[variant, workers, ALL] for variant in ENTRIES[name].variants for workers in (1, 2, 3, 4)]
    told = run(measurer, name, cases, 36_000)
    found = faults(name, told)
    with capsys.disabled():
        print(f"\n{name}: {sum(map(len, told))} calls under limits, {len(found)} faults")
    assert not found, "\n".join(found)


ALL = "all"  #: steps of 2 MiB from the least limit to twice that


def test_the_seed_is_told(capsys):
    with capsys.disabled():
        print(f"\nlimits drawn with FLAGSTONE_TEST_SEED={SEED}")
    assert drawn("rechunk") == drawn("rechunk")
