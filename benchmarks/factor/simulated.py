"""Idle share of workers on machines that are simulated: product, Cholesky, LU and QR of one order.

Machines of 64 GiB with 16 and 64 workers of 40 Gflop/s and disks of 5 and 25 GB/s; kernels at gemm's rate.
Operands do not exist. A disk that the plan names as the bound excuses LU and QR.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

MACHINE = """name = "simulated"
[node]
workers = {workers}
memory = 68719476736
[disk]
read = {disk}
write = {disk}
request_seconds = 60e-6
request_overhead_seconds = 4e-6
mixed_penalty = 1.0
sync_seconds = 2e-3
[worker]
flops_float32 = 8e10
flops_float64 = 4e10
copy = 28e9
decode = 2e9
"""
MOST_IDLE = {"product": 0.13, "cholesky": 0.13, "lu": 0.2, "qr": 0.2}


def planned(routine: str, n: int, machine: str) -> dict:
    import flagstone as fl

    x, options = fl.planned((n, n), "float64"), {"out": "simulated.zarr", "machine": machine}
    with harness.measured() as run:
        if routine == "product":
            plan = fl.matmul.plan(x, fl.planned((n, n), "float64"), memory="64GiB", **options)
        elif routine == "qr":
            plan = fl.linalg.qr.plan(x, mode="r", memory="64GiB", **options)
        else:
            call = fl.linalg.cholesky if routine == "cholesky" else fl.linalg.lu_factor
            plan = call.plan(x, memory="64GiB", **options)
    return {**vars(run), "plan": plan.as_dict()}


def run() -> int:
    args = harness.options(
        __doc__, n=(200_000, 4096), workers=("16,64", "16"), disks=("5,25", "5"),
        only=("product,cholesky,lu,qr", "cholesky,lu"),
    )  # fmt: skip
    machine, rows, runs = args.data / "simulated.toml", [], {}
    child = partial(harness.child, __file__, planned, args.timeout, n=args.n, machine=machine)
    for workers in args.workers.split(","):
        for disk in args.disks.split(","):
            machine.write_text(MACHINE.format(workers=workers, disk=f"{disk}e9"))
            for routine in args.only.split(","):
                name = f"{routine} {args.n}, {workers} workers, {disk} GB/s: idle share"
                done = runs[name] = child(routine=routine)
                plan, bound = done["plan"], done["plan"]["bound"]
                excused = routine in ("lu", "qr") and bound.startswith("disk")
                shown = f"{plan['seconds']:.0f} s, planned in {done['seconds']:.0f} s"
                target = f"<= {MOST_IDLE[routine]}"
                judged = args.full_size and not excused
                harness.note(f"{name} {plan['idle_share']:.3f}, bound by {bound}, {shown}")
                rows.append(harness.figure(name, shown, bound, plan["idle_share"], target, judged))
    harness.remove(machine)
    return harness.report(__file__, args, rows, runs=runs)


if __name__ == "__main__":
    harness.main(__file__, run, planned)
