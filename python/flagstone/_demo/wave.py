"""The demonstration of time loops: a wave crosses a layered model, field and model five times the limit."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error
from .._formats.open import open_path
from .._runtime.plan import comparison, format_seconds
from .._runtime.progress import Bar
from .._runtime.runtime import Runtime, stats
from .._stencil.wave import WaveResult, wave
from .._terminal.movie import Section, write_frames, write_movie, write_traces
from .capped import run_capped, say
from .demo import indented, make_directory

__all__ = ["Model", "run_wave", "write_model"]

_TIMES = 5  # how much larger than the limit the two states and the velocity are together
_ACROSS, _DOWN = 256, 128  # points beside the line and down; along: what the limit asks for
_SPACING, _FREQUENCY = 10.0, 18.0  # metres, hertz
_SECONDS = 45.0  # of our run, by the plan
_FEW, _MANY = 60, 600  # steps
_FRAMES = 40
_LINE = 160  # points of receivers on each side of the shot


@dataclass(frozen=True)
class Model:
    """Layers that dip and bend, and a body of salt in them: velocities of along x across x down points.

    Parameters
    ----------
    along, across, down : int
        Points.
    """

    along: int
    across: int = _ACROSS
    down: int = _DOWN

    @classmethod
    def beyond(cls, memory: int) -> Model:
        """Return the model whose velocity and two states, float32, take five times so many bytes."""
        return cls(max(64, _TIMES * memory // (3 * 4 * _ACROSS * _DOWN)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Extents of the field."""
        return self.along, self.across, self.down

    @property
    def bytes(self) -> int:
        """What an in-memory run holds."""
        return 3 * 4 * self.along * self.across * self.down

    @property
    def source(self) -> tuple[int, int, int]:
        """Where the shot is: above the flank of the body."""
        return self.along // 2 - 40, self.across // 2, 24

    def plane(self, x: int) -> NDArray[np.float32]:
        """Return the velocities across and down at one place along the line, in metres a second."""
        y = np.arange(self.across, dtype=np.float32)[:, None] - self.across / 2
        z = np.arange(self.down, dtype=np.float32)[None, :]
        away = x - self.along / 2
        depth = z + 5 * np.sin(away / 40) + 0.04 * away + 3 * np.cos(y / 40)
        made = np.full((self.across, self.down), 2000, np.float32)
        for top, velocity in ((30, 2300), (52, 2700), (72, 2500), (100, 3000)):
            made[depth > top] = velocity
        body = (away / 45) ** 2 + (y / 60) ** 2 + ((z - 74) / 24) ** 2 < 1
        made[body] = 3600
        return made


def write_model(along: int, path: str) -> None:
    """Write the velocities as .npy, plane by plane; runs in a child, whose memory is not ours."""
    model = Model(along)
    stored = np.lib.format.open_memmap(path, "w+", np.float32, model.shape)
    for x in range(along):
        stored[x] = model.plane(x)
    stored.flush()


# What people do today, in a child under the same cap --------------------------------------------------------


def _others(path: Path, folder: Path, memory: int) -> None:
    code = "import sys; from flagstone._demo.sweeps import in_memory; in_memory(sys.argv[1])"
    run_capped("All of it in memory", code, [str(path)], memory, needs=())
    code = "import sys; from flagstone._demo.sweeps import mapped; mapped(*sys.argv[1:])"
    try:
        run_capped("Memory maps, swept plainly", code, [str(path), str(folder)], memory, 30.0, needs=())
    finally:
        for k in range(2):
            (folder / f"state-{k}.npy").unlink(missing_ok=True)


# Our run ----------------------------------------------------------------------------------------------------


def _written(model: Model, path: Path) -> None:
    code = (
        "import sys; from flagstone._demo.wave import write_model; write_model(int(sys.argv[1]), sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model.along), str(path)],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if done.returncode:
        raise Error(
            f"demo: the model could not be written: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
        )


def _steps(velocity: Any, options: dict[str, Any]) -> int:
    """Return as many steps as the plan gives _SECONDS for."""
    plan = wave.plan(velocity, 100, **{**options, "snapshots": None})
    return int(np.clip(100 * _SECONDS / max(plan.seconds, 1e-9), _FEW, _MANY))


def _shot(
    model: Model, velocity: Any, memory: int, out: str, steps: int | None
) -> tuple[WaveResult, int, int]:
    """Print the plan, run with the bar, print predicted against actual."""
    x, y, z = model.source
    line = range(max(0, x - _LINE), min(model.along, x + _LINE), 2)
    options: dict[str, Any] = {
        "spacing": _SPACING, "sources": [model.source], "frequency": _FREQUENCY,
        "receivers": [(at, y, z) for at in line], "out": out,
    }  # fmt: skip
    with Runtime(memory=memory) as runtime:
        steps = steps or _steps(velocity, options)
        every = max(1, steps // _FRAMES)
        options["snapshots"] = {"section": (every, np.s_[_window(model, steps), y, :])}
        plan = wave.plan(velocity, steps, **options)
        say("Plan, before anything is read:")
        say(indented(str(plan)))
        with Bar("wave", plan, memory) as bar:
            runtime.progress = bar.update
            made = wave(velocity, steps, **options)
        runtime.progress = False
        done = stats()
    say("Predicted against actual (peak memory: the kernel's VmHWM during the call):")
    say(comparison(plan, done))
    return made, steps, every


def _window(model: Model, steps: int) -> slice:
    """Return the part of the line that the wave may reach: half a point a step at most, and some more."""
    reach = max(model.down, steps // 2 + 24)
    return slice(max(0, model.source[0] - reach), min(model.along, model.source[0] + reach))


def _pictures(model: Model, made: WaveResult, every: int, steps: int, base: str, title: str) -> list[str]:
    window = _window(model, steps)
    frames = np.asarray(made.snapshots["section"])
    ground = np.stack([model.plane(x)[model.source[1]] for x in range(window.start, window.stop)], axis=1)
    times = made.dt * every * np.arange(1, len(frames) + 1)
    section = Section(frames.transpose(0, 2, 1), ground, times, _SPACING)
    return [
        write_frames(f"{base}-frames.png", section, title),
        write_movie(f"{base}.gif", section),
        write_traces(f"{base}-traces.png", made.traces, made.dt, "what receivers along the line heard"),
    ]


def run_wave(memory: int, output: str, steps: int | None = None, keep: bool = False) -> None:
    """Run the demonstration."""
    started = time.perf_counter()
    model = Model.beyond(memory)
    folder = make_directory(output, 3 * model.bytes)  # the model, two states, and what lies between
    path, out = folder / "velocity.npy", str(folder / "wave.zarr")
    shutil.rmtree(out, ignore_errors=True)
    size = " x ".join(f"{n:,}" for n in model.shape)
    say(f"Writing a model of {size} points: layers, and a body of salt ...")
    _written(model, path)
    try:
        say(
            f"  velocity and two states take {_core.format_bytes(model.bytes)}, "
            f"{model.bytes / memory:.1f} times the limit of {_core.format_bytes(memory)}."
        )
        _others(path, folder, memory)
        say(f"Ours, order 8 in space and a layer that absorbs, within {_core.format_bytes(memory)}:")
        with Runtime(memory=memory):
            velocity = open_path(path)
        begun = time.perf_counter()
        made, steps, every = _shot(model, velocity, memory, out, steps)
        each = (time.perf_counter() - begun) / steps
        say(f"{steps} steps, {format_seconds(each)} a step.")
        title = f"{size} points in {_core.format_bytes(memory)} of memory"
        pictures = _pictures(model, made, every, steps, str(folder / "wave"), title)
    finally:
        if not keep:
            path.unlink(missing_ok=True)
            shutil.rmtree(out, ignore_errors=True)
    say(f"Pictures: {'  '.join(pictures)}    {format_seconds(time.perf_counter() - started)} in all.")
