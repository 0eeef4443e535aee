"""Commands that step fields on in time: stencil."""

from __future__ import annotations

import functools
import os
import runpy
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from .._runtime.plan import Plan, comparison
from .._runtime.runtime import stats
from .._stencil.compare import METHODS
from .._stencil.given.weights import laplacian
from .._stencil.stencil import stencil as run_stencil
from .._stencil.wave import wave as run_wave
from .._terminal.movie import Section, write_frames, write_movie
from .options import bar, command_runtime, common_options, dense_matrix, print_json
from .routines import check_new


def _mesh(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """ZxY: ranks along the first two dimensions."""
    numbers = [] if text is None else text.split("x")
    if text is None or (len(numbers) == 2 and all(number.isdigit() for number in numbers)):
        return tuple(int(number) for number in numbers) or None
    raise click.BadParameter(f"{text!r}; two numbers of ranks are needed, as 2x2.", ctx, param)


def _index(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[tuple[int, ...]]:
    try:
        return [tuple(int(number) for number in text.split(",")) for text in texts]
    except ValueError:
        raise click.BadParameter(
            f"{', '.join(texts)!r}; whole numbers with commas are needed.", ctx, param
        ) from None


def _cut(text: str) -> int | slice:
    try:
        numbers = [int(number) if number else None for number in text.split(":")]
        if len(numbers) > 3 or (len(numbers) == 1 and numbers[0] is None):
            raise ValueError
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no place; 12, 3:40, 3:40:2 or : are needed.", param_hint="--snapshots"
        ) from None
    return slice(*numbers) if len(numbers) > 1 else numbers[0]  # type: ignore[return-value]


def _snapshots(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, tuple[int, tuple[Any, ...]]]:
    """NAME=EVERY or NAME=EVERY@PLACE, a place as NumPy indexes: 16@:,64,::2."""
    made = {}
    for text in texts:
        name, told, rest = text.partition("=")
        every, _, place = rest.partition("@")
        if not told or not every.isdigit():
            raise click.BadParameter(f"{text!r}; NAME=EVERY or NAME=EVERY@PLACE is needed.", ctx, param)
        made[name] = int(every), tuple(_cut(part) for part in place.split(",")) if place else ...
    return made  # type: ignore[return-value]


def _function(text: str) -> Callable[..., Any]:
    path, _, name = text.rpartition(":")
    if not path or not os.path.isfile(path):
        raise click.BadParameter(
            f"{text!r} is no kernel; heat, wave or FILE.py:FUNCTION is needed.", param_hint="KERNEL"
        )
    found = runpy.run_path(path).get(name)
    if not callable(found):
        raise click.BadParameter(f"'{path}' has no function {name!r}.", param_hint="KERNEL")
    return found  # type: ignore[no-any-return]


# Options that say nothing of other kernels: what they are for.
_FUNCTION = "FILE.py:FUNCTION"
_ONLY_OF = {
    "order": ("heat", "wave"), "rate": ("heat",), "boundary": ("heat", _FUNCTION),
    "coefficients": (_FUNCTION,), "spacing": ("wave",), "frequency": ("wave",), "sources": ("wave",),
}  # fmt: skip
# Others that need a companion.
_NEEDS = {"section": ("movie", "a movie"), "traces": ("receivers", "a receiver")}


def _check_options(ctx: click.Context, kernel: str) -> None:
    """Refuse options that would be ignored: of another kernel, or of what nobody asked for."""
    kind = kernel if kernel in ("heat", "wave") else _FUNCTION
    flags = {one.name: one.opts[0] for one in ctx.command.params}
    given = {name for name in flags if ctx.get_parameter_source(name or "") is ParameterSource.COMMANDLINE}
    for name, kinds in _ONLY_OF.items():
        if name in given and kind not in kinds:
            raise click.UsageError(f"{flags[name]} is for {' and '.join(kinds)}; leave it out of {kind}.")
    for name, (needed, what) in _NEEDS.items():
        if name in given and needed not in given:
            raise click.UsageError(f"{flags[name]} is of {what}; give {flags[needed]} too, or leave it out.")


def heat(ndim: int, order: int, rate: float) -> dict[tuple[int, ...], float]:
    """Return the weights of u + rate Δu."""
    weights = {at: rate * weight for at, weight in laplacian(ndim, order).items()}
    weights[(0,) * ndim] += 1.0
    return weights


@click.command()
@click.argument("kernel", metavar="KERNEL")
@click.argument("state", metavar="STATE")
@click.option("--steps", type=int, required=True, help="How many.")
@click.option("-o", "--out", metavar="DST", help="Where the field goes; of wave a group of now and before.")
@click.option("--order", type=click.Choice(["2", "4", "6", "8"]), help="Of accuracy: heat 2, wave 8.")
@click.option("--rate", type=float, default=0.1, show_default=True, help="Of heat: u + rate Δu.")
@click.option("--boundary", default="fixed", show_default=True, help="fixed, periodic, neumann or mirror.")
@click.option(
    "--coefficients", multiple=True, metavar="PATH", help="Of a function, in its order; repeatable."
)
@click.option("--spacing", type=float, default=1.0, show_default=True, help="Of the grid of a wave.")
@click.option("--frequency", type=float, help="Of the wavelet of a wave's sources.")
@click.option("--source", "sources", multiple=True, callback=_index, help="A wave's source, as 0,64,64.")
@click.option("--receiver", "receivers", multiple=True, callback=_index, help="A point to listen to.")
@click.option(
    "--snapshots", multiple=True, callback=_snapshots, metavar="NAME=EVERY@PLACE",
    help="What is kept on the way, in the group DST: slice=16@:,64,:; repeatable.",
)  # fmt: skip
@click.option("--movie", metavar="OUT.gif", help="An animated section, and OUT-frames.png beside it.")
@click.option(
    "--section", metavar="EVERY@PLACE", help="Of the movie. [default: 60 frames, the middle of axis 1]"
)
@click.option("--compare", is_flag=True, help="Print what every method would do; do nothing.")
@click.option("--traces", metavar="FILE.npy", help="What receivers heard: steps x receivers.")
@click.option("--method", type=click.Choice(["auto", *METHODS]), default="auto", show_default=True)
@click.option("--mesh", callback=_mesh, metavar="ZxY", help="Ranks along the first two dimensions, as 2x2.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@common_options
def stencil(
    kernel: str, state: str, steps: int, out: str | None, order: str | None, rate: float, boundary: str,
    coefficients: tuple[str, ...], spacing: float, frequency: float | None, sources: list[tuple[int, ...]],
    receivers: list[tuple[int, ...]], snapshots: dict[str, Any], movie: str | None, section: str | None,
    compare: bool, traces: str | None, method: str, mesh: tuple[int, ...] | None, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Step the field STATE on in time: KERNEL is heat, wave (STATE: the velocity) or FILE.py:FUNCTION."""
    _check_options(click.get_current_context(), kernel)
    only_plan |= compare
    if out is None and not only_plan:
        raise click.UsageError("give -o DST, where the field goes.")
    if "movie" in snapshots and movie is not None:
        raise click.UsageError("the snapshot 'movie' is --movie's; name yours otherwise.")
    if movie is not None and not movie.endswith(".gif"):
        raise click.UsageError(f"--movie writes an animated GIF; end {movie!r} in .gif.")
    for path in (out, traces, movie, movie and _frames_beside(movie)):
        if path is not None:
            check_new("stencil", path, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        field = dense_matrix("stencil", state)
        options: dict[str, Any] = {"receivers": receivers, "out": out, "method": method, "mesh": mesh}
        seen = None
        if movie is not None:
            seen = _section(section, field.shape, steps)
            snapshots = snapshots | {"movie": seen}
        if snapshots:
            options["snapshots"] = snapshots
        routine: Any = run_wave if kernel == "wave" else run_stencil
        if kernel == "wave":
            options |= {
                "spacing": spacing,
                "order": int(order or 8),
                "frequency": frequency,
                "sources": sources,
            }
            call = functools.partial(routine, field, steps, **options)
        else:
            how: Any = heat(field.ndim, int(order or 2), rate) if kernel == "heat" else _function(kernel)
            options |= {"boundary": boundary}
            options |= {"coefficients": [dense_matrix("stencil", path) for path in coefficients]}
            call = functools.partial(routine, how, field, steps, **options)
        if compare:
            compared = routine.compare(*call.args, **call.keywords)
            print_json(compared.as_dict()) if as_json else click.echo(str(compared))
            return
        plan: Plan = routine.plan(*call.args, **call.keywords)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "stencil", plan, as_json):
            made = call()
        done = stats()
        _write_traces(traces, made.traces)
        pictures = [] if movie is None else _write_movie(movie, made, seen, field, spacing, kernel == "wave")
        if as_json:
            told = {"out": out, "plan": plan.as_dict(), "stats": done.as_dict(), "pictures": pictures}
            print_json(told)
        else:
            rate_text = f"{done.stencil.updates_per_second / 1e6:.3g} million updates a second"
            click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}\n  {rate_text}")
            for picture in pictures:
                click.echo(f"  {picture}")


def _write_traces(path: str | None, traces: Any) -> None:
    """Write what receivers heard; it appears whole."""
    if path is None:
        return
    aside = f"{path}.part"
    with open(aside, "wb") as file:
        np.save(file, traces)
    os.replace(aside, path)


def _frames_beside(movie: str) -> str:
    return f"{movie.removesuffix('.gif')}-frames.png"


def _section(told: str | None, shape: tuple[int, ...], steps: int) -> tuple[int, tuple[Any, ...]]:
    """Return when and where frames are taken: a plane of the field, all of a field of two dimensions."""
    if len(shape) < 2:
        raise click.UsageError("--movie needs a field of 2 or 3 dimensions.")
    every, _, place = (told or "").partition("@")
    if every and not every.isdigit():
        raise click.BadParameter(f"{told!r}; EVERY or EVERY@PLACE is needed.", param_hint="--section")
    middle = (slice(None), shape[1] // 2, slice(None)) if len(shape) == 3 else (slice(None), slice(None))
    cut = tuple(_cut(part) for part in place.split(",")) if place else middle
    if sum(isinstance(one, slice) for one in cut) != 2 or len(cut) != len(shape):
        raise click.BadParameter(
            f"{place!r} is no plane of {len(shape)} dimensions; two of them as slices are needed.",
            param_hint="--section",
        )
    return (int(every) if every else max(1, steps // 60)), cut


def _write_movie(movie: str, made: Any, seen: Any, field: Any, spacing: float, wave: bool) -> list[str]:
    """Write the animation and a picture of some frames; rows go down, as in the field."""
    every, cut = seen
    frames = made.snapshots["movie"]
    if len(frames) == 0:
        raise ValueError(f"stencil: no step is a multiple of {every}; --movie has nothing to show.")
    when = every * np.arange(1, len(frames) + 1)
    times = made.dt * when if wave else when
    ground = np.asarray(field[cut]) if wave else None
    section = Section(frames, ground, times, spacing if wave else 1.0, "s" if wave else "step")
    return [write_movie(movie, section), write_frames(_frames_beside(movie), section)]
