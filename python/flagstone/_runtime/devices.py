"""Memories beside the host's: what a user names, what there is, what a runtime opens."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from .._errors.classes import DeviceError, Error, ShapeError
from .._errors.messages import shown
from .arguments import real_number, seconds_between, size_bytes

__all__ = [
    "Device", "DeviceInfo", "Placement", "bits_of", "check_room", "chosen", "device_of_text", "devices",
    "open_all", "placement",
]  # fmt: skip

_KINDS = ("cuda", "emulated")
_PRECISIONS = (None, "tf32")
_FIRST = 64  # rows and columns of tiles for which a function is asked at once


@dataclass(frozen=True)
class Device:
    """One device of a `Runtime`: a memory beside the host's, with a limit of its own.

    Parameters
    ----------
    kind : str
        "cuda", which is "cuda:0", or "cuda:1" and so on; or "emulated": memory of this process that only
        copies reach, and the host's kernels. It gives the host's bits and is for tests of what would move.
    memory : int or str, optional
        Most bytes that it may take there, for operands, results and workspaces alike: "2GiB". They are taken
        once, at the first call. An emulated device needs it; of a card the default is three quarters of what
        is free.
    bandwidth : float or str, optional
        Of an emulated device, bytes per second of each direction: "2GB/s". Default: as fast as memory is.
    latency : float, optional
        Of an emulated device, seconds that each copy takes beside its bytes.
    precision : {None, "tf32"}, optional
        "tf32": products of float32 on a card with 10 bits of mantissa. Never without being asked for.

    See Also
    --------
    devices : What this machine has.

    Examples
    --------
    >>> with fl.Runtime(memory="256MiB", devices=[fl.Device("emulated", memory="64MiB")]):
    ...     C = A @ B
    """

    __module__ = "flagstone"

    kind: str
    memory: int | str | None = None
    bandwidth: float | str | None = None
    latency: float | None = None
    precision: str | None = None
    #: For tests: failures by script, other orders, workspaces, kernels that it lacks (_core.open_emulated).
    _emulation: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what makes no sense, without opening anything."""
        kind, ordinal = _kind_of(self.kind)
        object.__setattr__(self, "kind", kind if ordinal is None else f"{kind}:{ordinal}")
        if self.memory is not None:
            object.__setattr__(self, "memory", size_bytes("Device: memory", self.memory))
        object.__setattr__(self, "bandwidth", _bandwidth(self.bandwidth))
        if self.latency is not None:
            object.__setattr__(self, "latency", seconds_between("Device: latency", self.latency))
        if self.precision not in _PRECISIONS:
            raise ShapeError(f"Device: precision is {shown(self.precision)}; choose None or 'tf32'.")
        if kind == "cuda" and (self.bandwidth is not None or self.latency is not None):
            raise ShapeError("Device: bandwidth and latency are for emulated devices; a card has its own.")
        if kind == "emulated" and self.precision is not None:
            raise ShapeError("Device: precision is for cards; an emulated device has the host's kernels.")
        if kind == "emulated" and self.memory is None:
            raise ShapeError('Device: an emulated device needs memory, as in memory="64MiB".')


@dataclass(frozen=True)
class DeviceInfo:
    """What `devices` tells of one device.

    Attributes
    ----------
    name : str
        What `Device` takes: "cuda:0".
    memory : int
        Bytes that are free; 0 where there is none.
    description : str
        Model and driver.
    why_not : str
        Why it cannot be used; "" where it can.
    """

    name: str
    memory: int
    description: str
    why_not: str = ""


def devices() -> list[DeviceInfo]:
    """Return what devices this machine has, or why there are none.

    Returns
    -------
    list of DeviceInfo
        Cards first; where none can be used one entry says why. The emulated kind comes last: it is
        always there.
    """
    found, why_not = _core.cuda_devices()
    told = [DeviceInfo(card.name, card.memory, card.description) for card in found]
    if not told:
        told = [DeviceInfo("cuda", 0, "no card", why_not)]
    return [
        *told,
        DeviceInfo("emulated", _core.allowed_memory(), "memory of this process, the host's kernels"),
    ]


def open_all(given: Sequence[Device]) -> list[_core.Device]:
    """Take the memory of devices; DeviceError where one is not to be had."""
    opened = []
    emulated = 0  # of those that nobody numbered
    for one in given:
        kind, ordinal = _kind_of(one.kind)
        if kind == "cuda":
            opened.append(_open_card(ordinal or 0, one.memory, one.precision))
            continue
        number = emulated if ordinal is None else ordinal
        emulated += ordinal is None
        opened.append(
            _core.open_emulated(
                f"emulated:{number}",
                int(one.memory or 0) // 256 * 256,
                float(one.bandwidth or 0),
                float(one.latency or 0),
                **one._emulation,
            )
        )
    return opened


def device_of_text(text: str) -> Device:
    """Return a device as command line and environment name it: "cuda:0", "cuda:1:8GiB", "emulated:64MiB"."""
    kind, *rest = text.strip().split(":")
    if rest and rest[0].isdigit() and len(rest[0]) <= 3:
        kind = f"{kind}:{rest.pop(0)}"
    if len(rest) > 1:
        raise ShapeError(
            f"Device: {shown(text)} is no device; give 'cuda:0', 'cuda:0:8GiB' or 'emulated:64MiB'."
        )
    return Device(kind, memory=rest[0] if rest else None)


def chosen(given: object) -> tuple[Device, ...]:
    """Return the devices of a runtime: what its argument, or the environment, says."""
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return ()
    if isinstance(given, str) and given == "auto":
        return tuple(Device(card.name) for card in _core.cuda_devices()[0])
    if isinstance(given, str):
        return tuple(device_of_text(text) for text in given.split(","))
    if isinstance(given, Device):
        return (given,)
    if isinstance(given, Iterable):
        told = tuple(device_of_text(one) if isinstance(one, str) else one for one in given)
        if all(isinstance(one, Device) for one in told):
            return _numbered(told)
    raise ShapeError(f"Runtime: devices is {shown(given)}; give None, 'auto' or a list of fl.Device.")


def _numbered(given: tuple[Device, ...]) -> tuple[Device, ...]:
    """Refuse one card that was named twice."""
    cards = [one.kind if ":" in one.kind else "cuda:0" for one in given if one.kind.startswith("cuda")]
    for name in cards:
        if cards.count(name) > 1:
            raise ShapeError(f"Runtime: devices name {name} twice; each card is one memory.")
    return given


def check_room(memory: int, given: Sequence[Device]) -> None:
    """Refuse limits that exceed, together, what this process may have."""
    emulated = sum(int(one.memory or 0) for one in given if one.kind.startswith("emulated"))
    if emulated and memory + emulated > _core.allowed_memory():
        raise ShapeError(
            f"Runtime: memory={_core.format_bytes(memory)} and {_core.format_bytes(emulated)} of emulated "
            f"devices exceed the {_core.format_bytes(_core.allowed_memory())} that this machine allows; "
            "lower one of them."
        )


@dataclass(frozen=True)
class Placement:
    """Where tiles are changed."""

    name: str = ""
    function: Callable[[int, int], int] | None = None  # checks what it returns
    first: tuple[tuple[int, ...], ...] = ()  # its values for the first tiles: for records

    @property
    def names_the_host(self) -> bool:
        """Say whether some tiles stay with the host."""
        return any(0 in row for row in self.first)

    @property
    def given(self) -> str | Callable[[int, int], int] | None:
        """As the core takes it."""
        return self.function or self.name or None


def placement(given: str | Callable[[int, int], int] | Placement | None, count: int) -> Placement:
    """Return where tiles go; a function is asked of the first tiles at once, of others when they come."""
    if isinstance(given, Placement):
        return given
    if given is None or given in ("rows", "columns"):
        return Placement(str(given or ""))
    if not callable(given):
        raise ShapeError(
            f"Runtime: place is {shown(given)}; choose 'rows', 'columns' or a function of (row, column)."
        )
    function = given

    def checked(row: int, column: int) -> int:
        return _memory_of(function(row, column), count)

    first = tuple(tuple(checked(row, column) for column in range(_FIRST)) for row in range(_FIRST))
    return Placement("", checked, first)


def _memory_of(told: object, count: int) -> int:
    if isinstance(told, bool) or not hasattr(told, "__index__") or not 0 <= told.__index__() <= count:
        raise ShapeError(
            f"Runtime: place returned {shown(told)}; 0 is the host, 1 to {count} are the runtime's devices."
        )
    return int(told.__index__())


def bits_of(given: Sequence[Device], where: Placement) -> str:
    """Return what of devices decides bits, for records; "" without devices."""
    each = [_kind_of(one.kind)[0] + (f" {one.precision}" if one.precision else "") for one in given]
    kinds = sorted(set(each))
    if len(kinds) > 1 or where.names_the_host:  # which tile is computed where counts, too
        told = where.first or where.name or "columns"
        return f"{each} at {told}"
    return "".join(kinds)


def _kind_of(text: object) -> tuple[str, int | None]:
    """Return the kind and which of its kind, where that was said."""
    found = re.fullmatch(r"(cuda|emulated)(?::(\d{1,3}))?", text) if isinstance(text, str) else None
    if found is None:
        raise ShapeError(
            f"Device: kind is {shown(text)}; choose {' or '.join(map(repr, _KINDS))}, or 'cuda:1'."
        )
    return found[1], None if found[2] is None else int(found[2])


def _bandwidth(given: float | str | None) -> float | None:
    """Return bytes per second."""
    if given is None:
        return None
    if isinstance(given, str):
        try:
            given = float(_core.parse_bytes(given.removesuffix("/s")))
        except Error:
            given = math.nan
    needed = 'bytes per second are needed, as "2GB/s"'
    return real_number("Device", "bandwidth", given, lambda value: 0 < value < math.inf, needed)


def _open_card(ordinal: int, memory: int | str | None, precision: str | None) -> _core.Device:
    found, why_not = _core.cuda_devices()
    if ordinal >= len(found):
        raise DeviceError(
            f"Device: cuda:{ordinal} is not there: {why_not or f'this machine has {len(found)} of them'}; "
            "fl.devices() lists what is."
        )
    return _core.open_cuda(ordinal, int(memory or found[ordinal].memory // 4 * 3), precision or "")
