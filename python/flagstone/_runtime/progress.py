"""How far a call is, while it runs: a bar in a terminal or a notebook; nothing anywhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from .. import _core
from . import environment
from .plan import format_seconds

__all__ = ["Bar", "Progress", "Whole", "Work", "shown", "where", "who_hears"]

Progress = Callable[[Any], None]
_PATIENCE = 0.5  # seconds that a call takes before it gets a bar


class Work(Protocol):
    """What there is to do, or was done: a plan, or statistics."""

    @property
    def bytes_read(self) -> int:
        """Of files."""

    @property
    def bytes_written(self) -> int:
        """To files."""

    @property
    def flops(self) -> float:
        """Of all kernels."""


@dataclass(frozen=True)
class Whole:
    """So many bytes to read, and nothing else to do."""

    bytes_read: int
    bytes_written: int = 0
    flops: float = 0.0


def where() -> str:
    """Return where a bar would be seen: "notebook", "terminal", or "" for nowhere."""
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return "notebook"
    return "terminal" if sys.stderr is not None and sys.stderr.isatty() else ""


def who_hears(progress: Progress | bool | None) -> Progress | bool:
    """Return a callable as it is; else whether a bar is shown.

    Nobody said (None): $FLAGSTONE_PROGRESS, else in notebooks. What a terminal's bar needs is loaded now, so
    that plans count it.
    """
    if callable(progress):
        return progress
    if progress is None:
        said = environment.progress()
        progress = where() == "notebook" if said is None else said
    if progress and where() == "terminal":
        import rich.progress  # noqa: F401
    return bool(progress) and where() != ""


@contextlib.contextmanager
def shown(
    progress: Progress | bool, who: str, count: Callable[[], Work], memory: int
) -> Iterator[Progress | None]:
    """Give what a run calls ten times a second; `count` says how much there is to do, for a bar."""
    if callable(progress):
        yield progress
    elif progress:
        with Bar(who, count(), memory, patience=_PATIENCE) as bar:
            yield bar.update
    else:
        yield None


class Bar:
    """Shows a running call; hand `update` to ``Runtime(progress=...)``.

    Parameters
    ----------
    label : str
        What is running.
    plan : Work, optional
        How much there is to do; without it the bar only counts.
    memory : int
        The limit, shown beside the resident memory.
    quiet : bool
        Show nothing; also where nobody would see it.
    start : float
        What an earlier process had done of it, between 0 and 1.
    patience : float
        Seconds before it appears.
    """

    def __init__(
        self,
        label: str,
        plan: Work | None,
        memory: int,
        quiet: bool = False,
        start: float = 0.0,
        patience: float = 0.0,
    ) -> None:
        self._label, self._plan, self._memory, self._done = label, plan, memory, start
        self._where = "" if quiet else where()
        self._patience = patience
        self._drawn: _TerminalBar | _NotebookBar | None = None

    def __enter__(self) -> Bar:
        self._start = time.monotonic()
        if not self._patience:
            self._draw()
        return self

    def _draw(self) -> None:
        if self._where == "terminal":
            self._drawn = _TerminalBar(self._label)
        elif self._where == "notebook":
            self._drawn = _NotebookBar(self._label)

    def update(self, now: Work) -> None:
        """Redraw; called by the runtime about ten times a second with the statistics so far."""
        seconds = time.monotonic() - self._start
        if self._drawn is None:
            if not self._where or seconds < self._patience:
                return
            self._draw()
        moved = now.bytes_read + now.bytes_written
        rate = _core.format_bytes(int(moved / seconds)) if seconds > 0 else "0 B"
        held = _core.format_bytes(_core.resident_bytes())
        done, left = self._fraction(now, moved), ""
        if done - self._done > 0.02:
            gained = max(done - self._done, 1e-3)
            left = f" · {format_seconds(seconds * (1 - done) / gained)} left"
        text = f"{done:4.0%} · {rate}/s · {held} of {_core.format_bytes(self._memory)} resident{left}"
        assert self._drawn is not None
        self._drawn.update(done, text)

    def _fraction(self, now: Work, moved: int) -> float:
        plan = self._plan
        if plan is None:
            return 0.0
        total = plan.bytes_read + plan.bytes_written
        parts = [(moved, total), (now.flops, plan.flops)]
        shares = [part / whole for part, whole in parts if whole > 0]
        return min(1.0, self._done + sum(shares) / len(shares)) if shares else self._done

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._drawn.end()


class _TerminalBar:
    """One line of standard error, gone when the call ends."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[text]}"),
            console=Console(stderr=True), auto_refresh=False, transient=True,
        )  # fmt: skip
        self._progress.start()
        self._task = self._progress.add_task(label, total=1.0, text="")

    def update(self, done: float, text: str) -> None:
        self._progress.update(self._task, completed=done, text=text, refresh=True)

    def end(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """One output of the cell, changed in place; needs no widgets. It is empty when the call has ended."""

    def __init__(self, label: str) -> None:
        from IPython.display import display

        self._label = label
        self._handle: Any = display(self._page(0.0, ""), display_id=True)

    def _page(self, done: float, text: str) -> Any:
        from IPython.display import HTML

        bar = f'<progress value="{done:.3f}" max="1" style="width: 16em; vertical-align: middle"></progress>'
        return HTML(f"<code>{self._label}</code> {bar} <code>{text}</code>" if text else "")

    def update(self, done: float, text: str) -> None:
        self._handle.update(self._page(done, text))

    def end(self) -> None:
        self._handle.update(self._page(0.0, ""))
