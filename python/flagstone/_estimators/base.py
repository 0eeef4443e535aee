"""What all estimators share: scikit-learn's protocol, without importing it, and where calls run."""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._runtime.arguments import whole_number
from .._runtime.plan import Plan
from .._runtime.routine import Prepared
from .._runtime.runtime import Runtime, current, named_quota
from .validation import same_features

__all__ = ["Asked", "Estimator", "NotFittedError", "Regressor", "Transformer", "runtime_of"]

_SEEDS = 1 << 31  #: that a generator draws from, as scikit-learn does

Self = TypeVar("Self", bound="Estimator")
R = TypeVar("R")


class NotFittedError(ValueError, AttributeError):
    """A method needs what `fit` finds; where scikit-learn is loaded, it is its error of that name too."""

    __module__ = "flagstone.estimators"


class Estimator:
    """An estimator as scikit-learn knows it: parameters are arguments of ``__init__``, kept as given.

    A class says what it is by its parameters alone; `fit` sets attributes that end in an underscore. `memory`
    and `scratch` are parameters of every estimator, taken by each call that it makes.
    """

    __module__ = "flagstone.estimators"

    memory: int | str | None
    scratch: Any

    if TYPE_CHECKING:  # what fit finds
        n_features_in_: int

    @classmethod
    def _parameters(cls) -> list[str]:
        signature = inspect.signature(cls.__init__)
        return sorted(name for name in signature.parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether those of parameters that are estimators, or have parameters, are told too, as
            ``kernel__length_scale``.

        Returns
        -------
        dict
        """
        found = {}
        for name in self._parameters():
            value = getattr(self, name)
            found[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{inner}": one for inner, one in value.get_params().items()})
        return found

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params
            As `get_params` tells them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There is no such parameter.
        """
        known = self._parameters()
        nested: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in known:
                raise ValueError(
                    f"{type(self).__name__}: there is no parameter {own!r}; choose one of {', '.join(known)}."
                )
            if inner:
                nested.setdefault(own, {})[inner] = value
            else:
                setattr(self, own, value)
        for own, inside in nested.items():
            getattr(self, own).set_params(**inside)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        told = []
        for name in self._parameters():
            value = getattr(self, name, None)
            default = defaults[name].default
            same = value is default or (type(value) is type(default) and repr(value) == repr(default))
            if not same:
                told.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` was called."""
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks an estimator: it is loaded then."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), transformer_tags=None,
            classifier_tags=None, regressor_tags=None, input_tags=InputTags(),
        )  # fmt: skip

    def _next_seed(self, drawn: bool = True) -> int:
        """Return the seed of a call: `random_state`, 0 of None; of a generator its next number.

        Not `drawn`: for a plan, after which the generator still has it.
        """
        state = getattr(self, "random_state", None)
        if not drawn and isinstance(state, (np.random.RandomState, np.random.Generator)):
            state = copy.deepcopy(state)
        if state is None:
            return 0
        if isinstance(state, np.random.RandomState):
            return int(state.randint(_SEEDS))
        if isinstance(state, np.random.Generator):
            return int(state.integers(_SEEDS))
        return whole_number(type(self).__name__, "random_state", state, 0, (1 << 64) - 1)

    # Calls ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _runtime(self) -> Iterator[None]:
        """Let calls inside keep this estimator's limit and scratch, where it has its own."""
        if self.memory is None and self.scratch is None:
            yield
            return
        use = current()
        with Runtime(
            use.memory if self.memory is None else self.memory,
            workers=use.workers or None, threads_per_task=use.threads_per_task,
            scratch=use.scratch if self.scratch is None else self.scratch,
            io=use.io, progress=use.progress, scratch_quota=named_quota(use),
            devices=use.devices, strict=use.strict, place=use.place,
        ) as own:  # fmt: skip
            yield
        use.last = own.last if own.last is not None else use.last

    def _name_features(self, names: NDArray[Any] | None) -> None:
        """Keep the names of columns; without any, those of an earlier fit go."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_features(self, X: Any, checked: Any) -> None:
        """Refuse points of other columns than `fit` had."""
        names = getattr(self, "feature_names_in_", None)
        same_features(type(self).__name__, X, checked, self.n_features_in_, names)

    def _fitted(self) -> None:
        """Refuse a method that needs `fit`."""
        if self.__sklearn_is_fitted__():
            return
        message = f"{type(self).__name__}: it is not fitted yet; call fit first."
        if "sklearn" in sys.modules:
            from sklearn.exceptions import NotFittedError as Theirs

            raise type("NotFittedError", (NotFittedError, Theirs), {})(message)
        raise NotFittedError(message)


class Asked(Generic[R]):
    """A call that a model makes, to be planned or run inside the model's limit and scratch."""

    def __init__(self, model: Estimator, prepare: Callable[[], Prepared[R]]) -> None:
        """`prepare`: checks the arguments where they are to be planned or run."""
        self.model, self.prepare = model, prepare

    def plan(self) -> Plan:
        """Count it."""
        with self.model._runtime():
            return self.prepare().plan()

    def run(self) -> R:
        """Do it."""
        with self.model._runtime():
            return self.prepare().run()


def runtime_of(model: Estimator) -> contextlib.AbstractContextManager[None]:
    """Let calls inside keep a model's limit and scratch, where it has its own: for what computes for it."""
    return model._runtime()


class Regressor(Estimator):
    """An estimator that predicts numbers."""

    _estimator_type = "regressor"

    predict: Any

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks a regressor."""
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², the share of the variance of `y` that predictions explain.

        Parameters
        ----------
        X : points
            As for `predict`.
        y : ndarray
            Of one dimension, or one column for each target: their mean is returned.
        sample_weight : ndarray, optional
            One for each point.

        Returns
        -------
        float
        """
        given = np.asarray(y, np.float64)
        given = given.reshape(len(given), -1)
        predicted = np.asarray(self.predict(X), np.float64).reshape(given.shape)
        weights = np.ones(len(given)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.mean(r_squared(given, predicted, weights)))


class Transformer(Estimator):
    """An estimator that turns points into other coordinates."""

    if TYPE_CHECKING:  # what fit finds
        n_features_in_: int
        components_: Any

    @property
    def _outputs(self) -> int:
        """How many new coordinates there are."""
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks a transformer."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64"])
        tags.input_tags.sparse = True
        return tags

    def set_output(self: Self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return of points in memory.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An ndarray, or a table with names of columns; None: as it is.

        Returns
        -------
        self
        """
        if transform is not None:
            # scikit-learn's clone() takes the attribute of this name along.
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the new coordinates: the class's, in small letters, with numbers.

        Parameters
        ----------
        input_features : array_like of str, optional
            Compared with the names of `fit`.

        Returns
        -------
        ndarray of str
        """
        self._fitted()
        if input_features is not None:
            known = getattr(self, "feature_names_in_", None)
            if known is not None and not np.array_equal(known, input_features):
                raise ValueError(
                    f"{type(self).__name__}: input_features is not equal to feature_names_in_; leave it out."
                )
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    f"{type(self).__name__}: input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}."
                )
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{i}" for i in range(self._outputs)], dtype=object)

    def _shown(self, values: Any, X: Any) -> Any:
        """Return new coordinates as `set_output` says; those on disk as they are."""
        kind = getattr(self, "_sklearn_output_config", {}).get("transform")
        if kind is None and "sklearn" in sys.modules:
            from sklearn import get_config

            kind = get_config()["transform_output"]
        if kind in (None, "default") or not isinstance(values, np.ndarray):
            return values
        names = list(self.get_feature_names_out())
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=getattr(X, "index", None), columns=names, copy=False)
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(values, schema=names, orient="row")
        raise ValueError(
            f"{type(self).__name__}: the output is {kind!r}; choose 'default', 'pandas' or 'polars'."
        )


def r_squared(y: NDArray[Any], predicted: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Return R² of each column: 1 where a constant is predicted exactly, 0 where one is not."""
    left = (weights[:, None] * (y - predicted) ** 2).sum(axis=0)
    mean = np.average(y, axis=0, weights=weights)
    whole = (weights[:, None] * (y - mean) ** 2).sum(axis=0)
    constant = np.where(left == 0, 1.0, 0.0)
    return np.where(whole > 0, 1 - left / np.where(whole > 0, whole, 1), constant)
