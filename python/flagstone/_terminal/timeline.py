"""Timelines of runs: what a file of them says, in lines and as a picture."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import format_bytes
from .._errors.classes import FormatError

__all__ = ["Run", "draw", "read_runs", "report"]

_RING = 1000  # the first row of the ring's requests; workers lie below
_COLOURS = {
    "task": "#4c78a8", "convert": "#72b7b2", "wait": "#dddddd", "load": "#f58518", "store": "#e45756",
    "copy in": "#eeca3b", "copy out": "#ff9da6", "launch": "#54a24b",
}  # fmt: skip
_DEVICES = ("copy in", "copy out", "launch")  # kinds of their rows
_BINS = 400  # of the rate of the disk


@dataclass
class Spans:
    """Begin and end in seconds, row and bytes of events of one kind."""

    began: array[float] = field(default_factory=lambda: array("d"))
    ended: array[float] = field(default_factory=lambda: array("d"))
    row: array[int] = field(default_factory=lambda: array("q"))
    nbytes: array[int] = field(default_factory=lambda: array("q"))

    def add(self, began: float, ended: float, row: int, nbytes: int) -> None:
        """Take one more."""
        self.began.append(began)
        self.ended.append(ended)
        self.row.append(row)
        self.nbytes.append(nbytes)

    @property
    def times(self) -> NDArray[np.float64]:
        """Begins and ends, n x 2."""
        return np.stack([np.array(self.began), np.array(self.ended)], axis=1)


@dataclass
class Run:
    """The events of one run."""

    name: str = "run"
    spans: dict[str, Spans] = field(default_factory=lambda: {kind: Spans() for kind in _COLOURS})
    abouts: dict[str, list[str]] = field(default_factory=lambda: {"load": [], "store": []})
    tasks: dict[str, list[float]] = field(default_factory=dict)  # of each name: how many, seconds
    evictions: array[float] = field(default_factory=lambda: array("d"))
    memory: Spans = field(default_factory=Spans)  # used in `row`, the limit's room in `nbytes`
    workers: int = 0
    names: dict[int, str] = field(default_factory=dict)  # of rows: workers, links and queues of devices

    @property
    def bounds(self) -> tuple[float, float]:
        """When it began and ended."""
        kinds = [spans for spans in self.spans.values() if spans.began]
        if not kinds:
            return 0.0, 0.0
        return min(min(s.began) for s in kinds), max(max(s.ended) for s in kinds)

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        first, last = self.bounds
        return last - first


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file, line by line; of one whose process was killed those that are whole."""
    with open(path, encoding="utf-8") as file:
        if not file.readline().startswith("["):
            raise FormatError(f"timeline: '{path}' is no file of flagstone timeline; it begins with no [.")
        for number, line in enumerate(file, 2):
            text = line.strip().rstrip(",")
            if text in ("]", ""):
                continue
            try:
                event = json.loads(text)
                if not isinstance(event, dict) or "ph" not in event:
                    raise ValueError
            except ValueError:
                if not line.endswith("\n"):
                    return  # cut off in the middle of a line
                raise FormatError(f"timeline: line {number} of '{path}' is no event.") from None
            yield event


def read_runs(path: Path) -> list[Run]:
    """Return the runs of a file, in order; FormatError for another kind of file."""
    runs: dict[int, Run] = {}
    for event in _events(path):
        run = runs.setdefault(event.get("pid", 0), Run())
        arguments, row = event.get("args", {}), event.get("tid", 0)
        if event["ph"] == "M":
            if event["name"] == "process_name":
                run.name = arguments["name"]
            if event["name"] == "thread_name":
                run.workers += row < _RING
                run.names[row] = arguments["name"]
        elif event["ph"] == "C":
            used = arguments["used"]
            run.memory.add(event["ts"] / 1e6, event["ts"] / 1e6, used, used + arguments["free"])
        elif event["ph"] == "i":
            run.evictions.append(event["ts"] / 1e6)
        elif event["ph"] == "X":
            _take(run, event, row, arguments)
    runs.pop(0, None)  # the end of the file
    return [runs[number] for number in sorted(runs)]


def _take(run: Run, event: dict[str, Any], row: int, arguments: dict[str, Any]) -> None:
    kind = event["name"] if event["cat"] in ("disk", "link") else event["cat"]
    began, seconds = event["ts"] / 1e6, event["dur"] / 1e6
    run.spans[kind].add(began, began + seconds, row, arguments.get("bytes", 0))
    if kind in run.abouts:
        run.abouts[kind].append(arguments.get("about", ""))
    if kind == "task":
        told = run.tasks.setdefault(event["name"], [0, 0.0])
        told[0] += 1
        told[1] += seconds


# Lines ------------------------------------------------------------------------------------------------------


def report(run: Run, longest: int = 5) -> str:
    """Return what a run did, and what its workers waited for longest."""
    total, workers = max(run.seconds, 1e-9), max(run.workers, 1)
    share = {k: float(np.sum(np.diff(s.times))) / (total * workers) if s.began else 0.0
             for k, s in run.spans.items()}  # fmt: skip
    read, written = (sum(run.spans[kind].nbytes) for kind in ("load", "store"))
    lines = [
        f"{run.name}: {total:.3g} s, {run.workers} workers: {share['task']:.0%} in tasks, "
        f"{share['convert']:.0%} packing and unpacking, {share['wait']:.0%} waiting",
        f"  disk     {format_bytes(read)} read, {format_bytes(written)} written, "
        f"{format_bytes(int((read + written) / total))}/s",
    ]
    if run.memory.row:
        used, room = format_bytes(max(run.memory.row)), format_bytes(max(run.memory.nbytes))
        lines.append(f"  memory   {used} of {room} for tiles, {len(run.evictions)} tiles left it")
    lines += _devices(run, total)
    for name, (count, seconds) in sorted(run.tasks.items(), key=lambda item: -item[1][1])[:longest]:
        lines.append(
            f"  task     {name}: {count} times, {seconds:.3g} s, {1e3 * seconds / count:.3g} ms each"
        )
    lines += [f"  wait     {text}" for text in _waits(run, longest)]
    return "\n".join(lines)


def _devices(run: Run, total: float) -> Iterable[str]:
    """Yield a line for each device: its copies, its launches, and how long either took of the run."""
    found: dict[str, dict[str, list[float]]] = {}  # of each device and kind: how many, seconds, bytes
    for kind in _DEVICES:
        spans = run.spans[kind]
        for row, began, ended, nbytes in zip(spans.row, spans.began, spans.ended, spans.nbytes, strict=True):
            device = run.names.get(row, "a device").split(" ")[0]
            told = found.setdefault(device, {one: [0, 0.0, 0] for one in _DEVICES})[kind]
            told[0] += 1
            told[1] += ended - began
            told[2] += nbytes
    for device, kinds in found.items():
        ins, outs, launches = (kinds[kind] for kind in _DEVICES)
        yield (
            f"  {device}  {format_bytes(int(ins[2]))} in ({ins[1] / total:.0%} of the time), "
            f"{format_bytes(int(outs[2]))} out ({outs[1] / total:.0%}), {launches[0]:.0f} launches, "
            f"{launches[1]:.3g} s on its queues"
        )


def _waits(run: Run, longest: int) -> Iterable[str]:
    """Yield the longest waits, each with the request that ended last in it: what it likely waited for."""
    waits = run.spans["wait"]
    if not waits.began:
        return
    begins, ends = waits.times.T
    first = run.bounds[0]
    arrivals = [
        (kind, np.array(run.spans[kind].ended)) for kind in ("load", "store") if run.spans[kind].ended
    ]
    for i in np.argsort(begins - ends, kind="stable")[:longest]:
        text = f"{ends[i] - begins[i]:.3g} s, worker {waits.row[i]} at {begins[i] - first:.3g} s"
        found = [
            (times[j], kind, int(j)) for kind, times in arrivals
            for inside in [np.nonzero((times > begins[i]) & (times <= ends[i]))[0]] if len(inside)
            for j in [inside[np.argmax(times[inside])]]
        ]  # fmt: skip
        if found:
            _, kind, j = max(found)
            text += f", until the {kind} of {run.abouts[kind][j] or 'a tile'}"
        yield text


# Picture ----------------------------------------------------------------------------------------------------


def draw(run: Run, path: Path) -> None:
    """Draw lanes of workers and ring, memory of its limit, and the rate of the disk."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first, last = run.bounds
    rows = sorted({row for kind in ("load", "store", *_DEVICES) for row in run.spans[kind].row})
    lanes = run.workers + len(rows)
    figure = Figure(figsize=(12, 3.4 + 0.16 * lanes), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    upper, memory, disk = figure.subplots(3, 1, sharex=True, height_ratios=(max(1.0, 0.16 * lanes), 1, 1))
    figure.suptitle(f"{run.name}: {last - first:.3g} s", fontsize=11)
    _lanes(upper, run, rows, first)
    _memory(memory, run, first)
    _rates(disk, run, first, last)
    disk.set_xlabel("seconds")
    disk.set_xlim(0, max(last - first, 1e-6))
    figure.savefig(path)


def _lanes(axes: Any, run: Run, rows: list[int], first: float) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    height = {row: run.workers + i for i, row in enumerate(rows)} | {i: i for i in range(run.workers)}
    for kind, spans in run.spans.items():
        if not spans.began:
            continue
        times = spans.times - first
        low = np.array([height.get(row, 0) for row in spans.row]) - 0.42
        (left, right), top = times.T, low + 0.84
        corners = np.stack([left, low, right, low, right, top, left, top], axis=1).reshape(-1, 4, 2)
        drawn: Any = PolyCollection(list(corners), facecolors=_COLOURS[kind], linewidths=0, rasterized=True)
        axes.add_collection(drawn)
    axes.set_ylim(run.workers + len(rows) - 0.5, -0.5)
    named = {row: name for row, name in run.names.items() if row in height}
    first_of_ring = [row for row in rows if row not in named][:1]
    labels = named | dict.fromkeys(first_of_ring, "disk")
    axes.set_yticks([height[row] for row in labels], list(labels.values()))
    shown = {
        kind: colour for kind, colour in _COLOURS.items() if kind not in _DEVICES or run.spans[kind].began
    }
    axes.legend(
        handles=[Patch(color=colour, label=kind) for kind, colour in shown.items()],
        loc="lower right", bbox_to_anchor=(1, 1), ncols=len(shown), frameon=False, fontsize=8,
    )  # fmt: skip


def _memory(axes: Any, run: Run, first: float) -> None:
    times = np.array(run.memory.began) - first
    axes.fill_between(times, np.array(run.memory.row) / 2**20, step="post", color="#4c78a8", alpha=0.5)
    if run.memory.nbytes:
        axes.axhline(max(run.memory.nbytes) / 2**20, color="#e45756", linewidth=1)
    axes.set_ylabel("tiles, MiB\n(line: their room)", fontsize=8)
    axes.set_ylim(bottom=0)


def _rates(axes: Any, run: Run, first: float, last: float) -> None:
    edges = np.linspace(first, max(last, first + 1e-6), _BINS + 1)
    for kind, sign in (("load", 1), ("store", -1)):
        spans = run.spans[kind]
        if not spans.began:
            continue
        begins, ends = spans.times.T
        # The bytes of a request come evenly over its time: the sum's slope changes where one begins or ends.
        slope = np.array(spans.nbytes) / np.maximum(ends - begins, 1e-9)
        points = np.concatenate([begins, np.maximum(ends, begins + 1e-9)])
        order = np.argsort(points, kind="stable")
        slopes = np.cumsum(np.concatenate([slope, -slope])[order])
        moved = np.concatenate([[0], np.cumsum(slopes[:-1] * np.diff(points[order]))])
        far = np.interp(edges, points[order], moved)
        rate = sign * np.diff(far) / np.diff(edges) / 1e9
        axes.fill_between(edges[1:] - first, rate, step="pre", color=_COLOURS[kind], label=kind)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_ylabel("GB/s, read up,\nwritten down", fontsize=8)
