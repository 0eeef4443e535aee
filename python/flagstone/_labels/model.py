"""Models of label trees: opened, looked at, asked."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import open_core
from .._errors.classes import Error, FormatError, ShapeError
from .._errors.messages import path_text, shown, storage_error
from .._output.attributes import group_told
from .._resume.identity import file_identity, identity
from .._resume.openers import operand
from .._resume.registers import Again, opener, resumable
from .._runtime.arguments import is_whole
from .._runtime.call import Call
from .._runtime.routine import planned_by
from .forest import forest_tail, forest_tree
from .predict import Predicted, predicting
from .stored import Parts

__all__ = ["LabelModel", "Level", "open_labels"]

_PARTS = ("steps", "counts", "children", "weights", "scales", "chunks", "order")
_FORMATS = ("float32", "int8")
_MOST = 1 << 32  # features; labels and trees are fewer
METHODS = ("parabel", "pfastrexml")


class Level(NamedTuple):
    """One level of a tree, in SciPy's terms.

    Attributes
    ----------
    weights : csc_matrix, (features + 1) x nodes
        A column for each node, the bias last; below the leaves a node is a label.
    parent : ndarray, nodes
        The node of the level above that each is a child of.
    labels : ndarray or None
        Of the last level, the labels that its nodes are.
    """

    weights: Any
    parent: NDArray[np.int64]
    labels: NDArray[np.int64] | None


Level.__module__ = "flagstone"


@opener("label_model")
class LabelModel:
    """Trees of labels with a classifier at each node; stays on disk.

    Made by `train_labels` and `open_labels`.

    Attributes
    ----------
    path : str
        The Zarr group that holds it.
    method : str
        "parabel" or "pfastrexml".
    features, labels, trees, levels : int
        Columns of points, labels, trees, and classifiers on the way to a label.
    format : str
        "float32" or "int8".
    """

    __module__ = "flagstone"

    def __init__(self, path: str) -> None:
        self.path = path
        told = _attributes(path)
        try:
            self.method, self.format = str(told["method"]), str(told["format"])
            self.features, self.labels, self.trees = (int(told[n]) for n in ("features", "labels", "trees"))
            rules = bool(told["unit"]), int(told["power"]), bool(told["exponential"])
            forest = self.method == "pfastrexml"
            self.gamma = float(told["gamma"]) if forest else None
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _damaged(path, "its attributes do not say what it is") from None
        if not all(0 < n < _MOST for n in (self.features, self.labels, self.trees)):
            raise _damaged(path, "its attributes say of features, labels or trees what cannot be")
        if self.format not in _FORMATS or self.method not in METHODS or rules[1] not in (2, 3):
            raise FormatError(
                f"open_labels: '{path}' is of method {self.method!r} and format {self.format!r}, which this "
                "version does not know; open it with a newer one."
            )
        self._unit, self._power, self._exponential = rules
        arrays: dict[str, _core.Array] = {}
        for name in _PARTS:
            if not os.path.isdir(f"{path}/{name}"):
                raise _damaged(path, f"it has no array '{name}'")
            arrays[name] = open_core(f"{path}/{name}", "r")
        if arrays["weights"].dtype != self.format:
            raise _damaged(path, f"its weights are {arrays['weights'].dtype}")
        self._arrays = arrays
        self._parts = Parts(arrays, self.format == "int8")
        scales = arrays["scales"] if self.format == "int8" else None
        self._core = _core.LabelModel(
            path, self.features, self.labels, self.trees, *rules, forest, arrays["steps"],
            arrays["counts"], arrays["children"], arrays["weights"], scales, arrays["chunks"],
            arrays["order"],
        )  # fmt: skip
        self.levels = int(self._core.levels)

    def __repr__(self) -> str:
        return (
            f"<flagstone.LabelModel: {self.method}, {self.trees} trees of {self.labels:,} labels over "
            f"{self.features:,} features, {self.weights:,} weights {self.format}>"
        )

    def __reduce__(self) -> Any:
        return LabelModel, (self.path,)

    @property
    def weights(self) -> int:
        """Number of stored weights."""
        return int(self._arrays["weights"].shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the weights, their places and their table, unpacked."""
        return sum(int(np.prod(a.shape)) * np.dtype(a.dtype).itemsize for a in self._arrays.values())

    def _predicting(self, X: Any, k: int = 5, **options: Any) -> Any:
        return predicting(self, X, k, **options)

    @planned_by(_predicting)
    def predict(
        self, X: Any, k: int = 5, *, beam: int = 10, discount: float = 1.0, alpha: float = 0.8,
        batch: int | None = None, out: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
    ) -> Predicted:  # fmt: skip
        """Return the best labels of points.

        Parameters
        ----------
        X : SparseArray, Array, SciPy matrix or ndarray, m x features
            Points, one a row.
        k : int
            Labels of each point, between 1 and the model's.
        beam : int
            Nodes of a level that are followed in each tree; raised to the number whose leaves have k labels.
        discount : float
            What a parent's score counts for its children's, between 0 and 1.
        alpha : float
            Of PfastreXML: what leaves count against the means of labels; label trees have no use for it.
        batch : int, optional
            Points that go through the model together; by default as many as the memory holds.
        out : path, optional
            A Zarr group that will hold labels and scores; replaced at once and whole. Default: scratch;
            deleted when the last handle on the arrays dies.
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Returns
        -------
        Predicted
            ``labels, scores``: m x k, int32 and float32, on disk: the largest scores first, ties by number,
            -1 and 0 where fewer labels were reached.

        Raises
        ------
        ShapeError
            X has other columns than the model features; k or beam is out of range.
        NumericalError
            X holds NaN or Inf; names the row and column.
        FormatError
            The model is damaged; names the node.
        BudgetError
            The limit is too small; names the least that works.

        Notes
        -----
        Of a node with score s (the root: 0) a child has the score discount s - max(0, 1 - w·x - b)²; leaves
        score their labels so; a label's score is the sum of exp(s) over the trees that reach it ÷ trees
        (Prabhu et al. 2018). Of PfastreXML a point falls into one leaf of each tree; a label's score is
        pf^alpha tail^(1 - alpha), pf the mean of those leaves, tail = 1 / (1 + exp(gamma (‖w‖² + 1 - 2 w·x)))
        of the mean w of the label's points (Jain et al. 2016). Reads X once a batch and the model once for as
        many batches as there are workers; a level that does not fit a task is read piece by piece. Writes
        8 m k bytes. A choice of rows (``S[rows]``) is copied into scratch first, with one read of the panels
        that hold them; the plan counts all rows of S. The same bits for every limit, batch and number of
        workers. ``predict.plan(...)`` takes the same arguments. A killed call with `out` goes on behind the
        last batches that were noted.
        """
        found: Predicted = self._predicting(
            X, k, beam=beam, discount=discount, alpha=alpha, batch=batch, out=out, memory=memory
        ).run()
        return found

    @property
    def tail(self) -> Any:
        """Return the means of labels of PfastreXML: a SciPy CSR matrix, labels x features; 48 bytes each."""
        if self.gamma is None:
            raise ShapeError(f"tail: the model is of method {self.method!r}; 'pfastrexml' has one.")
        return forest_tail(self._parts, self.features)

    def tree(self, number: int) -> Any:
        """Return one tree, in memory: of Parabel level by level.

        Parameters
        ----------
        number : int
            From 0 on.

        Returns
        -------
        list of Level, or ForestTree
            ``weights, parent, labels`` of each level below the root; of PfastreXML ``weights, left, right,
            leaves`` of all nodes.

        Raises
        ------
        ShapeError
            There is no such tree.
        BudgetError
            The tree does not fit the memory limit.

        Notes
        -----
        Reads the tree's chunks; 12 bytes a weight in memory, twice that while it is made.
        """
        if not is_whole(number) or not 0 <= number < self.trees:
            raise ShapeError(
                f"tree: number is {shown(number)} and the model has {self.trees} trees, counted from 0."
            )
        if self.gamma is not None:
            return forest_tree(self._parts, number, self.features, self.labels)
        table = self._parts.table()
        table = table[table[:, 1] == number]
        Call("tree").room("a tree", 40 * int(table[:, 8].sum()))
        order = self._parts.part("order", number * self.labels, self.labels).astype(np.int64)
        made = []
        for level in range(self.levels):
            chunks = table[table[:, 0] == level]
            chunks = chunks[np.argsort(chunks[:, 3], kind="stable")]
            try:
                made.append(self._level(chunks, order if level == self.levels - 1 else None))
            except Error:
                raise
            except (ValueError, IndexError) as error:  # of NumPy and SciPy, which are given stored numbers
                what = f"level {level} of tree {number} does not fit together ({error})"
                raise _damaged(self.path, what, "tree") from None
        return made

    def _level(self, chunks: NDArray[np.int64], order: NDArray[np.int64] | None) -> Level:
        from scipy import sparse

        if not len(chunks):
            raise ValueError("it has no nodes")
        rows, columns, values, parent = [], [], [], []
        for chunk in chunks:
            features, child, weights = self._parts.entries(chunk)
            if len(child) and int(child.max()) >= chunk[4]:
                raise ValueError("a weight is of a node that is none")
            rows.append(features)
            columns.append(chunk[3] + child)
            values.append(weights)
            parent.append(np.full(chunk[4], chunk[2]))
        nodes = int((chunks[:, 3] + chunks[:, 4]).max())
        if nodes > self.labels:
            raise ValueError(f"it has {nodes} nodes and there are {self.labels} labels")
        shape = self.features + 1, nodes
        placed = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        weights = sparse.csc_matrix(placed, shape, dtype=np.float32)
        return Level(weights, np.concatenate(parent), None if order is None else order[:nodes])


def _attributes(path: str) -> dict[str, Any]:
    told = group_told(path)
    if told.get("routine") not in ("train_labels", "import_labels"):
        raise FormatError(f"open_labels: '{path}' is no model of label trees; fl.train_labels makes one.")
    return told


def _damaged(path: str, what: str, who: str = "open_labels") -> FormatError:
    return FormatError(f"{who}: '{path}': {what}; the model is damaged, write or copy it again.")


def open_labels(path: str | os.PathLike[str]) -> LabelModel:
    """Open a model of label trees; its weights stay on disk.

    Parameters
    ----------
    path : path
        A Zarr group that `train_labels` wrote.

    Returns
    -------
    LabelModel

    Raises
    ------
    FileNotFoundError
        There is nothing.
    FormatError
        It is no such model, or damaged.

    Notes
    -----
    Reads the table of nodes and the order of labels: 80 bytes a node and 4 a label and tree.
    """
    place = path_text("open_labels", path)
    if not os.path.exists(place):
        raise storage_error(f"open_labels: '{place}' does not exist.", 2, place)
    return LabelModel(os.path.abspath(place))


@identity.register
def _identity(model: LabelModel) -> dict[str, Any]:
    told = file_identity(model.path)
    return told | {"opener": ["label_model", [told["path"]]]}


@resumable("predict_labels")
def _again(path: str, told: dict[str, Any]) -> Again:
    model = operand("the model", told["model"])
    options = {name: told[name] for name in ("beam", "discount", "alpha")}
    return model.predict, (operand("X", told["x"]), told["k"]), options | {"out": path}
