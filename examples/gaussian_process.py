"""An exact Gaussian process whose kernel matrix is larger than the memory limit, kept and opened again."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl
from flagstone.estimators import GaussianProcessRegressor, open_model


def surface(places):
    return np.sin(6 * places[:, 0]) * np.cos(4 * places[:, 1])


with tempfile.TemporaryDirectory() as folder, fl.Runtime(memory=fl._core.resident_bytes() + (160 << 20)):
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 1, (6000, 2))
    heights = surface(places) + 0.1 * rng.standard_normal(6000)
    out = Path(folder) / "model.zarr"
    model = GaussianProcessRegressor("matern52", alpha=0.01, length_scale=0.3, mean="constant", out=out)
    print(model.fit.plan(places, heights))  # K would take 275 MiB: it is computed as it is factored
    model.fit(places, heights)
    print(fl.stats())
    print(f"log marginal likelihood {model.log_marginal_likelihood_value_:.1f}")

    new = rng.uniform(0, 1, (500, 2))
    mean, deviation = open_model(out).predict(new, return_std=True)  # tomorrow, in another process
    error = np.sqrt(np.mean((mean - surface(new)) ** 2))
    print(f"500 new places: {error:.3f} off the surface, {deviation.mean():.3f} expected")
    assert error < 0.05

    # A kernel matrix is an operand of every routine, and never stored.
    K = fl.kernel_matrix(places, kernel="matern52", length_scale=0.3)
    print(K, float((K * 1).sum()))
