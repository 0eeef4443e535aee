"""Going on with what a killed process left: the call is made again from its record."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from typing import Any

from .. import _core
from .._array.array import Array
from .._decomposition.pca import pca
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from .._formats.convert import convert
from .._formats.hdf5.file import _stored
from .._formats.open import open_path
from .._formats.zarr.groups import _stored_csc
from .._linalg.matmul import matmul
from .._runtime.runtime import current
from .._sparse.array import SparseArray
from .._storage.rechunk import rechunk, transpose
from .identity import stored_stamp
from .leftovers import MEMBER, Leftover, leftovers
from .record import FORMAT, expecting

__all__ = ["resume"]


def _open_flat(*arguments: Any) -> Array:
    from .._formats.raw import _open_raw_again

    path, dtype, shape, order, offset, leading, mode = arguments
    return _open_raw_again(path, dtype, tuple(shape), order, offset, leading, mode)


_OPENERS: dict[str, Callable[..., Any]] = {
    "flagstone._formats.open._open_raw_again": _open_flat,
    "flagstone._formats.hdf5.file._stored": _stored,
    "flagstone._formats.zarr.groups._stored_csc": _stored_csc,
}


def _operand(name: str, told: dict[str, Any]) -> Any:
    """Open an operand of a record, or say what became of it."""
    if "memory" in told or "steps" in told:
        what = "was an array in memory" if "memory" in told else "was a view with pending steps"
        raise Error(f"resume: {name} {what}; make the same call again, with the same {name} and out=.")
    path = told["path"]
    place = path
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if place != path and not os.path.isfile(place):
        raise storage_error(
            f"resume: {name} '{path}' went away since; it cannot be gone on.", errno.ENOENT, path
        )
    _check_unchanged(name, told)
    opened: Any
    if "opener" in told:
        opener, arguments = told["opener"]
        opened = _OPENERS[opener](*arguments)
    elif _core.is_csr_group(path):
        opened = SparseArray(_core.open_csr(path))
    else:
        opened = open_path(path)
    if told.get("transposed"):
        opened = opened.T
    return opened.conj() if told.get("conjugated") else opened


def _check_unchanged(name: str, told: dict[str, Any]) -> None:
    if stored_stamp(told["path"]) != told["stamp"]:
        raise FormatError(
            f"resume: {name} '{told['path']}' was changed since; what was computed is of its old version. "
            "Start the call again."
        )


def _number(parts: list[float]) -> complex | float:
    return complex(*parts) if parts[1] else parts[0]


def _matmul(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    a, b = _operand("A", told["a"]), _operand("B", told["b"])
    options = {"out": _old(path, told), "alpha": _number(told["alpha"]), "beta": _number(told["beta"])}
    return matmul, (a, b), options


def _old(path: str, told: dict[str, Any]) -> Any:
    """Return what `out` was: the path, or the array there, which must be as it was."""
    if "old" in told and stored_stamp(path) != told["old"]:
        raise FormatError(f"resume: '{path}', which is replaced, was changed since; start the call again.")
    return open_path(path, mode="r+") if told["into"] else path


def _written(path: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"out": _old(path, told)} | {name: told[name] for name in ("checksum", "codec", "order")}


def _rechunk(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    options = _written(path, told) | {"dtype": told["dtype"], "casting": "unsafe"}
    return rechunk, (_operand("A", told["a"]), told["chunks"]), options


def _transpose(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    options = _written(path, told) | {"chunks": told["chunks"]}
    return transpose, (_operand("A", told["a"]), told["axes"]), options


def _pca(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if told["members"]:
        raise Error("resume: the components belong to a recipe; make the same call of it again.")
    options = {name: told[name] for name in ("center", "method", "tol", "seed")}
    return pca, (_operand("X", told["x"]), told["k"]), options | {"out": path}


def _convert(path: str, told: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if "file" not in told:
        return convert, (_operand("src", told["a"]), path), {"overwrite": told["overwrite"]}
    source = told["file"]["path"]
    if not os.path.exists(source):
        raise storage_error(
            f"resume: src '{source}' went away since; it cannot be gone on.", errno.ENOENT, source
        )
    _check_unchanged("src", told["file"])
    return convert, (source, path), {"overwrite": told["overwrite"], "key": told["key"]}


#: Operation: the call that a record stands for, as (routine, operands, options).
_CALLS: dict[str, Callable[[str, dict[str, Any]], tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {
    "convert": _convert,
    "matmul": _matmul,
    "pca": _pca,
    "rechunk": _rechunk,
    "transpose": _transpose,
}


def find(path: str | os.PathLike[str]) -> Leftover:
    """Return what can be gone on with, or say why there is nothing."""
    place = path_text("resume", path)
    found: list[Leftover] = []
    for one in (place, f"{place}/{MEMBER}"):  # an existing array that was the out= lies in its group
        if os.path.isdir(os.path.dirname(os.path.realpath(one))):
            found += leftovers(one)
    live = [one for one in found if one.live]
    if live:
        who = f"process {live[0].process}" if live[0].process else "another process"
        raise storage_error(f"resume: '{place}' is being computed by {who}; wait for it.", errno.EBUSY, place)
    recorded = [one for one in found if one.record]
    if not recorded:
        why = "was left by an operation that starts again" if found else "has nothing to resume"
        raise storage_error(
            f"resume: '{place}' {why}; 'flagstone scratch' lists what can be resumed.",
            errno.ENOENT, place,
        )  # fmt: skip
    best = max(recorded, key=lambda one: (one.resumable, one.done))
    _core.Checkpoint(best.notes, 0)  # FormatError where it is damaged
    return best


def call_of(path: str | os.PathLike[str]) -> tuple[Leftover, Any, tuple[Any, ...], dict[str, Any]]:
    """Return the call that goes on with `path`: what was left, routine, operands, options."""
    left = find(path)
    try:
        about = json.loads(left.record)
        told, version, operation = about["arguments"], about["version"], about["operation"]
        kind, threads = about["format"], about["threads_per_task"]
    except (ValueError, KeyError, TypeError):
        raise FormatError(
            f"resume: the record of '{left.path}' ({left.notes}/record.json) is damaged; make the call again."
        ) from None
    if kind != FORMAT or version != _core.__version__ or operation not in _CALLS:
        raise Error(
            f"resume: '{left.path}' was begun by version {version} and this is {_core.__version__}; go on "
            "with that version, or make the call again, which starts anew."
        )
    if threads != current().threads_per_task:
        raise Error(
            f"resume: '{left.path}' was begun with threads_per_task={threads}, which decides bits; go on "
            f"inside 'with fl.Runtime(threads_per_task={threads})'."
        )
    try:
        return left, *_CALLS[operation](left.path, told)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"resume: the record of '{left.path}' ({left.notes}/record.json) is damaged ({error}); make the "
            "call again."
        ) from None


def resume(path: str | os.PathLike[str], *, memory: int | str | None = None) -> Any:
    """Go on with the call that was computing `path` when its process died; the same bits come out.

    Parameters
    ----------
    path : path
        The `out` of that call.
    memory : int or str, optional
        Most resident memory of the process during the call; it may be another one than before.

    Returns
    -------
    What that call returns.

    Raises
    ------
    StorageError
        There is nothing to resume, or another process is computing it.
    FormatError
        An operand was changed since (names it); the record is damaged.

    Notes
    -----
    The same call does the same (``fl.matmul(A, B, out=path)``), and is the way to go on where an operand was
    an array in memory. Costs what was not finished at the last checkpoint; `docs/resume.md` says which
    routines keep which. ``stats().what`` ends with where it began.
    """
    left, routine, operands, options = call_of(path)
    with expecting(left.record):
        return routine(*operands, **options, memory=memory)
