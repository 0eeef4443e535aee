"""How good predicted labels are: precision, gain, and both weighted by propensities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._array.requests import take
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks
from .rows import rows_of

__all__ = ["LabelMetrics", "check_truth", "label_metrics"]

_AT = (1, 3, 5)
_ROW = 512  # bytes of a point's labels and gains, while a block is looked at


class LabelMetrics(NamedTuple):
    """In percent, by how many labels were looked at: 1, 3, 5.

    Attributes
    ----------
    P, nDCG, PSP, PSnDCG : dict of int to float
        Precision; discounted gain ÷ the best possible; both with hits weighted by 1 / propensity, ÷ the best
        possible mean.
    """

    P: dict[int, float]
    nDCG: dict[int, float]
    PSP: dict[int, float]
    PSnDCG: dict[int, float]


LabelMetrics.__module__ = "flagstone"


def label_metrics(
    labels: Any, Y: Any, train: Any, *, propensity: tuple[float, float] = (0.55, 1.5),
    memory: int | str | None = None,
) -> LabelMetrics:  # fmt: skip
    """Return precision, nDCG and their propensity-scored forms at 1, 3 and 5.

    Parameters
    ----------
    labels : Array or ndarray, m x k
        Predicted labels, best first; -1: none. Where k < 5 the missing ones are none.
    Y : SparseArray, Array, SciPy matrix or ndarray, m x L
        True labels: what is stored.
    train : the same, N x L
        Labels of the points that were trained on, for propensities.
    propensity : pair of float
        A and B of 1/p = 1 + C (N_l + B)^-A, C = (ln N - 1)(B + 1)^A (Jain et al. 2016): (0.5, 0.4) for
        Wikipedia, (0.6, 2.6) for Amazon.
    memory : int or str, optional
        Most resident memory of the process during the call.

    Returns
    -------
    LabelMetrics
        ``P, nDCG, PSP, PSnDCG``, of each ``{1: …, 3: …, 5: …}`` in percent.

    Raises
    ------
    ShapeError
        Rows of labels and Y, or columns of Y and train, do not agree; labels are out of range.

    Notes
    -----
    P@k: hits ÷ k. nDCG@k: Σ hit / log2(rank + 1) ÷ Σ over the first min(k, ‖y‖) ranks. PSP@k and PSnDCG@k: a
    hit counts 1/p; the mean ÷ the mean of the best possible. Points without labels count as missed. Reads Y
    and train once.
    """
    call = Call("label_metrics", memory)
    labels = getattr(labels, "labels", labels)  # what predict returned
    labels = labels if isinstance(labels, Array) else array_of(call.who, "labels", labels)
    constants = _constants(call, propensity)
    true = rows_of(call, Y, "Y", "true labels")
    seen = rows_of(call, train, "train", "labels of points")
    rows, number = true.shape
    if len(labels.shape) != 2 or labels.shape[0] != rows or np.dtype(labels.dtype).kind not in "iu":
        raise ShapeError(
            f"label_metrics: labels are {shape_text(tuple(labels.shape))} {labels.dtype} and Y has {rows} "
            "rows; whole numbers, a row for each, are needed."
        )
    check_truth(number, seen)
    with call.measured(f"label_metrics {shape_text(true.shape)}", "one pass") as moved:
        inverse = _inverse_propensities(call, seen, *constants)
        sums = np.zeros((6, len(_AT)))
        for first, pointers, columns, _ in row_blocks(call, true, beside=_ROW):
            found = _looked_at(call, labels, first, len(pointers) - 1, number)
            sums += _block(found, pointers, columns.astype(np.int64), inverse)
        moved.bytes_read = true.stored_bytes + seen.stored_bytes
    mean = sums / max(1, rows)
    ratio = np.divide(mean[[2, 4]], mean[[3, 5]], out=np.zeros((2, len(_AT))), where=mean[[3, 5]] > 0)
    parts = (mean[0], mean[1], ratio[0], ratio[1])
    return LabelMetrics(*({k: 100 * float(v) for k, v in zip(_AT, part, strict=True)} for part in parts))


def check_truth(labels: int, train: Any) -> None:
    """Refuse labels of another set than those that are to be scored."""
    if train.shape[1] != labels:
        raise ShapeError(
            f"label_metrics: Y has {labels} columns and train {train.shape[1]}; labels of one set are needed."
        )


def _constants(call: Call, propensity: Any) -> tuple[float, float]:
    """Return A and B: with these bounds no power of them overflows."""
    given = array_of(call.who, "propensity", propensity)
    if (
        given.shape != (2,)
        or given.dtype.kind not in "iuf"
        or not 0 <= given[0] <= 10
        or not 1e-6 <= given[1] <= 1e6
    ):
        raise ShapeError(
            f"{call.who}: propensity is {shown(propensity)}; two numbers are needed, A from 0 to 10 and B "
            "from 1e-6 to 1e6."
        )
    return float(given[0]), float(given[1])


def _inverse_propensities(call: Call, train: SparseArray, a: float, b: float) -> NDArray[np.float64]:
    counts = np.zeros(train.shape[1])
    for _, _, columns, _ in row_blocks(call, train, beside=64):
        counts += np.bincount(columns.astype(np.int64), minlength=len(counts))
    constant = (np.log(max(2, train.shape[0])) - 1) * (b + 1) ** a
    made: NDArray[np.float64] = 1 + constant * (counts + b) ** -a
    return made


def _looked_at(call: Call, labels: Any, first: int, rows: int, number: int) -> NDArray[np.int64]:
    part = np.s_[first : first + rows]
    some = take(labels, call, part) if isinstance(labels, Array) else np.asarray(labels)[part]
    some = np.asarray(some)[:, : _AT[-1]]
    if some.size and (int(some.max()) >= number or int(some.min()) < -1):
        raise ShapeError(
            f"label_metrics: labels hold {some.max() if some.max() >= number else some.min()} and Y has "
            f"{number} columns; labels from 0 on, or -1 for none, are needed."
        )
    full = np.full((rows, _AT[-1]), -1, np.int64)
    full[:, : some.shape[1]] = some.astype(np.int64)
    return full


def _block(
    found: NDArray[np.int64], pointers: NDArray[Any], columns: NDArray[np.int64], inverse: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return sums over rows: hits, gain, weighted hits, their best, weighted gain, its best; at 1, 3, 5."""
    rows, ranks = found.shape
    number = len(inverse)
    lengths = np.diff(pointers)
    row = np.repeat(np.arange(rows), lengths)
    hit = np.isin(np.arange(rows)[:, None] * number + found, row * number + columns) & (found >= 0)
    weight = np.where(hit, inverse[np.maximum(found, 0)], 0.0)
    best = np.zeros((rows, ranks))  # the largest 1/p of each row
    order = np.lexsort((-inverse[columns], row))
    place = np.arange(len(order)) - np.repeat(pointers[:-1] - pointers[0], lengths)
    kept = place < ranks
    best[row[order][kept], place[kept]] = inverse[columns[order][kept]]
    discount = 1 / np.log2(np.arange(ranks) + 2)
    ideal = np.concatenate([[np.inf], np.cumsum(discount)])
    sums = np.zeros((6, len(_AT)))
    for i, k in enumerate(_AT):
        norm = ideal[np.minimum(k, lengths)]
        sums[0, i] = hit[:, :k].sum() / k
        sums[1, i] = ((hit[:, :k] * discount[:k]).sum(1) / norm).sum()
        sums[2, i], sums[3, i] = weight[:, :k].sum() / k, best[:, :k].sum() / k
        sums[4, i] = ((weight[:, :k] * discount[:k]).sum(1) / norm).sum()
        sums[5, i] = ((best[:, :k] * discount[:k]).sum(1) / norm).sum()
    return sums
