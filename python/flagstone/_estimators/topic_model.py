"""Topics of documents as scikit-learn knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._along.taking import take, take_least
from .._array.array import Array
from .._expression.compute import compute
from .._expression.expression import Expression
from .._runtime.call import Call
from .._runtime.routine import planned_by
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import by_rows
from .._topics.known import planned_weights
from .._topics.result import TopicsResult, read_group
from .._topics.topics import topics
from .base import Transformer
from .components import count_of
from .model_file import MODELS
from .validation import feature_names, points, same_features

__all__ = ["TopicModel"]

_OPTIONS = (
    "passes", "sample", "eps1", "eps2", "eps3", "rho", "w0", "cluster_documents", "projected_iterations",
    "iterations", "solver", "where",
)  # fmt: skip


class _Fit:
    """One fit, to be planned or run."""

    def __init__(self, model: TopicModel, X: Any) -> None:
        self.model, who = model, type(model).__name__
        self.counts = model._counts(X)
        told = f"n_samples={self.counts.shape[0]} and n_features={self.counts.shape[1]}"
        most = min(self.counts.shape)
        number = min(10, most) if model.n_components is None else model.n_components
        self.k = count_of(who, number, most, f"the smaller of {told}")

    def _options(self, drawn: bool) -> dict[str, Any]:
        given = {name: getattr(self.model, name) for name in _OPTIONS}
        return given | {"seed": self.model._next_seed(drawn), "out": self.model.out}

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return topics.plan(self.counts, self.k, **self._options(drawn=False))

    def run(self) -> TopicsResult:
        """Do it."""
        with self.model._runtime():
            return topics(self.counts, self.k, **self._options(drawn=True))


class TopicModel(Transformer):
    """Topics of documents that may be larger than memory: ISLE, then passes of EM.

    Parameters
    ----------
    n_components : int, optional
        Topics; default: 10, or as many as there are documents or words where these are fewer.
    passes, sample, eps1, eps2, eps3, rho, w0, cluster_documents, projected_iterations, iterations, solver
        As of `flagstone.topics`.
    where : dict, optional
        Where operands of steps lie; as of `flagstone.topics`.
    random_state : int, RandomState or Generator, optional
        Of the draws.
    out : path, optional
        A Zarr group that keeps the model: `open_model` and `flagstone.open_topics` open it. Default: scratch.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    components_ : Array, k x V
        float32, on disk: topics, whose rows add up to 1.
    result_ : TopicsResult
        What each step found.
    n_features_in_ : int
        Words.
    """

    __module__ = "flagstone.estimators"

    if TYPE_CHECKING:  # what fit finds
        result_: TopicsResult

    def __init__(
        self, n_components: int | None = None, *, passes: int = 5, sample: float | None = None,
        eps1: float = 1 / 60, eps2: float = 1 / 3, eps3: float = 1.0, rho: float = 1.1, w0: float = 1.0,
        cluster_documents: bool = False, projected_iterations: int = 10, iterations: int = 10,
        solver: str = "auto", where: Any = None, random_state: int | None = None, out: Any = None,
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_components, self.passes, self.sample = n_components, passes, sample
        self.eps1, self.eps2, self.eps3, self.rho, self.w0 = eps1, eps2, eps3, rho, w0
        self.cluster_documents, self.solver, self.where = cluster_documents, solver, where
        self.projected_iterations, self.iterations = projected_iterations, iterations
        self.random_state, self.out, self.memory, self.scratch = random_state, out, memory, scratch

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks a transformer of counts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    @property
    def _outputs(self) -> int:
        return int(self.result_.topics.shape[0])

    def _counts(self, X: Any) -> Any:
        """Return documents as the routines take them."""
        who = type(self).__name__
        given = points(who, X, sparse=True)
        if isinstance(given, (SparseArray, Array, Expression)):
            if isinstance(given, SparseArray):
                return given
            with self._runtime():
                return by_rows(who, compute(given) if isinstance(given, Expression) else given, None)
        values = given.data if hasattr(given, "tocsr") else given
        if values.size and values.min() < 0:
            raise ValueError(
                f"{who}: Negative values in data passed to {who}; counts of 0 or more are needed."
            )
        with self._runtime():
            return from_blocks([given])

    def _planned_fit(self, X: Any, y: Any = None) -> _Fit:
        return _Fit(self, X)

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any = None) -> TopicModel:
        """Find topics of documents.

        Parameters
        ----------
        X : SparseArray, Array, Expression, ndarray or SciPy matrix, n x V
            Counts of 0 or more, a document a row. What is not sparse on disk is brought into scratch so.
        y : ignored

        Returns
        -------
        self

        Notes
        -----
        Costs are those of `flagstone.topics`.
        """
        fit = _Fit(self, X)
        self.result_ = fit.run()
        self.components_ = self.result_.topics
        self.n_features_in_ = int(fit.counts.shape[1])
        if (names := feature_names(X)) is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _checked(self, X: Any) -> Any:
        """Return documents as known topics read them; dense ones on disk as they are."""
        self._fitted()
        who = type(self).__name__
        known = getattr(self, "feature_names_in_", None)
        given = points(who, X, sparse=True)
        same_features(who, X, given, self.n_features_in_, known)
        return given if isinstance(given, (Array, Expression)) else self._counts(X)

    def transform(self, X: Any) -> Any:
        """Return how much of each document each topic is.

        Parameters
        ----------
        X : SparseArray, Array, Expression, ndarray or SciPy matrix, m x V

        Returns
        -------
        ndarray or Array, m x n_components
            float32; rows add up to 1. An Array, in scratch, where X is on disk.

        Notes
        -----
        As `TopicsResult.transform`, whose last column (the certificate) is left out: what is on disk is
        written once more without it.
        """
        counts = self._checked(X)
        with self._runtime():
            if isinstance(X, (SparseArray, Array, Expression)):
                first, weights = planned_weights(counts, np.asarray(self.components_), "em")
                columns = np.arange(self._outputs)
                # A chain: refused once, before the first.
                Call("transform").check_chain(max(first, take_least(weights, columns, 1)))
                return take(self.result_.transform(counts), columns, axis=1)
            found = self.result_.transform(counts)
            return self._shown(np.ascontiguousarray(found[:, : self._outputs]), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Find topics of documents, and return `transform` of the same ones.

        Parameters
        ----------
        X : as for `fit`
        y : ignored

        Returns
        -------
        ndarray or Array, n x n_components
        """
        return self.fit(X).transform(X)

    def perplexity(self, X: Any) -> float:
        """Return how surprised the topics are by second halves of documents.

        Parameters
        ----------
        X : as for `transform`
            Documents that were held out.

        Returns
        -------
        float
            As `TopicsResult.perplexity`.
        """
        counts = self._checked(X)
        with self._runtime():
            return self.result_.perplexity(counts)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of a word of second halves of documents: -log(perplexity).

        Parameters
        ----------
        X : as for `transform`
        y : ignored

        Returns
        -------
        float
        """
        return -float(np.log(self.perplexity(X)))


def _opened(place: str, told: dict[str, Any]) -> TopicModel:
    given = {name: told[name] for name in _OPTIONS if name in told}
    model = TopicModel(int(told["k"]), **given, random_state=told.get("seed"), out=place)
    model.result_ = read_group(place)
    model.components_ = model.result_.topics
    model.n_features_in_ = int(model.result_.topics.shape[1])
    return model


MODELS["topics"] = _opened
