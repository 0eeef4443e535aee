"""Which profile a plan uses, and what it learns from runs."""

from __future__ import annotations

import math
import time
from pathlib import Path

from .._errors.classes import Error
from .probe import probe
from .profile import RUNS, Profile, bounded, cache_file, default, kept, save

__all__ = ["keep_kernel", "kept_kernel", "learn", "lookup", "measured"]

_LOADED_SECONDS = 600.0  # how long a probe that was taken under load is believed, by its process alone
_FARTHEST = 4.0  # a run that is farther off than this was disturbed
_SLOWEST = 2.0  # slow runs take a rate down to this part of what the probe found

_MOST_KERNELS = 64  # that a profile keeps

_kernels: dict[str, tuple[float, float]] = {}  # of this process: its plans are its runs
_short_lived: dict[Path, tuple[float, Profile]] = {}


def measured(places: list[Path]) -> Profile | None:
    """Return the first profile that `fl.calibrate` took for one of the directories, and that still holds."""
    for place in places:
        profile = kept(place)
        if profile is not None and profile.source == "measured" and profile.fresh():
            return profile
    return None


def lookup(places: list[Path], io: str = "auto") -> Profile:
    """Return the profile of a plan.

    `places` are directories, the one that matters most first, scratch last. The first measured profile wins;
    else the quick probe of scratch, which is taken now where there is none that still holds. Data directories
    are never written to. A probe that was taken under load is not kept.
    """
    if (profile := measured(places)) is not None:
        return profile
    directory = places[-1]
    profile = kept(directory)
    if profile is not None and profile.fresh():
        return profile
    file = cache_file(directory)
    taken, believed = _short_lived.get(file, (-math.inf, default()))
    if time.monotonic() - taken < _LOADED_SECONDS and not believed.off():
        return believed
    try:
        profile = probe(directory, io)
    except (OSError, MemoryError, Error):
        profile = default()  # a plan is worth having where scratch is full or may not be written
    if profile.source == "default" or profile.loaded or save(directory, profile) is None:
        _short_lived[file] = time.monotonic(), profile
    return profile


def kept_kernel(profile: Profile, key: str) -> tuple[float, float] | None:
    """Return the rates of a user's kernel: those of this process, else what the profile keeps of others."""
    if key not in _kernels:
        kept_before = profile.found.get("user_kernels", {}).get(key)
        if kept_before is None:
            return None
        _kernels[key] = kept_before[0], kept_before[1]
    return _kernels[key]


def keep_kernel(profile: Profile, directories: list[Path], key: str, rates: tuple[float, float]) -> None:
    """Keep the rates of a user's kernel, with those of the last ones."""
    _kernels[key] = rates
    known = profile.found.setdefault("user_kernels", {})
    known[key] = [float(f"{rate:.4g}") for rate in rates]
    for old in list(known)[:-_MOST_KERNELS]:
        del known[old]
    _save_again(profile, directories)


def learn(profile: Profile, directories: list[Path], ratio: float, shares: dict[str, float]) -> None:
    """Keep actual ÷ planned seconds of a completed run with the profile that the plan used.

    `shares`: of each rate in the planned time of what bounded the run. The rates of a quick probe are
    corrected by them half way (in logarithms: nobody knows which rate was wrong): a plan that was off by 2 is
    off by 1.4 the next time. A fast run proves what the machine can do; a slow one may have been disturbed,
    so slow ones together take no rate below half of what the probe saw. Three runs that are off by 1.6 in
    their middle make a quick probe stale; with a measured one the plan says that calibrating would help.
    """
    profile.ratios.append(float(f"{ratio:.3g}"))
    del profile.ratios[:-RUNS]
    if profile.source == "quick probe":
        _correct(profile, ratio, shares)
    _save_again(profile, directories)


def _save_again(profile: Profile, directories: list[Path]) -> None:
    """Keep what became of a profile where it was kept before."""
    if profile.source == "default":
        return
    for directory in directories:
        stored = kept(directory)
        if stored is not None and (stored.source, stored.date) == (profile.source, profile.date):
            save(directory, profile)


def _correct(profile: Profile, ratio: float, shares: dict[str, float]) -> None:
    if not profile.probed:
        profile.probed.update(profile.rates)
    off = min(max(ratio, 1 / _FARTHEST), _FARTHEST)
    for name, share in shares.items():
        slowest = min(profile.probed[name] / _SLOWEST, profile.rates[name])
        profile.rates[name] = max(profile.rates[name] * off ** (-share / 2), slowest)
    profile.rates.update(bounded(profile.rates))
