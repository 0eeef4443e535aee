"""Arrays of dates and durations: numbers of a unit since a reference, which mean datetime64 or timedelta64.

NumPy's own (`.npy`, Zarr) count their unit and have the least integer for NaT; variables by the CF
conventions (4.4) count "days since 2000-01-01" in any numeric type, and name what is missing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .._array.array import Array, shape_text
from .._array.handle import derived
from .._errors.classes import FormatError
from .cf import packing_of
from .compute import compute
from .expression import as_expression, cast, from_ufunc

__all__ = ["TimeArray", "cf_times", "note_times", "times_of"]

_KEY = "times"  # of what is kept beside a handle
_NAT = int(np.iinfo(np.int64).min)
_MOST = int(np.iinfo(np.int64).max)
_FAR = np.nextafter(2.0**63, 0)  # the last float64 that int64 holds
_POSSIBLE = (
    "slices, comparisons and NumPy's isnat, min, max and diff are possible; all else takes its stored numbers"
)
#: CF's words for units (UDUNITS) by NumPy's, coarse ones first.
_UNITS = {
    "D": ("days", "day", "d"), "h": ("hours", "hour", "hrs", "hr", "h"),
    "m": ("minutes", "minute", "mins", "min"), "s": ("seconds", "second", "secs", "sec", "s"),
    "ms": ("milliseconds", "millisecond", "msecs", "msec", "ms"), "us": ("microseconds", "microsecond", "us"),
    "ns": ("nanoseconds", "nanosecond", "ns"),
}  # fmt: skip
#: Nanoseconds of each unit: whole numbers of Python's, which hold every date.
_LENGTHS = {
    "D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000,
    "ns": 1,
}  # fmt: skip
#: Before it the standard calendar is the Julian one, and NumPy's is not.
_REFORM = int(np.datetime64("1582-10-15", "s").astype(np.int64)) * 10**9
_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
_SINCE = re.compile(
    r"(\w+)\s+since\s+(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d+)?)?)?"
    r"\s*(?:Z|UTC|[+-]?0{1,2}:?0{0,2})?\s*",
    re.IGNORECASE,
)
_COMPARED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
    "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


class TimeArray(NDArrayOperatorsMixin):
    """An array on disk whose elements are dates or durations; what `flagstone.open` returns for one.

    Attributes
    ----------
    stored : Array
        The numbers as they lie there.
    dtype : dtype
        NumPy's datetime64 or timedelta64: an element is origin + scale * its number, in its unit.

    Notes
    -----
    ``A[key]`` gives NumPy's dates or durations. Comparisons are lazy, as those of an Array are; `min` and
    `max` take one read, and are NaT where an element is; `diff` reads twice and writes once.
    """

    def __init__(
        self, stored: Array, dtype: np.dtype[Any], *, origin: int = 0, scale: int = 1,
        missing: tuple[Any, ...] = (_NAT,),
    ) -> None:  # fmt: skip
        self.stored, self.dtype = stored, dtype
        self._origin, self._scale, self._missing = origin, scale, missing

    # What it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""
        return self.stored.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.stored.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.stored.size

    @property
    def path(self) -> str | None:
        """Where it lies."""
        return self.stored.path

    @property
    def attrs(self) -> Any:
        """Attributes of what is stored."""
        return self.stored.attrs

    @property
    def dims(self) -> Any:
        """Names of the dimensions."""
        return self.stored.dims

    def __len__(self) -> int:
        return len(self.stored)

    def __repr__(self) -> str:
        return f"<flagstone.TimeArray {shape_text(self.shape)} {self.dtype}, '{self.path}'>"

    # Elements -----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Return a part as NumPy's dates or durations."""
        given = np.asarray(self.stored[key])
        gone = np.isnan(given) if given.dtype.kind == "f" else np.zeros(given.shape, bool)
        for missing in self._missing:
            gone |= given == missing
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = given.astype(np.float64) * float(self._scale)  # of float32 too: seconds are lost in it
            if given.dtype.kind == "f":
                ticks = np.rint(scaled).astype(np.int64)
            else:
                ticks = given.astype(np.int64) * self._scale
            self._check_held(scaled, gone)
        return np.where(gone, _NAT, ticks + self._origin).view(self.dtype)[()]

    def _check_held(self, scaled: np.ndarray[Any, Any], gone: Any) -> None:
        if self.stored.dtype.kind == "i" and (self._scale, self._origin) == (1, 0):
            return  # NumPy's own: each int64 is one
        held = (np.abs(scaled) < _FAR) & (np.abs(scaled + self._origin) < _FAR)
        if not np.all(held | gone):
            raise FormatError(
                f"open: '{self.path}' has an element beyond what {self.dtype} counts; open it with "
                "decode=False and use its numbers."
            )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype)

    def _ticks(self) -> Any:
        """Return, lazily, scale * numbers as int64."""
        given = as_expression(self.stored, "times")
        if given.dtype.kind == "f":
            scaled = from_ufunc(np.multiply, (cast(given, np.float64), np.float64(self._scale)))
            # what is beyond stays there, as int64
            scaled = from_ufunc(np.maximum, (from_ufunc(np.minimum, (scaled, _FAR)), -_FAR))
            return cast(from_ufunc(np.rint, (scaled,)), np.int64)
        return from_ufunc(np.multiply, (cast(given, np.int64), np.int64(self._scale)))

    def _gone(self) -> Any:
        """Return, lazily, where elements are NaT."""
        given = as_expression(self.stored, "times")
        masks = [from_ufunc(np.isnan, (given,))] if given.dtype.kind == "f" else []
        masks += [from_ufunc(np.equal, (given, given.dtype.type(one))) for one in self._missing]
        found = masks[0] if masks else from_ufunc(np.not_equal, (given, given))
        for mask in masks[1:]:
            found = from_ufunc(np.logical_or, (found, mask))
        return found

    @property
    def _flagstone_refusal(self) -> str:
        """What functions of numbers say that are given one."""
        return f"of an array of {self.dtype} {_POSSIBLE}."

    # What is possible ---------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if method == "__call__" and not options and name == "isnat":
            return self._gone()
        if method == "__call__" and not options and name in _COMPARED:
            if inputs[0] is not self:
                name, inputs = _COMPARED[name], inputs[::-1]
            return self._compared(name, inputs[1])
        raise TypeError(f"{name}: {self._flagstone_refusal}")

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: Any) -> Any:
        name = {"amin": "min", "amax": "max"}.get(function.__name__, function.__name__)
        if name in ("shape", "ndim", "size") and len(args) == 1 and not options:
            return getattr(self, name)
        if name not in ("min", "max", "diff") or not args or args[0] is not self:
            raise TypeError(f"{name}: {self._flagstone_refusal}")
        return getattr(self, name)(*args[1:], **{k: v for k, v in options.items() if v is not None})

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the first date, or shortest duration, along `axis`; NaT where one is. One read."""
        return self._extreme("min", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the last date, or longest duration, along `axis`; NaT where one is. One read."""
        return self._extreme("max", axis, keepdims)

    def diff(self, n: int = 1, axis: int = -1) -> TimeArray:
        """Return the durations between neighbours along `axis`, `n` times; of arrays without NaT."""
        if bool(self._gone().any()):
            raise ValueError(
                "diff: an element is NaT, and so would be its neighbours' differences; load parts."
            )
        found: Any = np.diff(self._ticks(), n, axis)
        return TimeArray(found, self._of_kind("m"))

    def _of_kind(self, kind: str) -> np.dtype[Any]:
        unit, count = np.datetime_data(self.dtype)
        return np.dtype(f"{kind}8[{count}{unit}]")

    def _extreme(self, name: str, axis: Any, keepdims: bool) -> Any:
        found, gone = compute(
            getattr(self._ticks(), name)(axis, keepdims=keepdims), self._gone().any(axis, keepdims=keepdims)
        )
        self._check_held(np.asarray(found, np.float64), gone := np.asarray(gone))
        ticks = np.where(gone, _NAT, np.asarray(found) + self._origin)
        return ticks.astype(np.int64).view(self.dtype)[()]

    def _operand(self, name: str, other: Any) -> np.ndarray[Any, Any]:
        """Return what is compared as datetime64 or timedelta64, of a unit."""
        given = np.asarray(other)
        if given.dtype.kind in "US" and self.dtype.kind == "M":
            try:
                given = given.astype("M8")
            except ValueError:
                raise ValueError(
                    f"{name}: {other!r} meets an array of {self.dtype} and is no date; give one as "
                    "'2020-01-31'."
                ) from None
        python = datetime.date if self.dtype.kind == "M" else datetime.timedelta
        if given.dtype.kind == "O" and all(isinstance(one, python) for one in given.flat):
            given = np.array(given.tolist(), self.dtype.kind + "8")
        if given.dtype.kind != self.dtype.kind:
            kind = "datetime64" if self.dtype.kind == "M" else "timedelta64"
            raise TypeError(f"{name}: an array of {self.dtype} meets {given.dtype}; give numpy.{kind}.")
        return given.astype(self.dtype) if np.datetime_data(given.dtype)[0] == "generic" else given

    def _bound(self, floor: np.ndarray[Any, Any]) -> Any:
        """Return dates as numbers since the origin; those farther than int64 reaches as far as it does."""
        ticks = floor.astype(np.int64)
        bound = ticks - np.int64(self._origin)
        wrapped = ((ticks ^ np.int64(self._origin)) & (ticks ^ bound)) < 0
        return np.where(wrapped, np.where(ticks < 0, _NAT + 1, _MOST - 1), bound)

    def _compared(self, name: str, other: Any) -> Any:
        given = self._operand(name, other)
        nat = np.isnat(given)
        given = np.where(nat, np.array(0, given.dtype), given)
        floor = given.astype(self.dtype)  # between two where its unit is finer
        floor = floor - (floor > given).astype(self._of_kind("m"))
        between = floor != given
        if np.any(between) and np.result_type(self.dtype, given.dtype) == self.dtype:
            raise ValueError(f"{name}: {given} is beyond what {self.dtype} counts; give a date inside.")
        bound = self._bound(floor) + (between if name in ("less", "greater_equal") else 0)
        found = from_ufunc(getattr(np, name), (self._ticks(), bound))
        never = nat | (between & (name in ("equal", "not_equal")))
        differ = name == "not_equal"
        either = np.logical_or if differ else np.logical_and
        if np.any(never):
            found = from_ufunc(either, (found, never if differ else ~never))
        gone = self._gone()
        return from_ufunc(either, (found, gone if differ else from_ufunc(np.logical_not, (gone,))))


# What is opened ---------------------------------------------------------------------------------------------


def note_times(array: Array, dtype: np.dtype[Any]) -> Array:
    """Keep beside a handle of int64 that its numbers are NumPy's datetime64 or timedelta64."""
    derived(array)[_KEY] = dtype
    return array


def times_of(opened: Any) -> TimeArray | None:
    """Return what was noted of a handle as dates or durations; None where nothing was."""
    dtype = derived(opened).get(_KEY) if isinstance(opened, Array) else None
    return None if dtype is None else TimeArray(opened, dtype)


def cf_times(opened: Any, place: str) -> TimeArray | None:
    """Return a variable as the dates that its attributes `units` and `calendar` make of it; None without."""
    if not isinstance(opened, Array) or opened.dtype.kind not in "iuf":
        return None
    units = opened.attrs.get("units")
    if not isinstance(units, str) or " since " not in units:
        return None
    calendar = opened.attrs.get("calendar", "standard")
    packing, since = packing_of(opened), _SINCE.fullmatch(units.strip())
    unit = next((u for u, words in _UNITS.items() if since and since[1].lower() in words), None)
    packed = packing is not None and (packing.scale is not None or packing.offset is not None)
    if since is None or unit is None or packed or str(calendar).lower() not in _CALENDARS:
        what = "scale_factor or add_offset" if packed else f"the calendar {calendar!r}"
        what = what if unit is not None else f"the units {units!r}"
        raise _unread(place, what)
    reference, length = _reference(since, units, place), _LENGTHS[unit]
    missing = tuple(packing.missing) if packing is not None else ()
    if opened.dtype == np.int64:
        missing = (*missing, np.int64(_NAT))  # NumPy's NaT, whatever the attributes say
    dates = [reference, *(reference + length * round(one) for one in _ends(opened, missing))]
    if min(dates) < _REFORM and str(calendar).lower() != "proleptic_gregorian":
        raise _unread(place, f"the units {units!r} and dates before 1582-10-15 in the calendar {calendar!r}")
    chosen = _chosen(unit, reference, dates, opened.dtype.kind == "f")
    if chosen is None:
        raise _unread(place, f"the units {units!r} and dates that no unit of datetime64 holds")
    tick = _LENGTHS[chosen]
    dtype = np.dtype(f"M8[{chosen}]")
    return TimeArray(opened, dtype, origin=reference // tick, scale=length // tick, missing=missing)


def _unread(place: str, what: str) -> FormatError:
    return FormatError(
        f"open: '{place}' is a time with {what}, which is not read here; open it with decode=False and use "
        "its numbers."
    )


def _reference(since: re.Match[str], units: str, place: str) -> int:
    """Return a reference in nanoseconds since 1970, of which Python's integers hold all."""
    y, month, day, hour, minute, second, rest = since.groups()[1:]
    text = f"{y}-{month:0>2}-{day:0>2}T{hour or 0:0>2}:{minute or 0:0>2}:{second or 0:0>2}"
    try:
        seconds = int(np.datetime64(text, "s").astype(np.int64))
    except ValueError:  # a month 13
        raise _unread(place, f"the units {units!r}") from None
    return seconds * 10**9 + int((rest or ".")[1:10].ljust(9, "0"))


def _ends(opened: Array, missing: tuple[Any, ...]) -> list[Any]:
    """Return the first and the last number: what is opened is not read, and times mostly lie between them."""
    if not opened.size:
        return []
    ends = [np.asarray(opened[(at,) * opened.ndim])[()] for at in (0, -1)]
    return [one.item() for one in ends if np.isfinite(one) and not any(one == gone for gone in missing)]


def _chosen(unit: str, reference: int, dates: list[int], parts: bool) -> str | None:
    """Return the unit that holds all dates, in which the reference is a whole number."""
    finer = list(_UNITS)[list(_UNITS).index(unit) :]
    if parts:  # of days, say: the finest that reaches
        finer = [one for one in ("ns", "us", "s") if one in finer]
    for one in finer:
        tick = _LENGTHS[one]
        far = max(abs(x) for date in dates for x in (date, date - reference))
        if reference % tick == 0 and far // tick < _MOST:
            return one
    return None
