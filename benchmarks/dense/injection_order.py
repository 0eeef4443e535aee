"""gemm's C tiles injected in random order, the whole graph in the lookahead: bytes moved ÷ superblock order.

12 x 12 tiles of C, memory for 24 of them, the worst of several seeds, on the planner's virtual clock (its
scheduler is the real one); `--verify 5` also runs a case of 5 x 5 tiles on real arrays. Built with cmake.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring


def counted(program: Path, folder: Path, side: int, tiles: int, seed: int, how: str, timeout: float) -> dict:
    command = [program, folder, str(side), str(tiles), str(seed), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise harness.ChildFailed(f"injection_order: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run() -> int:
    args = harness.options(
        __doc__,
        side=(12, 12),
        tiles=(24, 24),
        rounds=(5, 3),
        verify=(0, 0),
        build=(harness.built(),) * 2,
    )
    program, folder = ring.build(Path(args.build), "injection_order"), args.data / "injection"
    found = [
        counted(program, folder, args.side, args.tiles, seed, "plan", args.timeout)
        for seed in range(1, args.rounds + 1)
    ]
    ratios = [result["ratio"] for result in found]
    real = []
    if args.verify:
        for how in ("plan", "run"):
            folder.mkdir(exist_ok=True)
            real.append(counted(program, folder, args.verify, args.tiles // 2, 1, how, args.timeout))
            harness.remove(folder)
    what = f"C tiles in random order, {args.side} x {args.side} tiles, {args.tiles} in memory: bytes"
    worst = max(found, key=lambda result: result["ratio"])
    shown = f"{worst['random'] / 1e9:.2f} GB", f"{worst['ordered'] / 1e9:.2f} GB in superblock order"
    row = harness.figure(what, *shown, worst["ratio"], "<= 2.0", args.full_size)
    return harness.report(__file__, args, [row], ratios=ratios, counted=found, real=real)


if __name__ == "__main__":
    harness.main(__file__, run)
