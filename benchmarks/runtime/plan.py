"""Plan against actual for every routine that plans: bytes of a pass, peak memory, seconds; three limits.

The disk and the processors are gauged first (`flagstone calibrate`). Each case runs --rounds times in fresh
processes; the run in the middle, by seconds ÷ planned seconds, is shown.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness, routines

SMOKE = "matmul zarr"  # the tests run every routine; here it is this program that is looked at


def run() -> int:
    args = harness.options(__doc__, n=(6000, 1500), rounds=(3, 1), only=(",".join(routines.PLANNED), SMOKE))
    folder = args.data / "routines"
    folder.mkdir(exist_ok=True)
    rows, details = [], {}
    try:
        if not args.smoke:
            harness.child(__file__, gauge, args.timeout, folder=folder)
        harness.child(__file__, routines.prepare, args.timeout, folder=folder, n=args.n, only=args.only)
        for name in args.only.split(","):
            for factor, kind in ((1.1, "1.1 x least"), (2, "2 x least"), (0, "all fits")):
                call = {"name": name, "folder": folder, "n": args.n, "factor": factor, "planned": True}
                done = sorted((one(folder, args.timeout, call) for _ in range(args.rounds)), key=slowness)[
                    args.rounds // 2
                ]
                details[f"{name}, {kind}"] = done
                seconds = {"seconds": done["seconds"]}
                rows += harness.against_plan(
                    f"{name}, {kind}",
                    done["plan"],
                    done["actual"] | seconds,
                    done["peak"],
                    args.full_size,
                    done["once"],
                )
                harness.note(f"{name:<20} {kind:<12} {done['seconds']:7.2f} s")
    finally:
        if not args.keep:
            harness.remove(folder)
    return harness.report(__file__, args, rows, runs=details)


def one(folder: Path, timeout: float, call: dict) -> dict:
    """One cold run in a fresh process."""
    harness.drop_caches([folder])
    return harness.child(__file__, routines.measure, timeout, **call)


def slowness(done: dict) -> float:
    return done["seconds"] / done["plan"]["seconds"]


def gauge(folder: str) -> dict:
    """Measures the rates that plans use; they are kept in the user's cache."""
    import flagstone as fl

    return fl.calibrate(folder).as_dict()


if __name__ == "__main__":
    harness.main(__file__, run, gauge, routines.prepare, routines.measure)
