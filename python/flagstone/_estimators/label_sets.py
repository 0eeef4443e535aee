"""What points are labelled with, as scikit-learn gives it: a class for each, or a set of labels."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._runtime.arguments import array_of
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks

__all__ = ["check_rows", "check_stored", "labels_of"]


def labels_of(who: str, y: Any, rows: int) -> tuple[NDArray[Any] | None, str, Any]:
    """Return classes where a class is given for each point, what predictions are, labels as a matrix."""
    if isinstance(y, (SparseArray, Array)) and y.ndim == 2:
        return None, "matrix", y
    if hasattr(y, "tocsr"):
        return None, "sparse", y
    values = array_of(who, "y", y)
    if values.ndim == 2 and values.shape[1] > 1:
        return None, f"dense {values.dtype.name}", values
    if values.ndim == 2:
        _warn_of_column(who)
    values = values.ravel()
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise ValueError(f"{who}: Input y contains {what}; give a class for each point.")
        if (values != np.floor(values)).any():
            raise ValueError(
                f"{who}: Unknown label type: continuous; y holds fractions, and classes are needed."
            )
    check_rows(who, rows, values)
    try:
        classes, found = np.unique(values, return_inverse=True)
    except TypeError:
        classes = None
    if classes is None or any(one is None for one in classes):
        raise TypeError(f"{who}: classes of y have no order; numbers alone, or texts alone, are needed.")
    ones = np.ones(len(found), np.float32), found, np.arange(len(found) + 1), len(classes)
    return classes, "classes", from_blocks([ones])


def check_rows(who: str, rows: int, values: NDArray[Any]) -> None:
    """Refuse another number of them than there are points."""
    if len(values) != rows:
        raise ValueError(
            f"{who}: Found input variables with inconsistent numbers of samples: X has {rows} and y "
            f"{len(values)}; they must agree."
        )


def check_stored(who: str, classes: NDArray[Any]) -> None:
    """Refuse classes that the text beside a stored model cannot hold."""
    plain = classes.dtype.kind in "biufU" and classes.dtype.char != "g"
    if classes.dtype.kind == "O":
        plain = all(isinstance(one, (str, int, float)) for one in classes)
    if not plain:
        raise TypeError(
            f"{who}: classes of y are {classes.dtype}, and a model that out= keeps holds numbers or texts; "
            "give y.astype(str), or leave out away."
        )


def _warn_of_column(who: str) -> None:
    kind: type[Warning] = UserWarning
    if "sklearn" in sys.modules:
        from sklearn.exceptions import DataConversionWarning

        kind = DataConversionWarning
    warnings.warn(
        f"A column-vector y was passed when a 1d array was expected; {who} takes its one column.", kind,
        stacklevel=5,  # scikit-learn's own words come first: its checks look for them
    )  # fmt: skip
