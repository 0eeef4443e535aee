"""Seconds that plans tell ÷ seconds taken: on a machine that was never calibrated, over spectra, over limits.

first    the sparse PCA of the demonstration, a product, a lazy pass and a dense PCA: each the first that a
         new user runs, with the rates of the quick probe (no profile is kept)
spectra  Krylov PCA of ten spectra: passes ÷ the most that the plan names, and what it told for as many passes
         as there were ÷ seconds taken, after `flagstone calibrate`
limits   sparse PCA at its least limit + 64 MiB ÷ at 4 GiB; where the plan says what more memory would buy,
         that gain ÷ the gain measured
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

COMPONENTS = 20
#: Singular values by their number, from 0; columns of noise scaled by them have such a spectrum.
SPECTRA = {
    "flat noise": "1 + 0 * i",
    "power 1/2": "(1 + i) ** -0.5",
    "power 1": "1 / (1 + i)",
    "power 2": "(1 + i) ** -2.0",
    "decay 0.99": "0.99 ** i",
    "decay 0.9": "0.9 ** i",
    "ten, then noise": "1 + 99 * (i < 10)",
    "twenty alike, then noise": "1 + 9 * (i < 20)",
    "a step inside a cluster": "1 + 9 * (i < 19) + 0.01 * (i == 19)",
    "rank five": "1.0 * (i < 5)",
}


# --- data -----------------------------------------------------------------------------------------------


def make_dense(path: str, rows: int, cols: int, spectrum: str) -> dict:
    """Rows of independent noise, columns scaled: for many more rows than columns their spectrum."""
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(0)
    scale = eval(spectrum, {"i": np.arange(cols)}).astype("float32")  # of SPECTRA alone
    X = fl.create(path, (rows, cols), "float32", overwrite=True)
    with fl.transaction(path):
        for i in range(0, rows, 2048):
            X[i : i + 2048] = rng.standard_normal((min(2048, rows - i), cols), dtype=np.float32) * scale
    X.close()
    return {}


def make_counts(path: str, rows: int, cols: int) -> dict:
    import flagstone as fl
    from flagstone.datasets import Cells

    cells = Cells(rows, cols, seed=0)
    blocks = ((data, indices, indptr, cols) for indptr, indices, data in cells.blocks())
    fl.from_blocks(blocks, path, dtype="float32", overwrite=True)
    return {"nnz": fl.open(path).nnz}


# --- what is measured, each in a process of its own -------------------------------------------------------


def planned(call: str, arguments: list, **options) -> dict:
    """Plan and run: `call` names a routine, texts among the arguments are paths that are opened."""
    import numpy as np

    import flagstone as fl

    opened = [fl.open(x) if isinstance(x, str) else x for x in arguments]
    if call == "compute":
        opened = [np.log1p(2 * opened[0] + 3)]
    routine = getattr(fl, call)
    plan = routine.plan(*opened, **options)
    with harness.measured() as run:
        routine(*opened, **options)
    return {**vars(run), "plan": plan.as_dict(), "stats": fl.stats().as_dict()}


def least(path: str, k: int) -> dict:
    import flagstone as fl

    return {"least": fl.pca.plan(fl.open(path), k).least_memory}


def gauge(folder: str) -> dict:
    import flagstone as fl

    return fl.calibrate(folder).as_dict()


def either_way(ratio: float) -> float:
    return max(ratio, 1 / ratio)


# --- parts ------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, args) -> None:
        self.args, self.rows, self.details = args, [], {}

    def place(self, name: str) -> str:
        return str(self.args.data / f"plan-seconds-{name}")

    def run(self, name: str, call: str, *arguments, forget: bool = False, **options) -> dict:
        """The run in the middle, by seconds told ÷ taken; `forget`: each on a machine without a profile."""
        done = []
        for _ in range(self.args.rounds):
            harness.drop_caches([self.args.data])
            if forget:
                harness.remove(Path(os.environ["XDG_CACHE_HOME"]))
            given = {"call": call, "arguments": arguments, **options}
            done.append(harness.child(__file__, planned, self.args.timeout, **given))
            if "out" in options:
                harness.remove(Path(options["out"]))
        done.sort(key=lambda one: one["plan"]["seconds"] / one["seconds"])
        self.details[name] = done
        return done[len(done) // 2]

    def figure(self, what: str, ours: str, baseline: str, value: float, target: str) -> None:
        self.rows.append(harness.figure(what, ours, baseline, value, target, self.args.full_size))

    def told(self, what: str, told: float, taken: float, most: float) -> None:
        shown = f"{told:.3g} s told, {taken:.3g} s taken"
        self.figure(
            f"{what}: told ÷ taken, or the other way", shown, "", either_way(told / taken), f"<= {most}"
        )

    def first(self) -> None:
        args, n = self.args, self.args.n
        a, b, c, x, counts = (
            self.place(name) for name in ("a.npy", "b.npy", "c.zarr", "x.zarr", "counts.zarr")
        )
        for path, seed in ((a, 1), (b, 2)):
            harness.random_npy(Path(path), n, n, seed)
        height = int(args.gib * 2**30) // (4 * 4096)
        given = {"rows": height, "cols": 4096, "spectrum": SPECTRA["power 1"]}
        harness.child(__file__, make_dense, args.timeout, path=x, **given)
        harness.child(__file__, make_counts, args.timeout, path=counts, rows=args.cells, cols=5000)
        jobs = {
            f"PCA of {args.cells:,} x 5,000 counts": ("pca", [counts, 50], {"memory": args.memory}),
            f"product {n}³ at {args.memory}": ("matmul", [a, b], {"out": c, "memory": args.memory}),
            f"log1p(2 X + 3) of {args.gib:g} GiB": ("compute", [x], {"out": c, "memory": "1GiB"}),
            f"dense PCA of {args.gib:g} GiB": ("pca", [x, COMPONENTS], {"memory": "1GiB"}),
        }
        for name, (call, given, options) in jobs.items():
            done = self.run(f"first: {name}", call, *given, forget=True, **options)
            self.told(f"never calibrated, {name}", done["plan"]["seconds"], done["seconds"], 1.5)
        harness.remove(*map(Path, (a, b, x, counts)))

    def spectra(self) -> None:
        args, path = self.args, self.place("spectrum.zarr")
        harness.child(__file__, gauge, args.timeout, folder=args.data)
        for name, spectrum in SPECTRA.items():
            given = {"rows": args.rows, "cols": args.cols, "spectrum": spectrum}
            harness.child(__file__, make_dense, args.timeout, path=path, **given)
            done = self.run(f"spectra: {name}", "pca", path, COMPONENTS, method="krylov", memory=args.memory)
            plan, passes = done["plan"], done["stats"]["passes"]
            shown = f"{passes} passes", f"{plan['passes']} likely, {plan['most_passes']} at most"
            self.figure(f"{name}: passes ÷ most", *shown, passes / plan["most_passes"], "<= 1")
            self.told(
                f"{name}, for its passes", plan["seconds"] * passes / plan["passes"], done["seconds"], 1.333
            )
        harness.remove(Path(path))

    def limits(self) -> None:
        args, path = self.args, self.place("many.zarr")
        found = harness.child(__file__, make_counts, args.timeout, path=path, rows=args.many, cols=5000)
        lowest = harness.child(__file__, least, args.timeout, path=path, k=50)["least"] + (64 << 20)
        low = self.run("limits: low", "pca", path, 50, memory=lowest)
        high = self.run("limits: 4 GiB", "pca", path, 50, memory=4 << 30)
        shown = f"{low['seconds']:.1f} s in {lowest >> 20} MiB", f"{high['seconds']:.1f} s in 4 GiB"
        what = f"sparse PCA, {found['nnz'] / 1e6:.0f}M values, least + 64 MiB ÷ 4 GiB"
        self.figure(what, *shown, low["seconds"] / high["seconds"], "<= 1.5")
        advice = low["plan"]["advice"].split()
        if advice:  # "...; 96 MiB more: 1.9 x faster"
            more = round(float(advice[-6]) * {"MiB": 1 << 20, "GiB": 1 << 30}[advice[-5]])
            next_one = self.run("limits: as advised", "pca", path, 50, memory=lowest + more)
            gain = low["seconds"] / next_one["seconds"]
            shown = f"{advice[-3]} x told", f"{gain:.2f} x with {more >> 20} MiB more"
            self.figure(
                "the gain that the plan tells ÷ measured",
                *shown,
                either_way(float(advice[-3]) / gain),
                "<= 1.25",
            )
        harness.remove(Path(path))


def run() -> int:
    args = harness.options(
        __doc__,
        n=(8192, 512), gib=(4.0, 0.03), cells=(100_000, 2000), memory=("512MiB", "384MiB"),
        rows=(40_000, 2500), cols=(2000, 200), many=(1_050_000, 2000),
        rounds=(3, 1), only=("first,spectra,limits", "limits"),
    )  # fmt: skip
    bench = Bench(args)
    for part in args.only.split(","):
        getattr(bench, part)()
    return harness.report(__file__, args, bench.rows, runs=bench.details)


if __name__ == "__main__":
    harness.main(__file__, run, make_dense, make_counts, planned, least, gauge)
