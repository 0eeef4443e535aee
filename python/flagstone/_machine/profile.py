"""Rates of this machine and of the disk that holds a directory: for plans alone, never for arithmetic.

A profile is *measured* (``flagstone calibrate``), a *quick probe* of about two seconds (`probe`; the first
plan makes it), or the *default*. It is kept in the user's cache, one file for each device: machine, file
system and number of the device. What makes it go: another processor or number of them; age (a week for a
quick probe); and, for a quick probe, runs that took much longer or shorter than their plans (`lookup.learn`).
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _core

__all__ = [
    "BOUNDS", "PROCESSOR_RATES", "RUNS", "Profile", "bounded", "cache_file", "default", "device_of", "kept",
    "median", "now", "save",
]  # fmt: skip

_QUICK_AGE = datetime.timedelta(days=7)
_OFF = 1.6  # runs are off their plans by so much in the middle of so many: probe again
RUNS = 3

#: What a rate may be; beyond it the probe was disturbed or the device is none that we know.
BOUNDS: dict[str, tuple[float, float]] = {name: (low, high) for name, low, high in _core.rate_bounds()}

#: Rates of a worker, by the names that plans have for them.
PROCESSOR_RATES = ("flops_float32", "flops_float64", "memory_bytes_per_second", "decode_bytes_per_second")


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
    probed : dict
        The rates as the quick probe found them, once runs have corrected `rates`.
    """

    source: str
    date: str
    device: dict[str, Any]
    rates: dict[str, float]
    found: dict[str, Any] = field(default_factory=dict)
    loaded: bool = False
    ratios: list[float] = field(default_factory=list)
    probed: dict[str, float] = field(default_factory=dict)

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
        if self.off():
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
        for precision, kernels in self.found.get("kernels", {}).items():
            for name, (most, half) in kernels.items():
                rows.append((f"{name} of {precision}", f"{most:.2f} b / (b + {half:.0f}) of the flops"))
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

    def off(self) -> bool:
        """Say whether runs take much longer or shorter than their plans."""
        if len(self.ratios) < RUNS:
            return False
        return not 1 / _OFF < median(self.ratios[-RUNS:]) < _OFF

    def fresh(self) -> bool:
        """Say whether it still holds for this machine."""
        here = device_of(Path("/"))
        if any(self.device.get(key) != here[key] for key in ("processor", "processors")):
            return False
        if self.source == "measured":
            return True
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(self.date)
        return datetime.timedelta() <= age < _QUICK_AGE and not self.off()


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


def median(values: Iterable[float]) -> float:
    """Return the median.

    The import of `statistics` takes as long as a tenth of ours; np.median loads numpy.ma, a megabyte that the
    probe's tight limit has no room for.
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


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


def now() -> str:
    """Return the time in ISO 8601, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
