"""Every public routine × limits {least legal, twice that, all fits} × workers {1, 2, 4}.

The same bits come out, and the process never holds more than the limit during the call (VmHWM, reset before).
Covering pairs of limits and workers run in one process a routine; `make test-all` runs the whole product, a
process for each routine and number of workers.
"""

from __future__ import annotations

import json
import sys

import pytest

import flagstone as fl
from tests.support.every_routine import NAMES, PLANNED, routine
from tests.support.processes import output_of, peak_memory, reset_peak

ALL_FITS = 3 << 30
WORKERS = [1, 2, 4]
#: So many times the bytes of its formula the product moves under 1 and 2 times the least limit, and where all
#: fits (None). The least holds a tile of each matrix, far from a square that fills memory.
FACTORS = {1: 2.0, 2: 1.4, None: 1.1}
#: The least allows for 5 MiB by which a process may grow, for rounding, and for what a plan that reads no
#: indices cannot know of sparse rows: a run may need so much less.
VISIBLY_LESS = 12 << 20
#: Each limit and each number of workers, both of their extremes together.
PAIRS = [(1, 1), (1, 4), (2, 2), (None, 4)]


def least_limit(work, workers: int | None = None) -> int:
    """What the refusal of an impossible limit says is needed."""
    with fl.Runtime(memory="1MiB", workers=workers):
        try:
            work()
        except fl.BudgetError as error:
            return error.least
    raise AssertionError("a limit of 1 MiB was accepted")


def measure(name: str, pairs: list[tuple[int | None, int]]) -> list[dict]:
    """Runs in a process of its own: one entry per limit (a multiple of the least) and number of workers."""
    work = routine(name)
    entries = []
    for factor, workers in pairs:
        limit = ALL_FITS if factor is None else factor * least_limit(work, workers)
        with fl.Runtime(memory=limit, workers=workers):
            reset_peak()
            result = work()
            peak = peak_memory()
            stats = fl.stats()
        entry = {"factor": factor, "workers": workers, "limit": limit, "peak": peak}
        entry |= {"bytes": stats.bytes_read + stats.bytes_written, "budget": stats.budget}
        entries.append({**entry, "bits": work.bits(result)})
        del result
    return entries


def check(operands, name: str, pairs: list[tuple[int | None, int]]) -> set[str]:
    """Holds a routine to every pair; the bits that came out."""
    printed = output_of(__file__, name, json.dumps(pairs), folder=operands)
    entries = json.loads(printed.splitlines()[-1])
    for entry in entries:
        assert entry["peak"] <= entry["limit"], entry
    bits = {entry["bits"] for entry in entries}
    assert len(bits) == 1, entries
    if name.startswith("matmul"):
        for entry in entries:
            slack = FACTORS[entry["factor"]]
            assert entry["bytes"] <= slack * matmul_bytes(name, entry["budget"]), entry
    return bits


@pytest.mark.parametrize("name", NAMES)
def test_every_routine_under_covering_limits(operands, name):
    check(operands, name, PAIRS)


_seen: dict[str, set[str]] = {}


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", NAMES)
def test_every_routine_under_every_limit(operands, name, workers):
    _seen.setdefault(name, set()).update(check(operands, name, [(factor, workers) for factor in FACTORS]))
    assert len(_seen[name]) == 1, "the bits depend on the number of workers"


def matmul_bytes(name: str, budget: int) -> float:
    """The docstring's formula: s mnk (1/rows + 1/cols) + compulsory, superblocks of √(budget/s)."""
    # Chunks travel whole: 4500 x 4200 lies in 5 x 5 chunks of 1024².
    m, k, n, s = (2048, 2560, 2048, 16) if "complex" in name else (5120, 5120, 3072, 4)
    side = (budget / s) ** 0.5
    return s * (2 * m * n * k / side + m * k + k * n + m * n)


@pytest.mark.parametrize("name", PLANNED)
def test_exactly_the_least_works(operands, name):
    """The refusal's number works; visibly less is refused again, before anything is written."""
    code = f"""
import flagstone as fl, os, tempfile
from tests.support.every_routine import routine
from tests.promises.test_limits import VISIBLY_LESS, least_limit
work = routine({name!r})
least = least_limit(work)
folder = tempfile.mkdtemp(dir=".")
out = [f"{{folder}}/1.zarr", f"{{folder}}/2.zarr"] if {name!r} == "sort_by" else f"{{folder}}/1.zarr"
for less in (least // 2, least - VISIBLY_LESS):
    try:
        work(memory=less, out=out)
    except fl.BudgetError as error:
        assert str(error).count("\\n") == 0
    else:
        raise AssertionError("less than the least was accepted")
assert not os.listdir(folder)
os.rmdir(folder)
planned = work.plan(memory=least).least_memory
work(memory=least)
print(planned - least)
"""
    printed = output_of("-c", code, folder=operands)
    assert abs(int(printed)) < 16 << 20


def test_memory_from_the_environment(isolated):
    refused = isolated(
        """
        x = np.ones((3000, 3000))
        try:
            fl.matmul(x, x)
            result = "accepted"
        except fl.BudgetError as error:
            result = str(error)
        """,
        env={"FLAGSTONE_MEMORY": "100MiB"},
    )
    assert "100 MiB" in refused


def test_call_wins_over_runtime_wins_over_environment(isolated):
    assert isolated(
        """
        x = np.ones((300, 300))
        with fl.Runtime(memory="1GiB"):
            fl.matmul(x, x)
            try:
                fl.matmul(x, x, memory="2MiB")
            except fl.BudgetError:
                result = True
        """,
        env={"FLAGSTONE_MEMORY": "3MiB"},
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))))
