"""Along an axis, by group, in order, by bin, by index; sorts; random arrays; time loops."""

from __future__ import annotations

import numpy as np

import flagstone as fl

from .data import SIDE, TALL
from .entry import entry

STORED = ("a.npy", "f.npy", "a.zarr", "packed.zarr", "small.zarr")
GROUPED = ("group_sum", "group_mean", "group_var")
RANKS = ("median", "quantile", "percentile")
SCANS = ("cumulative_sum", "cumulative_prod", "diff")

HEAT = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(2).items()}


@entry(
    "running sums and differences",
    *SCANS,
    *(f"{name}.plan" for name in SCANS),
    variants=tuple(f"{n} {s}" for n in SCANS for s in STORED),
)
def scans(case):
    name, stored = case.split()
    a = fl.open(stored)
    return lambda: getattr(fl, name)(a, axis=0, out="scan.zarr")


@entry("rows by group", *GROUPED, *(f"{name}.plan" for name in GROUPED), variants=("sum", "mean", "var"))
def groups(name):
    a, labels = fl.open("tall.npy"), np.arange(TALL[0]) % 300
    return lambda: getattr(fl, f"group_{name}")(a, labels)


@entry("rows of sparse matrices by group", variants=("sum", "mean", "var", "sum csc"))
def sparse_groups(case):
    name, *stored = case.split()
    s = fl.open("csc.npz" if stored else "s.zarr")
    labels = np.arange(s.shape[0]) % 30 - 1
    return lambda: getattr(fl, f"group_{name}")(s, labels)


@entry("group_count", "group_count")
def counts():
    labels = np.arange(100_000) % 300
    return lambda: fl.group_count(labels)


@entry(
    "medians",
    *RANKS,
    *(f"{name}.plan" for name in RANKS),
    variants=(*STORED, "quantile", "percentile", "all"),
)
def medians(name):
    if name in ("quantile", "percentile"):
        a = fl.open("a.npy")
        return lambda: getattr(fl, name)(a, [0.1, 0.5], 0)
    a = fl.open("tall.npy" if name == "all" else name)
    return lambda: fl.median(a, None if name == "all" else 0)


@entry(
    "histogram",
    "histogram",
    "histogram.plan",
    "bincount",
    "bincount.plan",
    variants=("bins", "edges", "bincount", "weights", "bincount weights"),
)
def histogram(name):
    if name.startswith("bincount"):
        whole = fl.open_raw("ints.npy", "int32", SIDE * SIDE, offset=128)
        weights = fl.open_raw("a.npy", "float32", SIDE * SIDE, offset=128) if "weights" in name else None
        return lambda: fl.bincount(whole, weights)
    a = fl.open("a.npy")
    if name == "weights":
        return lambda: fl.histogram(a, 20, weights=fl.open("a.zarr"))
    return lambda: fl.histogram(a, 20 if name == "bins" else [-1, 0, 2])


@entry("bins of elements", "digitize", "digitize.plan", "isin", "isin.plan", variants=("digitize", "isin"))
def bins(name):
    a = fl.open("a.npy" if name == "digitize" else "ints.npy")
    return lambda: getattr(fl, name)(a, [-1, 0, 3], out="bins.zarr")


@entry(
    "take",
    "take",
    "take_along_axis",
    variants=("rows", "columns", "along"),
    refused_late="blocks follow what is left",
)
def take(name):
    a, order = fl.open("a.npy"), np.arange(SIDE)[::-1]
    if name == "along":
        each = np.tile(np.arange(40), (SIDE, 1))
        return lambda: fl.take_along_axis(a, each, 1, out="taken.zarr")
    return lambda: fl.take(a, order, 0 if name == "rows" else 1, out="taken.zarr")


@entry("nonzero", "nonzero", refused_late="how many there are is counted first")
def nonzero():
    a = fl.open("a.npy")
    return lambda: fl.nonzero(a > 3)


DRAWS = ("random", "uniform", "standard_normal", "normal", "exponential", "poisson", "integers", "choice")


@entry("random arrays", *(f"random.Generator.{name}" for name in DRAWS), variants=DRAWS)
def random(name):
    rng = fl.random.default_rng(3)
    first = {"integers": (9,), "choice": (9,)}.get(name, ())
    return lambda: getattr(rng, name)(*first, size=(SIDE, SIDE // 4), out="random.zarr")


@entry("random permutation", "random.Generator.permutation")
def permutation():
    rng = fl.random.default_rng(3)
    return lambda: rng.permutation(2_000_000, out="random.zarr")


@entry("Z[Z > 0.5] = 0", variants=("zarr", "npy"))
def masked(kind):
    a = fl.rechunk(fl.open("a.npy"), out=f"masked.{kind}")
    z = fl.open(f"masked.{kind}", mode="r+")
    del a

    def assign():
        z[z > 0.5] = 0

    return assign


LATE = "the sort runs before the stretches of what is sorted"


def line():
    return fl.open_raw("ints.npy", "int32", SIDE * SIDE, offset=128)


@entry(
    "sorts",
    *("sort", "argsort", "sort.plan", "argsort.plan"),
    variants=("sort line", "argsort line", "sort lines", "argsort lines"),
)
def sorts(case):
    name, what = case.split()
    a = line() if what == "line" else fl.open("a.npy")
    return lambda: getattr(fl, name)(a, out="sorted.zarr")


@entry("sort_by", "sort_by", "sort_by.plan", variants=("scratch", "paths"))
def records(case):
    a = line()
    return lambda: fl.sort_by([a, a], 1, out=None if case == "scratch" else ["one.zarr", "other.zarr"])


@entry(
    "unique values",
    "unique_{}",
    "unique_{}.plan",
    variants=("values", "counts", "inverse", "all"),
    refused_late=LATE,
)
def unique(name):
    a = line()
    return lambda: getattr(fl, f"unique_{name}")(a)


@entry("searchsorted", "searchsorted", refused_late="stretches are as long as the limit lets them be")
def search():
    a = line()
    return lambda: fl.searchsorted([-5, 0, 7], a)


@entry("entries in any order", "from_coo", variants=("memory", "disk", "blocks"), refused_late=LATE)
def entries(kind):
    rng = np.random.default_rng(4)
    rows, columns = rng.integers(0, 3000, (2, 200_000))
    if kind == "disk":
        both = [fl.from_numpy(one) for one in (rows, columns)]
        return lambda: fl.from_coo(tuple(both))
    if kind == "blocks":
        return lambda: fl.from_coo(
            (rows[i : i + 9999], columns[i : i + 9999]) for i in range(0, 200_000, 9999)
        )
    return lambda: fl.from_coo((rows, columns, columns))


@entry("lists of edges", "open_edges", variants=("keep", "dense"), refused_late=LATE)
def edges(ids):
    np.save("edges.npy", np.random.default_rng(5).integers(0, 3000, (200_000, 2)))
    return lambda: fl.open_edges("edges.npy", ids=ids)


@entry(
    "time loops",
    "stencil",
    "stencil.plan",
    "stencil.compare",
    variants=tuple(
        f"{method} {stored}" for method in ("al4", "al3", "al2", "al1", "sweep") for stored in STORED
    ),
)
def loops(case):
    method, stored = case.split()
    a = fl.open(stored)
    return lambda: fl.stencil(HEAT, a, 5, method=method, out="stepped.zarr")


@entry("time loops on a mesh", variants=("al4", "al3", "al1", "sweep"))
def meshes(method):
    a = fl.open("a.zarr")
    return lambda: fl.stencil(HEAT, a, 5, method=method, mesh=(2, 2), out="stepped.zarr")


def row_means(to, u):
    for i in range(len(to)):
        to[i] = (u[0][i] + u[0][i + 2]) / 2


def row_swaps(to_u, to_v, u, v):
    for i in range(len(to_u)):
        to_u[i], to_v[i] = v[0][i], u[0][i + 2]


@entry("time loops of functions", "row_kernel", variants=("a.zarr", "a.npy", "rows", "rows of fields"))
def functions(stored):
    if stored == "rows of fields":
        state = {"u": fl.open("a.zarr"), "v": fl.open("small.zarr")}
        swaps = fl.row_kernel(row_swaps, (0, 1), dtype="float32", fields=("u", "v"))
        return lambda: fl.stencil(swaps, state, 3, out="stepped.zarr")
    if stored == "rows":
        a, kernel = fl.open("a.zarr"), fl.row_kernel(row_means, (0, 1), dtype="float32")
        return lambda: fl.stencil(kernel, a, 3, out="stepped.zarr")
    a = fl.open(stored)
    return lambda: fl.stencil(lambda u: 0.5 * u[0, 0] + 0.25 * (u[1, 0] + u[0, -1]), a, 3, out="stepped.zarr")


@entry("what time loops keep on the way", variants=("al4", "al3", "al1"))
def kept(method):
    a = fl.open("a.zarr")
    snapshots = {"cut": (2, np.s_[::3, 7]), "whole": ([5], ...)}
    return lambda: fl.stencil(
        HEAT, a, 5, method=method, snapshots=snapshots, reductions=["sum", "change"], until={"change": -1.0},
        check=True, receivers=[(3, 4)],
    )  # fmt: skip


@entry("time loops of fields", variants=("al4", "al3", "al2", "al1", "sweep"))
def fields(method):
    a, b = fl.open("a.zarr"), fl.open("small.zarr")
    stages = [
        lambda u, v: {"u": u[0, 0] + 0.1 * (v[0, 1] - v[0, 0])},
        lambda u, v: {"v": v[0, 0] + 0.1 * (u[0, 0] - u[-1, 0])},
    ]
    return lambda: fl.stencil(stages, {"u": a, "v": b}, 3, method=method, reductions=[("v", "change")])


@entry("the wave equation", "wave", "wave.plan", "wave.compare", "sponge", "laplacian", "points")
def waves():
    v = fl.open("a.zarr")
    return lambda: fl.wave(abs(v) + 1, 3, spacing=1.0, sources=[(1000, 1000)], frequency=0.01)
