"""Points and targets as estimators take them, with scikit-learn's words where it expects them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._sparse.array import SparseArray

__all__ = ["feature_names", "points", "same_features", "targets"]


def feature_names(X: Any) -> NDArray[Any] | None:
    """Return the names of columns where a table was given and all are texts."""
    columns = getattr(X, "columns", None)
    if columns is None or isinstance(X, (Array, Expression, np.ndarray)):
        return None
    names = np.asarray(columns, dtype=object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def points(who: str, given: Any, *, least: int = 1, sparse: bool = False) -> Any:
    """Return points: an Array as it is (NaN is found where it is loaded), else a checked ndarray.

    `sparse`: a SparseArray too, or a SciPy matrix by rows, checked.
    """
    if sparse and (isinstance(given, SparseArray) or hasattr(given, "tocsr")):
        return _sparse_points(who, given, least)
    if isinstance(given, (Array, Expression)):
        _shaped(who, given, least)
        if given.dtype.kind == "c":
            raise ValueError(f"{who}: Complex data not supported; X is {given.dtype}, give real numbers.")
        return given
    if hasattr(given, "tocsr") or type(given).__name__ == "SparseArray":
        raise TypeError(f"{who}: X is a sparse matrix; dense points are needed (X.toarray()).")
    values = np.asarray(given)
    if values.dtype.kind == "c":
        raise ValueError(f"{who}: Complex data not supported; X is {values.dtype}, give real numbers.")
    if values.dtype.kind not in "biuf":
        values = _numbers(who, values)
    _shaped(who, values, least)
    if not np.isfinite(values).all():
        raise ValueError(f"{who}: Input X contains {_what(values)}; give finite numbers.")
    return values


def _sparse_points(who: str, given: Any, least: int) -> Any:
    if given.dtype.kind == "c":
        raise ValueError(f"{who}: Complex data not supported; X is {given.dtype}, give real numbers.")
    if isinstance(given, SparseArray):
        _shaped(who, given, least)
        return given
    rows = given.tocsr()
    rows = rows if rows.dtype.kind in "biuf" else rows.astype(np.float64)
    _shaped(who, rows, least)
    if not np.isfinite(rows.data).all():
        raise ValueError(f"{who}: Input X contains {_what(rows.data)}; give finite numbers.")
    return rows


def _numbers(who: str, values: NDArray[Any]) -> NDArray[Any]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{who}: X is {values.dtype} ({error}); numbers are needed.") from None


def _shaped(who: str, given: Any, least: int) -> None:
    if given.ndim != 2:
        what = (
            "Expected 2D array, got scalar array"
            if given.ndim == 0
            else f"Expected 2D array, got {given.ndim}D"
        )
        raise ValueError(
            f"{who}: {what}; one point a row is needed: Reshape your data, with X.reshape(-1, 1) where "
            f"points have "
            "one coordinate and X.reshape(1, -1) for one point."
        )
    rows, columns = given.shape
    if columns == 0:
        raise ValueError(
            f"{who}: X has 0 feature(s) (shape={tuple(given.shape)}) while a minimum of 1 is required."
        )
    if rows < least:
        raise ValueError(
            f"{who}: X has {rows} sample(s) (shape={tuple(given.shape)}) while a minimum of {least} is "
            f"required."
        )


def _what(values: NDArray[Any]) -> str:
    return "NaN" if np.isnan(values).any() else "infinity"


def targets(who: str, y: Any, rows: int) -> NDArray[Any]:
    """Return targets in float64, of one dimension or a column each."""
    if y is None:
        raise ValueError(
            f"{who}: it requires y to be passed, but the target y is None; give one value for each point."
        )
    if isinstance(y, Expression):
        y = np.asarray(y)
    if hasattr(y, "tocsr"):
        raise TypeError(f"{who}: y is a sparse matrix; dense targets are needed (y.toarray()).")
    values = np.asarray(y)
    if values.dtype.kind == "c":
        raise ValueError(f"{who}: Complex data not supported; y is {values.dtype}, give real numbers.")
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{who}: y is {values.dtype} ({error}); numbers are needed.") from None
    if values.ndim not in (1, 2):
        raise ValueError(
            f"{who}: y has {values.ndim} dimensions; one, or a column for each target, is needed."
        )
    if len(values) != rows:
        raise ShapeError(
            f"{who}: Found input variables with inconsistent numbers of samples: X has {rows} and y "
            f"{len(values)}; "
            "they must agree."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{who}: Input y contains {_what(values)}; give finite numbers.")
    return values


def same_features(who: str, X: Any, checked: Any, number: int, names: NDArray[Any] | None) -> None:
    """Refuse points with other coordinates than those of fit: X as it was given, and as points."""
    found = feature_names(X)
    if names is not None and found is not None and not np.array_equal(names, found):
        _other_names(names, found)
    if checked.shape[1] != number:
        raise ShapeError(
            f"{who}: X has {checked.shape[1]} features, but {who} is expecting {number} features as input; "
            "give points like those of fit."
        )


def _other_names(names: NDArray[Any], found: NDArray[Any]) -> None:
    unseen, missing = sorted(set(found) - set(names)), sorted(set(names) - set(found))
    text = "The feature names should match those that were passed during fit.\n"
    if unseen:
        text += "Feature names unseen at fit time:\n" + "".join(f"- {name}\n" for name in unseen[:5])
    if missing:
        text += "Feature names seen at fit time, yet now missing:\n" + "".join(
            f"- {n}\n" for n in missing[:5]
        )
    if not missing and not unseen:
        text += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(text)
