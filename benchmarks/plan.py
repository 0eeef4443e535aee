"""Plan against actual for every routine that plans: bytes of a pass, peak memory, seconds; three limits."""

from __future__ import annotations

import harness

import routines


def run() -> int:
    args = harness.options(__doc__, n=(6000, 2500), only=("", ""))
    folder = args.data / "routines"
    folder.mkdir(exist_ok=True)
    rows, details = [], {}
    try:
        harness.child(__file__, routines.prepare, args.timeout, folder=folder, n=args.n)
        for name in args.only.split(",") if args.only else routines.PLANNED:
            for factor, kind in ((1.1, "1.1 x least"), (2, "2 x least"), (0, "all fits")):
                call = {"name": name, "folder": folder, "n": args.n, "factor": factor, "planned": True}
                harness.drop_caches([folder])
                done = harness.child(__file__, routines.measure, args.timeout, **call)
                details[f"{name}, {kind}"] = done
                seconds = {"seconds": done["seconds"]}
                rows += harness.against_plan(
                    f"{name}, {kind}", done["plan"], done["actual"] | seconds, done["peak"], args.full_size
                )
                harness.note(f"{name:<20} {kind:<12} {done['seconds']:7.2f} s")
    finally:
        if not args.keep:
            harness.remove(folder)
    return harness.report(__file__, args, rows, runs=details)


if __name__ == "__main__":
    harness.main(__file__, run, routines.prepare, routines.measure)
