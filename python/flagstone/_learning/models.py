"""Commands that fit models: gp."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._array.array import Array
from .._commands.options import bar, command_runtime, common_options, open_operand, print_json
from .._commands.routines import check_new
from .._errors.classes import ShapeError
from .._estimators.model_file import is_unfinished, open_model
from .._estimators.validation import points as checked_points
from .._kernel_methods.gaussian_process import GaussianProcessRegressor
from .._kernel_methods.kernels import PRECOMPUTED
from .._lazy.point_kernels import KERNELS
from .._output.create import from_numpy
from .._runtime.plan import comparison
from .._runtime.runtime import stats


@click.command()
@click.argument("x", metavar="X")
@click.argument("y", metavar="Y")
@click.option("--kernel", type=click.Choice([*KERNELS, "precomputed"]), default="rbf", show_default=True)
@click.option(
    "--length-scale", help="Of rbf and Matérn: a number, or one a coordinate, as 0.1,0.3. [default: 1]"
)
@click.option("--noise", type=float, default=1e-10, show_default=True, help="Variance added to the diagonal.")
@click.option("--mean", type=click.Choice(["zero", "constant"]), default="zero", show_default=True)
@click.option("--optimize", is_flag=True, help="Choose length scale and noise on a sample first (SciPy).")
@click.option("--sample", type=int, default=1000, show_default=True, help="Points of that sample.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
@click.option("--predict", "new", metavar="Z", help="Points to predict at.")
@click.option("--predictions", metavar="FILE", help="Where mean and deviation go. [default: beside OUT]")
@click.option("-o", "--out", help="Zarr group that keeps the model.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def gp(
    x: str, y: str, kernel: str, length_scale: str | None, noise: float, mean: str, optimize: bool, sample:
    int, seed: int, new: str | None, predictions: str | None, out: str | None, overwrite: bool, memory: int |
    None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Exact Gaussian process of targets Y at points X, one a row; predictions with their deviation."""
    if out is None and new is None:
        raise click.UsageError("give --out to keep the model, or --predict; else nothing is left of it.")
    if out is not None:
        check_new("gp", out, overwrite or only_plan or is_unfinished(out))
    target = predictions or _beside(out, new)
    if new is not None:
        _check_target(target, overwrite or only_plan, {"X": x, "Y": y, "Z": new, "OUT": out})
    model = GaussianProcessRegressor(
        kernel, alpha=noise, length_scale=_lengths(length_scale), mean=None if mean == "zero" else mean,
        optimizer="subset" if optimize else None, subset_size=sample, random_state=seed, out=out,
    )  # fmt: skip
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        points, values = _dense(x), np.asarray(_dense(y))
        fresh = None if new is None else _like("Z", new, points)
        plan = model.fit.plan(points, values)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        told: dict[str, Any] = {"plan": plan.as_dict()}
        with bar(runtime, "gp", plan, as_json):
            model.fit(points, values)
        done = stats()
        told["stats"] = done.as_dict()
        told["log_marginal_likelihood"] = model.log_marginal_likelihood_value_
        told["noise"], told["length_scale"] = model.noise_, np.asarray(model.length_scale_).tolist()
        if not as_json:
            click.echo(f"{plan.what} -> {out or 'scratch'}\n{comparison(plan, done)}")
            click.echo(f"log marginal likelihood {model.log_marginal_likelihood_value_:.6g}")
            if optimize:
                click.echo(f"length scale {told['length_scale']}, noise {model.noise_:.4g}")
        if fresh is not None:
            kept = model if out is None else open_model(out)
            told["predictions"] = _predict(kept, fresh, target, as_json)
        if as_json:
            print_json(told)


def _predict(model: GaussianProcessRegressor, points: Array, target: str, quiet: bool) -> str:
    """Write means and deviations, in columns, and say what they are; a matrix that was given has none."""
    if model.kernel == PRECOMPUTED:
        from_numpy(np.column_stack([model.predict(points)]), target, overwrite=True)
        if not quiet:
            click.echo(f"{points.shape[0]:,} points -> {target}: columns of means")
        return target
    found, deviation = model.predict(points, return_std=True)
    columns = np.column_stack([found, deviation])
    from_numpy(columns, target, overwrite=True)
    if not quiet:
        click.echo(
            f"{len(columns):,} points -> {target}: columns of means, then the deviation "
            f"({float(np.mean(deviation)):.3g} on average)"
        )
    return target


def _check_target(target: str, replaced: bool, others: dict[str, str | None]) -> None:
    """Refuse, before the fit, a file of predictions that cannot be written, or is read."""
    for name, path in others.items():
        if path is not None and os.path.realpath(path) == os.path.realpath(target):
            raise ShapeError(f"gp: --predictions is '{target}', which is {name}; name another file.")
    check_new("gp", target, replaced)


def _like(name: str, path: str, points: Array) -> Array:
    """Open points to predict at; refuse, before the fit, others than it knows."""
    opened: Array = checked_points("gp", _dense(path))
    if opened.shape[1] != points.shape[1]:
        raise ShapeError(
            f"gp: {name}, '{path}', has {opened.shape[1]} columns and X {points.shape[1]}; as many are "
            "needed."
        )
    return opened


def _beside(out: str | None, new: str | None) -> str:
    name = Path(out if out is not None else os.fspath(new or "gp"))
    return str(name.with_name(f"{name.stem}-predictions.npy"))


def _lengths(text: str | None) -> Any:
    if text is None:
        return 1.0
    try:
        values = [float(one) for one in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r}; numbers with commas are needed.", param_hint="--length-scale"
        ) from None
    return values[0] if len(values) == 1 else values


def _dense(path: str) -> Array:
    opened = open_operand(path, None, True)
    if not isinstance(opened, Array):
        raise ShapeError(f"gp: '{path}' is sparse; points and targets are dense.")
    return opened
