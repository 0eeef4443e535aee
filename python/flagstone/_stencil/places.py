"""Where a time loop's fields, snapshots and vectors go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._output.parts import Part, PartsPlace
from .._output.place import Place
from .._output.replaceable import check_apart
from .._runtime.call import Call
from .._runtime.routine import At
from .given.rows import result_chunks
from .snapshots import AXES, Snapshot

__all__ = ["Places"]


class Places:
    """The fields' places, and the group (a path, or scratch) in which they or snapshots lie.

    A path is a group where there may be more than one array: two states, named fields, snapshots beside one.
    """

    def __init__(
        self, call: Call, shape: tuple[int, ...], dtype: np.dtype[Any], names: list[str],
        fields: bool, out: Any, snapshots: Sequence[Snapshot], block: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.snapshots = list(snapshots)
        chunks = result_chunks(shape, dtype.itemsize, block)
        parts = [snapshot.part(dtype) for snapshot in snapshots]
        named = out is None or isinstance(out, (str, os.PathLike))
        self._names = names
        self._single: list[Place] = []
        if named and (fields or len(names) > 1 or parts):
            states = [Part(name, shape, chunks, AXES[-len(shape) :]) for name in self._names]
            self.group: PartsPlace | None = PartsPlace(call, out, [*states, *parts], dtype, {})
        else:
            outs = [out]
            if not fields and len(names) == 2:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise TypeError(f"{call.who}: out is {type(out).__name__}; a path, or a pair, is needed.")
                outs = [out[1], out[0]]
            elif fields:
                if not isinstance(out, dict) or set(out) != set(names):
                    raise TypeError(
                        f"{call.who}: out is {type(out).__name__}; a path, or a dict of the fields "
                        f"{', '.join(names)}, is needed."
                    )
                outs = [out[name] for name in names]
            check_apart(call.who, outs)
            self._single = [Place(call, shape, dtype, one, chunks) for one in outs]
            self.group = PartsPlace(call, None, parts, dtype, {}) if parts else None
        self.all: list[Any] = [*self._single, *([self.group] if self.group else [])]
        call.outputs = sum(place.named() for place in self.all)

    @property
    def nameless(self) -> bool:
        """Whether nobody knows, after this process, where the fields lie."""
        return all(place.nameless for place in self.all)

    @property
    def checkpoint(self) -> _core.Checkpoint | None:
        """Where epochs are noted, once the places are open."""
        found = [place.checkpoint for place in self.all if place.checkpoint is not None]
        return found[0] if found else None

    def opened(self, at: At) -> tuple[list[_core.Array], list[_core.Array]]:
        """Return the core's arrays of the states (now first), and of the snapshots."""
        states = [at(place) for place in self._single]
        inside: Any = at(self.group) if self.group else []
        if not states:
            states, inside = inside[: len(self._names)], inside[len(self._names) :]
        return states, inside

    def close(
        self, done: int, spacing: Sequence[float] | None, dt: float | None, vectors: dict[str, NDArray[Any]]
    ) -> tuple[list[Any], dict[str, Array]]:
        """Publish everything after so many steps; return the states (now first) and the snapshots.

        `vectors`: one value or one row a step, which a group holds too.
        """
        states = [place.close() for place in self._single]
        if self.group is None:
            return states, {}
        for name, values in vectors.items() if not self._single else ():
            self.group.put(name, values, ["step", "receiver"][: values.ndim])
        for snapshot in self.snapshots:
            places = snapshot.coordinates(done, spacing, dt)
            for name, values in places.items():
                self.group.put(f"{snapshot.where}/{name}", values, [name])
        arrays = self.group.close(
            {f"{s.where}/{s.name}": sum(step <= done for step in s.steps) for s in self.snapshots}
        )
        if not states:
            states, arrays = arrays[: len(self._names)], arrays[len(self._names) :]
        return states, {s.name: array for s, array in zip(self.snapshots, arrays, strict=True)}
