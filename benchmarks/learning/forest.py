"""PfastreXML: P@k and PSP@k beside the published table, seconds of training and inference.

    python benchmarks/learning/forest.py DIRECTORY [--sets bibtex delicious] [--trees 50] [--seeds 0]

DIRECTORY holds NAME.train.X.npz, NAME.train.Y.npz and the same of test. --smoke makes points of its own.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp

import flagstone as fl

PUBLISHED = {  # Extreme Classification Repository: P@1, 3, 5 and PSP@1, 3, 5
    "bibtex": ((63.46, 39.22, 29.14), (52.28, 54.36, 60.55)),
    "delicious": ((67.13, 62.33, 58.62), (34.57, 34.80, 35.86)),
}
ALPHAS = (1.0, 0.95, 0.8)


def stored(folder: str, name: str) -> list[sp.csr_matrix]:
    """Points and labels to train with, then to test with."""
    parts = [f"{folder}/{name}.{part}.{what}.npz" for part in ("train", "test") for what in ("X", "Y")]
    return [sp.load_npz(part).astype(np.float32).tocsr() for part in parts]


def made() -> list[sp.csr_matrix]:
    """A few points whose features tell their labels."""
    rng = np.random.default_rng(0)
    label = rng.integers(30, size=600)
    y = sp.csr_matrix((np.ones(600, "f4"), (np.arange(600), label)), (600, 30))
    x = (sp.random(600, 80, 0.05, "csr", dtype=np.float32, random_state=0) + 2 * y @ sp.eye(30, 80)).tocsr()
    return [x.astype("f4"), y, x.astype("f4"), y]


def measure(name: str, sets: list[sp.csr_matrix], trees: int, seed: int, propensity: tuple | None) -> None:
    x, y, other, truth = sets
    begin = time.perf_counter()
    options = {"method": "pfastrexml", "trees": trees, "seed": seed, "propensity": propensity}
    model = fl.train_labels(x, y, **options)
    trained = time.perf_counter() - begin
    kind = "FastXML" if propensity is None else "PfastreXML"
    print(
        f"{name}, {kind}, {trees} trees, seed {seed}: trained in {trained:.1f} s, {model.weights:,} weights"
    )
    for alpha in ALPHAS:
        begin = time.perf_counter()
        found = model.predict(other, 5, alpha=alpha)
        asked = time.perf_counter() - begin
        told = fl.label_metrics(found, truth, y)
        figures = " ".join(f"{v:.2f}" for part in (told.P, told.PSP) for v in part.values())
        print(f"  alpha {alpha}: P@1 3 5, PSP@1 3 5: {figures}; {asked:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--sets", nargs="+", default=["bibtex", "delicious"])
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--plain", action="store_true", help="without propensities: FastXML")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    if asked.smoke:
        return measure("made", made(), 2, 0, (0.55, 1.5))
    for name in asked.sets:
        for seed in asked.seeds:
            sets = stored(asked.directory, name)
            measure(name, sets, asked.trees, seed, None if asked.plain else (0.55, 1.5))
        if name in PUBLISHED:
            print(f"  published: {PUBLISHED[name]}")


if __name__ == "__main__":
    main()
