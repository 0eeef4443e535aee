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
