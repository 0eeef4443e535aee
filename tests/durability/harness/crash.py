"""Kill what commits, again and again, and look at what is left.

    python tests/durability/harness/crash.py [--smoke] [--kills N] [--only WORKLOAD,...]

Two kinds of kills: SIGKILL at random moments of a process that commits without end (`--kills` in all), and
the end at every single step of a commit: every system call that changes a file, every write done by half,
every submission to a ring. The second kind is done for each workload and each kind of ring, and the
recoveries die as well. After each kill: what is stored is read for reading only (flagstone, and the peers
before anybody recovers), then a writer recovers, then all read again. Required: 0 torn, 0 lost after a
returned commit, 0 that a peer cannot read.

Then each step fails in turn, once with EIO or EDQUOT (the commit is tried again in the same process), or from
there on with EROFS: a commit that raised has stored nothing, unless it says so. And commits, rollbacks,
deaths, recoveries and reopened handles in random order, beside a reader in another process, against a model.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
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
from judge import FAULTS, Judge

MEMORY = "2GiB"


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
    if workload.lower:
        steps.lower()
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


def bring(workload, place: Path, judge: Judge, kind: int) -> None:
    """Make commits, undisturbed, until the next one is of a kind."""
    others = (kind - judge.at) % workload.kinds
    if others and in_child(partial(work, workload, place, "threads", judge.at, count=others)) != 0:
        raise RuntimeError(f"{workload.name}: a child failed after state {judge.at}")
    judge.at += others


def every_step(workload, place: Path, io: str, judge: Judge, stride: int) -> int:
    """Let commits of every kind die at every step in turn; returns how many steps they have."""
    return sum(steps_of(workload, place, io, judge, stride, kind) for kind in range(workload.kinds))


def steps_of(workload, place: Path, io: str, judge: Judge, stride: int, kind: int) -> int:
    """Let commits of one kind die at every step in turn; returns how many steps one has."""

    def dies(step: int, torn: bool) -> None:
        steps.watch(place)
        steps.die(step, torn)
        work(workload, place, io, judge.at)

    def twice(step: int) -> None:
        recover(workload, place, dies_at=1 + step % workload.deaths)
        if recover(workload, place) != 0:
            judge.fault("unrecovered", f"step {step}")

    for step in itertools.count(1, stride):
        for torn in (False, True):
            bring(workload, place, judge, kind)
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


#: What an error says of a commit that everybody sees, or may see.
SAID = ("stored", "has its new shape", "is deleted")
RETURNED, RAISED, RAISED_BUT_STORED, STUCK = 10, 11, 12, 13


def every_fault(workload, place: Path, judge: Judge, number: int, times: int, stride: int) -> None:
    """Let each step of commits of every kind fail in turn."""
    for kind in range(workload.kinds):
        faults_of(workload, place, judge, number, times, stride, kind)


def faults_of(workload, place: Path, judge: Judge, number: int, times: int, stride: int, kind: int) -> None:
    """Let each step of a commit fail in turn, once (the commit is then tried again) or from there on."""

    def fails(step: int) -> None:
        workload.state(judge.at + 2)
        steps.watch(place)
        steps.fail(step, number, times)
        status = RETURNED
        try:
            work(workload, place, "threads", judge.at)
        except (fl.Error, OSError) as error:
            status = RAISED_BUT_STORED if any(said in str(error) for said in SAID) else RAISED
        reached = steps.count() >= step
        steps.fail(0, 0, 0)
        if not reached:
            os._exit(0)
        if status != RETURNED and times == 1:
            try:
                allowed = range(judge.at, judge.at + 2)
                now = judge.at if workload.away(place) else workload.found(place, allowed)
                work(workload, place, "threads", now)
            except BaseException:
                traceback.print_exc()
                status = STUCK
        os._exit(status)

    for step in itertools.count(1, stride):
        bring(workload, place, judge, kind)
        at, ended = judge.at, -in_child(partial(fails, step))
        if ended == 0:
            judge.at += 1
            return
        judge.counts["faults"] += 1
        more = int(times == 1)  # it was tried again
        allowed = {RETURNED: range(at + 1, at + 2), RAISED: range(at + more, at + more + 1),
                   RAISED_BUT_STORED: range(at + more, at + more + 2)}  # fmt: skip
        if ended not in allowed:
            judge.fault("stuck", f"errno {number} at step {step}: exit status {ended}")
            continue
        states = allowed[ended]
        if judge.there():
            found = judge.found(f"errno {number} at step {step}, {ended}", states)
            states = range(found, max(found, at + workload.advances) + 1)
        recover(workload, place)
        judge.at = judge.found(f"errno {number} at step {step}, recovered", states)
        if judge.at < 0:  # it is said: the others are judged by what there is
            judge.at = max(workload.found(place, range(at + 4)), 0)
        judge.look_with_peers(f"errno {number} at step {step}", range(judge.at, judge.at + 1))


def watching(workload, place: Path, latest: int, stop: mmap.mmap, returned: mmap.mmap) -> None:
    """Read beside writers for as long as they go: every array is of one moment, and none goes back."""
    name = next(iter(workload.first()))
    array = fl.open(place / name)
    while not stop[0]:
        try:
            seen = np.asarray(array)
        except fl.StorageError as error:
            if error.errno != errno.EAGAIN:
                raise
            continue
        k = latest
        while not np.array_equal(workload.state(k)[name], seen):
            k += 1
            if k > latest + 30:
                raise RuntimeError(f"a reader saw what was never stored, after state {latest}")
        latest = k
        returned[:8] = struct.pack("q", struct.unpack("q", returned[:8])[0] + 1)


def interleaved(workload, place: Path, judge: Judge, rounds: int, draw: random.Random) -> None:
    """Commit, roll back, die, recover and reopen in random order, beside a reader, against the model."""
    stop, reads = mmap.mmap(-1, 1), mmap.mmap(-1, 8)
    reader = os.fork()
    if reader == 0:
        try:
            watching(workload, place, judge.at, stop, reads)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    opened = {name: fl.open(place / name, mode="r+") for name in workload.first()}
    for n in range(rounds):
        what = draw.choice(("commit", "kept", "roll back", "die", "die", "recover", "reopen"))
        k = judge.at + 1
        judge.counts["rounds"] += 1
        if what == "commit":
            workload.commit(place, k)
            judge.at = k
        elif what == "kept":  # through handles that have been open all the time
            with fl.transaction(place):
                workload.change(k, opened)
            judge.at = k
        elif what == "roll back":
            with contextlib.suppress(KeyError), fl.transaction(place):
                workload.change(k, opened)
                raise KeyError
        elif what == "die":

            def dies(at: int = draw.randint(1, 80), torn: bool = draw.random() < 0.5) -> None:
                steps.watch(place)
                steps.die(at, torn)
                work(workload, place, "threads", judge.at)

            ended = in_child(dies)
            judge.at = judge.found(f"round {n}", range(k, k + 1) if ended == 0 else range(k - 1, k + 1))
        elif what == "recover":
            recover(workload, place, dies_at=draw.randint(0, 12))
        else:
            opened = {name: fl.open(place / name, mode="r+") for name in workload.first()}
        judge.found(f"round {n}, {what}", range(judge.at, judge.at + 1))
        if any(not np.array_equal(opened[name][...], v) for name, v in workload.state(judge.at).items()):
            judge.fault("torn", f"round {n}, {what}: a handle that was open sees something else")
    stop[0] = 1
    if os.waitpid(reader, 0)[1] != 0:
        judge.fault("torn", "beside a reader")
    judge.counts["reads beside"] += struct.unpack("q", reads[:8])[0]


COLUMNS = ("workload", "steps", "killed at", "kills", "failed", "peers'", *FAULTS, "seconds")
WIDTHS = (21, 9, 10, 6, 7, 7, 5, 5, 20, 8, 12, 6, 8)


def line_of(first: str, *others: object) -> str:
    """Return a line of the table."""
    return first.ljust(WIDTHS[0]) + "".join(str(x).rjust(n) for x, n in zip(others, WIDTHS[1:], strict=True))


def told(row: dict) -> list[object]:
    """Return what the table says of a workload."""
    numbers = [row.get(name, 0) for name in ("kills at steps", "kills", "faults", "reads by peers", *FAULTS)]
    return ["/".join(str(n) for n in row["steps"].values()), *numbers, row["seconds"]]


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
    usual = [name for name, kind in WORKLOADS.items() if kind.can_run()]
    names = [name for name in options.only.split(",") if name] or usual
    draw = random.Random(options.seed)
    found_peers, total, failures, rows = peers(), Counter(), [], []
    if options.data:
        options.data.mkdir(parents=True, exist_ok=True)
    top = Path(tempfile.mkdtemp(prefix="crash-", dir=options.data))
    print(line_of(*COLUMNS))
    for name in names:
        workload, place = WORKLOADS[name](), top / name.replace(" ", "-")
        judge = Judge(workload, place, found_peers, every=4 if options.smoke else 2)
        if in_child(lambda w=workload, p=place: w.prepare(p)) != 0:
            raise RuntimeError(f"{name}: it could not be prepared")
        begun = time.perf_counter()
        few = options.smoke and name != "updates"
        stride = options.stride or (13 * workload.kinds if few else 1)
        rings = ("threads", "auto")[few : 1 + few] if options.smoke else ("threads", "auto")
        lengths = {io: every_step(workload, place, io, judge, stride) for io in rings}
        at_steps = judge.counts["kills"]
        at_random(workload, place, judge, -(-kills // len(names)), draw)
        for number, times in ((errno.EIO, 1), (errno.EDQUOT, 1), (errno.EROFS, 1 << 40)):
            if workload.fails:
                every_fault(workload, place, judge, number, times, 6 * stride if options.smoke else stride)
        if workload.mixed:
            interleaved(workload, place, judge, 30 if options.smoke else 1000, draw)
        row = {"workload": name, "steps": lengths, "kills at steps": at_steps, **judge.counts,
               "seconds": round(time.perf_counter() - begun, 1)}  # fmt: skip
        rows.append(row)
        print(line_of(name, *told(row)), flush=True)
        total += judge.counts
        failures += judge.failures
    shutil.rmtree(top)
    bad = {kind: total[kind] for kind in FAULTS}
    print(line_of("all", "", *(sum(row.get(name, 0) for row in rows) for name in ("kills at steps", "kills")),
                  total["faults"], total["reads by peers"], *bad.values(), ""))  # fmt: skip
    for failure in failures[:20]:
        print("  " + failure)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "failures": failures, **bad}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    again_with_steps()
    import numpy as np
    from stored import peers
    from workloads import WORKLOADS

    import flagstone as fl

    steps = Steps()
    sys.exit(main())
