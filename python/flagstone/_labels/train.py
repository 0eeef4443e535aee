"""Training of label trees from points beyond memory."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
from typing import Any

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .chosen import of_rows
from .model import LabelModel
from .place import ModelPlace
from .rows import rows_of
from .train_forest import TrainForest

__all__ = ["train_labels"]

_MOST = 10_000  # trees, labels of a leaf, sweeps: each is a task of the plan, or a read of X
_SMALL = 1 << 22  # stored values that one task holds: the bits depend on it, and on no limit
_OWN: dict[str, dict[str, object]] = {  # arguments of one method alone, and their defaults
    "parabel": {"threshold": 0.1, "sweeps": 20},
    "pfastrexml": {"leaf_labels": 100, "gamma": 30.0, "propensity": (0.55, 1.5)},
}


class TrainLabels(Routine[LabelModel]):
    """The checked arguments of one call."""

    operation = "train_labels"

    def __init__(
        self, X: Any, Y: Any, method: str, trees: int | None, format: str, max_leaf: int, C: float,
        threshold: float, eps: float, sweeps: int, seed: int, out: Any, memory: Any,
    ) -> None:  # fmt: skip
        call = Call("train_labels", memory)
        who = call.who
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
        call.outputs = self.place.named(7)

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


def _check_methods(method: str, **given: object) -> None:
    """Refuse arguments that belong to another method, unless they are their defaults."""
    for other, own in _OWN.items():
        for name, default in own.items():
            if other != method and not _equal(given[name], default):
                raise ShapeError(
                    f"train_labels: {name} is {shown(given[name])} and method is {method!r}; {name} belongs "
                    f"to {other!r}: leave it out, or choose that method."
                )


def _equal(given: object, default: object) -> bool:
    with contextlib.suppress(ValueError):  # a pair of arrays
        return isinstance(given, (numbers.Number, tuple)) and bool(given == default)
    return False


@routine
def train_labels(
    X: Any, Y: Any, *, method: str = "parabel", trees: int | None = None, format: str = "float32",
    max_leaf: int | None = None, C: float = 1.0, threshold: float = 0.1, eps: float | None = None,
    sweeps: int = 20, leaf_labels: int = 100, gamma: float = 30.0,
    propensity: tuple[float, float] | None = (0.55, 1.5), seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[LabelModel]:  # fmt: skip
    """Train trees of labels with a classifier at each node, inside a memory limit.

    Parameters
    ----------
    X : SparseArray, Array, SciPy matrix or ndarray, m x features
        Points, one a row; taken at unit length. Choices of rows (``S[rows]``) are copied into scratch when
        the call runs; a plan counts all rows of S.
    Y : the same, m x labels
        Of each point its labels: what is stored (of a dense matrix: what is not zero).
    method : {"parabel", "pfastrexml"}
        "parabel": balanced trees by 2-means of the labels' centroids; linear classifiers by squared hinge.
        "pfastrexml": trees whose nodes part points so that each side ranks its labels high, rare labels
        weighing more; sparse linear classifiers between the sides, and means of labels beside them. Its
        trees see points as they are.
    trees : int, optional
        Default: 3; of PfastreXML 50.
    format : {"float32", "int8"}
        Of stored weights; int8 with a scale for each classifier, a third of the bytes.
    max_leaf : int, optional
        Labels of a leaf, between 2 and 255, default 100; all leaves lie on one level. Of PfastreXML points of
        a leaf, default 10.
    C : float
        Of ½‖w‖² + C Σ max(0, 1 - y (w·x + b))², b in w; of PfastreXML of ‖w‖₁ + C Σ log(1 + exp(-y w·x)), a
        term ÷ the share of its side.
    threshold : float
        Weights of no more than that are dropped; Parabel's.
    eps : float, optional
        Coordinate descent ends where projected gradients lie within it, default 0.1. Of PfastreXML: steps of
        Newton end where they have fallen to that part, default 0.01.
    sweeps : int
        At most; Parabel's.
    leaf_labels : int
        Labels that a leaf of PfastreXML stores, those with the largest shares.
    gamma : float
        Of PfastreXML: how fast means of labels decide (`LabelModel.predict`).
    propensity : (float, float) or None
        Of PfastreXML: A and B of 1/p = 1 + C (N + B)^-A, C = (log points - 1)(B + 1)^A, by which a label of N
        points weighs. None: all weigh the same.
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
    Trees of PfastreXML see only points that have labels, and shares of their leaves are over those;
    propensities count all points.

    A node's classifiers see only points that have one of its labels. Nodes of at most 2²² stored values are
    tasks in memory, whose points are brought together with one read of X for as many subtrees as memory
    holds; wider nodes are trained by sweeps over the panels of X, one read each. (Of PfastreXML: sides by
    reads of Y, at most 100, classifiers by orthant-wise quasi-Newton steps, at most 40 reads of X, for as
    many nodes of 16 trees as memory holds; 5 bytes a point and tree wait in memory or scratch.) Flops: 4 for
    a value, label on the path, and sweep. Where X has at most 2²² stored values it is read twice. Sources:
    Prabhu, Kag, Harsola, Agrawal, Varma 2018 (Parabel); Prabhu, Varma 2014, Jain, Prabhu, Varma 2016
    (PfastreXML); Hsieh et al. 2008 (dual coordinate descent); Yu et al. 2010 (blocks on disk); Andrew, Gao
    2007 (orthant-wise steps). With `out` a killed call goes on behind the last node (of PfastreXML: level
    of wide nodes, or 16,384 nodes or 4 MiB of weights of each of sixteen trees) that was noted, with the
    same bits.
    ``train_labels.plan(...)`` takes the same arguments and counts.
    """
    one_of("train_labels", "method", method, *_OWN)
    _check_methods(
        method,
        threshold=threshold,
        sweeps=sweeps,
        leaf_labels=leaf_labels,
        gamma=gamma,
        propensity=propensity,
    )
    if method == "pfastrexml":
        return of_rows(
            "train_labels", memory, lambda X, Y: TrainForest(
                X, Y, trees, format, max_leaf, leaf_labels, gamma, propensity, C, eps, seed, out, memory
            ), X=X, Y=Y,
        )  # fmt: skip
    most, near = 100 if max_leaf is None else max_leaf, 0.1 if eps is None else eps
    return of_rows(
        "train_labels", memory, lambda X, Y: TrainLabels(
            X, Y, method, trees, format, most, C, threshold, near, sweeps, seed, out, memory
        ), X=X, Y=Y,
    )  # fmt: skip


@resumable("train_labels")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {name: value for name, value in told.items() if name not in ("x", "y")}
    return train_labels, (operand("X", told["x"]), operand("Y", told["y"])), options | {"out": path}
