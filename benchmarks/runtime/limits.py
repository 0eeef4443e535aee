"""Peak resident memory of the process during the call ÷ `memory=`, every routine, three kinds of limit.

The limits: the least that the refusal names, twice that, and one that holds everything. A fresh process each.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness, routines

SMOKE = "matmul zarr"  # the tests run every routine; here it is this program that is looked at


def run() -> int:
    args = harness.options(__doc__, n=(6000, 1500), only=(routines.ALL, SMOKE))
    folder = args.data / "routines"
    folder.mkdir(exist_ok=True)
    rows, details = [], {}
    try:
        harness.child(__file__, routines.prepare, args.timeout, folder=folder, n=args.n, only=args.only)
        for name in args.only.split(","):
            for factor, kind in ((1, "least"), (2, "twice the least"), (0, "all fits")):
                call = {"name": name, "folder": folder, "n": args.n, "factor": factor, "planned": False}
                harness.drop_caches([folder])
                try:
                    done = harness.child(__file__, routines.measure, args.timeout, **call)
                except harness.ChildFailed as failed:
                    rows.append(
                        harness.figure(f"{name}, {kind}", "failed", str(failed), 9.99, "<= 1.00", True)
                    )
                    continue
                details[f"{name}, {kind}"] = done
                shown = f"{done['peak'] / 2**20:.0f} MiB", f"memory={done['limit'] / 2**20:.0f} MiB"
                ratio = done["peak"] / done["limit"]
                rows.append(harness.figure(f"{name}, {kind}", *shown, ratio, "<= 1.00", True))
                harness.note(f"{name:<20} {kind:<16} {done['seconds']:7.2f} s  {ratio:.3f}")
    finally:
        if not args.keep:
            harness.remove(folder)
    return harness.report(__file__, args, rows, runs=details)


if __name__ == "__main__":
    harness.main(__file__, run, routines.prepare, routines.measure)
