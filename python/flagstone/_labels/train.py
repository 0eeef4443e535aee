"""Training of label trees from points beyond memory."""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import Any

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._output.destination import in_group
from .._output.path_place import PathPlace
from .._output.replaceable import check_path
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.record import sync_tree
from .._resume.registers import Again, resumable
from .._runtime.arguments import one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .model import LabelModel
from .rows import rows_of

__all__ = ["ModelPlace", "train_labels"]

_MOST = 10_000  # trees, labels of a leaf, sweeps: each is a task of the plan, or a read of X
_SMALL = 1 << 22  # stored values that one task holds: the bits depend on it, and on no limit


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
        """Nothing is written where a job is counted."""
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


class TrainLabels(Routine[LabelModel]):
    """The checked arguments of one call."""

    operation = "train_labels"

    def __init__(
        self, X: Any, Y: Any, method: str, trees: int | None, format: str, max_leaf: int, C: float,
        threshold: float, eps: float, sweeps: int, seed: int, out: Any, memory: Any,
    ) -> None:  # fmt: skip
        call = Call("train_labels", memory)
        who = call.who
        one_of(who, "method", method, "parabel")
        one_of(who, "format", format, "float32", "int8")
        given = {"trees": 3 if trees is None else trees, "max_leaf": max_leaf, "sweeps": sweeps}
        counts: dict[str, Any] = {
            name: whole_number(who, name, number, 1, _MOST) for name, number in given.items()
        }
        told = "a finite number above 0 is needed"
        C, eps = (
            real_number(who, name, value, lambda v: 0 < v < math.inf, told)
            for name, value in (("C", C), ("eps", eps))
        )
        told = "a finite number of 0 or more is needed"
        threshold = real_number(who, "threshold", threshold, lambda v: 0 <= v < math.inf, told)
        seed = seed_number(who, seed)
        self.x = rows_of(call, X, "X", "a point a row", least=1)
        self.y = rows_of(call, Y, "Y", "of each point its labels", least=1)
        self.method, self.format, self.trees = method, format, counts["trees"]
        self.options = _core.TrainLabelsOptions(
            self.trees, counts["max_leaf"], counts["sweeps"], C, threshold, eps, seed, format == "int8",
            _SMALL,
        )  # fmt: skip
        self.asked = counts | {
            "method": method, "format": format, "C": C, "threshold": threshold, "eps": eps, "seed": seed,
        }  # fmt: skip
        if self.x is not X or self.y is not Y:
            self.operation = ""  # what is brought into scratch goes with the process: it begins again
        _core.check_train_labels(self.x.operand(), self.y.operand(), self.options)
        self.place = ModelPlace(call, out)
        super().__init__(call, [self.place])
        call.on(self.x.path, self.y.path)
        call.outputs = 7

    @property
    def what(self) -> str:
        return (
            f"train_labels {shape_text(self.x.shape)} sparse, {self.x.stored_values:,} stored values, "
            f"{self.y.shape[1]:,} labels, {self.trees} trees"
        )

    def job(self, at: At) -> _core.TrainLabelsJob:
        made: Any = at(self.place)
        return _core.train_labels_job(
            self.x.operand(), self.y.operand(), self.options, made, self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        return self.asked | {"x": identity(self.x), "y": identity(self.y)}

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, as if a point took part in a hundred classifiers of each tree."""
        return 400.0 * self.x.stored_values * self.trees, 5.0 * self.x.stored_bytes

    def how(self, job: _core.TrainLabelsJob) -> How:
        note = f"{job.nodes:,} nodes on {job.depth + 1} levels"
        if job.wide:
            note += f", {job.wide} of them by passes over X"
        if job.labels_without:
            note += f"; {job.labels_without:,.0f} labels have no points"
        return How(
            f"{self.method}, {self.format}", job.reads, note + "; the size of the model is not counted"
        )

    def result(self, job: _core.TrainLabelsJob) -> LabelModel:
        about = {
            "routine": "train_labels", "method": self.method, "format": self.format, "trees": self.trees,
            "features": self.x.shape[1], "labels": self.y.shape[1], "unit": True, "power": 2,
            "exponential": True, "version": _core.__version__,
        }  # fmt: skip
        return self.place.finish(about)


@routine
def train_labels(
    X: Any, Y: Any, *, method: str = "parabel", trees: int | None = None, format: str = "float32",
    max_leaf: int = 100, C: float = 1.0, threshold: float = 0.1, eps: float = 0.1, sweeps: int = 20,
    seed: int = 0, out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[LabelModel]:  # fmt: skip
    """Train trees of labels with a classifier at each node, inside a memory limit.

    Parameters
    ----------
    X : SparseArray, Array, SciPy matrix or ndarray, m x features
        Points, one a row; taken at unit length.
    Y : the same, m x labels
        Of each point its labels: what is stored (of a dense matrix: what is not zero).
    method : {"parabel"}
        Balanced trees by 2-means of the labels' centroids; linear classifiers by squared hinge.
    trees : int, optional
        Default: 3.
    format : {"float32", "int8"}
        Of stored weights; int8 with a scale for each classifier, a third of the bytes.
    max_leaf : int
        Labels of a leaf, between 2 and 255; all leaves lie on one level.
    C : float
        Of ½‖w‖² + C Σ max(0, 1 - y (w·x + b))², b in w.
    threshold : float
        Weights of no more than that are dropped.
    eps, sweeps
        Coordinate descent ends where projected gradients lie within `eps`, or after `sweeps`.
    seed : int
        The same seed gives the same bits for every memory limit and worker count.
    out : path, optional
        A Zarr group that will hold the model; replaced at once and whole. Default: scratch; deleted when the
        last handle dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LabelModel
        With ``predict(X, k)`` and ``tree(t)``.

    Raises
    ------
    ShapeError
        X and Y have different rows; numbers are out of range.
    NumericalError
        X holds NaN or Inf; names the row and column.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    A node's classifiers see only points that have one of its labels. Nodes of at most 2²² stored values are
    tasks in memory, whose points are brought together with one read of X for as many subtrees as memory
    holds; wider nodes are trained by sweeps over the panels of X, one read each. Flops: 4 for a value, label
    on the path, and sweep. Where X has at most 2²² stored values it is read twice. Sources: Prabhu, Kag,
    Harsola, Agrawal, Varma 2018 (Parabel); Hsieh et al. 2008 (dual coordinate descent); Yu et al. 2010
    (blocks on disk). With `out` a killed call goes on behind the last node that was noted, with the same
    bits. ``train_labels.plan(...)`` takes the same arguments and counts.
    """
    return TrainLabels(X, Y, method, trees, format, max_leaf, C, threshold, eps, sweeps, seed, out, memory)


@resumable("train_labels")
def _again(path: str, told: dict[str, Any]) -> Again:
    names = "method", "format", "trees", "max_leaf", "sweeps", "C", "threshold", "eps", "seed"
    options = {name: told[name] for name in names}
    return train_labels, (operand("X", told["x"]), operand("Y", told["y"])), options | {"out": path}
