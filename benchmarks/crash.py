"""Kill what commits, again and again, and look at what is left.

    python benchmarks/crash.py [--smoke] [--kills N] [--only WORKLOAD,...]

Two kinds of kills: SIGKILL at random moments of a process that commits without end (`--kills` in all), and
the end at every single step of a commit: every system call that changes a file, every write done by half,
every submission to a ring. The second kind is done for each workload and each kind of ring, and the
recoveries die as well. After each kill: what is stored is read for reading only (flagstone, and the peers
before anybody recovers), then a writer recovers, then all read again. Required: 0 torn, 0 lost after a
returned commit, 0 that a peer cannot read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

from file_steps import Steps, again_with_steps

MEMORY = "2GiB"


class Judge:
    """Looks at what a killed writer left, and keeps the count."""

    def __init__(self, workload, place: Path, peers, every: int) -> None:
        self.workload, self.place, self.peers, self.every = workload, place, peers, every
        self.at = 0  # the state that is stored
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def fault(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.failures.append(f"{self.workload.name}: {what}")

    def found(self, what: str, candidates: range) -> int:
        try:
            state = self.workload.found(self.place, candidates)
        except Exception as error:
            self.fault("torn", f"{what}: {type(error).__name__}: {error}")
            return -1
        if state < 0:
            earlier = self.workload.found(self.place, range(max(0, candidates.start - 3), candidates.start))
            self.fault("lost" if earlier >= 0 else "torn", f"{what}: {earlier} found, {candidates} allowed")
        return state

    def look_with_peers(self, what: str, candidates: range) -> None:
        if self.counts["kills"] % self.every:
            return
        for name, peer in self.peers.items():
            if name in self.workload.slow_peers and self.counts["kills"] % (16 * self.every):
                continue
            try:
                agrees = self.workload.peers_agree(self.place, candidates, peer)
            except Exception as error:
                self.fault("unreadable by peers", f"{what}: {name}: {type(error).__name__}: {error}")
                continue
            self.counts["reads by peers"] += 1
            if not agrees:
                self.fault("torn", f"{what}: {name} reads what was never stored")

    def after_kill(self, what: str, returned: int, recover) -> None:
        """Judge after a kill: commit `returned` had returned, the next one may have been under way."""
        self.counts["kills"] += 1
        candidates = range(returned, returned + 2)
        if self.workload.gaps and not all(p.exists() for p in self.workload.arrays(self.place).values()):
            self.counts["away until the next writer"] += 1
        else:
            before = self.found(what, candidates)
            if before < 0:
                recover()
                self.at = max(self.workload.found(self.place, range(returned + 2)), 0)
                return
            self.look_with_peers(f"{what}, before recovery", candidates)
            candidates = range(before, before + 1)
        recover()
        self.at = self.found(f"{what}, after recovery", candidates)
        self.look_with_peers(f"{what}, after recovery", range(self.at, self.at + 1))
        if self.counts["kills"] % self.every == 0 and not self.workload.whole(self.place):
            self.fault("damaged", what)


def in_child(body) -> int:
    """Run a function in a forked child; returns the signal that ended it, or minus its status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def work(workload, place: Path, io: str, first: int, on_return=None, count: int = 1) -> None:
    """Commit `count` times in this process, from state `first` on."""
    if not workload.exchange:
        steps.without_exchange()
    with fl.Runtime(memory=MEMORY, workers=1, io=io):
        for k in range(first + 1, first + 1 + count):
            workload.commit(place, k)
            if on_return:
                on_return(k)


def recover(workload, place: Path, dies_at: int = 0) -> int:
    """Let a writer finish what was committed; or die in it."""

    def body() -> None:
        if dies_at:
            steps.watch(place)
            steps.die(dies_at, torn=bool(dies_at % 2))
        workload.recover(place)

    return in_child(body)


def every_step(workload, place: Path, io: str, judge: Judge, stride: int) -> int:
    """Let commits die at every step in turn; returns how many steps one has."""

    def dies(step: int, torn: bool) -> None:
        steps.watch(place)
        steps.die(step, torn)
        work(workload, place, io, judge.at)

    def twice(step: int) -> None:
        recover(workload, place, dies_at=1 + step % 9)
        if recover(workload, place) != 0:
            judge.fault("unrecovered", f"step {step}")

    for step in itertools.count(1, stride):
        for torn in (False, True):
            returned = judge.at
            ended = in_child(partial(dies, step, torn))
            if ended == 0:
                judge.found(f"undisturbed, {io}", range(returned + 1, returned + 2))
                judge.at = returned + 1
                return step - 1
            if ended != signal.SIGKILL:
                raise RuntimeError(f"{workload.name}: a child failed at step {step} ({ended})")
            judge.after_kill(f"step {step}{' torn' if torn else ''}, {io}", returned, partial(twice, step))
    return 0


def at_random(workload, place: Path, judge: Judge, kills: int, draw: random.Random) -> None:
    """Kill a process that commits without end at random moments."""
    told = mmap.mmap(-1, 8)

    def tell(k: int) -> None:
        told[:8] = struct.pack("q", k)

    def once(n: int) -> None:
        if recover(workload, place) != 0:
            judge.fault("unrecovered", f"kill {n}")

    begun = time.perf_counter()
    if in_child(lambda: work(workload, place, "auto", judge.at, count=4)) != 0:
        raise RuntimeError(f"{workload.name}: a child failed")
    longest = time.perf_counter() - begun
    judge.at += 4
    for n in range(kills):
        io = ("threads", "auto")[n % 2]
        first = judge.at
        tell(-1)
        child = os.fork()
        if child == 0:
            try:
                tell(first)
                work(workload, place, io, first, tell, 10000)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        while struct.unpack("q", told[:8])[0] < 0:
            time.sleep(0.0005)
        time.sleep(draw.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            raise RuntimeError(f"{workload.name}: a child failed")
        returned = struct.unpack("q", told[:8])[0]
        judge.counts["commits"] += returned - first
        judge.after_kill(f"kill {n}, {io}", returned, partial(once, n))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="some steps and some kills: seconds")
    parser.add_argument("--kills", type=int, help="at random moments, in all; 600 (smoke: 10)")
    parser.add_argument("--stride", type=int, help="every so many-th step; 1 (smoke: 1 for updates, 12)")
    parser.add_argument("--only", default="", help="workloads, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder to work in (a temporary one)")
    parser.add_argument("--json", type=Path, help="where the counts go")
    options = parser.parse_args()
    kills = options.kills if options.kills is not None else 10 if options.smoke else 600
    names = [name for name in options.only.split(",") if name] or list(WORKLOADS)
    draw = random.Random(options.seed)
    found_peers, total, failures, rows = peers(), Counter(), [], []
    if options.data:
        options.data.mkdir(parents=True, exist_ok=True)
    top = Path(tempfile.mkdtemp(prefix="crash-", dir=options.data))
    for name in names:
        workload, place = WORKLOADS[name](), top / name.replace(" ", "-")
        judge = Judge(workload, place, found_peers, every=4 if options.smoke else 2)
        if in_child(lambda w=workload, p=place: w.prepare(p)) != 0:
            raise RuntimeError(f"{name}: it could not be prepared")
        begun = time.perf_counter()
        stride = options.stride or (12 if options.smoke and name != "updates" else 1)
        rings = ("threads",) if options.smoke and name == "updates" else ("threads", "auto")
        lengths = {io: every_step(workload, place, io, judge, stride) for io in rings}
        at_steps = judge.counts["kills"]
        at_random(workload, place, judge, -(-kills // len(names)), draw)
        row = {"workload": name, "steps": lengths, "kills at steps": at_steps, **judge.counts,
               "seconds": round(time.perf_counter() - begun, 1)}  # fmt: skip
        rows.append(row)
        print(json.dumps(row), flush=True)
        total += judge.counts
        failures += judge.failures
    shutil.rmtree(top)
    bad = {kind: total[kind] for kind in ("torn", "lost", "unreadable by peers", "damaged", "unrecovered")}
    print(f"{total['kills']} kills, {total['reads by peers']} reads by {' and '.join(found_peers)}: "
          + ", ".join(f"{count} {kind}" for kind, count in bad.items()))  # fmt: skip
    for failure in failures[:20]:
        print("  " + failure)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "failures": failures, **bad}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    again_with_steps()
    from stored import WORKLOADS, peers

    import flagstone as fl

    steps = Steps()
    sys.exit(main())
