"""Things that commit, with a model of what each commit stores: for crash.py and power_loss.py.

State k of a workload is what commit k leaves; state 0 is what `prepare` leaves. Every state differs from
the one before it in all that a commit touches.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import flagstone as fl
from flagstone import _core

State = dict[str, np.ndarray]


class Workload:
    """Base: arrays in one group, all changed by one commit."""

    name = ""
    exchange = True  # renameat2 with flags is allowed
    lower = False  # what is stored lies on a lower layer of an overlay
    kinds = 1  # commits k and k + kinds do alike
    advances = False  # a recovery may finish the commit that was under way
    deaths = 9  # recoveries are killed within so many steps
    mixed = False  # commits, rollbacks, deaths, recoveries and readers are mixed at random too
    fails = True  # each step in turn, and the commit is tried again
    slow = False  # to judge
    replayed = True  # by power_loss.py, unless it is asked for
    slow_peers: tuple[str, ...] = ()  # that are asked seldom
    needs: tuple[str, ...] = ()  # packages

    @classmethod
    def can_run(cls) -> bool:
        """Say whether what it needs is installed."""
        return all(importlib.util.find_spec(name) for name in cls.needs)

    def __init__(self) -> None:
        self._states: dict[int, State] = {}

    def prepare(self, place: Path) -> None:
        """Store state 0."""
        raise NotImplementedError

    def commit(self, place: Path, k: int) -> None:
        """Turn state k - 1 into state k, durably."""
        raise NotImplementedError

    def first(self) -> State:
        """Return state 0."""
        raise NotImplementedError

    def change(self, k: int, arrays: Any) -> None:
        """Do to arrays, or to their model, what commit k does."""
        raise NotImplementedError

    def state(self, k: int) -> State:
        """Return what commit k leaves."""
        if not self._states:
            self._states[0] = self.first()
        latest = max(n for n in self._states if n <= k)
        for n in range(latest + 1, k + 1):
            fresh = {name: values.copy() for name, values in self._states[n - 1].items()}
            self.change(n, fresh)
            self._states[n] = fresh
            self._states.pop(n - 12, None) if n > 12 else None
        return self._states[k]

    def read(self, place: Path) -> State:
        """Read all of it through flagstone, for reading only."""
        return {name: np.asarray(fl.open(place / name)) for name in self.first()}

    def away(self, place: Path) -> bool:
        """Say whether nobody can read it now, which must be a moment that docs/guide/storage.md names."""
        return False

    def found(self, place: Path, candidates: range) -> int:
        """Return which state is stored; -1: none of these."""
        seen = self.read(place)
        for k in reversed(candidates):
            state = self.state(k)
            same = state.keys() == seen.keys()
            if same and all(np.array_equal(values, seen[name]) for name, values in state.items()):
                return k
        return -1

    def recover(self, place: Path) -> None:
        """Come as the next writer, and change nothing."""
        for path in self.arrays(place).values():
            core = _core.Transaction()
            core.add(_core.open_zarr(str(path), True))
            core.rollback()

    def arrays(self, place: Path) -> dict[str, Path]:
        """Return the plain arrays that peers open, by the name in a state."""
        return {name: place / name for name in self.first()}

    def whole(self, place: Path) -> bool:
        """Say whether `fl.check` finds nothing."""
        return all(fl.check(path).ok for path in self.arrays(place).values())

    def peers_agree(self, place: Path, candidates: range, peer: Callable[[Path], np.ndarray]) -> bool:
        """Say whether another program reads every element as one of these states has it."""
        for name, path in self.arrays(place).items():
            seen = peer(path)
            states = [self.state(k) for k in candidates]
            alike = [seen == s[name] for s in states if name in s and s[name].shape == seen.shape]
            if not alike or not np.logical_or.reduce(alike).all():
                return False
        return True

    def renumber(self, place: Path, inodes: dict[int, int]) -> None:
        """Write new inodes where a file names old ones: `place` is a disk that was built again."""


def peers() -> dict[str, Callable[[Path], np.ndarray]]:
    """Return how other programs read an array: those that are installed."""
    found: dict[str, Callable[[Path], np.ndarray]] = {}
    try:
        import zarr

        found["zarr-python"] = lambda path: np.asarray(zarr.open_array(str(path), mode="r")[...])
    except ImportError:
        pass
    try:
        import tensorstore

        def read(path: Path) -> np.ndarray:
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
            return np.asarray(tensorstore.open(spec, read=True).result().read().result())

        found["TensorStore"] = read
    except ImportError:
        pass
    return found
