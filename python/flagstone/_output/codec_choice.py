"""Which codec an array gets: what was asked for, or, for "auto", what its data and the disk make faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import FormatError
from .._runtime.call import Call

__all__ = ["CHECKSUMS", "Choice", "check_codec", "choose", "samples"]

_SAMPLES = 8  # chunks that are packed to see how much shorter they get
_MOST_SAMPLE = 4 << 20
_READS = 3  # an array is read more often than it is written
_WORTH = 0.9  # a codec has to be a tenth faster than raw

#: Bytes a second that one worker packs and unpacks, over the rate of unpacking blosc-lz4 that the gauge
#: measures: ratios of one processor's times, taken once (decision 44), so that the choice depends on
#: data and profile alone.
_SPEEDS = {
    "blosc-lz4": (0.45, 1.2),
    "blosc-lz4+bitshuffle": (0.4, 0.7),
    "blosc-zstd:1": (0.22, 0.6),
    "blosc-zstd": (0.035, 0.6),
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """How chunks are stored: a codec, why it was taken ("" where it was asked for), the order of elements."""

    codec: str
    why: str = ""
    order: str = "C"  # or "F": the first index is the fastest


def check_codec(who: str, codec: object, path: str, auto: bool = False) -> None:
    """Refuse a codec that is not written here; `auto`: there are data to look at."""
    if not isinstance(codec, str):
        raise TypeError(f"{who}: codec is {codec!r}; a text such as 'raw' or 'blosc-lz4' is needed.")
    if codec == "auto":
        if not auto:
            raise FormatError(
                f"{who}: codec 'auto' looks at the data, and there are none yet; name a codec, or write the "
                "data with fl.from_numpy or fl.rechunk."
            )
    elif _core.check_codec(codec) == "raw":
        return
    if path.endswith(".npy"):
        raise FormatError(
            f"{who}: codec is '{codec}', and a .npy file is never packed; name a Zarr directory."
        )


def choose(
    call: Call, codec: str, shape: Sequence[int], chunks: Sequence[int], dtype: np.dtype[Any],
    take: Callable[[tuple[slice, ...]], NDArray[Any]],
) -> Choice:  # fmt: skip
    """Return the codec, or for "auto" the fastest one for these data and this disk; `take` reads a box.

    The same data and the same profile give the same choice: samples are packed for their lengths only, and
    speeds come from the profile and a table.
    """
    if codec != "auto":
        return Choice(codec)
    taken = list(samples(shape, chunks, dtype, take))
    if not taken:
        return Choice("raw", "auto: every chunk that was looked at is all fill value")
    rates = call.use_profile().rates
    ratios = {
        name: sum(_core.packed_bytes(name, one) for one in taken) / sum(one.nbytes for one in taken)
        for name in _SPEEDS
    }
    unit = rates["decode_bytes_per_second"] * max(1, call.engine.workers)
    seconds = {"raw": _seconds(1.0, math.inf, math.inf, rates)}
    for name, ratio in ratios.items():
        pack, unpack = _SPEEDS[name]
        seconds[name] = _seconds(ratio, pack * unit, unpack * unit, rates)
    best = min(_SPEEDS, key=lambda name: seconds[name])
    gain = seconds["raw"] / seconds[best]
    packs = f"{best} packs {len(taken)} chunks to {ratios[best]:.0%}"
    rate = f"the disk's {rates['read_bytes_per_second'] / 1e6:.0f} MB/s"
    if gain * _WORTH < 1:
        return Choice("raw", f"auto: {packs}, which beside {rate} is {gain:.2f} times as fast as raw")
    return Choice(best, f"auto: {packs}, {gain:.2f} times as fast as raw beside {rate}")


def _seconds(ratio: float, pack: float, unpack: float, rates: dict[str, float]) -> float:
    """Seconds a byte of elements, written once and read a few times; workers and disk work at once."""
    write = max(ratio / rates["write_bytes_per_second"], 1 / pack)
    read = max(ratio / rates["read_bytes_per_second"], 1 / unpack)
    return write + _READS * read


def samples(
    shape: Sequence[int], chunks: Sequence[int], dtype: np.dtype[Any],
    take: Callable[[tuple[slice, ...]], NDArray[Any]],
) -> Any:  # fmt: skip
    """Chunks at even distances, or the first part of long ones; those of zeros take nothing anyway."""
    grid = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    total = math.prod(grid)
    for number in sorted({i * total // _SAMPLES for i in range(_SAMPLES)} if total else ()):
        at = np.unravel_index(number, grid) if grid else ()
        part: list[slice] = []
        left = max(1, _MOST_SAMPLE // dtype.itemsize)
        for d in reversed(range(len(chunks))):
            extent = min(chunks[d], left)
            left = max(1, left // extent)
            part.insert(0, slice(int(at[d]) * chunks[d], int(at[d]) * chunks[d] + extent))
        values = np.ascontiguousarray(take(tuple(part)))
        if values.tobytes().strip(b"\0"):
            yield values


#: Where the checksums of a new array's chunks go; a .npy file has none.
CHECKSUMS = ("sidecar", "inner", "none")
