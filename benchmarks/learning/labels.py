"""Label trees: training inside a limit against without one and against omikuji, one tree set each; inference.

Default 10,000 points x 20,000 features, 1,000 labels; --rows 40000 --labels 4000 is the size of the targets.
P@k by this file's own code. Fresh processes in turn, best of the rounds; omikuji (Rust Parabel) only where it
is installed.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

FEATURES = 20_000


def precision(found, truth) -> list[float]:
    """P@1, 3, 5 in percent."""
    import numpy as np

    truth = truth.tocsr()
    hits = np.array([[label in set(truth[i].indices) for label in row] for i, row in enumerate(found)])
    return [100 * float(hits[:, :k].sum() / (k * len(hits))) for k in (1, 3, 5)]


def ours(data: str, memory: str, format: str) -> dict:
    import hashlib

    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl

    x, y, points = (fl.open(f"{data}/{name}.zarr") for name in ("x", "y", "points"))
    given = {"memory": memory} if memory else {}
    plan = fl.train_labels.plan(x, y, format=format, **given)
    with harness.measured() as run:
        model = fl.train_labels(x, y, format=format, **given)
    told = {**vars(run), "plan": plan.as_dict(), "stats": fl.stats().as_dict()}
    with harness.measured() as asked:
        labels, _ = model.predict(points, 5, **given)
    found = np.asarray(labels)
    bits = hashlib.sha256(
        np.asarray(fl.open(f"{model.path}/weights")).tobytes() + found.tobytes()
    ).hexdigest()
    truth = sp.load_npz(f"{data}/truth.npz")
    return {**told, "predict_seconds": asked.seconds, "bits": bits, "precision": precision(found, truth),
            "bytes_a_weight": model.nbytes / model.weights, "weights": model.weights}  # fmt: skip


def omikuji(data: str) -> dict:
    import numpy as np
    import omikuji as peer
    import scipy.sparse as sp

    settings = peer.Model.default_hyper_param()
    settings.n_trees = 3
    with harness.measured() as run:
        model = peer.Model.train_on_data(f"{data}/train.txt", settings, n_threads=2)
    points, truth = (sp.load_npz(f"{data}/{name}.npz") for name in ("points", "truth"))
    found = np.full((points.shape[0], 5), -1)
    for i in range(points.shape[0]):
        one = points[i]
        best = model.predict(list(zip(one.indices.tolist(), one.data.tolist(), strict=True)), top_k=5)
        found[i, : len(best)] = [label for label, _ in best]
    return {**vars(run), "precision": precision(found, truth)}


def make(rows: int, labels: int, to: str) -> dict:
    """Points with words of their two or three labels, and others."""
    import os

    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl

    os.makedirs(to, exist_ok=True)
    rng = np.random.default_rng(0)
    words = rng.integers(0, FEATURES, (labels, 20))
    weight = 1 / np.arange(5, labels + 5)

    def some(number: int) -> tuple:
        each = rng.choice(labels, (number, 3), p=weight / weight.sum())
        y = sp.csr_matrix(
            (np.ones(3 * number, "f4"), each.ravel(), 3 * np.arange(number + 1)), (number, labels)
        )
        y.sum_duplicates()
        y.data[:] = 1
        own = words[each][
            np.arange(number)[:, None, None], np.arange(3)[:, None], rng.integers(0, 20, (number, 3, 20))
        ]
        others = (FEATURES * rng.random((number, 40)) ** 3).astype(int)
        columns = np.concatenate([own.reshape(number, -1), others], axis=1)
        values = rng.exponential(1, columns.size).astype("f4")
        x = sp.csr_matrix((values, columns.ravel(), 100 * np.arange(number + 1)), (number, FEATURES))
        x.sum_duplicates()
        return x, y

    x, y = some(rows)
    points, truth = some(max(1, rows // 10))
    for name, matrix in (("x", x), ("y", y), ("points", points)):
        fl.from_blocks([matrix], f"{to}/{name}.zarr", overwrite=True)
    sp.save_npz(f"{to}/points.npz", points)
    sp.save_npz(f"{to}/truth.npz", truth)
    with open(f"{to}/train.txt", "w") as file:
        print(rows, FEATURES, labels, file=file)
        for i in range(rows):
            told = " ".join(f"{c}:{v:.6g}" for c, v in zip(x[i].indices, x[i].data, strict=True))
            print(",".join(map(str, y[i].indices)), told, file=file)
    return {"rows": rows}


def run() -> int:
    args = harness.options(
        __doc__, rows=(10_000, 600), labels=(1000, 60), rounds=(2, 1), memory=("160MiB",) * 2,
        baselines=("omikuji", ""),
    )  # fmt: skip
    data = args.data / f"labels-{args.rows}x{args.labels}"
    if not data.exists():
        harness.child(__file__, make, args.timeout, rows=args.rows, labels=args.labels, to=data)
    given = {"data": data}
    mine = partial(harness.child, __file__, ours, args.timeout, **given)
    runs = {"limited": partial(mine, memory=args.memory, format="float32"),
            "free": partial(mine, memory="", format="float32"),
            "int8": partial(mine, memory=args.memory, format="int8")}  # fmt: skip
    for name in filter(None, args.baselines.split(",")):
        try:
            __import__(name)
        except ImportError:
            continue
        runs[name] = partial(harness.child, __file__, name, args.timeout, **given)
    try:
        results = harness.alternate(args.rounds, runs, [data / "x.zarr"])
    finally:
        if not args.keep:
            harness.remove(data)
    return report(args, results)


def report(args, results: dict) -> int:
    """Compare the runs."""
    judged = args.full_size and args.rows == 40_000
    name = f"label trees {args.rows} x {FEATURES}, {args.labels} labels, {args.memory}"
    limited, free = harness.best(results["limited"]), harness.best(results["free"])
    first, small = results["limited"][0], results["int8"][0]
    shown = f"{limited:.2f} s", f"{free:.2f} s without a limit"
    rows = [harness.figure(f"{name}: training time", *shown, limited / free, "<= 1.30", judged)]
    same = first["bits"] == results["free"][0]["bits"]
    rows.append(harness.figure(f"{name}: same bits", str(same), "True", float(same), ">= 1.0", True))
    peak = max(one["peak"] for one in results["limited"])
    limit = harness.parse_bytes(args.memory)
    rows.append(
        harness.figure(
            f"{name}: peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", judged
        )
    )
    each = small["bytes_a_weight"]
    rows.append(
        harness.figure(f"{name}: bytes a weight, int8", f"{each:.2f}", "3.2", each / 3.2, "<= 1.00", judged)
    )
    moved = max(abs(a - b) for a, b in zip(small["precision"], first["precision"], strict=True))
    rows.append(harness.figure(f"{name}: P@k of int8", f"{moved:.2f}", "0.3", moved / 0.3, "<= 1.00", judged))
    if "omikuji" in results:
        best, theirs = harness.best(results["omikuji"]), results["omikuji"][0]["precision"]
        rows.append(
            harness.figure(
                f"{name}: time ÷ omikuji", f"{free:.2f} s", f"{best:.2f} s", free / best, "<= 1.00", judged
            )
        )
        less = max(b - a for a, b in zip(first["precision"], theirs, strict=True))
        rows.append(
            harness.figure(
                f"{name}: P@k below omikuji's", f"{less:.2f}", "0.5", max(less, 0) / 0.5, "<= 1.00", judged
            )
        )
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, omikuji, make)
