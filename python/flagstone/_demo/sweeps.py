"""Plain sweeps of a wave, as people write them today: in memory, and on memory maps."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np

from .. import _core
from .._runtime.plan import format_seconds

__all__ = ["in_memory", "mapped"]

_STEPS = 5  # that are timed


def _sweeper() -> tuple[str, Any]:
    """Return the plain sweep of order 2 of whoever is installed: one step of planes [1, n - 1)."""
    try:
        import numba
    except ImportError:
        return "NumPy", _sweep
    return "Numba", numba.njit(parallel=True)(_numbas(numba.prange))


def _sweep(v: Any, before: Any, now: Any, k: float) -> None:
    for x in range(1, now.shape[0] - 1):
        u = now[x, 1:-1, 1:-1]
        around = now[x - 1, 1:-1, 1:-1] + now[x + 1, 1:-1, 1:-1] + now[x, :-2, 1:-1] + now[x, 2:, 1:-1]
        around += now[x, 1:-1, :-2] + now[x, 1:-1, 2:] - np.float32(6) * u
        speed = np.float32(k) * np.square(v[x, 1:-1, 1:-1])
        before[x, 1:-1, 1:-1] = np.float32(2) * u - before[x, 1:-1, 1:-1] + speed * around


def _numbas(prange: Any) -> Any:
    def sweep(v: Any, before: Any, now: Any, k: float) -> None:
        nx, ny, nz = now.shape
        c = np.float32(k)
        for x in prange(1, nx - 1):
            for y in range(1, ny - 1):
                for z in range(1, nz - 1):
                    u = now[x, y, z]
                    around = now[x - 1, y, z] + now[x + 1, y, z] + now[x, y - 1, z] + now[x, y + 1, z]
                    around += now[x, y, z - 1] + now[x, y, z + 1] - np.float32(6) * u
                    speed = c * v[x, y, z] * v[x, y, z]
                    before[x, y, z] = np.float32(2) * u - before[x, y, z] + speed * around

    return sweep


def _stepped(name: str, sweep: Any, v: Any, before: Any, now: Any) -> None:
    """Time a few steps, and tell."""
    tiny = [np.zeros((3, 3, 3), np.float32) for _ in range(3)]
    sweep(*tiny, 1.0)  # compiled before the clock runs
    start = time.perf_counter()
    for _ in range(_STEPS):
        sweep(v, before, now, 1e-8)
        before, now = now, before
    each = (time.perf_counter() - start) / _STEPS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{name}, {format_seconds(each)} a step, peak {_core.format_bytes(peak)}")


def in_memory(path: str) -> None:
    """Load the model, make two states, step; runs in the capped child."""
    name, sweep = _sweeper()
    v = np.load(path)
    before, now = np.empty_like(v), np.empty_like(v)
    before[:], now[:] = 0, 0  # pages that are there
    _stepped(name, sweep, v, before, now)


def mapped(path: str, folder: str) -> None:
    """Step with all three arrays mapped from files; runs in the capped child."""
    name, sweep = _sweeper()
    v = np.load(path, mmap_mode="r")
    states = [
        np.lib.format.open_memmap(f"{folder}/state-{k}.npy", "w+", np.float32, v.shape) for k in range(2)
    ]
    _stepped(f"{name} on memory maps", sweep, v, *states)
