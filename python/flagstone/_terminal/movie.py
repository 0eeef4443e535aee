"""Waves to look at: frames of a section over its model, an animated GIF, what receivers heard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Section", "base_of", "write_frames", "write_movie", "write_traces"]

_LARGEST = 1280  # pixels along the longer side
_SHOWN = 4  # frames of the picture
_LOUD = 0.18  # of the largest amplitude of the frame in the middle: full colour
_SECONDS = 6.0  # of the movie, about


def base_of(out: str | os.PathLike[str]) -> str:
    """Return what the pictures beside an output begin with."""
    return os.fspath(out).rstrip("/").removesuffix(".zarr")


class Section:
    """Frames of a plane of a wave field (times x down x along), the model there, and when each frame is.

    Parameters
    ----------
    frames : Array or ndarray, times x rows x columns
        Read frame by frame, every k-th point of sections beyond 1280 pixels.
    model : ndarray, rows x columns, optional
        Shown in grey below.
    times : sequence of float
        Seconds, or steps.
    spacing : float
        Of the points; 1: the axes count points.
    """

    def __init__(self, frames: Any, model: Any, times: Any, spacing: float = 1.0, unit: str = "s") -> None:
        self.frames, self.times, self.spacing, self.unit = frames, list(times), spacing, unit
        self.thin = max(1, -(-max(frames.shape[1:]) // _LARGEST))
        self.model = None if model is None else np.asarray(model)[:: self.thin, :: self.thin]
        self.loud = self._loud()

    def __len__(self) -> int:
        return len(self.times)

    def frame(self, number: int) -> NDArray[Any]:
        """Return a frame, thinned."""
        shown: NDArray[Any] = np.nan_to_num(np.asarray(self.frames[number])[:: self.thin, :: self.thin])
        return shown

    def _loud(self) -> float:
        middle = float(np.abs(self.frame(len(self) // 2)).max()) if len(self) else 0.0
        return _LOUD * middle or 1.0

    def title(self, number: int) -> str:
        """Return when a frame is."""
        time = self.times[number]
        return f"{time:.3f} s" if self.unit == "s" else f"step {time}"

    def colours(self, number: int) -> NDArray[np.uint8]:
        """Return a frame as pixels: the model in grey, the wave over it, the more the louder."""
        from matplotlib import colormaps

        wave = np.clip(self.frame(number) / self.loud, -1, 1)
        ink = colormaps["RdBu_r"](0.5 + 0.5 * wave)[..., :3]
        cover = np.sqrt(np.abs(wave))[..., None]
        pixels = cover * ink + (1 - cover) * self._ground()
        return np.asarray(255 * pixels + 0.5, np.uint8)

    def _ground(self) -> Any:
        if self.model is None:
            return np.ones((1, 1, 3))
        low, high = float(self.model.min()), float(self.model.max())
        share = (self.model - low) / (high - low or 1.0)
        return (0.95 - 0.5 * share)[..., None] * np.ones(3)


def write_movie(path: str | os.PathLike[str], section: Section) -> str:
    """Write an animated GIF of all frames; return its path. It appears whole."""
    from PIL import Image, ImageDraw

    def pages() -> Iterator[Any]:
        for number in range(len(section)):
            page = Image.fromarray(section.colours(number))
            while max(page.size) < _LARGEST // 3:  # small sections are shown larger
                page = page.resize((2 * page.width, 2 * page.height), Image.Resampling.NEAREST)
            ImageDraw.Draw(page).text((6, 4), section.title(number), fill=(20, 20, 20))
            yield page.quantize(128)

    each = pages()
    first, aside = next(each), f"{os.fspath(path)}.part"
    duration = int(np.clip(1000 * _SECONDS / max(1, len(section)), 40, 400))
    first.save(aside, format="GIF", save_all=True, append_images=each, duration=duration, loop=0)
    os.replace(aside, path)
    return os.fspath(path)


def write_frames(path: str, section: Section, title: str = "") -> str:
    """Write a picture of frames evenly spread over the time, with axes and the model's scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = sorted({round(k) for k in np.linspace(0, len(section) - 1, _SHOWN + 1)[1:]})
    rows, columns = section.colours(chosen[0]).shape[:2]
    pairs = (len(chosen) + 1) // 2
    height = min(12.0, max(3.0, (4.5 * rows / columns + 0.5) * pairs + 0.6))
    figure = Figure(figsize=(10, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(pairs, 2, squeeze=False, sharex=True, sharey=True)
    step = section.spacing * section.thin
    unit = "m" if section.spacing != 1 else "points"
    for number, ax in zip(chosen, axes.flat, strict=False):
        ax.imshow(section.colours(number), extent=(0, columns * step, rows * step, 0))
        ax.set_title(section.title(number), fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel(f"along ({unit})")
    for ax in axes[:, 0]:
        ax.set_ylabel(f"down ({unit})")
    figure.savefig(path)
    return path


def write_traces(path: str, traces: NDArray[Any], dt: float, title: str = "") -> str:
    """Write the seismogram: an image of many receivers, lines of a few."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    steps, receivers = traces.shape
    seconds = dt * np.arange(1, steps + 1)
    loud = float(np.abs(traces).max()) or 1.0
    if receivers > 12:
        shown = np.clip(traces / (0.2 * loud), -1, 1)
        ax.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto",
                  extent=(0, receivers, dt * steps, 0))  # fmt: skip
        ax.set(xlabel="receiver", ylabel="seconds")
    else:
        for number in range(receivers):
            ax.plot(seconds, number + 0.5 * traces[:, number] / loud, linewidth=0.8)
        ax.set(xlabel="seconds", ylabel="receiver", yticks=range(receivers))
    ax.set_title(title, fontsize=10)
    figure.savefig(path)
    return path
