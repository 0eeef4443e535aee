"""Rates of this machine from a probe of a second, kept in the user's cache: for plans alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from . import _core

__all__ = ["profile"]

_FIELDS = (
    "read_bytes_per_second",
    "write_bytes_per_second",
    "request_seconds",
    "flops_float32",
    "flops_float64",
    "memory_bytes_per_second",
)
_VERSION = 1
_BYTES = 64 << 20  # of the file that gauges the disk


def _cache_file(scratch: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flagstone"
    device = os.stat(scratch).st_dev
    return cache / f"machine-{os.uname().nodename}-{device:x}.json"


def _disk(engine: _core.Engine, scratch: Path) -> dict[str, float]:
    """Write and read back one file of 4 MiB chunks, then many small pieces for the latency."""
    path = scratch / f"probe-{os.getpid()}.npy"
    block = np.ones(_BYTES // 4, np.float32)
    try:
        array = _core.create_npy(str(path), [block.size], "float32")
        start = time.perf_counter()
        engine.write_box(array, [0], block, 8 << 20)
        array.flush()
        wrote = time.perf_counter() - start
        start = time.perf_counter()
        engine.read_box(array, [0], block, 8 << 20)
        read = time.perf_counter() - start
        small = np.empty(1024, np.float32)
        start = time.perf_counter()
        for i in range(64):
            engine.read_box(array, [i * 200_704 % (block.size - 1024)], small, 1 << 20)
        request = (time.perf_counter() - start) / 64
    finally:
        path.unlink(missing_ok=True)
    return {
        "read_bytes_per_second": _BYTES / read,
        "write_bytes_per_second": _BYTES / wrote,
        "request_seconds": request,
    }


def _flops(dtype: str, n: int = 1024) -> float:
    """Rate of the product of one worker on tiles of the usual size."""
    a, b, c = (np.ones((n, n), dtype) for _ in range(3))
    _core.gemm(a[:256, :256], b[:256, :256], c[:256, :256])
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        _core.gemm(a, b, c)
        best = min(best, time.perf_counter() - start)
    return float(2.0 * n**3 / best)


def _memory() -> float:
    source = np.ones(4 << 20)
    target = np.zeros_like(source)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return float(2 * source.nbytes / best)


def _probe(engine: _core.Engine, scratch: Path) -> dict[str, float]:
    threads = _core.blas_threads()
    _core.set_blas_threads(1)
    try:
        rates = _disk(engine, scratch)
        rates |= {"flops_float32": _flops("float32"), "flops_float64": _flops("float64")}
        rates["memory_bytes_per_second"] = _memory()
    finally:
        _core.set_blas_threads(threads)
    return rates


def profile(engine: _core.Engine, scratch: Path) -> _core.MachineProfile:
    """Return the rates of this machine, probed once per machine and scratch disk."""
    kept = _cache_file(scratch)
    try:
        stored = json.loads(kept.read_text())
        rates = {name: float(stored[name]) for name in _FIELDS} if stored["version"] == _VERSION else None
    except (OSError, ValueError, KeyError):
        rates = None
    if rates is None:
        rates = _probe(engine, scratch)
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"version": _VERSION, **rates}))
        except OSError:
            pass  # a cache that cannot be kept costs a second next time
    result = _core.MachineProfile()
    for name, value in rates.items():
        setattr(result, name, value)
    return result
