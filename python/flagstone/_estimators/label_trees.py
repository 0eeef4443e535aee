"""Label models as scikit-learn's classifiers: of classes, or of sets of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression
from .._labels.metrics import label_metrics
from .._labels.model import LabelModel, open_labels
from .._labels.predict import Predicted, predicting
from .._labels.train import train_labels
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._runtime.routine import planned_by
from .._sparse.array import SparseArray
from .._sparse.builder import blocks_least, from_blocks
from .base import Estimator
from .label_sets import check_rows, check_stored, labels_of
from .model_file import MODELS
from .validation import feature_names, points, same_features

__all__ = ["LabelClassifier", "Parabel", "PfastreXML"]

_ROWS = 1 << 14  # of predictions that are handled at a time


class _Fit:
    """One fit, to be planned or run."""

    def __init__(self, model: LabelClassifier, X: Any, y: Any) -> None:
        self.model, who = model, type(model).__name__
        if y is None:
            raise ValueError(
                f"{who}: it requires y to be passed, but the target y is None; give a class for each point, "
                "or a matrix of labels."
            )
        self.X = model._points(X)
        self.classes, self.kind, self.Y = labels_of(who, y, self.X.shape[0])
        if model.out is not None and self.classes is not None:
            check_stored(who, self.classes)

    def _options(self, drawn: bool) -> dict[str, Any]:
        model = self.model
        return model._training() | {"seed": model._next_seed(drawn), "out": model.out}

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return train_labels.plan(self.X, self.Y, **self._options(drawn=False))

    def run(self) -> LabelModel:
        """Do it."""
        with self.model._runtime():
            return train_labels(self.X, self.Y, **self._options(drawn=True))


class _Top:
    """One look for the best labels, to be planned or run."""

    def __init__(self, model: LabelClassifier, X: Any, k: int) -> None:
        self.model, self.X, self.k = model, X, k

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return self.model.model_.predict.plan(self.X, self.k, **self.model._asking())

    def run(self) -> Predicted:
        """Do it."""
        with self.model._runtime():
            return self.model.model_.predict(self.X, self.k, **self.model._asking())


class LabelClassifier(Estimator):
    """What classifiers of label models share: `y` of classes or of labels, predictions, scores."""

    _estimator_type = "classifier"

    if TYPE_CHECKING:  # parameters of those that derive, and what fit finds
        top: int
        random_state: int | None
        out: Any
        model_: LabelModel
        classes_: NDArray[Any]
        _kind: str

    def _training(self) -> dict[str, Any]:
        """Return what `train_labels` takes."""
        raise NotImplementedError

    def _asking(self) -> dict[str, Any]:
        """Return what `LabelModel.predict` takes."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks a classifier of one or many labels."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(multi_label=True)
        tags.target_tags.required, tags.input_tags.sparse = True, True
        return tags

    def _points(self, X: Any) -> Any:
        checked = points(type(self).__name__, X, sparse=True)
        if not isinstance(checked, Expression):
            return checked
        with self._runtime():
            return compute(checked)

    def _planned_fit(self, X: Any, y: Any = None) -> _Fit:
        return _Fit(self, X, y)

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Train on points and their labels.

        Parameters
        ----------
        X : SparseArray, Array, Expression, ndarray or SciPy matrix, n x d
            One point a row.
        y : ndarray of n classes, or matrix n x L
            A class for each point; or of each point its labels: what is stored, of a dense matrix what is
            not zero, on disk or in memory.

        Returns
        -------
        self

        Notes
        -----
        Costs are those of `flagstone.train_labels`.
        """
        with self._runtime():
            fit = _Fit(self, X, y)
        model = fit.run()
        self.model_, self._kind = model, fit.kind
        self.classes_ = np.arange(model.labels) if fit.classes is None else fit.classes
        self.n_features_in_ = model.features
        if (names := feature_names(X)) is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if self.out is not None:
            self._tell()
        return self

    def _tell(self) -> None:
        """Note in the model's group what its labels stand for."""
        about = json.loads(_core.open_group(self.model_.path)[0])
        classes = self.classes_.tolist() if self._kind == "classes" else None
        about["flagstone"]["estimator"] = {
            "class": type(self).__name__, "kind": self._kind, "classes": classes,
            "dtype": self.classes_.dtype.str if self.classes_.dtype.kind != "O" else "O",
        }  # fmt: skip
        _core.write_group(self.model_.path, json.dumps(about))

    def _checked(self, X: Any) -> Any:
        self._fitted()
        who = type(self).__name__
        checked = self._points(X)
        same_features(who, X, checked, self.n_features_in_, getattr(self, "feature_names_in_", None))
        return checked

    def _planned_top(self, X: Any, k: int | None = None) -> _Top:
        return _Top(self, self._checked(X), min(self.top, self.model_.labels) if k is None else k)

    @planned_by(_planned_top)
    def predict_top(self, X: Any, k: int | None = None) -> Predicted:
        """Return the best labels of points, as numbers.

        Parameters
        ----------
        X : as for `fit`, m x d
        k : int, optional
            Default: the parameter `top`, or all labels where there are fewer.

        Returns
        -------
        Predicted
            ``labels, scores``, m x k, on disk, as of `LabelModel.predict`.
        """
        return self._planned_top(X, k).run()

    def predict(self, X: Any) -> Any:
        """Return the class of each point; where labels were given to `fit`, a matrix of labels.

        Parameters
        ----------
        X : as for `fit`, m x d

        Returns
        -------
        ndarray, SciPy CSR matrix or SparseArray
            The class with the largest score. Of labels: m x L, of the `top` best those whose score is at
            least ½ (of PfastreXML all of these); an ndarray where `y` was one, SciPy's where
            that was, a SparseArray where `y` or X is on disk.
        """
        if self.__sklearn_is_fitted__() and self._kind == "classes":
            return self._classes(self.predict_top(X, 1))
        asked = self._planned_top(X)
        with self._runtime():
            top = predicting(self.model_, asked.X, asked.k, **self._asking())
            Call("predict").check_chain(max(top.least(), blocks_least()))  # of both, before the first
            made = from_blocks(self._rows(top.run()))
        if self._kind == "matrix" or isinstance(X, (Array, SparseArray, Expression)):
            return made
        matrix = made.to_scipy()
        return matrix if self._kind == "sparse" else matrix.toarray().astype(self._kind.split()[1])

    def _classes(self, found: Predicted) -> NDArray[Any]:
        told: NDArray[Any] = self.classes_[np.maximum(np.asarray(found.labels)[:, 0], 0)]
        return told

    def _likely(self, labels: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which of the best labels are predicted."""
        raise NotImplementedError

    def _rows(self, found: Predicted) -> Iterator[Any]:
        rows, number = found.labels.shape[0], self.model_.labels
        for first in range(0, max(rows, 1), _ROWS):
            part = np.s_[first : first + _ROWS]
            labels, scores = np.asarray(found.labels[part]), np.asarray(found.scores[part])
            kept = self._likely(labels, scores)
            pointers = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            yield np.ones(int(pointers[-1]), np.float32), labels[kept], pointers, number

    def score(self, X: Any, y: Any) -> float:
        """Return the share of points whose best label is right: accuracy, or of sets of labels P@1.

        Parameters
        ----------
        X : as for `fit`, m x d
        y : as for `fit`

        Returns
        -------
        float
        """
        top = self._planned_top(X, 1)
        if self._kind == "classes":
            truth = array_of(type(self).__name__, "y", y).ravel()
            check_rows(type(self).__name__, top.X.shape[0], truth)
            return float(np.mean(self._classes(top.run()) == truth))
        labels = y if hasattr(y, "shape") else array_of(type(self).__name__, "y", y)
        shape = top.X.shape[0], self.model_.labels
        if tuple(labels.shape) != shape:
            raise ShapeError(
                f"{type(self).__name__}: y is {shape_text(tuple(labels.shape))}; labels of each point, "
                f"{shape_text(shape)}, are needed."
            )
        found = top.run()
        with self._runtime():
            return label_metrics(found, labels, labels).P[1] / 100


class Parabel(LabelClassifier):
    """Trees of labels with a linear classifier at each node, on points and models beyond memory.

    Parameters
    ----------
    n_trees : int
        Trees.
    max_leaf, C, threshold, eps, sweeps, format
        As of `flagstone.train_labels`.
    beam, discount
        As of `LabelModel.predict`.
    top : int
        Labels that `predict` chooses among.
    random_state : int, RandomState or Generator, optional
        Of the draws.
    out : path, optional
        A Zarr group that keeps the model: `open_model` and `flagstone.open_labels` open it. Default: scratch.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    model_ : LabelModel
        The trees.
    classes_ : ndarray
        What labels stand for.
    n_features_in_ : int
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, n_trees: int = 3, *, max_leaf: int = 100, C: float = 1.0, threshold: float = 0.1,
        eps: float = 0.1, sweeps: int = 20, format: str = "float32", beam: int = 10, discount: float = 1.0,
        top: int = 5, random_state: int | None = None, out: Any = None, memory: int | str | None = None,
        scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_trees, self.max_leaf, self.C, self.threshold = n_trees, max_leaf, C, threshold
        self.eps, self.sweeps, self.format, self.beam, self.discount = eps, sweeps, format, beam, discount
        self.top, self.random_state, self.out = top, random_state, out
        self.memory, self.scratch = memory, scratch

    def _training(self) -> dict[str, Any]:
        return {
            "trees": self.n_trees, "max_leaf": self.max_leaf, "C": self.C, "threshold": self.threshold,
            "eps": self.eps, "sweeps": self.sweeps, "format": self.format,
        }  # fmt: skip

    def _asking(self) -> dict[str, Any]:
        return {"beam": self.beam, "discount": self.discount}

    def _likely(self, labels: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        return (labels >= 0) & (scores >= 0.5)


class PfastreXML(LabelClassifier):
    """Forests whose nodes rank labels, rare ones weighing more, and means of labels beside them.

    Parameters
    ----------
    n_trees : int
        Trees.
    max_leaf, leaf_labels, gamma, propensity, C, eps, format
        As of `flagstone.train_labels`.
    alpha
        As of `LabelModel.predict`.
    top : int
        Labels that `predict` chooses among.
    random_state : int, RandomState or Generator, optional
        Of the draws.
    out : path, optional
        A Zarr group that keeps the model: `open_model` and `flagstone.open_labels` open it. Default: scratch.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    model_ : LabelModel
        The trees.
    classes_ : ndarray
        What labels stand for.
    n_features_in_ : int
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, n_trees: int = 50, *, max_leaf: int = 10, leaf_labels: int = 100, gamma: float = 30.0,
        propensity: tuple[float, float] | None = (0.55, 1.5), C: float = 1.0, eps: float = 0.01,
        format: str = "float32", alpha: float = 0.8, top: int = 5, random_state: int | None = None,
        out: Any = None, memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_trees, self.max_leaf, self.leaf_labels, self.gamma = n_trees, max_leaf, leaf_labels, gamma
        self.propensity, self.C, self.eps, self.format = propensity, C, eps, format
        self.alpha, self.top, self.random_state, self.out = alpha, top, random_state, out
        self.memory, self.scratch = memory, scratch

    def _training(self) -> dict[str, Any]:
        return {
            "method": "pfastrexml", "trees": self.n_trees, "max_leaf": self.max_leaf, "gamma": self.gamma,
            "leaf_labels": self.leaf_labels, "propensity": self.propensity, "C": self.C, "eps": self.eps,
            "format": self.format,
        }  # fmt: skip

    def _asking(self) -> dict[str, Any]:
        return {"alpha": self.alpha}

    def _likely(self, labels: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        return labels >= 0


def _opened(place: str, told: dict[str, Any]) -> LabelClassifier:
    """Return a classifier of a stored model; one that `train_labels` wrote has numbers for classes."""
    known = told.get("estimator", {"kind": "matrix", "classes": None})
    kind = PfastreXML if told["method"] == "pfastrexml" else Parabel
    model: LabelClassifier = kind(n_trees=int(told["trees"]), format=str(told["format"]), out=place)
    model.model_, model._kind = open_labels(place), known["kind"]
    model.n_features_in_ = model.model_.features
    if known["classes"] is None:
        model.classes_ = np.arange(model.model_.labels)
    else:
        model.classes_ = np.array(known["classes"], dtype=known["dtype"])
    return model


MODELS["train_labels"] = _opened
