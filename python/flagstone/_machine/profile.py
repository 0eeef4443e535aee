"""Rates of this machine and of the disk that holds a directory: for plans alone, never for arithmetic.

A profile is *measured* (``flagstone calibrate``), a *quick probe* of about two seconds (the first plan makes
it), or the *default*. It is kept in the user's cache, one file for each device: machine, file system and
number of the device. What makes it go: another processor or number of them; age (a week for a quick probe);
and, for a quick probe, completed runs that took much longer or shorter than their plans (`learn`).
"""

from __future__ import annotations

import datetime
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _core
from .._errors.classes import Error

__all__ = [
    "PROCESSOR_RATES", "Profile", "bounded", "cache_file", "default", "kept", "learn", "lookup", "probe",
    "save", "tell_processor_rates",
]  # fmt: skip

_MiB = 1 << 20
_QUICK_AGE = datetime.timedelta(days=7)
_LOADED_SECONDS = 600.0  # how long a probe that was taken under load is believed, by its process alone
_FARTHEST = 4.0  # a run that is farther off than this was disturbed
_OFF, _RUNS = 1.6, 3  # runs are off their plans by so much, so many times in the middle: probe again
_FILE = 32 * _MiB
_SHORT = 704, 0.03  # side of a tile, seconds of one measurement

#: What a rate may be; beyond it the probe was disturbed or the device is none that we know.
BOUNDS: dict[str, tuple[float, float]] = {name: (low, high) for name, low, high in _core.rate_bounds()}


@dataclass(frozen=True)
class Profile:
    """Rates of a device and the processors beside it, where they come from and when they were taken.

    Attributes
    ----------
    source : {"measured", "quick probe", "default"}
        Who took them: `calibrate`, the first plan, or nobody.
    date : str
        When, in ISO 8601; "" for the default.
    device : dict
        Machine, file system, number of the device, processor and how many of them.
    rates : dict
        What plans use, by the names of `BOUNDS`.
    found : dict
        More that `calibrate` found; shown, not used.
    loaded : bool
        Other programs took processor time while it was taken.
    ratios : list of float
        Actual ÷ planned seconds of the last runs planned with it.
    """

    source: str
    date: str
    device: dict[str, Any]
    rates: dict[str, float]
    found: dict[str, Any] = field(default_factory=dict)
    loaded: bool = False
    ratios: list[float] = field(default_factory=list)

    @property
    def core(self) -> _core.MachineProfile:
        """The rates as the planner takes them."""
        result = _core.MachineProfile()
        for name, value in self.rates.items():
            setattr(result, name, value)
        return result

    @property
    def label(self) -> str:
        """One line for a plan: where the rates come from."""
        if self.source == "default":
            return "default rates; nothing was measured"
        text = f"{self.source} of {self.date[:10]}, {self.device['file_system']} {self.device['number']}"
        if self.source == "quick probe" and not self.ratios:
            text += ", ±50 % until a run corrects it"
        if self.loaded:
            text += ", taken under load"
        if self._off():
            text += f"; runs take {median(self.ratios):.2g} x their plans, flagstone calibrate helps"
        return text

    def __str__(self) -> str:
        rows = [
            (name.replace("_", " "), _quantity(name, value))
            for name, value in {**self.rates, **self.found}.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        for kind in ("strided", "random"):
            for size, rate in self.found.get(kind, {}).items():
                rows.append((f"{kind} reads of {_core.format_bytes(int(size))}", _bytes_per_second(rate)))
        if self.found:
            rows.append(("disk", f"{self.found['io']}{'' if self.found['direct'] else ', page cache'}"))
        if self.found.get("doubtful"):
            rows.append(("doubtful, default used", ", ".join(self.found["doubtful"]).replace("_", " ")))
        if self.ratios:
            rows.append(("runs ÷ their plans", ", ".join(f"{ratio:.2f}" for ratio in self.ratios)))
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.label, *(f"  {name.ljust(width)}  {text}" for name, text in rows)])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary that json can write."""
        return asdict(self)

    def _off(self) -> bool:
        if len(self.ratios) < _RUNS:
            return False
        return not 1 / _OFF < median(self.ratios[-_RUNS:]) < _OFF

    def fresh(self) -> bool:
        """Say whether it still holds for this machine."""
        here = device_of(Path("/"))
        if any(self.device.get(key) != here[key] for key in ("processor", "processors")):
            return False
        if self.source == "measured":
            return True
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(self.date)
        return datetime.timedelta() <= age < _QUICK_AGE and not self._off()


def bounded(rates: dict[str, float]) -> dict[str, float]:
    """Return the rates with those that cannot be true replaced by the default's."""
    usual = default().rates
    return {
        name: value if math.isfinite(value) and low <= value <= high else usual[name]
        for name, (low, high) in BOUNDS.items()
        for value in [rates.get(name, math.nan)]
    }


def default() -> Profile:
    """Return the rates that are taken where nothing can be measured."""
    core = _core.MachineProfile()
    return Profile("default", "", {}, {name: float(getattr(core, name)) for name in BOUNDS})


def _bytes_per_second(rate: float) -> str:
    return f"{rate / 1e9:.2f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.3g} MB/s"


def _quantity(name: str, value: float) -> str:
    if name.endswith("bytes_per_second"):
        return _bytes_per_second(value)
    if name.startswith("flops"):
        return f"{value / 1e9:.3g} Gflop/s a worker"
    if name.endswith("seconds"):
        return f"{value * 1e6:.3g} µs" if value < 1e-3 else f"{value * 1e3:.3g} ms"
    return _core.format_bytes(int(value)) if name.endswith("bytes") else f"{value:.3g}"


# Where it is kept -------------------------------------------------------------------------------------------


def device_of(directory: Path) -> dict[str, Any]:
    """Return what identifies the device that holds a directory, and the processors beside it."""
    return _core.profile_device(str(directory))


def cache_file(directory: Path) -> Path:
    """Return the file that keeps the profile of the device that holds a directory."""
    return Path(_core.profile_file(device_of(directory)))


def kept(directory: Path) -> Profile | None:
    """Return the profile that is kept for the device of a directory; a damaged one is none."""
    try:
        stored = json.loads(_core.read_profile(str(cache_file(directory))) or "null")
        if stored is None:
            return None
        del stored["version"]
        profile = Profile(**stored)
        datetime.datetime.fromisoformat(profile.date)
        return profile
    except (OSError, ValueError, TypeError):
        return None


def save(directory: Path, profile: Profile) -> Path | None:
    """Keep a profile, whole or not at all; None where the cache cannot be written (then nothing is lost)."""
    import tempfile  # with what reading a profile does not need

    file = cache_file(directory)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".machine-", delete=False) as aside:
            aside.write(json.dumps({"version": _core.profile_version, **asdict(profile)}, indent=1) + "\n")
        os.replace(aside.name, file)
    except OSError:
        return None
    return file


# The quick probe --------------------------------------------------------------------------------------------


def median(values: Iterable[float]) -> float:
    """Return the median.

    The import of `statistics` takes as long as a tenth of ours; np.median loads numpy.ma, a megabyte that the
    probe's tight limit has no room for.
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


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


#: Rates of a worker, by the names that plans have for them.
PROCESSOR_RATES = ("flops_float32", "flops_float64", "memory_bytes_per_second", "decode_bytes_per_second")


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

    code = "from flagstone._machine.profile import tell_processor_rates; tell_processor_rates()"
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


def now() -> str:
    """Return the time in ISO 8601, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


# Which one a plan uses --------------------------------------------------------------------------------------

_short_lived: dict[Path, tuple[float, Profile]] = {}


def lookup(places: list[Path], io: str = "auto") -> Profile:
    """Return the profile of a plan.

    `places` are directories, the one that matters most first, scratch last. The first measured profile wins;
    else the quick probe of scratch, which is taken now where there is none that still holds. Data directories
    are never written to. A probe that was taken under load is not kept.
    """
    for place in places:
        profile = kept(place)
        if profile is not None and profile.source == "measured" and profile.fresh():
            return profile
    directory = places[-1]
    profile = kept(directory)
    if profile is not None and profile.fresh():
        return profile
    file = cache_file(directory)
    taken, believed = _short_lived.get(file, (-math.inf, default()))
    if time.monotonic() - taken < _LOADED_SECONDS and not believed._off():
        return believed
    try:
        profile = probe(directory, io)
    except (OSError, MemoryError, Error):
        profile = default()  # a plan is worth having where scratch is full or may not be written
    if profile.source == "default" or profile.loaded or save(directory, profile) is None:
        _short_lived[file] = time.monotonic(), profile
    return profile


def learn(profile: Profile, directories: list[Path], ratio: float, shares: dict[str, float]) -> None:
    """Keep actual ÷ planned seconds of a completed run with the profile that the plan used.

    `shares`: of each rate in the planned time of what bounded the run. The rates of a quick probe are
    corrected by them half way (in logarithms: the run may have been disturbed): a plan that was off by 2 is
    off by 1.4 the next time. Three runs that are off by 1.6 in their middle make a quick probe stale; with a
    measured one the plan says that calibrating would help.
    """
    profile.ratios.append(float(f"{ratio:.3g}"))
    del profile.ratios[:-_RUNS]
    if profile.source == "quick probe":
        off = min(max(ratio, 1 / _FARTHEST), _FARTHEST)
        corrected = {name: rate * off ** (-shares.get(name, 0) / 2) for name, rate in profile.rates.items()}
        profile.rates.update(bounded(corrected))
    if profile.source == "default":
        return
    for directory in directories:
        stored = kept(directory)
        if stored is not None and (stored.source, stored.date) == (profile.source, profile.date):
            save(directory, profile)
            return
