"""Damages valid files of every format at random and opens what is left: an answer or one of our errors.

    python tests/support/faults/fuzz.py [--count 1000] [--seed 0] [--only npz]

Each case is a number: format, seed and number give the same bytes again. What is looked for: a crash (the
process ends), any exception that is not one of ours, one that does not name the file, a message of several
lines, more memory than the limit allows (the address space is capped) and more seconds than damage deserves.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # the repository
from tests.support.faults.fuzz_files import FORMATS

LIMIT = 384 << 20  # memory= of everything that is opened
ROOM = 1200 << 20  # address space beyond what the process has at the start: stacks, the ring, the limit
SLOW = 20.0  # seconds
HOPELESS = 60  # seconds, then it counts as hanging
Random = np.random.Generator

# Damage -----------------------------------------------------------------------------------------------------


#: What parsers stumble over, in place of a number of a text.
_WORDS = (
    b"0", b"-1", b"1", b"1e400", b"-0.0", b"nan", b"NaN", b'"NaN"', b"null", b"[]", b"{}", b"true", b'""',
    b"1.5",
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809",
    b"18446744073709551615", b"99999999999999999999999", b'"blosc"', b"[[[[[[[[", b"\xff\xfe", b"()", b"'O'",
)  # fmt: skip
_NUMBERS = (
    0,
    1,
    2,
    0x7FFF,
    *((1 << n) - m for n in (8, 16, 31, 32, 63, 64) for m in (0, 1)),
    1 << 40,
    1 << 60,
)


def _bytes_at_random(text: bytearray, random: Random) -> None:
    for at in random.integers(0, len(text), random.integers(1, 6)):
        text[at] = random.integers(0, 256)


def _one_bit(text: bytearray, random: Random) -> None:
    text[random.integers(0, len(text))] ^= 1 << int(random.integers(0, 8))


def _a_word(text: bytearray, random: Random) -> None:
    """Another word in place of a number or a string, in what looks like text."""
    found = list(re.finditer(rb'-?\d[\d.e+-]*|"[^"]{0,40}"|\[[^\[\]]{0,40}\]', bytes(text)))
    if found:
        one = found[int(random.integers(0, len(found)))]
        text[one.start() : one.end()] = _WORDS[int(random.integers(0, len(_WORDS)))]


def _a_number(text: bytearray, random: Random) -> None:
    """An extreme binary number somewhere, of four or eight bytes."""
    width = int(random.choice([2, 4, 8]))
    at = int(random.integers(0, max(1, len(text) - width)))
    value = _NUMBERS[int(random.integers(0, len(_NUMBERS)))] & ((1 << 8 * width) - 1)
    text[at : at + width] = value.to_bytes(width, "little")


def _cut(text: bytearray, random: Random) -> None:
    del text[int(random.integers(0, len(text))) :]


def _removed(text: bytearray, random: Random) -> None:
    at = int(random.integers(0, len(text)))
    del text[at : at + int(random.integers(1, 40))]


def _doubled(text: bytearray, random: Random) -> None:
    at, length = int(random.integers(0, len(text))), int(random.integers(1, 200))
    text[at:at] = text[at : at + length]


def _zeroed(text: bytearray, random: Random) -> None:
    at, length = int(random.integers(0, len(text))), int(random.integers(1, 5000))
    text[at : at + length] = bytes(len(text[at : at + length]))


_WAYS = (
    _bytes_at_random,
    _one_bit,
    _a_word,
    _a_word,
    _a_number,
    _a_number,
    _cut,
    _removed,
    _doubled,
    _zeroed,
)


def damage(path: Path, random: Random) -> str:
    """Change one file of what lies at `path` (or remove it); small files, which hold metadata, as often."""
    files = sorted(p for p in path.parent.rglob("*") if p.is_file() and not p.is_symlink())
    file = files[int(random.integers(0, len(files)))]
    if len(files) > 1 and random.random() < 0.03:
        file.unlink()
        return f"{file.name} removed"
    text, said = bytearray(file.read_bytes()), []
    for _ in range(int(random.integers(1, 4))):
        way = _WAYS[int(random.integers(0, len(_WAYS)))]
        if text:
            way(text, random)
            said.append(way.__name__.strip("_"))
    file.write_bytes(text)
    return f"{file.relative_to(path.parent)}: {', '.join(said)}"


# Looking ----------------------------------------------------------------------------------------------------


def _use(path: Path) -> None:
    """Open, read everything, add something up, and ask what `info` says of it."""
    import flagstone as fl
    from flagstone._maintenance.info import describe

    error: Exception | None = None
    try:
        opened = fl.open(str(path))
        if isinstance(opened, fl.SparseArray):
            opened.to_scipy().check_format(full_check=True)  # SciPy itself looks only when it is asked
            opened @ np.ones((opened.shape[1], 2)) if opened.shape[1] < 1 << 20 else None
        else:
            opened[...]
            fl.compute(opened.sum())
    except Exception as caught:
        error = caught
    told = describe(str(path), None, True)
    if error is not None:
        raise error
    del told


def complaint(error: Exception, path: Path) -> str | None:
    """Say what is wrong with an error; None: it is as it should be."""
    import flagstone as fl

    text = str(error)
    if not isinstance(error, fl.Error):
        return "not one of ours"
    if "\n" in text:
        return "several lines"
    if not isinstance(error, fl.BudgetError) and path.stem not in text:
        return "does not name the file"
    return None


def one(name: str, seed: int, number: int, good: Path, folder: Path) -> str | None:
    """Run one case; a text: what is wrong."""
    import flagstone as fl

    random = np.random.default_rng([seed, number, *name.encode()])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder, symlinks=True)
    path = folder / next(p.name for p in good.iterdir() if not p.name.startswith("."))
    what = damage(path, random)
    start, limit = time.monotonic(), LIMIT + fl._core.resident_bytes()
    fl._core.reset_peak_resident()
    try:
        with fl.Runtime(memory=limit, scratch=str(folder.parent / "scratch")):
            _use(path)
    except Exception as error:
        said = complaint(error, path)
        if said:
            where = "".join(traceback.format_exception(error)[-3:])
            return f"{what}: {said}: {type(error).__name__}: {error}\n{where}"
    finally:
        shutil.rmtree(folder.parent / "scratch", ignore_errors=True)
    if fl._core.peak_resident_bytes() > limit:
        return f"{what}: took {fl._core.peak_resident_bytes() >> 20} MiB, and {limit >> 20} were allowed"
    seconds = time.monotonic() - start
    return f"{what}: took {seconds:.0f} s" if seconds > SLOW else None


def run(name: str, seed: int, first: int, end: int, work: Path) -> int:
    """Run cases in this process, noting each number before it begins; returns how many were wrong."""
    good, folder = work / "good", work / "case"
    shutil.rmtree(good, ignore_errors=True)
    good.mkdir()
    FORMATS[name](good)
    wrong = 0
    for number in range(first, end):
        (work / "at").write_text(f"{number} {wrong}")
        signal.alarm(HOPELESS)
        found = one(name, seed, number, good, folder)
        if number == first:  # what is loaded at the first use is not damage's doing
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            held = pages * resource.getpagesize()
            if not os.environ.get("FLAGSTONE_FUZZ_NO_CAP"):  # sanitizers map terabytes
                resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
        if found:
            wrong += 1
            print(f"{name} --seed {seed} --first {number} --count 1: {found}", flush=True)
    (work / "at").write_text(f"{end} {wrong}")
    return wrong


def watched(name: str, seed: int, first: int, count: int, work: Path) -> int:
    """Run cases in children: one that crashes or hangs counts as wrong, and the next goes on behind it."""
    at, wrong = first, 0
    while at < first + count:
        child = os.fork()
        if child == 0:
            os._exit(1 if run(name, seed, at, first + count, work) else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at, found = map(int, (work / "at").read_text().split())
        wrong += found
        if code < 0 or at < first + count:
            wrong += 1
            ended = "hangs" if code == -signal.SIGALRM else f"ended with {code}"
            print(f"{name} --seed {seed} --first {at} --count 1: {ended}", flush=True)
            at += 1
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats, with commas")
    args = parser.parse_args()
    total = 0
    for name in args.only.split(",") if args.only else FORMATS:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="flagstone-fuzz-") as work:
            wrong = watched(name, args.seed, args.first, args.count, Path(work))
        total += wrong
        print(f"{name}: {args.count} cases, {wrong} wrong ({time.monotonic() - start:.1f} s)", flush=True)
    return min(total, 100)


if __name__ == "__main__":
    sys.exit(main())
