"""The interposer of `file_steps.cpp`: built when needed, loaded by running the program again."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CREATE, MKDIR, LINK, REMOVE, RENAME, WRITE, RESIZE, ALLOCATE, SYNC, MARK, UNKNOWN = range(11)
_HEAD = struct.Struct("<IIQQQQQ")
SOURCE = Path(__file__).with_suffix(".cpp")
TOOLS_MISSING = 3
_loaded = "FLAGSTONE_FILE_STEPS"


@dataclass(frozen=True)
class Step:
    """What was written down of a step: numbers and bytes as `file_steps.cpp` has them for its kind."""

    kind: int
    text: str
    numbers: tuple[int, int, int, int]
    data: bytes

    @property
    def changes(self) -> tuple[int, ...]:
        """Inodes of what it changes: a file, or the folders that get or lose a name; of what is synced."""
        if self.kind in (MARK, UNKNOWN, REMOVE):  # what is gone again need not be remembered
            return ()
        return self.numbers[: 2 if self.kind == RENAME else 1]


def recorded(log: Path) -> Iterator[Step]:
    """Yield the steps of a recording."""
    raw = log.read_bytes()
    at = 0
    while at < len(raw):
        kind, length, *numbers, count = _HEAD.unpack_from(raw, at)
        text, at = at + _HEAD.size, at + _HEAD.size + length
        yield Step(kind, raw[text:at].decode(), tuple(numbers), raw[at : at + count])
        at += count


def environment(folder: str | Path) -> dict[str, str] | None:
    """Build the interposer in a folder; what a program with it has in its environment (None: no compiler)."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None:
        return None
    library = f"{folder}/file_steps.so"
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return {**os.environ, "LD_PRELOAD": library, _loaded: library, "OMP_NUM_THREADS": "1"}


def again_with_steps() -> None:
    """Run this program once more with the interposer preloaded; returns in that one only."""
    if os.environ.get(_loaded):
        return
    with tempfile.TemporaryDirectory(prefix="flagstone-steps-") as folder:
        with_steps = environment(folder)
        if with_steps is None:
            print("file_steps: a C++ compiler is needed", file=sys.stderr)
            sys.exit(TOOLS_MISSING)
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=with_steps, check=False).returncode)


class Steps:
    """Calls into the interposer: of this process, and of children that it forks from then on."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.environ[_loaded])
        for name, kinds in {
            "watch": [ctypes.c_char_p], "record": [ctypes.c_char_p], "mark": [ctypes.c_char_p],
            "die": [ctypes.c_long, ctypes.c_int], "fail": [ctypes.c_long, ctypes.c_int, ctypes.c_long],
            "without_flags": [ctypes.c_int], "lower": [ctypes.c_int], "count": [], "stop": [ctypes.c_long],
            "reads": [],
        }.items():  # fmt: skip
            function = getattr(library, f"steps_{name}")
            function.argtypes = kinds
            setattr(self, f"_{name}", function)

    def watch(self, directory: Path) -> None:
        """Count what changes files below a directory, from 1."""
        self._watch(os.path.realpath(directory).encode())

    def die(self, at: int, torn: bool = False) -> None:
        """End the process before its step `at`; torn: when half of it, if it is a write, has been done."""
        self._die(at, torn)

    def stop(self, at: int) -> None:
        """Stop the process (SIGSTOP) before its step `at`, until it gets SIGCONT."""
        self._stop(at)

    def count_reads(self) -> None:
        """Count reads and openings too, after `watch`: for a process that only reads."""
        self._reads()

    def fail(self, at: int, number: int, times: int = 1) -> None:
        """Let steps fail with an errno."""
        self._fail(at, number, times)

    def without_exchange(self) -> None:
        """Let renameat2 refuse its flags, as on file systems that do not have them."""
        self._without_flags(1)

    def lower(self) -> None:
        """Let no directory be renamed that is not hidden, as if a lower layer of an overlay held it."""
        self._lower(1)

    def record(self, file: Path) -> None:
        """Write down every step."""
        self._record(os.fspath(file).encode())

    def mark(self, text: str) -> None:
        """Write something down between the steps."""
        self._mark(text.encode())

    def count(self) -> int:
        """Return the number of steps since `watch`."""
        return int(self._count())
