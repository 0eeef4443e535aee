"""Label models of PECOS: a folder of `param.json`, and of each level weights and clusters as `.npz`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import FormatError
from .._errors.messages import path_text, storage_error
from .._labels.model import LabelModel
from .._labels.place import ModelPlace
from .._runtime.arguments import one_of
from .._runtime.call import Call, Moved
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, Streaming, routine
from .._sparse.external_sort import Triplets, Work, bytes_held, record_of, sorted_rows
from .npz.csr import entries_of

__all__ = ["import_labels"]

_CHILDREN = 255  # of one chunk
_BESIDE = 4  # bytes of a weight's child and, where it stands alone in its row, of the row
_SECONDS = 4e-7  # of a weight: parsed, scattered, sorted and packed by NumPy
_PLACES = 256  # a column of what is sorted: feature · _PLACES + child
_KEPT = np.dtype(np.float32)
#: Power of the hinge, and whether scores are exp(s): of a level's score and those above it.
_PROCESSORS = {
    "l2-hinge": (2, True), "log-l2-hinge": (2, False), "l3-hinge": (3, True), "log-l3-hinge": (3, False),
}  # fmt: skip


@dataclass
class _Chunks:
    """Nodes of one level as chunks of children of one parent, parents in the order of their new numbers."""

    parent: NDArray[np.int64]
    first: NDArray[np.int64]  # new number of the first child
    children: NDArray[np.int64]
    number: NDArray[np.int64]  # of each node, as PECOS counts: its new number, -1 where no parent has it
    row: NDArray[np.int64]  # of each node: its chunk
    child: NDArray[np.int64]  # and its place there


@dataclass
class _Level:
    """What `param.json` of a level says, and where its matrices lie."""

    weights: str
    clusters: str
    bias: float
    processor: str


class ImportLabels(Streaming[LabelModel]):
    """The checked arguments of one call: what the folder says of its levels."""

    method = "chunks"

    def __init__(self, folder: Any, out: Any, format: str, memory: Any) -> None:
        call = Call("import_labels", memory)
        super().__init__(call)
        one_of(call.who, "format", format, "float32", "int8")
        path = path_text(call.who, folder)
        if os.path.isdir(os.path.join(path, "ranker")):
            path = os.path.join(path, "ranker")
        told = _json(call, os.path.join(path, "param.json"))
        self.path, self.format, self.levels = path, format, _levels(call, path, told)
        self.features, self.labels = (
            _number(call, path, told, name) for name in ("nr_features", "nr_labels")
        )
        self.power, self.exponential = _rule(call, path, self.levels)
        self.place = ModelPlace(call, out)
        call.on(path)

    @property
    def what(self) -> str:
        return f"import_labels {self.path}"

    def plan(self) -> Plan:
        """Count it by the headers of the files: what is written is a bound."""
        call, item = self.call, 1 if self.format == "int8" else 4
        weights = read = sorted_bytes = held = 0
        for level in self.levels:
            with entries_of(call, level.weights) as given:
                nodes, nnz = given.cols, given.nnz
            weights += nnz
            read += 2 * os.path.getsize(level.weights)
            held = max(held, 96 * 2 * nodes + bytes_held(nodes, nnz, _KEPT))
            sorted_bytes += nnz * record_of(nodes, _columns(self.features), _KEPT).itemsize
        held += int(_core.LabelModelWriter.bytes)
        rates = call.use_profile().rates
        written = weights * (item + _BESIDE)
        seconds = (read + sorted_bytes) / rates["read_bytes_per_second"] + _SECONDS * weights
        seconds += (written + sorted_bytes) / rates["write_bytes_per_second"]
        least = call.rounded(int(_core.resident_bytes() + held + _core.allowed_drift))
        return Plan(
            self.what, self.method, 2, read, written, 0.0, min(call.memory, least), least, seconds,
            call.memory,
            f"{weights:,} weights of {len(self.levels)} levels, sorted in scratch; written: at most",
        )  # fmt: skip

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> LabelModel:
        call = self.call
        directory = self.place.open(stack)
        call.room("the writer", int(_core.LabelModelWriter.bytes))
        writer = _core.LabelModelWriter(directory, self.format == "int8")
        above = np.zeros(1, np.int64)  # new numbers of the nodes of the level above, by PECOS's
        for depth, level in enumerate(self.levels):
            chunks = _chunks(call, level.clusters, above)
            if depth + 1 == len(self.levels) and len(chunks.number) != self.labels:
                told = f"{len(chunks.number)} labels where {self.labels} are said"
                raise _damaged(call, level.clusters, told)
            _write(call, writer, depth, level, chunks, self.features)
            moved.bytes_read += 2 * os.path.getsize(level.weights)
            above = chunks.number
        writer.finish(_order(above))
        files = (file for file in Path(directory).rglob("*") if file.is_file())
        moved.bytes_written = sum(file.stat().st_size for file in files)
        return self.place.finish({
            "routine": "import_labels", "method": "parabel", "format": self.format, "trees": 1,
            "features": self.features, "labels": self.labels, "unit": False, "power": self.power,
            "exponential": self.exponential, "version": _core.__version__,
        })  # fmt: skip


@routine
def import_labels(
    folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, *, format: str = "float32",
    memory: int | str | None = None,
) -> Prepared[LabelModel]:  # fmt: skip
    """Import a model that PECOS's XLinear wrote, of any size, inside a memory limit.

    Parameters
    ----------
    folder : path
        What `XLinearModel.save` made, or the `ranker` in it.
    out : path, optional
        A Zarr group that will hold the model; replaced at once and whole. Default: scratch; deleted when the
        last handle dies.
    format : {"float32", "int8"}
        Of stored weights; int8 with a scale for each classifier.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LabelModel
        With PECOS's nodes and PECOS's rule for scores; rows of X are taken as they are, as PECOS takes them.

    Raises
    ------
    FormatError
        Files are missing or damaged, weights are NaN or Inf, a label lies in two clusters, or the
        post-processor is none of "l2-hinge", "log-l2-hinge", "l3-hinge", "log-l3-hinge".
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Weights are sorted by chunk, feature and child through files in scratch, 12 or 16 bytes a weight,
    whatever their order; each `W.npz` is read twice, and 5 to 8 bytes a weight are written. In memory are 96
    bytes a node of one level, and the 150 MB or less of the sort. ``import_labels.plan(...)`` reads sizes
    alone; what it says is written is a bound.
    """
    return ImportLabels(folder, out, format, memory)


def _damaged(call: Call, path: str, what: str) -> FormatError:
    return FormatError(
        f"{call.who}: '{path}': {what}; the model is damaged or none of PECOS's, save it again."
    )


def _json(call: Call, path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        raise storage_error(
            f"{call.who}: '{path}' does not exist; give the folder that XLinearModel.save made.",
            errno.ENOENT, path,
        )  # fmt: skip
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except ValueError:  # no UTF-8, no JSON
        told = None
    if not isinstance(told, dict):
        raise _damaged(call, path, "it is no JSON object")
    return told


def _number(call: Call, path: str, told: dict[str, Any], name: str) -> int:
    number = told.get(name)
    if not isinstance(number, int) or not 0 < number < 1 << 31:
        raise _damaged(call, f"{path}/param.json", f"{name} is {number!r}")
    return number


def _levels(call: Call, path: str, told: dict[str, Any]) -> list[_Level]:
    depth = _number(call, path, told, "depth")
    found = []
    for number in range(depth):
        folder = os.path.join(path, f"{number}.model")
        about = _json(call, f"{folder}/param.json")
        processor = about.get("pred_kwargs", {})
        processor = processor.get("post_processor") if isinstance(processor, dict) else None
        bias = about.get("bias")
        if not isinstance(bias, int | float) or not np.isfinite(bias):
            raise _damaged(call, f"{folder}/param.json", f"bias is {bias!r}")
        found.append(_Level(f"{folder}/W.npz", f"{folder}/C.npz", float(bias), str(processor)))
    return found


def _rule(call: Call, path: str, levels: list[_Level]) -> tuple[int, bool]:
    given = sorted({level.processor for level in levels})
    if len(given) > 1 or given[0] not in _PROCESSORS:
        told = f"of PECOS's post-processors {', '.join(map(repr, _PROCESSORS))} are known"
        raise FormatError(
            f"{call.who}: '{path}' has the post-processor {' and '.join(map(repr, given))}; {told}, one for "
            "all levels."
        )
    return _PROCESSORS[given[0]]


def _chunks(call: Call, path: str, above: NDArray[np.int64]) -> _Chunks:
    """Read the clusters of a level: nodes x parents; `above`: new numbers of the parents."""
    with entries_of(call, path) as clusters:
        call.room("nodes of a level", 96 * (clusters.nnz + clusters.rows))
        if clusters.cols != len(above) or clusters.nnz > clusters.rows:
            raise _damaged(
                call, path, f"{clusters.nnz} entries of {clusters.rows} nodes and {clusters.cols} parents"
            )
        blocks = [(node, parent) for node, parent, _ in clusters.blocks(Work(""))]
    node = np.concatenate([np.empty(0, np.int64), *(one[0] for one in blocks)])
    parent = np.concatenate([np.empty(0, np.int64), *(one[1] for one in blocks)])
    if len(np.unique(node)) != len(node) or (len(node) and (node.min() < 0 or node.max() >= clusters.rows)):
        raise _damaged(call, path, "a node has two parents")
    kept = above[parent] >= 0
    node, parent = node[kept], above[parent[kept]]
    order = np.lexsort((node, parent))
    node, parent = node[order], parent[order]
    if not len(node):
        raise _damaged(call, path, "no node has a parent")
    begins = np.flatnonzero(np.r_[True, parent[1:] != parent[:-1]])  # of parents, by new numbers of children
    lengths = np.diff(np.r_[begins, len(node)])
    place = np.arange(len(node)) - np.repeat(begins, lengths)  # among the parent's children
    first = np.flatnonzero(place % _CHILDREN == 0)
    number, row, child = (np.full(clusters.rows, -1, np.int64) for _ in range(3))
    number[node], child[node] = np.arange(len(node)), place % _CHILDREN
    row[node] = np.cumsum(place % _CHILDREN == 0) - 1
    return _Chunks(parent[first], first, np.diff(np.r_[first, len(node)]), number, row, child)


def _write(
    call: Call, writer: _core.LabelModelWriter, depth: int, level: _Level, chunks: _Chunks, features: int
) -> None:
    """Sort the weights of a level by chunk, feature and child, and append its chunks."""
    rows = features + (level.bias > 0)
    aside = call.result(call.who, 0)
    with entries_of(call, level.weights) as weights, contextlib.ExitStack() as stack:
        stack.callback(aside.discard)
        if (weights.rows, weights.cols) != (rows, len(chunks.row)):
            raise _damaged(
                call,
                level.weights,
                f"{weights.rows} x {weights.cols} weights where {rows} x {len(chunks.row)} are said",
            )

        def blocks(work: Work) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
            for feature, node, values in weights.blocks(work):
                if not (np.isfinite(values).all() and _within(feature, rows) and _within(node, weights.cols)):
                    raise _damaged(call, level.weights, "a weight is NaN, Inf or out of range")
                kept = chunks.row[node] >= 0
                feature, node, values = feature[kept], node[kept], values[kept].astype(np.float32)
                values[feature == features] *= level.bias
                yield chunks.row[node], feature * _PLACES + chunks.child[node], values

        entries = Triplets(
            len(chunks.first), _columns(features), weights.nnz, _KEPT, blocks, checked=True
        )  # fmt: skip
        rows_of_chunks = stack.enter_context(sorted_rows(call, level.weights, entries, aside.path))
        for first, pointers, places, values in rows_of_chunks:
            for i in range(len(pointers) - 1):
                own = slice(int(pointers[i]), int(pointers[i + 1]))
                at = first + i
                call.room("the weights of a chunk", 48 * (own.stop - own.start) + features // 4096)
                writer.append(
                    depth, int(chunks.parent[at]), int(chunks.first[at]), int(chunks.children[at]),
                    *_canonical(places[own], values[own]), features + 1,
                )  # fmt: skip


def _columns(features: int) -> int:
    return (features + 1) * _PLACES


def _canonical(
    places: NDArray[Any], values: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Sort the weights of a chunk by place; those of one place are one, their sum."""
    order = np.argsort(places, kind="stable")
    places, values = places[order].astype(np.uint64), values[order]
    begins = np.flatnonzero(np.r_[True, places[1:] != places[:-1]][: len(places)])
    if len(begins) < len(places):
        places, values = places[begins], np.add.reduceat(values, begins)
    return places, values


def _within(numbers: NDArray[Any], extent: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < extent)


def _order(number: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the labels by place; those that no cluster has come last, below no leaf."""
    made = np.empty(len(number), np.int32)
    placed = number >= 0
    made[number[placed]] = np.flatnonzero(placed)
    made[np.count_nonzero(placed) :] = np.flatnonzero(~placed)
    return made
