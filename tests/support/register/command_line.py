"""The verbs of the command line, in this process."""

from __future__ import annotations

import contextlib
import io

import scipy.sparse as sp

import flagstone as fl
from flagstone._cli import cli
from flagstone._runtime.runtime import current

from .entry import POINTERS, entry
from .models import tagged

VERBS = {
    "info": ("a.zarr",),
    "check": ("a.zarr",),
    "repair": ("a.zarr",),
    "pack": ("a.zarr", "packed-by-verb.zarr", "--codec", "zstd:1", "--overwrite"),
    "convert": ("tall.npy", "converted-by-verb.zarr", "--overwrite"),
    "matmul": ("a.npy", "f.npy", "-o", "product-by-verb.zarr", "--overwrite"),
    "qr": ("tall.npy", "-o", "qr-by-verb.zarr", "--overwrite"),
    "cholesky": ("definite.npy", "-o", "cholesky-by-verb.zarr", "--overwrite"),
    "lu": ("definite.npy", "-o", "lu-by-verb.zarr", "--overwrite"),
    "solve": ("definite.npy", "definite.npy", "-o", "solved-by-verb.zarr", "--overwrite"),
    "lstsq": ("tall.npy", "y.npy", "--ridge", "0,1"),
    "sort": ("a.zarr", "sorted-by-verb.zarr", "--overwrite"),
    "rechunk": ("a.zarr", "rechunked-by-verb.zarr", "--chunks", "-1,100", "--overwrite"),
    "transpose": ("s.zarr", "transposed-by-verb.zarr", "--overwrite"),
    "norm": ("a.zarr", "--ord", "1"),
    "cov": ("a.zarr", "-o", "covariance-by-verb.zarr", "--dtype", "float32", "--overwrite"),
    "pca": ("tall.npy", "-k", "4", "-o", "pca-by-verb.zarr", "--overwrite"),
    "eigsh": ("definite.npy", "-k", "3", "--passes", "3", "-o", "eigsh-by-verb.zarr", "--overwrite"),
    "svd": ("tall.npy", "-k", "3", "--passes", "3", "-o", "svd-by-verb.zarr", "--overwrite"),
    "embed": ("graph.npy", "-k", "3", "--tol", "0.05", "-o", "map-by-verb.zarr", "--overwrite"),
    "kmeans": ("tall.npy", "-k", "4", "--iterations", "2", "-o", "kmeans-by-verb.zarr", "--overwrite"),
    "topics": ("s.zarr", "-k", "3", "--passes", "1", "-o", "topics-by-verb.zarr", "--overwrite"),
    "knn": ("short.npy", "-k", "3", "--exclude-self", "-o", "knn-by-verb.zarr", "--overwrite"),
    "gp": ("points.npy", "targets.npy", "--noise", "0.1", "-o", "gp-by-verb.zarr", "--overwrite"),
    "recipe single-cell": ("s.zarr", "-k", "4", "--genes", "200", "-o", "cells-by-verb.zarr", "--overwrite"),
    "recipe lsa": ("s.zarr", "-k", "4", "--tol", "0.1", "-o", "lsa-by-verb.zarr", "--overwrite"),
    "stencil": ("heat", "a.zarr", "--steps", "3", "-o", "stepped-by-verb.zarr", "--overwrite"),
    "scratch": (),
}
LIMITED = (
    "pack",
    "convert",
    "matmul",
    "qr",
    "cholesky",
    "lu",
    "solve",
    "lstsq",
    "rechunk",
    "sort",
    "transpose",
    "norm",
    "cov",
    "pca",
    "eigsh",
    "svd",
    "embed",
    "kmeans",
    "knn",
    "topics",
    "gp",
    "stencil",
    "recipe single-cell",
    "recipe lsa",
)  # those that take --memory


PACK, EMBED, DRAWN = ("pack",), ("embed",), ("recipe lsa", "topics")
PLAIN = tuple(v for v in VERBS if v not in (*PACK, *EMBED, *DRAWN))


@entry("verbs", "flagstone {}", variants=PLAIN, headers=POINTERS)
def verbs(verb):
    def run():
        memory = ("--memory", str(current().memory)) if verb in LIMITED else ()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main([*verb.split(), *VERBS[verb], *memory], "flagstone", standalone_mode=False)

    return run


@entry(
    "verb pack", "flagstone {}", variants=PACK, headers=20,
    refused_late="the verb tells its plan first, which packs some chunks to see how much shorter they get",
)  # fmt: skip
def verb_pack(verb):
    return verbs(verb)


# stays: what matplotlib keeps of fonts and figures.
@entry(
    "verb embed", "flagstone {}", variants=EMBED, headers=POINTERS, stays=16,
    refused_late="edges are sorted into a matrix before anything is known of it",
)  # fmt: skip
def verb_embed(verb):
    return verbs(verb)


LABELS = {
    "labels train": ("x.npz", "y.npz", "--trees", "1", "--max-leaf", "8", "-o", "t.zarr", "--overwrite"),
    "labels predict": ("verb-trees.zarr", "x.npz", "-k", "3", "-o", "best-by-verb.zarr", "--overwrite"),
    "labels score": ("verb-trees.zarr", "x.npz", "y.npz", "--train", "y.npz"),
}


@entry("verbs of labels", "flagstone {}", "flagstone labels", variants=tuple(LABELS), headers=POINTERS)
def verbs_of_labels(verb):
    x, y = tagged(1000)
    for name, matrix in (("x", x), ("y", y)):
        sp.save_npz(f"{name}.npz", matrix.to_scipy())
        fl.open(f"{name}.npz")  # what is imported stays in scratch: it is not the verb's
    fl.train_labels(x, y, trees=1, max_leaf=8, out="verb-trees.zarr")

    def run():
        memory = ("--memory", str(current().memory))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main([*verb.split(), *LABELS[verb], *memory], "flagstone", standalone_mode=False)

    return run


# stays: the same.
@entry("verbs that draw", "flagstone {}", variants=DRAWN, headers=POINTERS, stays=16)
def verbs_that_draw(verb):
    return verbs(verb)
