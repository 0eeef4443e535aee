"""Heat spreads through a block: a slice every ten steps, and an end where nothing changes much any more."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

shape = (64, 96, 128)
heat = {at: 0.12 * w + (not any(at)) for at, w in fl.laplacian(3).items()}
cold = np.zeros(shape, "f4")
cold[20:40, 30:60, 50:90] = 100

with tempfile.TemporaryDirectory(dir=".") as name:
    done = fl.stencil(
        heat, cold, 400, boundary=["neumann", "neumann", ({"fixed": 20.0}, "fixed")], memory="512MiB",
        snapshots={"middle": (10, np.s_[32, :, ::2])}, reductions=["max", "sum", "change"],
        until={"change": 0.1}, out=Path(name) / "heat.zarr",
    )  # fmt: skip
    print(fl.stats())
    hottest = done.reductions["max"]
    print(f"{done.steps} steps: {hottest[0]:.1f} to {hottest[-1]:.1f} degrees at most")
    assert np.all(np.diff(hottest) <= 0)  # heat spreads
    assert done.steps < 400  # it ended early
    assert done.reductions["change"].min() <= 0.1
    assert done.snapshots["middle"].shape == (done.steps // 10, 96, 64)
