"""Variables packed by the CF conventions (8.1): stored numbers, and attributes that say what they mean.

The rules are xarray's, its dtypes too; missing values are compared in the stored dtype, as the netCDF library
does (decision 80).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._array.array import Array
from .._array.handle import derived
from .._errors.classes import FormatError
from .expression import Expression, as_expression, cast, from_ufunc, where

__all__ = ["ATTRIBUTES", "Packing", "note_packing", "packing_of"]

#: Names of the attributes that are looked at.
ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
_KEY = "cf"  # of what is kept beside a handle


@dataclass(eq=False, repr=False)
class Packing:
    """What the attributes of one variable say of its stored numbers.

    Attributes
    ----------
    scale, offset : number or None
        A true value is the stored one times `scale` plus `offset`.
    missing : list of number
        Stored numbers that stand for no value, in the dtype `seen`.
    seen : dtype
        Of the stored bits: unsigned where ``_Unsigned`` says so.
    dtype : dtype
        Of the true values.
    told : str
        The attributes, as a person reads them.
    wrong : str
        The first attribute that is no number; "" where all are.
    """

    scale: Any
    offset: Any
    missing: list[Any]
    seen: np.dtype[Any]
    dtype: np.dtype[Any]
    told: str
    wrong: str

    def decode(self, array: Array, place: str) -> Expression:
        """Return the true values, lazily; NaN where one is missing."""
        if self.wrong:
            raise FormatError(
                f"open: '{place}' has the attribute {self.wrong}, which is no number; open it with "
                "decode=False and unpack it yourself."
            )
        stored = cast(as_expression(array, "open"), self.seen)
        true = cast(stored, self.dtype)
        if self.scale is not None:
            true = from_ufunc(np.multiply, (true, self.dtype.type(self.scale)))
        if self.offset is not None:
            true = from_ufunc(np.add, (true, self.dtype.type(self.offset)))
        if not self.missing:
            return true
        gone = from_ufunc(np.equal, (stored, self.missing[0]))
        for value in self.missing[1:]:
            gone = from_ufunc(np.logical_or, (gone, from_ufunc(np.equal, (stored, value))))
        return where(gone, self.dtype.type(np.nan), true)


def note_packing(array: Array, attributes: Mapping[str, Any]) -> Array:
    """Keep beside a handle what the attributes say of the stored numbers, where they say something."""
    if (packing := _packing(attributes, array.dtype)) is not None:
        derived(array)[_KEY] = packing
    return array


def packing_of(opened: Any) -> Packing | None:
    """Return what was noted of a handle; None where its elements are what they stand for."""
    packing: Packing | None = derived(opened).get(_KEY) if isinstance(opened, Array) else None
    return packing


def _packing(attributes: Mapping[str, Any], stored: np.dtype[Any]) -> Packing | None:
    given = {name: attributes[name] for name in ATTRIBUTES if attributes.get(name) is not None}
    if not given or stored.kind not in "iuf":
        return None
    seen = _seen(given.get("_Unsigned"), stored)
    numbers = {name: _numbers(value) for name, value in given.items() if name != "_Unsigned"}
    scale, offset = (
        one[0] if (one := numbers.get(name)) else None for name in ("scale_factor", "add_offset")
    )
    missing = [
        value for name in ("missing_value", "_FillValue") for number in numbers.get(name, [])
        if (value := _as_stored(number, seen)) is not None
    ]  # fmt: skip
    if scale is None and offset is None and not missing and seen == stored and all(numbers.values()):
        return None
    told = ", ".join(f"{name} {_text(value, numbers.get(name))}" for name, value in given.items())
    wrong = next((f"{name} {given[name]!r}" for name, found in numbers.items() if not found), "")
    unique = list(dict.fromkeys(missing))
    return Packing(scale, offset, unique, seen, _dtype(seen, scale, offset, unique), told, wrong)


def _seen(unsigned: Any, stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the stored bits: ``_Unsigned`` is netCDF 3's way to have unsigned integers."""
    said = unsigned.decode("utf-8", "replace") if isinstance(unsigned, bytes) else str(unsigned)
    other = {("true", "i"): "u", ("false", "u"): "i"}.get((said.lower(), stored.kind))
    return stored if other is None else np.dtype(f"{other}{stored.itemsize}")


def _numbers(value: Any) -> list[Any]:
    """Return the numbers of an attribute as NumPy's scalars; [] where it holds something else."""
    found: list[Any] = []
    try:
        flat = np.ravel(np.asarray(value))
        for item in flat if len(flat) <= 1000 else ():
            one = item.decode("ascii") if isinstance(item, bytes) else item
            number = np.asarray(_from_text(one) if isinstance(one, str) else one)[()]
            if not isinstance(number, (np.integer, np.floating)):
                return []
            found.append(number)
    except (TypeError, ValueError):  # nothing that NumPy holds, or no number
        return []
    return found


def _from_text(text: str) -> float:
    """Return the number of a text: JSON has none for NaN, and xarray writes 8 bytes in base64."""
    try:
        return float(text)
    except ValueError:
        try:
            return float(np.frombuffer(base64.b64decode(text, validate=True), "<f8")[0])
        except (binascii.Error, IndexError):
            raise ValueError(text) from None


def _as_stored(number: Any, stored: np.dtype[Any]) -> Any:
    """Return a missing value as it is stored; None where no element can be equal to it."""
    if stored.kind == "f":
        with np.errstate(all="ignore"):
            value = stored.type(number)
        return None if np.isnan(value) or (np.isinf(value) and np.isfinite(number)) else value
    if not np.isfinite(number) or number != np.trunc(number):
        return None
    whole, limits = int(number), np.iinfo(stored)
    if stored.kind == "u" and -(limits.max // 2) - 1 <= whole < 0:  # given as the signed number of these bits
        whole += limits.max + 1
    return stored.type(whole) if limits.min <= whole <= limits.max else None


def _dtype(seen: np.dtype[Any], scale: Any, offset: Any, missing: list[Any]) -> np.dtype[Any]:
    """Return the dtype of the true values, as xarray chooses it."""
    if scale is None and offset is None:
        if not missing or seen.kind == "f":
            return seen
        return np.dtype(np.float32 if seen.itemsize <= 2 else np.float64)
    if scale is not None and offset is not None and scale.dtype == offset.dtype == np.float32:
        return np.dtype(np.float64 if seen.kind != "f" and seen.itemsize == 4 else np.float32)
    if offset is not None or scale.dtype.kind != "f" or scale.dtype.itemsize > 8:
        return np.dtype(np.float64)
    own: np.dtype[Any] = scale.dtype
    return own.newbyteorder("=")


def _text(value: Any, numbers: list[Any] | None) -> str:
    if not numbers:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    shown = ", ".join(str(number) for number in numbers[:4])
    return shown if len(numbers) == 1 else f"[{shown}{', ...' if len(numbers) > 4 else ''}]"
