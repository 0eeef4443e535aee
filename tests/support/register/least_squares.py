"""QR and least squares."""

from __future__ import annotations

import numpy as np

import flagstone as fl

from .entry import entry


@entry("qr", "linalg.qr", "linalg.lq",
       variants=("r", "reduced", "raw", "square", "transposed", "memory", "lq"))  # fmt: skip
def qr(kind):
    x = fl.open("a.zarr" if kind == "square" else "tall.npy")
    if kind == "memory":
        x = np.load("tall.npy")
    if kind == "transposed":
        x = fl.from_numpy(np.ascontiguousarray(np.load("tall.npy").T)).T
    if kind == "lq":
        return lambda: fl.linalg.lq(x.T, out="lq.zarr")
    mode = kind if kind in ("reduced", "raw") else "r"
    return lambda: fl.linalg.qr(x, mode=mode, out="qr.zarr")


@entry("apply_q", "linalg.apply_q", "linalg.open_factor", variants=("left", "right", "memory"))
def apply_q(kind):
    x = fl.open("tall.npy")
    f = fl.linalg.qr(x, mode="raw")
    b = np.load("tall.npy")[:, :8] if kind == "memory" else x
    if kind == "right":
        return lambda: fl.linalg.apply_q(f, b.T, side="right", out="applied.zarr")
    return lambda: fl.linalg.apply_q(f, b, trans=True)


@entry("lstsq", "linalg.lstsq", variants=("npy", "memory", "ridge", "weights", "normal", "wide"))
def lstsq(kind):
    a, y = fl.open("tall.npy"), np.linspace(0, 1, 100_000, dtype="float32")
    if kind == "memory":
        a = np.load("tall.npy")
    if kind == "wide":
        return lambda: fl.linalg.lstsq(a.T, y[:96])
    options = {
        "ridge": {"ridge": [0, 1, 10], "intercept": True},
        "weights": {"weights": np.ones(100_000)},
        "normal": {"method": "normal"},
    }.get(kind, {})
    return lambda: fl.linalg.lstsq(a, y, **options)
