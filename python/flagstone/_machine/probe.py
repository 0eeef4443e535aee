"""The quick probe: rates of the disk and of workers that are all busy, in about two seconds.

Its parts measure for the thorough gauge too (`_runtime/calibrate.py`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .. import _core
from .profile import BOUNDS, PROCESSOR_RATES, Profile, bounded, device_of, median, now

__all__ = [
    "Load", "median_of", "mixed_penalty", "overhead", "probe", "processor_rates", "rate_of",
    "tell_processor_rates",
]  # fmt: skip

_MiB = 1 << 20
_FILE = 32 * _MiB
_SHORT = 704, 0.03  # side of a tile, seconds of one measurement


def median_of(times: int, measure: Callable[[], float]) -> float:
    """Return the median of several short measurements: one disturbance does not count."""
    return median(measure() for _ in range(times))


class Load:
    """Notices that other programs took processor time: a busy thread got less than the clock passed."""

    def __init__(self) -> None:
        self.shares: list[float] = []  # of the clock, that measurements were let

    def rate(self, measure: Callable[[], _core.Rate]) -> float:
        """Return units per second of processor time: what a worker does when it is let.

        Disturbances only slow down, and a hypervisor's are counted as our time: once 24 MB/s were found for
        2 GB/s, by the median of three. So the best counts that was nearly reached twice.
        """
        rates = [measure() for _ in range(3)]
        while len(rates) < 9:
            second, best = sorted(one.busy for one in rates)[-2:]
            if second > 0.9 * best:
                break
            rates.append(measure())
        self.shares += [one.busy / one.elapsed for one in rates]
        return sorted(one.busy for one in rates)[-2]

    @property
    def heavy(self) -> bool:
        """Whether others took so much that a probe is not worth keeping."""
        return median(self.shares) > 1.15


def rate_of(moved: _core.Moved) -> float:
    """Return bytes a second."""
    return (moved.bytes_read + moved.bytes_written) / moved.seconds


def mixed_penalty(moved: _core.Moved, read: float, write: float) -> float:
    """Return the time of reads and writes at once ÷ the sum of their times alone."""
    return moved.seconds / (moved.bytes_read / read + moved.bytes_written / write)


def overhead(moved: _core.Moved, read: float) -> float:
    """Return what one more request costs at depth, beyond its bytes."""
    return max(
        (moved.seconds - moved.bytes_read / read) / moved.requests, BOUNDS["request_overhead_seconds"][0]
    )


def _disk_rates(directory: Path, io: str) -> dict[str, float]:
    disk = _core.DiskGauge(str(directory), _FILE, io)
    writes = []
    start = time.perf_counter()
    while disk.filled < _FILE and (disk.filled < 2 * _FILE // 8 or time.perf_counter() - start < 1):
        writes.append(rate_of(disk.fill(_FILE // 8)))
    write = median(writes)
    read = median_of(5, lambda: rate_of(disk.measure(1 * _MiB, 8, seconds=0.04)))
    # Mixed requests write again what was written, which may be faster than a fill: compared with rewrites.
    rewrite = median_of(3, lambda: rate_of(disk.measure(_MiB // 2, 8, write_share=1, seconds=0.05)))
    mixed = [disk.measure(_MiB // 2, 8, write_share=0.5, seconds=0.05) for _ in range(3)]
    strided = [disk.measure(8192, 32, stride=65536, seconds=0.03) for _ in range(3)]
    return {
        "read_bytes_per_second": read,
        "write_bytes_per_second": write,
        "request_seconds": disk.measure(4096, 1, random=True, seconds=0.03).request_seconds,
        "request_overhead_seconds": median(overhead(moved, read) for moved in strided),
        "mixed_penalty": median(mixed_penalty(moved, read, rewrite) for moved in mixed),
        "sync_seconds": median_of(3, disk.sync),
    }


def processor_rates(load: Load, workers: int, n: int, seconds: float) -> dict[str, float]:
    """Return the rates of one worker while all are busy, on n x n tiles; 12 n^2 bytes each."""
    narrow = n * 7 // 10 // 16 * 16
    copied = 6 * n * n
    return {
        "flops_float32": load.rate(lambda: _core.gemm_rate("float32", n, workers, seconds)),
        "flops_float64": load.rate(lambda: _core.gemm_rate("float64", narrow, workers, seconds)),
        "memory_bytes_per_second": load.rate(lambda: _core.copy_rate(copied, workers, seconds)),
        "decode_bytes_per_second": load.rate(lambda: _core.decode_rate(workers, seconds)),
    }


def probe(directory: Path, io: str = "auto") -> Profile:
    """Take a quick profile: about two seconds, 32 MiB of disk, at most 8 MiB of memory.

    The processors are measured by a process of its own with every worker at once, as jobs run: threads would
    leave BLAS and malloc memory behind here that a tight limit has no room for. Where none can be started,
    one worker is measured here.
    """
    load = Load()
    rates = _rates_of_all_workers(load) or processor_rates(load, 1, *_SHORT)
    rates = rates | _disk_rates(directory, io)
    return Profile("quick probe", now(), device_of(directory), bounded(rates), loaded=load.heavy)


def _rates_of_all_workers(load: Load) -> dict[str, float]:
    """Return the rates that a process of its own finds, and give `load` its load; empty where it fails."""
    import subprocess  # with what reading a profile does not need

    code = "from flagstone._machine.probe import tell_processor_rates; tell_processor_rates()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True,
        )  # fmt: skip
        rates, load.shares = json.loads(done.stdout)
        return {name: float(rates[name]) for name in PROCESSOR_RATES}
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return {}


def tell_processor_rates() -> None:
    """Print, as JSON, the rates of a worker while all are busy, and how busy others were."""
    load = Load()
    rates = processor_rates(load, len(os.sched_getaffinity(0)), *_SHORT)
    print(json.dumps([rates, load.shares]))
