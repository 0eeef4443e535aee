"""The demonstration of Gaussian processes: noisy soundings of a known surface, K beyond the limit."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._kernel_methods.gaussian_process import GaussianProcessRegressor
from .._output.create import from_numpy
from .._runtime.plan import Plan, Stats, comparison, format_seconds
from .._runtime.progress import Bar
from .._runtime.runtime import Runtime, stats
from .capped import run_capped, say
from .demo import indented, make_directory

__all__ = ["run_soundings", "surface"]

_POINTS, _TIMES, _GRID = 20_000, 5, 32  # soundings; K by the limit; edge of the picture
_HELD_OUT = 1_000
_NOISE, _LENGTH = 0.05, 0.15


def surface(points: NDArray[Any]) -> NDArray[Any]:
    """Return the height of the sea floor that the soundings are of."""
    x, y = points[:, 0], points[:, 1]
    height: NDArray[Any] = (
        np.sin(7 * x) * np.cos(5 * y) + 0.7 * np.exp(-((x - 0.6) ** 2 + (y - 0.3) ** 2) / 0.02) - 0.8 * y * x
    )
    return height


def soundings(number: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return places and what was measured there."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 1, (number, 2))
    return places, surface(places) + _NOISE * rng.standard_normal(number)


def scikit_learn(folder: str) -> None:
    """Fit scikit-learn's regressor to the soundings; runs in the capped child."""
    from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
    from sklearn.gaussian_process.kernels import Matern

    x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
    start = time.perf_counter()
    Theirs(Matern(_LENGTH, nu=2.5), alpha=_NOISE**2, optimizer=None).fit(x, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"fitted in {format_seconds(time.perf_counter() - start)}, peak {_core.format_bytes(peak)}")


def run_soundings(memory: int | None, output: str, points: int = _POINTS) -> None:
    """Run the demonstration."""
    started = time.perf_counter()
    memory = memory or max(200 << 20, 8 * points**2 // _TIMES)
    folder = make_directory(output, 5 * points**2)
    x, y = soundings(points, 0)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    whole = 8 * points**2
    say(
        f"{points:,} soundings of a known surface, noise {_NOISE}; K takes {_core.format_bytes(whole)}, "
        f"{whole / memory:.1f} times the limit of {_core.format_bytes(memory)}."
    )
    code = "import sys; from flagstone._demo.soundings import scikit_learn; scikit_learn(sys.argv[1])"
    run_capped("scikit-learn's GaussianProcessRegressor", code, [str(folder)], memory, 30.0)
    out = str(folder / "gp.zarr")
    model = GaussianProcessRegressor(
        "matern52", alpha=_NOISE**2, length_scale=_LENGTH, mean="constant", out=out
    )
    with Runtime(memory=memory) as runtime:
        _, done = _fitted(runtime, model, folder, memory)
        _judged(model)
        picture = _picture(
            model, folder, f"{points:,} soundings within {_core.format_bytes(memory)} of memory"
        )
    say(
        f"{done.bytes_written / (whole / 2):.2f} times half of K written. Picture: {picture}    model: "
        f"{out}    {format_seconds(time.perf_counter() - started)} in all."
    )


def _fitted(runtime: Runtime, model: Any, folder: Path, memory: int) -> tuple[Plan, Stats]:
    from .._formats.open import open_path

    x, y = open_path(folder / "x.npy"), np.load(folder / "y.npy")
    plan = model.fit.plan(x, y)
    say("Plan, before anything is computed:")
    say(indented(str(plan)))
    with Bar("gp", plan, memory) as bar:
        runtime.progress = bar.update
        model.fit(x, y)
    runtime.progress = False
    done = stats()
    say("Predicted against actual (peak memory: the kernel's VmHWM during the call):")
    say(comparison(plan, done))
    say(f"Log marginal likelihood {model.log_marginal_likelihood_value_:,.1f}.")
    return plan, done


def _judged(model: Any) -> None:
    """Say how well places that were held out are predicted."""
    places, measured = soundings(_HELD_OUT, 1)
    mean, deviation = model.predict(places, return_std=True)
    error = float(np.sqrt(np.mean((mean - surface(places)) ** 2)))
    whole = np.sqrt(deviation**2 + _NOISE**2)  # of a measurement
    inside = float(np.mean(np.abs(measured - mean) <= 1.96 * whole))
    say(
        f"{_HELD_OUT:,} places held out: {error:.4f} off the surface (the noise is {_NOISE}); {inside:.1%} "
        "of the measurements lie in the 95 % interval."
    )


def _picture(model: Any, folder: Path, title: str) -> Path:
    """Draw the surface, its mean and its deviation."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    edge = np.linspace(0, 1, _GRID)
    grid = np.stack(np.meshgrid(edge, edge), axis=-1).reshape(-1, 2)
    mean, deviation = model.predict(grid, return_std=True)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), constrained_layout=True)
    named = {"surface": surface(grid), "mean": mean, "standard deviation": deviation}
    for axis, (name, values) in zip(axes, named.items(), strict=True):
        shown = axis.imshow(values.reshape(_GRID, _GRID), origin="lower", extent=(0, 1, 0, 1))
        axis.set_title(name)
        figure.colorbar(shown, ax=axis, shrink=0.8)
    figure.suptitle(title)
    path = folder / "gp.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    from_numpy(np.column_stack([grid, mean, deviation]), folder / "surface.npy", overwrite=True)
    return path
