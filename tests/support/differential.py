"""Random calls against NumPy: layouts x dtypes x operations x limits, for as long as is asked.

    python tests/support/differential.py [--minutes 60] [--seed 0] [--first 0] [--count 0]

Each case is a number: seed and number make the same operands, stores, operation and limit again. What is
looked for: another shape, dtype or element than NumPy's (element-wise: the same bits; reductions and products
within the bounds of their tests), a call that goes beyond the larger of its limit and what was resident, a
refusal whose `least` does not work.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
import flagstone as fl
from tests.support import differential_along, differential_cases
from tests.support.differential_cases import Case, one_of

DRIFT = 4 << 20  # bytes that a call may hold beyond what was resident
ROOM = (8 << 20, 48 << 20)  # bytes beside what was resident, between which limits are drawn
FAMILIES = [*differential_cases.FAMILIES, *differential_along.FAMILIES]


def judged(case: Case, limit: int) -> str | None:
    """Run a case under its limit, or the one that a refusal names; a text: what is wrong."""
    fl._core.release_pages()
    fl._core.trim()
    for attempt in range(2):
        entry = fl._core.resident_bytes()
        fl._core.reset_peak_resident()
        try:
            got = case.call(limit)
        except fl.BudgetError as refused:
            if attempt:
                return f"the limit that a refusal named was refused: {refused}"
            limit = refused.least
            continue
        peak, allowed = fl._core.peak_resident_bytes(), max(limit, entry + DRIFT)
        if peak > allowed:
            return f"took {peak - entry} bytes beside {entry}; the limit was {limit}"
        case.check(got)
        return None
    return None


def one(seed: int, number: int, folder: Path) -> tuple[str, str | None]:
    """What case `number` is, and what is wrong with it."""
    random = np.random.default_rng([seed, number])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = one_of(random, FAMILIES)(random, folder)
            if case is None:
                return "", None
            text = case.name
            workers = int(random.integers(1, 4))
            with fl.Runtime(workers=workers, scratch=str(folder / "scratch")):
                limit = fl._core.resident_bytes() + int(random.integers(*ROOM))
                return text, judged(case, limit)
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-2:])
        return text, f"{type(error).__name__}: {error}\n{where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="cases; 0: as many as the minutes hold")
    args = parser.parse_args()
    start, number, wrong = time.monotonic(), args.first, 0
    with (
        tempfile.TemporaryDirectory(prefix="flagstone-differential-") as work,
        contextlib.suppress(KeyboardInterrupt),
    ):
        while (not args.count or number < args.first + args.count) and (
            args.count or time.monotonic() - start < 60 * args.minutes
        ):
            text, found = one(args.seed, number, Path(work) / "case")
            if found:
                wrong += 1
                print(f"--seed {args.seed} --first {number} --count 1: {text}: {found}", flush=True)
            number += 1
    print(
        f"{number - args.first} cases of seed {args.seed}, {wrong} wrong ({time.monotonic() - start:.0f} s)"
    )
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
