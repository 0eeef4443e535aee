"""Fitted models as groups on disk: the factor, the points, what is small, and what they are."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import FormatError
from .._errors.messages import path_text, storage_error
from .._output.attributes import group_told
from .._resume.record import sync_tree
from .._runtime.call import Call
from .._storage.rechunk import rechunk

__all__ = ["MODELS", "ModelFile", "is_unfinished", "member", "model_file", "open_model"]

#: What a model file may hold, by its class or the routine that wrote it: a function of place and attributes.
MODELS: dict[str, Any] = {}


class ModelFile:
    """A group of arrays, of which an attribute names those that are the model.

    What a fit writes has names of its own, by what decides its bits; the attribute changes last, so readers
    see the old model or the new one. A fit that was killed goes on with what it left.
    """

    def __init__(self, who: str, path: str, identity: Any) -> None:
        self.who, self.path, self.told = who, path, group_told(path)
        text = json.dumps(identity, sort_keys=True)
        self.version = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def place(self, name: str) -> str:
        """Return where a member is written."""
        return f"{self.path}/{name}-{self.version}"

    def finished(self, name: str) -> str | None:
        """Return where a member lies that a killed fit of the same model had finished."""
        mine = self.told.get("version") == self.version and "unfinished" not in self.told
        place = self.place(name)
        return None if mine or not _core.is_zarr_array(place) else place

    def write(self, name: str, values: Any) -> None:
        """Keep an array, of which one on disk is copied."""
        if isinstance(values, Array):
            rechunk(values, values.chunks, out=self.place(name))
        else:
            self._write_small(self.place(name), np.ascontiguousarray(values))

    def _write_small(self, place: str, values: Any) -> None:
        if self.told.get("version") == self.version and "unfinished" not in self.told:
            return  # the same elements are there
        shutil.rmtree(place, ignore_errors=True)  # of a fit that was killed
        core = _core.create_zarr(place, list(values.shape), values.dtype.name)
        call = Call(self.who, light=True)
        call.engine.write_boxes(core, [([0] * values.ndim, values)], 1 << 20)
        core.flush()

    def begin(self) -> bool:
        """Make the group; say whether it is new."""
        new = not os.path.isdir(self.path) or not os.listdir(self.path)
        if new:
            os.makedirs(self.path, exist_ok=True)
            self._tell({"unfinished": self.who})
        return new

    def describe(self, model: str, told: dict[str, Any]) -> None:
        """Make what was written the model, and remove the one before."""
        self._tell({"model": model, "version": self.version, "program": _core.__version__, **told})
        for name in _core.open_group(self.path)[1]:
            if not name.endswith(self.version):
                shutil.rmtree(f"{self.path}/{name}", ignore_errors=True)

    def _tell(self, about: dict[str, Any]) -> None:
        _core.write_group(self.path, json.dumps({"flagstone": about}))
        sync_tree(self.path)

    def withdraw(self) -> None:
        """Remove a new group in which nothing was finished, and nothing can be gone on with."""
        if set(os.listdir(self.path)) <= {"zarr.json"}:
            shutil.rmtree(self.path, ignore_errors=True)


def is_unfinished(path: str) -> bool:
    """Say whether a fit that was killed left what lies at a path."""
    return "unfinished" in group_told(path)


@contextlib.contextmanager
def model_file(who: str, out: Any, identity: Any) -> Iterator[ModelFile]:
    """Fill a group with a model; `identity`: everything that decides its bits."""
    path = os.path.abspath(path_text(who, out))
    told = group_told(path)
    if path.endswith(".npy") or (
        os.path.lexists(path)
        and not (os.path.isdir(path) and not os.listdir(path))
        and told.get("model") not in MODELS
        and "unfinished" not in told
    ):
        raise FormatError(
            f"{who}: out '{os.fspath(out)}' must be a new Zarr directory, or one of a model; name another "
            "path."
        )
    file = ModelFile(who, path, identity)
    new = file.begin()
    try:
        yield file
    except BaseException:
        if new:
            file.withdraw()
        raise


def open_model(path: str | os.PathLike[str]) -> Any:
    """Return the fitted estimator that an estimator with ``out=path`` kept.

    Parameters
    ----------
    path : path
        The `out` of that estimator.

    Returns
    -------
    estimator
        Fitted; its factor stays on disk. What is small, 8 n (d + targets) bytes, is read.

    Raises
    ------
    StorageError
        There is nothing at this path.
    FormatError
        What lies there is no model.
    """
    place = path_text("open_model", path)
    if not os.path.exists(place):
        raise storage_error(f"open_model: '{place}' does not exist.", errno.ENOENT, place)
    told = group_told(place)
    kind = told.get("model", told.get("routine"))
    if kind not in MODELS:
        if "unfinished" in told:
            raise FormatError(
                f"open_model: '{place}' was not finished; make the same fit again, which goes on."
            )
        raise FormatError(
            f"open_model: '{place}' is no model; give the out= of an estimator of flagstone.estimators."
        )
    return MODELS[kind](place, told)


def member(place: str, name: str) -> Array:
    """Open an array of a model."""
    return Array(open_core(f"{place}/{name}-{group_told(place)['version']}", "r"))
