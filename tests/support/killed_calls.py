"""Calls killed at a checkpoint: what runs before the code of the `process` fixture, and what they leave."""

from __future__ import annotations

from flagstone._resume.leftovers import Leftover, leftovers

# Checkpoints at every opportunity; `kill` ends the process (as kill -9 does) after so many.
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
if kill:
    kill_after(kill)
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
