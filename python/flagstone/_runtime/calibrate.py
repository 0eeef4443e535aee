"""The thorough gauge: what a disk and the processors beside it do, in under a minute; plans use it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import _core
from .._errors.classes import Error
from .._errors.messages import path_text, storage_error
from .._machine import probe, profile
from .._machine.kernels import kernel_shares
from .._machine.machine import Machine
from .._machine.probe import median_of, rate_of
from .._machine.profile import Profile, median
from .._scratch import scratch
from .runtime import current

__all__ = ["calibrate"]

_MiB = 1 << 20
_LARGEST, _SMALLEST = 1024 * _MiB, 64 * _MiB
_QUEUE = 64 * _MiB  # most bytes in flight, and of memory for the disk's part
_SIZES = (_MiB // 4, _MiB, 4 * _MiB)
_DEPTHS = (1, 2, 4, 8, 16, 32)
_BRIEF, _LONG = 0.2, 0.5  # seconds of a point of the grid or of a pattern; of what plans depend on most
_TILE = 2048  # of the products, as in fl.matmul
_NEARLY = 0.97  # the smallest request and depth that reach so much of the best are the best


def _directory(path: str | os.PathLike[str] | None) -> Path:
    if path is None:
        return scratch.prepare(current().scratch)
    place = Path(path).absolute()
    directory = place if place.is_dir() else place.parent
    if not place.exists():  # its parent may lie on another disk than it would
        raise storage_error(
            f"calibrate: '{place}' does not exist; name a file or a directory.", 2, str(place)
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise storage_error(
            f"calibrate: '{directory}' cannot be written, and the gauge needs a file of its own there; "
            "name a directory on the same disk that can.",
            13,
            str(directory),
        )
    return directory


def _file_bytes(directory: Path) -> int:
    """Return how large the gauge's file may be: 1 GiB, at most a quarter of what is free."""
    free = scratch.free_bytes(directory)
    if free // 4 < _SMALLEST:
        raise storage_error(
            f"calibrate: '{directory}' has {_core.format_bytes(free)} of space left and "
            f"{_core.format_bytes(4 * _SMALLEST)} are needed; free some or name another disk.",
            28,
            str(directory),
        )
    return min(_LARGEST, free // 4 // _MiB * _MiB)


class _Disk:
    """Everything about the disk: `rates` for plans and `found` for people."""

    def __init__(self, directory: Path, io: str, step: Callable[[str], None]) -> None:
        nbytes = _file_bytes(directory)
        step(f"write {_core.format_bytes(nbytes)}")
        self.disk = _core.DiskGauge(str(directory), nbytes, io)
        self.write = self._fill(nbytes)
        step("sequential reads")
        self.grid = self._grid()
        best = max(self.grid.values())
        self.request, self.depth = min(
            (key for key, rate in self.grid.items() if rate >= _NEARLY * best),
            key=lambda key: key[0] * key[1],
        )
        self.read = median_of(3, lambda: rate_of(self._measure(self.request, self.depth, seconds=_LONG)))
        step("strided and random reads")
        self.strided = {size: self._pattern(size, stride=8 * size) for size in (8192, 65536)}
        self.random = {size: self._pattern(size, random=True) for size in (4096, 65536, _MiB)}
        self.latency = self._measure(4096, 1, random=True, seconds=_LONG).request_seconds
        step("writes, mixed, fsync")
        self.rewrite = self._median(_MiB, 8, write_share=1.0)
        mixed = [self._measure(_MiB, 16, write_share=0.5, seconds=_LONG) for _ in range(3)]
        self.mixed = median(probe.mixed_penalty(one, self.read, self.rewrite) for one in mixed)
        self.mixed_rate = median(map(rate_of, mixed))
        self.sync = median_of(9, self.disk.sync)

    def _fill(self, nbytes: int) -> float:
        """Write the file in sixteen pieces; a slow disk gets four seconds and a smaller file."""
        rates: list[float] = []
        start = time.perf_counter()
        while self.disk.filled < nbytes and (len(rates) < 3 or time.perf_counter() - start < 4):
            rates.append(rate_of(self.disk.fill(nbytes // 16, 8)))
        return median(rates)

    def _measure(self, request: int, depth: int, **pattern: Any) -> _core.Moved:
        return self.disk.measure(request, min(depth, max(1, _QUEUE // request)), **pattern)

    def _median(self, request: int, depth: int, **pattern: Any) -> float:
        return median_of(3, lambda: rate_of(self._measure(request, depth, seconds=_BRIEF, **pattern)))

    def _pattern(self, request: int, **pattern: Any) -> _core.Moved:
        several = [self._measure(request, 32, seconds=_BRIEF, **pattern) for _ in range(3)]
        return sorted(several, key=rate_of)[1]

    def _grid(self) -> dict[tuple[int, int], float]:
        points = [(size, depth) for size in _SIZES for depth in _DEPTHS if size * depth <= _QUEUE]
        rounds = [{point: rate_of(self._measure(*point, seconds=_BRIEF)) for point in points} for _ in "ab"]
        return {point: max(one[point] for one in rounds) for point in points}

    @property
    def rates(self) -> dict[str, float]:
        return {
            "read_bytes_per_second": self.read,
            "write_bytes_per_second": self.write,
            "request_seconds": self.latency,
            "request_overhead_seconds": probe.overhead(self.strided[8192], self.read),
            "mixed_penalty": self.mixed,
            "sync_seconds": self.sync,
        }

    @property
    def found(self) -> dict[str, Any]:
        return {
            "request_bytes": self.request,
            "depth": self.depth,
            "rewrite_bytes_per_second": self.rewrite,
            "mixed_bytes_per_second": self.mixed_rate,
            "strided": {str(size): rate_of(moved) for size, moved in self.strided.items()},
            "random": {str(size): rate_of(moved) for size, moved in self.random.items()},
            "grid": [[size, depth, rate] for (size, depth), rate in self.grid.items()],
            "file_bytes": self.disk.filled,
            "direct": self.disk.direct,
            "io": self.disk.io,
        }


def calibrate(
    path: str | os.PathLike[str] | None = None,
    *,
    show: bool = False,
    progress: Callable[[str], None] | None = None,
    kernels: bool = False,
    machine: str | os.PathLike[str] | None = None,
) -> Profile:
    """Measure the disk that holds `path`, and the processors, for plans; takes about half a minute.

    Best on a quiet machine: the profile says when other programs took processor time meanwhile. It is kept
    in the user's cache, one for each device, and used by every plan whose operands (else whose scratch) lie
    there. It changes the seconds of plans, never results and never the choice of a method.

    Parameters
    ----------
    path : path, optional
        A file or directory on the disk; default: the scratch directory.
    show : bool
        Measure nothing and return what is kept.
    progress : callable, optional
        Called with a few words when the next part begins.
    kernels : bool
        Measure the kernels of factorizations on tiles too: half a minute more.
    machine : path, optional
        Write a machine file of it all, kernels too, for ``f.plan(..., machine=path)`` here and elsewhere; it
        must not exist.

    Returns
    -------
    Profile
        The rates, with ``str(profile)`` as a table.

    Raises
    ------
    Error
        ``show`` and no profile is kept for that device.
    StorageError
        The directory cannot be written or has too little space.

    Notes
    -----
    Writes a nameless file of 1 GiB (less where a quarter of the free space is less) that goes when the call
    ends, and overwrites parts of it; reads a few GiB. Holds at most 64 MiB for transfers, 48 MiB a worker.
    """
    if show:
        directory = scratch.prepare(current().scratch) if path is None else Path(path)
        kept = profile.kept(directory)
        if kept is None:
            raise Error(
                f"calibrate: no profile is kept for the disk of '{directory}'; run calibrate without show."
            )
        return kept
    place = None if machine is None else _new_file(machine)
    directory = _directory(path)
    step = progress or (lambda _: None)
    runtime = current()
    load = probe.Load()
    workers = len(os.sched_getaffinity(0))
    disk = _Disk(directory, runtime.io, step)
    step("processors")
    rates = probe.processor_rates(load, workers, _TILE, _LONG)
    encode = load.rate(lambda: _core.encode_rate(workers, _BRIEF))
    found = {**disk.found, "encode_bytes_per_second": encode}
    measured = rates | disk.rates
    kept_rates = profile.bounded(measured)
    found["doubtful"] = [name for name, value in kept_rates.items() if value != measured[name]]
    if kernels or place is not None:
        flops = {precision: kept_rates[f"flops_{precision}"] for precision in ("float32", "float64")}
        found["kernels"] = kernel_shares(load, workers, flops, step)
    made = Profile("measured", profile.now(), profile.device_of(directory), kept_rates, found, load.heavy)
    profile.save(directory, made)
    if place is not None:
        name, memory = made.device["machine"], _core.allowed_memory()
        place.write_text(Machine(name, workers, memory, made.rates, found["kernels"]).as_toml())
    return made


def _new_file(path: str | os.PathLike[str]) -> Path:
    place = Path(path_text("calibrate", path))
    if place.exists():
        raise storage_error(
            f"calibrate: '{place}' exists; name a new machine file.", errno.EEXIST, str(place)
        )
    return place
