"""A bar for the terminal: bytes per second, resident memory, time left. Silent when piped."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from .. import _core
from .._runtime.plan import Plan, format_seconds

__all__ = ["Bar"]


class Bar:
    """Shows a running call; hand `update` to ``Runtime(progress=...)``.

    Parameters
    ----------
    label : str
        What is running.
    plan : Plan, optional
        How much there is to do; without it the bar only counts.
    memory : int
        The limit, shown beside the resident memory.
    quiet : bool
        Show nothing; also where standard error is no terminal.
    start : float
        What an earlier process had done of it, between 0 and 1.
    """

    def __init__(
        self, label: str, plan: Plan | None, memory: int, quiet: bool = False, start: float = 0.0
    ) -> None:
        self._label, self._plan, self._memory, self._done = label, plan, memory, start
        self._quiet = quiet or not sys.stderr.isatty()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        self._start = time.monotonic()
        if not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._progress = Progress(
                TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[text]}"),
                console=Console(stderr=True), auto_refresh=False, transient=True,
            )  # fmt: skip
            self._progress.start()
            self._task = self._progress.add_task(self._label, total=1.0, text="")
        return self

    def update(self, now: Any) -> None:
        """Redraw; called by the runtime about ten times a second with the statistics so far."""
        if self._progress is None:
            return
        seconds = time.monotonic() - self._start
        moved = now.bytes_read + now.bytes_written
        rate = _core.format_bytes(int(moved / seconds)) if seconds > 0 else "0 B"
        held = _core.format_bytes(_core.resident_bytes())
        done, left = self._fraction(now, moved), ""
        if done - self._done > 0.02:
            gained = max(done - self._done, 1e-3)
            left = f" · {format_seconds(seconds * (1 - done) / gained)} left"
        text = f"{done:4.0%} · {rate}/s · {held} of {_core.format_bytes(self._memory)} resident{left}"
        self._progress.update(self._task, completed=done, text=text, refresh=True)

    def _fraction(self, now: Any, moved: int) -> float:
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
        if self._progress is not None:
            self._progress.stop()
