"""What a record tells, opened again: operands by a registered name, never by a module's path; outputs."""

from __future__ import annotations

import base64
import errno
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .choices import of_text
from .identity import memory_identity, stored_stamp
from .registers import OPENERS

__all__ = ["UnknownOpener", "check_unchanged", "old_output", "operand", "told_values", "written"]

_SHORT = 256 << 10  # bytes of a member in memory that a record holds: means of columns, factors of rows


class UnknownOpener(LookupError):
    """An operand of a record is opened by a name that nobody registered."""

    def __init__(self, operand: str, opener: str) -> None:
        self.operand, self.opener = operand, opener


def operand(name: str, told: dict[str, Any]) -> Any:
    """Open an operand of a record, or say what became of it."""
    if "lazy" in told:  # made again of its members, which say what became of them
        known, arguments = told["lazy"]
        if known not in OPENERS:
            raise UnknownOpener(name, known)
        made = OPENERS[known](*arguments)
        made = made.T if told.get("transposed") else made
        return made.conj() if told.get("conjugated") else made
    if "values" in told:
        return values_of(told)
    if "memory" in told or "steps" in told:
        what = "was an array in memory" if "memory" in told else "was a view with pending steps"
        raise Error(f"resume: {name} {what}; make the same call again, with the same {name} and out=.")
    path = told["path"]
    known, arguments = told.get("opener") or ("csr" if _core.is_csr_group(path) else "path", [path])
    if known not in OPENERS:
        raise UnknownOpener(name, known)
    place = path
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if place != path and not os.path.isfile(place):
        raise storage_error(
            f"resume: {name} '{path}' went away since; it cannot be gone on.", errno.ENOENT, path
        )
    check_unchanged(name, told)
    opened = OPENERS[known](*arguments)
    if "chosen" in told:  # of what is stored
        opened = opened[tuple(of_text(told["chosen"][axis]) for axis in ("rows", "columns"))]
    if told.get("transposed"):
        opened = opened.T
    return opened.conj() if told.get("conjugated") else opened


def told_values(values: NDArray[Any]) -> dict[str, Any]:
    """Return what tells a member in memory from another: a short one as it is, so that it is there again."""
    told = memory_identity(values)
    if values.nbytes <= _SHORT:
        told["values"] = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
    return told


def values_of(told: dict[str, Any]) -> NDArray[Any]:
    """Return the values that a record holds."""
    flat = np.frombuffer(base64.b64decode(told["values"]), np.dtype(told["dtype"]))
    return flat.reshape(told["shape"])


def check_unchanged(name: str, told: dict[str, Any]) -> None:
    """Refuse a file that is another one than the record's."""
    if stored_stamp(told["path"]) != told["stamp"]:
        raise FormatError(
            f"resume: {name} '{told['path']}' was changed since; what was computed is of its old version. "
            "Start the call again."
        )


def old_output(path: str, told: dict[str, Any]) -> Any:
    """Return what `out` was: the path, or the array there, which must be as it was."""
    if "old" in told and stored_stamp(path) != told["old"]:
        raise FormatError(f"resume: '{path}', which is replaced, was changed since; start the call again.")
    return OPENERS["path"](path, mode="r+") if told["into"] else path


def written(path: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return the options that say how the output is written."""
    return {"out": old_output(path, told)} | {name: told[name] for name in ("checksum", "codec", "order")}
