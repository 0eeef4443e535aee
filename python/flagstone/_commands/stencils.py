"""Commands that step fields on in time: stencil."""

from __future__ import annotations

import functools
import os
import runpy
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from .._runtime.plan import Plan, comparison
from .._runtime.runtime import stats
from .._stencil.given.weights import laplacian
from .._stencil.stencil import stencil as run_stencil
from .._stencil.wave import wave as run_wave
from .options import bar, command_runtime, common_options, dense_matrix, print_json
from .routines import check_new


def _index(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[tuple[int, ...]]:
    try:
        return [tuple(int(number) for number in text.split(",")) for text in texts]
    except ValueError:
        raise click.BadParameter(
            f"{', '.join(texts)!r}; whole numbers with commas are needed.", ctx, param
        ) from None


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


def _heat(ndim: int, order: int, rate: float) -> dict[tuple[int, ...], float]:
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
@click.option("--traces", metavar="FILE.npy", help="What receivers heard: steps x receivers.")
@click.option(
    "--method", type=click.Choice(["auto", "al4", "al1", "sweep"]), default="auto", show_default=True
)
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@common_options
def stencil(
    kernel: str, state: str, steps: int, out: str | None, order: str | None, rate: float, boundary: str,
    coefficients: tuple[str, ...], spacing: float, frequency: float | None, sources: list[tuple[int, ...]],
    receivers: list[tuple[int, ...]], traces: str | None, method: str, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Step the field STATE on in time: KERNEL is heat, wave (STATE: the velocity) or FILE.py:FUNCTION."""
    if out is None and not only_plan:
        raise click.UsageError("give -o DST, where the field goes.")
    for path in (out, traces):
        if path is not None:
            check_new("stencil", path, overwrite or only_plan)
    if kernel != "wave" and sources:
        raise click.UsageError("--source is for waves; add what a source adds in Python (sources=).")
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        field = dense_matrix("stencil", state)
        options: dict[str, Any] = {"receivers": receivers, "out": out, "method": method}
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
            how: Any = _heat(field.ndim, int(order or 2), rate) if kernel == "heat" else _function(kernel)
            options |= {"boundary": boundary}
            options |= {"coefficients": [dense_matrix("stencil", path) for path in coefficients]}
            call = functools.partial(routine, how, field, steps, **options)
        plan: Plan = routine.plan(*call.args, **call.keywords)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "stencil", plan, as_json):
            made = call()
        _write_traces(traces, made.traces)
        done = stats()
        if as_json:
            print_json({"out": out, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            rate_text = f"{done.stencil.updates_per_second / 1e6:.3g} million updates a second"
            click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}\n  {rate_text}")


def _write_traces(path: str | None, traces: Any) -> None:
    """Write what receivers heard; it appears whole."""
    if path is None:
        return
    aside = f"{path}.part"
    with open(aside, "wb") as file:
        np.save(file, traces)
    os.replace(aside, path)
