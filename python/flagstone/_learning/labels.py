"""Commands of label trees: labels train, predict, score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import _core
from .._array.array import shape_text
from .._commands.options import bar, command_runtime, common_options, open_operand, print_json
from .._commands.routines import check_new
from .._errors.classes import ShapeError
from .._labels.metrics import LabelMetrics, check_truth, label_metrics
from .._labels.model import LabelModel, open_labels
from .._labels.train import train_labels
from .._runtime.plan import comparison
from .._runtime.runtime import stats

_SHOWN = 5  # points


@click.group()
def labels() -> None:
    """Extreme multi-label trees: train a model, predict labels, score them."""


@labels.command()
@click.argument("x", metavar="X")
@click.argument("y", metavar="[Y]", required=False)
@click.option("-o", "--out", required=True, help="Zarr group for the model.")
@click.option("--method", type=click.Choice(["parabel", "pfastrexml"]), default="parabel", show_default=True)
@click.option("--trees", type=int, help="Default: 3, of pfastrexml 50.")
@click.option("--format", type=click.Choice(["float32", "int8"]), default="float32", show_default=True)
@click.option("--max-leaf", type=int, help="Labels of a leaf, default 100; of pfastrexml points, default 10.")
@click.option("-C", "C", type=float, default=1.0, show_default=True, help="Of the loss.")
@click.option("--threshold", type=float, default=0.1, show_default=True, help="Smaller weights are dropped.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def train(
    x: str, y: str | None, out: str, overwrite: bool, memory: int | None, scratch_directory: str | None,
    only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Train label trees on points X; Y: their labels, by default the key 'labels' of X."""
    check_new("labels train", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        points, truth = _pair(x, y, as_json)
        given = options | {"out": out}
        plan = train_labels.plan(points, truth, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "labels train", plan, as_json):
            model = train_labels(points, truth, **given)
        done = stats()
        if as_json:
            print_json({"out": out, **_about(model), "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(
            f"{done.what}\n{comparison(plan, done)}\n{_told(model)}\nWrote {out} (from {Path(x).name})."
        )


@labels.command()
@click.argument("model", metavar="MODEL")
@click.argument("x", metavar="X")
@click.option("-k", "k", type=int, default=5, show_default=True, help="Labels of each point.")
@click.option("-o", "--out", help="Zarr group for labels and scores.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--beam", type=int, default=10, show_default=True, help="Nodes that are followed in each tree.")
@click.option("--discount", type=float, default=1.0, show_default=True, help="Of a parent's score.")
@click.option("--alpha", type=float, default=0.8, show_default=True, help="Of pfastrexml: what leaves count.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def predict(
    model: str, x: str, k: int, out: str | None, key: str | None, overwrite: bool, memory: int | None,
    scratch_directory: str | None, only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Predict the best labels of points X by MODEL."""
    if out is not None:
        check_new("labels predict", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        trees, points = open_labels(model), open_operand(x, key, as_json)
        given = options | {"out": out}
        plan = trees.predict.plan(points, k, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "labels predict", plan, as_json):
            found = trees.predict(points, k, **given)
        done = stats()
        first, scores = (np.asarray(one[:_SHOWN]) for one in found)
        if as_json:
            told = {"labels": first.tolist(), "scores": scores.tolist()}
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{'point':>7}  label (score)")
        for i, (row, of) in enumerate(zip(first, scores, strict=True)):
            pairs = (f"{label} ({score:.3f})" for label, score in zip(row, of, strict=True) if label >= 0)
            click.echo(f"{i:>7}  {'  '.join(pairs)}")
        if out is not None:
            click.echo(f"Wrote {out} (from {Path(x).name}).")


@labels.command()
@click.argument("model", metavar="MODEL")
@click.argument("x", metavar="X")
@click.argument("y", metavar="[Y]", required=False)
@click.option("--train", "seen", required=True, help="Labels of the points that were trained on.")
@click.option("--beam", type=int, default=10, show_default=True, help="Nodes that are followed in each tree.")
@click.option("--discount", type=float, default=1.0, show_default=True, help="Of a parent's score.")
@click.option("--alpha", type=float, default=0.8, show_default=True, help="Of pfastrexml: what leaves count.")
@click.option(
    "--propensity", type=float, nargs=2, default=(0.55, 1.5), show_default=True, metavar="A B",
    help="Of propensities: 0.5 0.4 for Wikipedia, 0.6 2.6 for Amazon.",
)  # fmt: skip
@common_options
def score(
    model: str, x: str, y: str | None, seen: str, propensity: tuple[float, float], memory: int | None,
    scratch_directory: str | None, only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Score MODEL on points X with labels Y: precision, nDCG and both by propensities."""
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        trees = open_labels(model)
        points, truth = _pair(x, y, as_json)
        trained = _truth(seen, as_json)
        if truth.shape != (points.shape[0], trees.labels):
            raise ShapeError(
                f"labels score: Y is {shape_text(truth.shape)}; {points.shape[0]} points with "
                f"{trees.labels} labels are scored."
            )
        check_truth(trees.labels, trained)
        plan = trees.predict.plan(points, min(5, trees.labels), **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "labels score", plan, as_json):
            found = trees.predict(points, min(5, trees.labels), **options)
        done = stats()
        made = label_metrics(found.labels, truth, trained, propensity=propensity)
        if as_json:
            told = {name: {str(k): v for k, v in one.items()} for name, one in made._asdict().items()}
            print_json({**told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{_scores(made)}")


def _pair(x: str, y: str | None, as_json: bool) -> tuple[Any, Any]:
    return open_operand(x, None, as_json), _truth(x if y is None else y, as_json, y is None)


def _truth(path: str, as_json: bool, labels_of: bool = False) -> Any:
    """Return labels: a matrix, or those beside the points of the repository's text."""
    text = labels_of or path.endswith((".txt", ".xc"))
    return open_operand(path, "labels" if text else None, as_json)


def _about(model: LabelModel) -> dict[str, Any]:
    return {
        "method": model.method, "trees": model.trees, "levels": model.levels, "labels": model.labels,
        "features": model.features, "weights": model.weights, "bytes": model.nbytes,
    }  # fmt: skip


def _told(model: LabelModel) -> str:
    size, each = _core.format_bytes(model.nbytes), model.nbytes / max(1, model.weights)
    return (
        f"{model.trees} trees of {model.labels:,} labels on {model.levels} levels over {model.features:,} "
        f"features\n{model.weights:,} weights {model.format}, {size}: {each:.2f} bytes each"
    )


def _scores(made: LabelMetrics) -> str:
    lines = [f"{'at':>8}" + "".join(f"{name:>9}" for name in made._fields)]
    for k in made.P:
        lines.append(f"{k:>8}" + "".join(f"{one[k]:>9.2f}" for one in made))
    return "\n".join(lines)
