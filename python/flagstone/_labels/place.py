"""Where a model goes: a path, or scratch until its last handle dies."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from .. import _core
from .._errors.classes import ShapeError
from .._output.destination import in_group
from .._output.path_place import PathPlace
from .._output.replaceable import check_path
from .._resume.record import sync_tree
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .model import LabelModel

__all__ = ["ModelPlace"]


class ModelPlace(PathPlace):
    """Where a model goes: a path, or scratch until its last handle dies."""

    def __init__(self, call: Call, out: Any) -> None:
        if out is not None:
            check_path(call.who, out)
            if os.fspath(out).endswith(".npy"):
                raise ShapeError(
                    f"{call.who}: out '{os.fspath(out)}' must be a Zarr directory; it holds several arrays."
                )
        super().__init__(call, "" if out is None else os.fspath(out), True, 0)
        self.scratch: Result | None = None
        self.beside = 0

    @property
    def nameless(self) -> bool:
        """Whether nobody knows where it lies, after this process."""
        return not self.path or self.scratch is not None

    def planned(self) -> Any:
        """Nothing is written where a job is counted, and nobody knows how much will be."""
        return ""

    def open(self, stack: contextlib.ExitStack) -> Any:
        """Make the group's directory; returns where it is built."""
        if not self.path:
            self.scratch = self.call.result(self.call.who, 0)
            stack.enter_context(whole_or_nothing(self.scratch))
            self.path = self.scratch.path
        in_group(self.call.who, self.path)
        self.directory = super().open(stack)
        _core.write_group(self.directory, "{}")
        if self.record.text:
            sync_tree(self.directory)
        return self.directory

    def finish(self, about: dict[str, Any]) -> LabelModel:
        """Let the model appear under its name, and open it."""
        _core.write_group(self.directory, json.dumps({"flagstone": about}))
        super().close()
        made = LabelModel(os.path.abspath(self.path))
        if self.scratch is not None:
            self.scratch.tie(made)
        return made
