"""Fitted models as groups on disk: the factor, the points, what is small, and what they are."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .._output.create import from_numpy
from .._output.place import PathPlace
from .._output.replaceable import check_path
from .._runtime.call import Call
from .._storage.rechunk import rechunk

__all__ = ["MODELS", "ModelFile", "model_file", "open_model"]

#: What a model file may hold, by the name of its class: a function of the parameters and the arrays.
MODELS: dict[str, Any] = {}


class ModelFile:
    """A group that is filled aside and appears whole."""

    def __init__(self, call: Call, directory: str, path: str) -> None:
        self.call, self.directory, self.path = call, directory, path

    def place(self, name: str) -> str:
        """Return where a routine writes a member."""
        return f"{self.directory}/{name}"

    def write(self, name: str, values: Any) -> None:
        """Keep an array, of which one on disk is copied."""
        if isinstance(values, Array):
            rechunk(values, values.chunks, out=self.place(name))
        else:
            from_numpy(np.ascontiguousarray(values), self.place(name))

    def describe(self, model: str, told: dict[str, Any]) -> None:
        """Say what the group is."""
        about = {"model": model, "version": _core.__version__, **told}
        _core.write_group(self.directory, json.dumps({"flagstone": about}))


@contextlib.contextmanager
def model_file(who: str, out: Any, nbytes: int) -> Iterator[ModelFile]:
    """Fill a group at a path, which is replaced at once and whole when the body ends."""
    check_path(who, out)
    path = os.fspath(out)
    if path.endswith(".npy"):
        raise FormatError(f"{who}: out '{path}' must be a Zarr directory; a model has several arrays.")
    call = Call(who, light=True)
    place = PathPlace(call, path, True, nbytes)
    with contextlib.ExitStack() as stack:
        directory = place.open(stack)
        _core.write_group(directory, "{}")
        yield ModelFile(call, directory, path)
        place.close()


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
    place = os.fspath(path)
    if not os.path.exists(place):
        raise storage_error(f"open_model: '{place}' does not exist.", errno.ENOENT, place)
    told: dict[str, Any] = {}
    if os.path.isdir(place) and _core.is_zarr_group(place):
        told = json.loads(_core.open_group(place)[0] or "{}").get("flagstone", {})
    if not isinstance(told, dict) or told.get("model") not in MODELS:
        raise FormatError(
            f"open_model: '{place}' is no model; give the out= of an estimator of flagstone.estimators."
        )
    return MODELS[told["model"]](place, told)


def member(place: str, name: str) -> Array:
    """Open an array of a model."""
    return Array(open_core(f"{place}/{name}", "r"))
