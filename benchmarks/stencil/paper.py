"""Figures 11 to 29 of "Flash-based out-of-core stencil computation on SSD-equipped clusters", simulated.

Midorikawa and Tan; 7-point heat, float64, 500 steps, a size is that of both arrays; without overlap of disk
and processors, as theirs. What is simulated: this program's own graphs on the virtual clock, on machines of
`machines/*.toml`, which say where each number comes from. Depth and blocks are chosen as Blk-Tune does, by
counts and rates, under the paper's count of memory, 2 (b + 2 h t) points of al1 and al2, 2 (b + h (t + 1)) of
al3; this program's tasks hold what they read and write beside that, so a plan is given the memory that those
blocks need here. Speeds are relative to updates at the rate of memory, which is "DRAM only".

No number is fitted. Loops on one node are planned at the paper's size; clusters, and what they are compared
with, by `similar` at a quarter of each length (`--scale`). A row that is beyond its tolerance and says why is
not judged; one that does not, is.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from flagstone._machine.machine import Machine, Network, Sockets

HERE = Path(__file__).resolve().parent
ITEM, FLOPS, H = 8, 8, 1  # float64, 6 equal weights and one, radius
GIB = 2**30


@dataclass(frozen=True)
class Loop:
    """A time loop of the paper's on a machine, and how it is cut."""

    machine: Machine
    method: str
    gib: float
    steps: int = 500
    mesh: tuple[int, int] = (1, 1)
    pairs: bool = False  # an even number of blocks along z: one for each of two sockets

    @property
    def shape(self) -> tuple[int, int, int]:
        """Extents z <= y <= x, powers of two, so that two arrays take so many GiB; cut alike by the mesh."""
        ranks = math.prod(self.mesh)
        power = round(math.log2(self.gib * GIB / 2 / ITEM / ranks))
        z, y, x = power // 3, (power + 1) // 3, (power + 2) // 3
        return 2**z * self.mesh[0], 2**y * self.mesh[1], 2**x

    @property
    def ranks(self) -> tuple[int, int, int]:
        """The largest rank's extents, without sleeves."""
        return tuple(-(-n // p) for n, p in zip(self.shape, (*self.mesh, 1), strict=True))


def similar(loop: Loop, by: int) -> Loop:
    """The same loop with all lengths, steps and depths divided, and rates of disk and link that much higher.

    Counts of blocks, halos and supersteps are the same, and so is every share of the time (the speed of al1
    on 512 GiB differs by 1.2 %, for whole steps); latencies are left out. A mesh of terabytes is planned in
    seconds.
    """
    machine, rates, network = loop.machine, dict(loop.machine.rates), loop.machine.network
    for name in ("read_bytes_per_second", "write_bytes_per_second"):
        rates[name] *= by
    small = replace(
        machine, rates=rates, memory=machine.memory // by**3,
        network=replace(network, link=network.link * by, latency=0.0),
    )  # fmt: skip
    return replace(loop, machine=small, gib=loop.gib / by**3, steps=loop.steps // by)


def rate_of(machine: Machine) -> float:
    """Updates a second of a node out of memory: three elements an update are counted."""
    rates = machine.rates
    seconds = FLOPS / rates["flops_float64"] + 3 * ITEM / rates["memory_bytes_per_second"]
    return machine.workers / seconds


def together(machine: Machine) -> Machine:
    """All processors of a node share one block."""
    n, rates = machine.workers, dict(machine.rates)
    for name in ("flops_float32", "flops_float64", "memory_bytes_per_second"):
        rates[name] *= n
    return replace(machine, workers=1, rates=rates, sockets=Sockets())


def cores_of(n: int, b: int, t: int, skewed: bool, cut: bool) -> tuple[float, float, float]:
    """Along an axis: points read, written and updated (a step, on average) of all blocks of b, t steps deep.

    `cut` by the mesh: a rank has sleeves on both sides, and a step computes a point less of them each time.
    """
    beyond = H * t if cut else 0
    if b >= n and not cut:
        return n, n, n

    def clip(low: int, high: int, sleeve: int = beyond) -> int:
        return max(0, min(high, n + sleeve) - max(low, -sleeve))

    steps = range(t)
    if skewed:
        edges = range(-beyond, n + beyond + H * (t - 1), b)
        read = sum(clip(at - H * t, at + b + H) for at in edges)
        written = sum(clip(at - H * (t - 1), at + b) for at in edges)
        return read, written, sum(n + (2 * H * s if cut else 0) for s in steps) / t
    edges = range(0, n, b)

    def grown(g: int) -> int:
        return sum(clip(at - g, min(at + b, n) + g) for at in edges)

    return grown(H * t), n, sum(grown(H * s) for s in steps) / t


def cuts_of(n: int, t: int, skewed: bool, cut: bool) -> list[tuple[int, int, tuple[float, float, float]]]:
    """Blocks along an axis, up to 32 of them, whole numbers of halos: extent, extent with halo, counts."""
    extents = {n} | {math.ceil(n / number / t) * t for number in range(2, 33)}
    halo = H * (t + 1) if skewed else 2 * H * t
    found = [b for b in sorted(extents) if b <= n]
    return [(b, b + (cut or b < n) * halo, cores_of(n, b, t, skewed, cut)) for b in found]


def chosen(loop: Loop) -> tuple[int, tuple[int, int, int]]:
    """Depth and block of the least time a step by counts and rates."""
    nz, ny, nx = loop.ranks
    rates, skewed = loop.machine.rates, loop.method == "al3"
    most = loop.machine.memory / (2 * nx * ITEM)
    each = (
        (2 if skewed else 1) * ITEM / rates["read_bytes_per_second"],
        (2 if skewed else 1) * ITEM / rates["write_bytes_per_second"],
    )
    best, least = (0, (0, 0, 0)), math.inf
    for t in {-(-loop.steps // number) for number in range(1, loop.steps + 1)}:
        if not 4 <= t <= min(loop.steps, nz, ny):
            continue
        along_y = cuts_of(ny, t, skewed, loop.mesh[1] > 1)
        for bz, planes, z in cuts_of(nz, t, skewed, loop.mesh[0] > 1):
            if loop.pairs and -(-nz // bz) % 2:
                continue
            for by, rows, y in along_y:
                if planes * rows > most:
                    break
                read, written, done = (nx * i * j for i, j in zip(z, y, strict=True))
                seconds = (read * each[0] + written * each[1]) / t + done / rate_of(loop.machine)
                if seconds < least:
                    best, least = (t, (bz, by, nx)), seconds
    return best


def planned(loop: Loop) -> dict:
    """This program's plan of it: seconds, without what only a mesh's first and last task do; their parts."""
    import flagstone as fl

    heat = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}
    depth, block = chosen(loop)
    field = fl.planned(loop.shape, "float64", chunks=(1, *loop.shape[1:]))
    given = {"method": loop.method, "depth": depth, "block": block, "overlap": False, "mesh": loop.mesh}
    if loop.method == "al3":
        given["cache_block"] = (256, loop.shape[1], 1)  # bands of so many planes: fewer tasks to plan
    call = lambda memory: fl.stencil.plan(  # noqa: E731
        heat, field, loop.steps, machine=loop.machine, memory=memory, out="never.zarr", **given
    )
    plan = call(2**60)
    # No more than the blocks need, or a part of the field would stay in memory between supersteps; ranks of
    # al1 keep nothing there.
    if loop.method == "al3" or loop.mesh == (1, 1):
        plan = call(plan.least_memory + 2**20)
    told = plan.stencil
    seconds = told.components["loop"] or plan.seconds
    rates = loop.machine.rates
    return {
        "seconds": seconds, "depth": depth, "block": block, "components": told.components,
        "read": plan.bytes_read / rates["read_bytes_per_second"],
        "write": plan.bytes_written / rates["write_bytes_per_second"],
        "bytes_read": plan.bytes_read, "bytes_written": plan.bytes_written,
        "speed": told.useful_updates / seconds, "work": told.updates / told.useful_updates,
    }  # fmt: skip


def row(
    name: str, value: float, printed: tuple[float, float], within: float, judged: bool, why: str = ""
) -> harness.Row:
    """One line: ours, the paper's number or range, and how far the first is outside the second."""
    low, high = printed
    off = 0.0 if low <= value <= high else min(abs(value / low - 1), abs(value / high - 1))
    excused = off > within and bool(why)
    shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    title = f"{name}; {why}" if excused else name
    return harness.figure(title, f"{value:.3g}", shown, off, f"<= {within}", judged and not excused)


class Figures:
    """Rows of a table, and the plans behind them."""

    def __init__(self, judged: bool, scale: int) -> None:
        self.judged, self.scale = judged, scale
        self.rows: list[harness.Row] = []
        self.plans: dict[str, dict] = {}
        self.machines = {
            name: Machine.read(HERE / "machines" / f"{name}.toml") for name in ("crest7", "crest4", "tsubame")
        }

    def plan(self, name: str, loop: Loop) -> dict:
        """A plan, made once: of the loop or of a similar one."""
        if name not in self.plans:
            self.plans[name] = planned(similar(loop, self.scale) if self.scale > 1 else loop)
        return self.plans[name]

    def add(
        self, name: str, value: float, printed: float | tuple[float, float], within: float, why: str = ""
    ):
        both = printed if isinstance(printed, tuple) else (printed, printed)
        self.rows.append(row(name, value, both, within, self.judged, why))

    def tell(self, name: str, value: float, printed: float | tuple[float, float]) -> None:
        """A number of the paper's that no tolerance was set for."""
        both = printed if isinstance(printed, tuple) else (printed, printed)
        self.rows.append(row(name, value, both, 0.15, False))

    # Nothing fitted ------------------------------------------------------------------------------------

    def one_node(self) -> None:
        """Figures 15 to 18: speeds relative to DRAM only; what of the time is I/O."""
        crest7, crest4 = (together(self.machines[name]) for name in ("crest7", "crest4"))
        for method, printed in (("al3", 0.85), ("al1", 0.72)):
            plan = self.plan(f"crest7 {method} 512", Loop(crest7, method, 512))
            self.add(
                f"16: {method}, 512 GiB, crest7 ÷ DRAM only", plan["speed"] / rate_of(crest7), printed, 0.12
            )
        for gib, printed in ((128, 0.72), (1024, 0.63)):
            plan = self.plan(f"crest4 al1 {gib}", Loop(crest4, "al1", gib))
            self.add(
                f"18: al1, {gib} GiB, crest4 ÷ DRAM only", plan["speed"] / rate_of(crest4), printed, 0.12
            )
        for part, printed in (("read", 0.175), ("write", 0.13)):
            plan = self.plans["crest4 al1 1024"]
            self.tell(f"17: share of {part}s, al1, 1 TiB, crest4", plan[part] / plan["seconds"], printed)

    # Fits were allowed here, three of them, and none is made -------------------------------------------

    def sockets(self) -> None:
        """Figures 11 and 12: blocks placed on sockets ÷ buffers that one thread touched."""
        machine = self.machines["crest7"]
        far = replace(machine, sockets=replace(machine.sockets, placed=False))
        seconds = {
            (method, where): self.plan(
                f"crest7 {method} 256 {where}", Loop(one, method, 256, pairs=True)
            )["seconds"]
            for method in ("al1", "al2")
            for where, one in (("near", machine), ("far", far))
        }  # fmt: skip
        for method, printed in (("al1", (0.50, 0.57)), ("al2", (0.85, 0.87))):
            value = seconds[method, "near"] / seconds[method, "far"]
            self.add(
                f"{11 if method == 'al1' else 12}: {method}, 256 GiB, placed ÷ not", value, printed, 0.15,
                OF_12 if method == "al2" else "",
            )  # fmt: skip
        self.tell(
            "12: al2 ÷ al1, neither placed", seconds["al2", "far"] / seconds["al1", "far"], (0.67, 0.80)
        )

    def nodes(self) -> None:
        """Figures 19 to 29: ranks of a mesh, a node each."""
        crest7, tsubame = (together(self.machines[name]) for name in ("crest7", "tsubame"))
        for gib, printed in ((512, 3.71), (1024, 2.93)):
            one = self.plan(f"crest7 al1 {gib}", Loop(crest7, "al1", gib))
            four = self.plan(f"4 x crest7 al1 {gib}", Loop(cluster(crest7, 4), "al1", gib, mesh=(2, 2)))
            self.add(
                f"20: al1, {gib} GiB, 4 nodes ÷ 1", one["seconds"] / four["seconds"], printed, 0.15, OF_20
            )
            share = four["components"]["exchange"] / four["seconds"]
            self.tell(f"21, 22: share of exchange, al1, {gib} GiB, 4 nodes", share, (0.01, 0.03))
        speed = {
            n: self.plan(f"{n} x crest7 al3", Loop(cluster(crest7, n), "al3", 256 * n, mesh=(2, n // 2)))[
                "speed"
            ]
            for n in (2, 4)
        }
        self.add("23: al3, 256 GiB a node, 4 nodes ÷ 2", speed[4] / speed[2], 1.79, 0.15)
        many = {
            n: self.plan(f"{n} x tsubame", Loop(cluster(tsubame, n), "al1", 128 * n, mesh=mesh))
            for n, mesh in ((8, (4, 2)), (16, (4, 4)), (32, (8, 4)))
        }
        for n, printed in ((16, 0.97), (32, 0.91)):
            value = many[n]["speed"] / many[8]["speed"] / (n / 8)
            self.add(f"27: al1, 128 GiB a node, {n} nodes ÷ 8 of TSUBAME: efficiency", value, printed, 0.15)
        eight = many[8]
        for part, printed in (("barrier", 0.0496), ("exchange", 0.0807)):
            share = eight["components"][part] / eight["seconds"]
            self.tell(f"29: share of {part}, 8 nodes of TSUBAME", share, printed)
        moved = {
            method: self.plan(f"tsubame {method} 128", Loop(tsubame, method, 128))
            for method in ("al1", "al3")
        }
        for what, printed in (("read", 2.0), ("write", 6.0)):
            value = moved["al3"][what] / moved["al1"][what]
            self.tell(f"26: seconds of {what}s, al3 ÷ al1, 128 GiB, one node of TSUBAME", value, printed)


#: What Figure 12 lacks here.
OF_12 = "cache blocks are two steps deep, as this machine's cache makes them; no data sheet has their rate"
#: What is not known of Figure 20.
OF_20 = "the number was handed on without its method and baseline: al1 on one node is taken"
#: Bytes a second of a node, each way: 4X QDR InfiniBand of one rail.
LINK = 4e9


def cluster(machine: Machine, number: int) -> Machine:
    """So many of its nodes."""
    return replace(machine, network=Network(number, LINK, 2e-6))


def run() -> int:
    args = harness.options(__doc__, scale=(4, 16), only=("one,sockets,nodes", "one,sockets,nodes"))
    rows: list[harness.Row] = []
    plans: dict[str, dict] = {}
    for part in args.only.split(","):
        # One node is planned as it is; clusters, of which the parcels are many, by the scale.
        figures = Figures(args.full_size, args.scale if part == "nodes" or args.smoke else 1)
        {"one": figures.one_node, "sockets": figures.sockets, "nodes": figures.nodes}[part]()
        rows += figures.rows
        plans |= {f"{part}: {name}": plan for name, plan in figures.plans.items()}
    return harness.report(__file__, args, rows, plans=plans)


if __name__ == "__main__":
    harness.main(__file__, run)
