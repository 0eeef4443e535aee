"""Calls killed at a checkpoint: what runs before the code of the `process` fixture, and what they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flagstone._resume.leftovers import Leftover, leftovers

ROOT = Path(__file__).resolve().parents[2]

# Checkpoints at every opportunity, in `saves`; `kill` ends the process (as kill -9 does) after so many.
PROLOGUE = """
import os, signal, json, hashlib, warnings
from pathlib import Path
from flagstone._resume import record
def kill_after(number):
    start = []
    def saved(n):
        start.append(n)
        if len(start) == number:
            os.kill(os.getpid(), signal.SIGKILL)
    record.saved = saved
    return start
saves = kill_after(kill)  # 0: never
def digest(path):
    found = hashlib.blake2b()
    for place in sorted(Path(path).rglob("*")):
        if place.is_file() and "__flagstone" not in place.parts:
            found.update(str(place.relative_to(path)).encode() + place.read_bytes())
    return found.hexdigest()
def told():
    s = fl.stats()
    return {"what": s.what, "read": s.bytes_read, "flops": s.flops}
"""


def left_at(path) -> list[Leftover]:
    return leftovers(str(path))


def check_goes_on(process, out: Path, call: str, kills: tuple[int, ...], **values) -> None:
    """A call that writes `out`, killed after so many saves, is resumed to the same bytes, with less work."""
    resume = f'fl.resume("{out.name}", memory="400MiB")\nresult = told() | {{"digest": digest("{out.name}")}}'
    whole = process(call, **values)
    out.rename(out.with_name("whole.zarr"))
    for kill in kills:
        process(call, kill=kill, **values)
        (left,) = left_at(out)
        assert 0 < left.done < 1
        again = process(resume)
        assert again["digest"] == whole["digest"]
        assert again["flops"] < whole["flops"]
        out.rename(out.with_name(f"{out.stem}{kill}.zarr"))


def states_in(left: Leftover) -> set[str]:
    """Names of the states that the last save has: its first line tells of the parts."""
    with open(f"{left.notes}/state", "rb") as file:
        head = json.loads(file.readline().partition(b" ")[2])
    return {part["name"].partition("/")[0] for part in head["parts"]}


def cpp_example(name: str) -> str:
    """A program of examples/cpp, of the newest build; `make test` builds them first."""
    places = [*ROOT.glob(f"build/*/examples/cpp/{name}"), ROOT / "build" / "examples-cpp" / name]
    built = [path for path in places if path.is_file() and not {"asan", "tsan"} & set(path.parts)]
    if not built:
        pytest.skip(f"examples/cpp/{name} is not built; 'make ctest' builds it")
    return str(max(built, key=lambda path: path.stat().st_mtime))
