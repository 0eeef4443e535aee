"""Training of PfastreXML."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._resume.identity import identity
from .._runtime.arguments import array_of, one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .model import LabelModel
from .place import ModelPlace
from .rows import rows_of

__all__ = ["TrainForest"]

_MOST = 10_000  # trees: each is a task of the plan
_GROWN = 1 << 14  # nodes that one task grows, before a save may tell of the tree: their order depends on it
_SMALL = 1 << 22  # stored values that one task holds: the bits depend on it, and on no limit


class TrainForest(Routine[LabelModel]):
    """The checked arguments of one call."""

    operation = "train_labels"

    def __init__(
        self, X: Any, Y: Any, trees: int | None, format: str, max_leaf: int | None, leaf_labels: int,
        gamma: float, propensity: Any, C: float, eps: float | None, seed: int, out: Any, memory: Any,
    ) -> None:  # fmt: skip
        call = Call("train_labels", memory)
        who = call.who
        one_of(who, "format", format, "float32", "int8")
        told = "a finite number above 0 is needed"
        C, eps, gamma = (
            real_number(who, name, value, lambda v: 0 < v < math.inf, told)
            for name, value in (("C", C), ("eps", 0.01 if eps is None else eps), ("gamma", gamma))
        )
        self.trees = whole_number(who, "trees", 50 if trees is None else trees, 1, _MOST)
        points = whole_number(who, "max_leaf", 10 if max_leaf is None else max_leaf, 1)
        leaf_labels = whole_number(who, "leaf_labels", leaf_labels, 1)
        self.x = rows_of(call, X, "X", "a point a row", least=1)
        self.y = rows_of(call, Y, "Y", "of each point its labels", least=1)
        self.format, self.gamma = format, gamma
        pair = _propensity(propensity)
        self.options = _core.TrainForestOptions(
            self.trees, points, leaf_labels, C, eps, seed_number(who, seed), format == "int8", pair, _SMALL,
            _GROWN,
        )  # fmt: skip
        self.asked = {
            "method": "pfastrexml", "format": format, "trees": self.trees, "max_leaf": points,
            "leaf_labels": leaf_labels, "gamma": gamma, "propensity": pair, "C": C, "eps": eps,
            "seed": seed_number(who, seed),
        }  # fmt: skip
        if self.x is not X or self.y is not Y:
            self.operation = ""  # what is brought into scratch goes with the process: it begins again
        _core.check_train_forest(self.x.operand(), self.y.operand(), self.options)
        self.place = ModelPlace(call, out)
        super().__init__(call, [self.place])
        call.on(self.x.path, self.y.path)
        call.outputs = self.place.named(7)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return (
            f"train_labels {shape_text(self.x.shape)} sparse, {self.x.stored_values:,} stored values, "
            f"{self.y.shape[1]:,} labels, {self.trees} trees"
        )

    def job(self, at: At) -> _core.TrainForestJob:
        """Return the job that writes the model."""
        made: Any = at(self.place)
        return _core.train_forest_job(
            self.x.operand(), self.y.operand(), self.options, made, self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        """Return what a call that goes on must have been asked."""
        return self.asked | {"x": identity(self.x), "y": identity(self.y)}

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, as if a point's values were looked at a thousand times in each tree."""
        return 4000.0 * self.x.stored_values * self.trees, 5.0 * self.x.stored_bytes

    def how(self, job: _core.TrainForestJob) -> How:
        """Say how large the trees are."""
        note = "the size of the model is not counted"
        if job.leaves:
            note = f"{job.nodes:,} nodes and {job.leaves:,} leaves on {job.deepest + 1} levels"
            if job.wide:
                note += f", {job.wide:,} of the nodes by passes over X"
        return How(f"pfastrexml, {self.format}", job.reads, note)

    def result(self, job: _core.TrainForestJob) -> LabelModel:
        """Publish the model, and open it."""
        about = {
            "routine": "train_labels", "method": "pfastrexml", "format": self.format, "trees": self.trees,
            "features": self.x.shape[1], "labels": self.y.shape[1], "unit": False, "power": 2,
            "exponential": False, "gamma": self.gamma, "version": _core.__version__,
        }  # fmt: skip
        return self.place.finish(about)


def _propensity(given: Any) -> tuple[float, float] | None:
    """Return A and B, checked."""
    if given is None:
        return None
    pair = array_of("train_labels", "propensity", given)
    if pair.shape != (2,) or pair.dtype.kind not in "iuf" or not (np.isfinite(pair) & (pair >= 0)).all():
        raise ShapeError(
            f"train_labels: propensity is {shown(given)}; A and B, two numbers of 0 or more, or None are "
            "needed."
        )
    return float(pair[0]), float(pair[1])
