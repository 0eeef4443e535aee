"""Take the power away at every moment of a commit, on a model of a disk, and look at what is left.

    python tests/durability/harness/power_loss.py [--smoke] [--states N] [--only WORKLOAD,...]

Commits of each kind (two at least) are recorded (`file_steps.cpp`): every write with its bytes, every length,
hole, new name, rename, removal, and every sync. Then, for every moment between two steps, states are made
that a disk may be in: what was synced is there; of the rest any part, in any order that the model allows
(below). Each is built as files and opened: it must be the state before the commit or the one after it, and
the one after it once the commit has returned; then the next commit is made on it, which recovers, and read
again.

The model: a sector (512 bytes) is written whole or not; each sector of a file goes its own way and may be any
of its versions since the last fdatasync; lengths change in order, before or after the data they speak of
(what was not written reads as zeros); names change in any order that keeps those before it with the same
name, the same file or a directory made before; a rename is atomic. `--ordered`: names change in
the order in which it was asked for, as in the journals of ext4, XFS and btrfs. All states where they are
few, else nothing, all, each alone, all but each, and random ones with a fixed seed.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import file_steps
from crash import in_child
from file_steps import (
    ALLOCATE,
    CREATE,
    LINK,
    MARK,
    MKDIR,
    REMOVE,
    RENAME,
    RESIZE,
    SYNC,
    UNKNOWN,
    WRITE,
    Steps,
    again_with_steps,
)

SECTOR = 512
EXCHANGE = 2
PUNCH_HOLE, KEEP_SIZE = 2, 1


class Node:
    """A file, directory or link of the model; what is in it is on the disk for certain."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.data = bytearray()
        self.size = 0
        self.names: dict[str, int] = {}
        self.target = ""


def base_of(place: Path, nodes: dict[int, Node], inodes: dict[int, int]) -> int:
    """Take over a directory as it is; returns the number of its node."""
    number = len(nodes)
    status = place.lstat()
    inodes[status.st_ino] = number
    if place.is_symlink():
        nodes[number] = Node("link")
        nodes[number].target = os.readlink(place)
    elif place.is_dir():
        nodes[number] = node = Node("directory")
        for name in sorted(os.listdir(place)):
            node.names[name] = base_of(place / name, nodes, inodes)
    else:
        nodes[number] = node = Node("file")
        node.data = bytearray(place.read_bytes())
        node.size = len(node.data)
    return number


class Unit:
    """What reaches the disk whole or not: a version of one sector, a length, or a change of names."""

    def __init__(self, chain: tuple, keys: tuple, apply) -> None:
        self.chain, self.keys, self.apply = chain, keys, apply


class Replay:
    """Reads a recording step by step; `pending` is what no sync has covered yet."""

    def __init__(self, place: Path, ordered: bool, lying: bool = False) -> None:
        self.nodes: dict[int, Node] = {}
        self.inodes: dict[int, int] = {}
        self.ordered, self.lying = ordered, lying
        self.root = base_of(place, self.nodes, self.inodes)
        self.pending: list[Unit] = []
        self.sizes = {number: node.size for number, node in self.nodes.items()}  # as the process sees them

    def steps(self, log: Path):
        """Yield the kind and text of each step after it has been taken in."""
        for step in file_steps.recorded(log):
            self.take(step.kind, step.text, *step.numbers, step.data)
            yield step.kind, step.text

    def count(self, log: Path) -> int:
        """Return the number of steps; this model is used up by it."""
        return sum(1 for _ in self.steps(log))

    def take(self, kind: int, text: str, a: int, b: int, c: int, d: int, data: bytes) -> None:
        if kind == UNKNOWN:
            raise RuntimeError("the recording holds something that the model does not know")
        if kind == SYNC and not self.lying:
            self.sync(self.inodes[a])
        elif kind in (CREATE, MKDIR, LINK):
            name, _, target = text.partition("\0")
            number = len(self.nodes)
            self.nodes[number] = Node({CREATE: "file", MKDIR: "directory", LINK: "link"}[kind])
            self.nodes[number].target = target
            self.inodes[b] = number
            self.sizes[number] = 0
            self.name_unit(
                [(self.inodes[a], name)], [number], lambda d=self.inodes[a]: self.put(d, name, number)
            )
        elif kind == REMOVE:
            directory = self.inodes[a]
            self.name_unit([(directory, text)], [self.inodes[b]], lambda: self.put(directory, text, None))
        elif kind == RENAME:
            one, two = text.split("\0")
            froms, tos = self.inodes[a], self.inodes[b]
            moved = [self.inodes[d]]
            other = struct.unpack("Q", data)[0]
            if other:
                moved.append(self.inodes[other])
            self.name_unit([(froms, one), (tos, two)], moved,
                           lambda: self.rename(froms, one, tos, two, c == EXCHANGE))  # fmt: skip
        elif kind == WRITE:
            self.write(self.inodes[a], b, data)
        elif kind == RESIZE:
            self.resize(self.inodes[a], b)
        elif kind == ALLOCATE:
            if b & PUNCH_HOLE:
                self.write(self.inodes[a], c, bytes(max(0, min(d, self.sizes[self.inodes[a]] - c))))
            if not b & KEEP_SIZE and c + d > self.sizes[self.inodes[a]]:
                self.resize(self.inodes[a], c + d)

    # What becomes pending ----------------------------------------------------------------------------------

    def name_unit(self, places: list, nodes: list[int], apply) -> None:
        keys = (*(("name", *place) for place in places), *(("node", node) for node in nodes))
        keys += tuple(("directory", place[0]) for place in places)
        self.pending.append(Unit(("names",), keys, apply))

    def write(self, number: int, offset: int, data: bytes) -> None:
        at = 0
        while at < len(data):
            sector = (offset + at) // SECTOR
            n = min(len(data) - at, (sector + 1) * SECTOR - offset - at)
            fill = partial(self.fill, number, offset + at, data[at : at + n])
            self.pending.append(Unit(("data", number, sector), (), fill))
            at += n
        if offset + len(data) > self.sizes[number]:
            self.resize(number, offset + len(data))

    def resize(self, number: int, size: int) -> None:
        if size < self.sizes[number]:  # what is cut off is gone; later growth reads as zeros
            self.sync_data(number)
        self.sizes[number] = size
        self.pending.append(Unit(("size", number), (), lambda: setattr(self.nodes[number], "size", size)))

    # What it does ------------------------------------------------------------------------------------------

    def put(self, directory: int, name: str, number: int | None) -> None:
        if number is None:
            self.nodes[directory].names.pop(name, None)
        else:
            self.nodes[directory].names[name] = number

    def rename(self, froms: int, one: str, tos: int, two: str, exchange: bool) -> None:
        moved = self.nodes[froms].names.pop(one)
        if exchange:
            self.nodes[froms].names[one] = self.nodes[tos].names[two]
        self.nodes[tos].names[two] = moved

    def fill(self, number: int, offset: int, part: bytes) -> None:
        data = self.nodes[number].data
        if len(data) < offset + len(part):
            data.extend(bytes(offset + len(part) - len(data)))
        data[offset : offset + len(part)] = part

    def sync_data(self, number: int) -> None:
        self.settle([u for u in self.pending if u.chain[0] != "names" and u.chain[1] == number])

    def sync(self, number: int) -> None:
        if self.nodes[number].kind == "directory":
            self.settle(self.closed([u for u in self.pending if ("directory", number) in u.keys]))
        else:
            self.sync_data(number)

    def settle(self, units: list[Unit]) -> None:
        chosen = set(map(id, units))
        for unit in units:
            unit.apply()
        self.pending = [unit for unit in self.pending if id(unit) not in chosen]

    # Which states there may be ---------------------------------------------------------------------------

    def before(self, unit: Unit, position: int) -> list[Unit]:
        """Return the pending units that must be on the disk if this one is."""
        if unit.chain[0] != "names":
            return [u for u in self.pending[:position] if u.chain == unit.chain]
        names = [u for u in self.pending[:position] if u.chain[0] == "names"]
        if self.ordered:
            return names
        mine = {key for key in unit.keys if key[0] != "directory"}
        made = {("node", key[1]) for key in unit.keys if key[0] == "directory"}
        return [u for u in names if (mine | made) & {key for key in u.keys if key[0] != "directory"}]

    def closed(self, units: list[Unit]) -> list[Unit]:
        """Return units and all that must come before them, in order."""
        position = {id(unit): i for i, unit in enumerate(self.pending)}
        chosen, todo = set(), list(units)
        while todo:
            unit = todo.pop()
            if id(unit) in chosen:
                continue
            chosen.add(id(unit))
            todo += self.before(unit, position[id(unit)])
        return [unit for unit in self.pending if id(unit) in chosen]

    def subsets(self, draw: random.Random, most: int):
        """Yield sets of pending units that a disk may hold: all of them where there are few."""
        groups: dict[tuple, list[Unit]] = {}
        for unit in self.pending:
            groups.setdefault(unit.chain if unit.chain[0] != "names" else ("name", id(unit)), []).append(unit)
        if 2 ** len(self.pending) <= most:
            for mask in itertools.product((False, True), repeat=len(self.pending)):
                picked = [unit for unit, taken in zip(self.pending, mask, strict=True) if taken]
                if len(self.closed(picked)) == len(picked):
                    yield picked
            return
        yield []
        yield list(self.pending)
        keys = list(groups)
        draw.shuffle(keys)
        for key in keys[: most // 4]:
            yield self.closed(groups[key])
            last = set(map(id, groups[key]))
            yield [u for u in self.pending if id(u) not in last
                   and not any(id(b) in last for b in self.closed([u]))]  # fmt: skip
        for _ in range(most // 2):
            share = draw.random()
            picked = [unit for unit in self.pending if draw.random() < share]
            yield self.closed(picked)

    def build(self, units: list[Unit], place: Path) -> dict[int, int]:
        """Make the files of a state; the model stays as it was. Returns their inodes by what these were."""
        kept = {n: (bytes(v.data), v.size, dict(v.names)) for n, v in self.nodes.items()}
        for unit in units:
            unit.apply()
        made: dict[int, int] = {}
        self.lay(self.root, place, made)
        for number, (data, size, names) in kept.items():
            node = self.nodes[number]
            node.data, node.size, node.names = bytearray(data), size, names
        return {old: made[number] for old, number in self.inodes.items() if number in made}

    def lay(self, number: int, place: Path, made: dict[int, int]) -> None:
        node = self.nodes[number]
        if node.kind == "link":
            place.symlink_to(node.target)
        elif node.kind == "file":
            data = bytes(node.data[: node.size])
            with open(place, "wb") as file:
                file.write(data.rstrip(b"\0"))
                file.truncate(node.size)
        else:
            place.mkdir()
            for name, child in node.names.items():
                self.lay(child, place / name, made)
        made[number] = place.lstat().st_ino


def judge(workload, place: Path, returned: int, begun: int, counts: Counter) -> str:
    """Open a state of the disk, go on with it, and say what is wrong; empty: nothing."""
    candidates = range(returned, begun + 1)
    if workload.away(place):
        counts["away until the next writer"] += 1
    else:
        found = workload.found(place, candidates)
        if found < 0:
            return f"neither of the states {candidates}"
        counts["old" if found == returned else "new"] += 1
        candidates = range(found, (begun if workload.advances else found) + 1)
    workload.recover(place)
    found = workload.found(place, candidates)
    if found < 0:
        return f"neither of {candidates} after recovery"
    if not workload.whole(place):
        return "damaged after recovery"
    workload.commit(place, found + 1)
    if workload.found(place, range(found + 1, found + 2)) < 0:
        return "the next commit is not there"
    return ""


def recorded(workload, place: Path, log: Path, commits: int) -> None:
    """Run commits under the recorder."""

    def body() -> None:
        if not workload.exchange:
            steps.without_exchange()
        if workload.lower:
            steps.lower()
        with fl.Runtime(memory="2GiB", workers=1, io="threads"):
            for k in range(1, commits + 1):
                workload.state(k)
            steps.watch(place)
            steps.record(log)
            for k in range(1, commits + 1):
                steps.mark(f"begun {k}")
                workload.commit(place, k)
                steps.mark(f"returned {k}")

    if in_child(body) != 0:
        raise RuntimeError(f"{workload.name}: it could not be recorded")


def replay(workload, model: Replay, top: Path, options) -> tuple[Counter, list[str]]:
    """Build and judge the states of one recording."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    log = top / "log"
    total = copy.deepcopy(model).count(log)
    draw = random.Random(options.seed)
    per_step = max(2, options.states // max(1, total))
    returned = begun = 0
    seen: set[tuple] = set()
    for number, (kind, text) in enumerate(model.steps(log), 1):
        counts["steps"] += 1
        if kind == MARK and text.startswith("begun"):
            begun = int(text.split()[1])
        elif kind == MARK:
            returned = int(text.split()[1])
        if number % (options.stride or (1 + total // 120 * (1 + workload.slow) if options.smoke else 1)):
            continue
        for units in model.subsets(draw, per_step):
            key = (returned, number if kind == SYNC else 0, tuple(map(id, units)))
            if key in seen:
                continue
            seen.add(key)
            place = top / "state"
            workload.renumber(place, model.build(units, place))
            counts["states"] += 1
            try:
                wrong = judge(workload, place, returned, begun, counts)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
                if options.trace:
                    traceback.print_exc()
            if wrong:
                counts["wrong"] += 1
                failures.append(f"{workload.name}: after step {number} with {len(units)} of "
                                f"{len(model.pending)} pending: {wrong}")  # fmt: skip
                if options.keep:
                    shutil.copytree(place, top / f"wrong-{counts['wrong']}", symlinks=True)
            shutil.rmtree(place)
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="few states: seconds")
    parser.add_argument("--stride", type=int, help="after every so many-th step; 1 (smoke: some 120 of them)")
    parser.add_argument("--states", type=int, help="about so many of each workload; 4000 (smoke: 60)")
    parser.add_argument("--ordered", action="store_true", help="names change in order")
    parser.add_argument("--lying", action="store_true", help="syncs do nothing: faults must be found")
    parser.add_argument("--only", default="", help="workloads, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the states that are wrong")
    parser.add_argument("--trace", action="store_true", help="where errors come from")
    parser.add_argument("--data", type=Path, help="folder to work in (/dev/shm)")
    parser.add_argument("--json", type=Path, help="where the counts go")
    options = parser.parse_args()
    options.states = options.states or (60 if options.smoke else 4000)
    usual = [name for name, kind in WORKLOADS.items() if kind.replayed and kind.can_run()]
    names = [name for name in options.only.split(",") if name] or usual
    folder = options.data or (Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    top = Path(tempfile.mkdtemp(prefix="power-", dir=folder))
    rows, failures = [], []
    for name in names:
        workload = WORKLOADS[name]()
        place = top / "recorded"
        if in_child(lambda w=workload, p=place: w.prepare(p)) != 0:
            raise RuntimeError(f"{name}: it could not be prepared")
        begun = time.perf_counter()
        model = Replay(place, options.ordered, options.lying)  # as it is before the commits
        recorded(workload, place, top / "log", max(2, workload.kinds))
        counts, wrong = replay(workload, model, top, options)
        row = {"workload": name, **counts, "seconds": round(time.perf_counter() - begun, 1)}
        print(json.dumps(row), flush=True)
        rows.append(row)
        failures += wrong
        shutil.rmtree(place)
    if not options.keep:
        shutil.rmtree(top)
    states = sum(row.get("states", 0) for row in rows)
    print(f"{states} states of the disk: {len(failures)} neither old nor new")
    for failure in failures[:20]:
        print("  " + failure)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "failures": failures}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    again_with_steps()
    from workloads import WORKLOADS

    import flagstone as fl

    steps = Steps()
    sys.exit(main())
