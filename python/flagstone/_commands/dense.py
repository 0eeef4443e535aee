"""Commands of dense algebra: lstsq, qr."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from .._factor.qr import qr as run_qr
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._solve.least_squares import LstsqResult
from .._solve.lstsq import lstsq as run_lstsq
from .options import bar, command_runtime, common_options, dense_matrix, print_json
from .routines import check_new

_MOST_SHOWN = 20  # coefficients of one right-hand side
#: What there is of each ridge value.
_PARTS = ("x", "stderr", "residuals", "degrees_of_freedom", "gcv", "intercept", "intercept_stderr")


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--ridge", default="0", show_default=True, help="Penalties, as 0,1,10.")
@click.option("--intercept", is_flag=True, help="Fit a constant too.")
@click.option("--weights", metavar="FILE", help="Weights of the rows.")
@click.option("--rcond", type=float, help="Singular values below this share of the largest count as zero.")
@click.option("-o", "--out", help="Where the coefficients go.")
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
@common_options
def lstsq(
    a: str, b: str, ridge: str, intercept: bool, weights: str | None, rcond: float | None, out: str | None,
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Fit A x = B by least squares: coefficients, standard errors, the ridge path."""
    if out is not None:
        check_new("lstsq", out, overwrite or only_plan)
    try:
        values = [float(one) for one in ridge.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{ridge!r}; numbers with commas are needed.", param_hint="--ridge"
        ) from None
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        scales = None if weights is None else np.asarray(dense_matrix("lstsq", weights))
        operands = dense_matrix("lstsq", a), dense_matrix("lstsq", b)
        options: dict[str, Any] = {
            "ridge": values if len(values) > 1 else values[0], "intercept": intercept, "weights": scales,
            "rcond": rcond,
        }  # fmt: skip
        plan = run_lstsq.plan(*operands, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "lstsq", plan, as_json):
            fit = _as_path(run_lstsq(*operands, out=out, **options))
        done = stats()
        if as_json:
            print_json({"fit": _told(fit, values), "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(_table(fit, values))
        click.echo(f"{done.what}\n{comparison(plan, done)}")


def _as_path(fit: LstsqResult) -> LstsqResult:
    """Give the parts of a fit of one ridge value the axis that those of several have."""
    if np.ndim(fit.degrees_of_freedom) == 0:
        for name in _PARTS:
            part = getattr(fit, name)
            setattr(fit, name, None if part is None else np.asarray(part)[None])
    return fit


def _plain(part: Any) -> Any:
    if part is None:
        return None
    return (np.asarray(part).astype(str) if np.iscomplexobj(part) else np.asarray(part)).tolist()


def _told(fit: LstsqResult, values: list[float]) -> dict[str, Any]:
    told = {name: _plain(getattr(fit, name)) for name in _PARTS}
    return {"ridge": values, "rank": fit.rank, "condition": fit.condition} | told


def _table(fit: LstsqResult, values: list[float]) -> str:
    rank = "not full" if fit.rank is None else fit.rank
    lines = [f"rank {rank} of {fit.x.shape[1]}, condition {fit.condition:.3g}"]
    many = fit.x.ndim > 2
    lines.append(f"{'ridge':>12} {'df':>10} {'R²':>10} {'residual':>14} {'GCV':>14}")
    for i, value in enumerate(values):
        rss, total = np.sum(fit.residuals[i]), np.sum(fit.total)
        share = 1 - float(rss) / float(total) if total else float("nan")
        lines.append(
            f"{value:12.6g} {fit.degrees_of_freedom[i]:10.3f} {share:10.6f} {float(np.sqrt(rss)):14.6g} "
            f"{float(np.sum(fit.gcv[i])):14.6g}"
        )
    if many:
        return "\n".join(lines)
    best = int(np.argmin(np.nan_to_num(fit.gcv, nan=np.inf))) if len(values) > 1 else 0
    lines.append(f"coefficients at ridge {values[best]:g}" + (" (least GCV)" if len(values) > 1 else ""))
    if fit.intercept is not None and fit.intercept_stderr is not None:
        lines.append(f"{'constant':>12} {fit.intercept[best]:14.6g} ± {fit.intercept_stderr[best]:.3g}")
    for j in range(min(fit.x.shape[1], _MOST_SHOWN)):
        lines.append(f"{j:12d} {fit.x[best, j]:14.6g} ± {fit.stderr[best, j]:.3g}")
    if fit.x.shape[1] > _MOST_SHOWN:
        lines.append(f"{'...':>12} {fit.x.shape[1] - _MOST_SHOWN} more; --out writes all")
    return "\n".join(lines)


@click.command()
@click.argument("a", metavar="A")
@click.option("-o", "--out", required=True, help="A Zarr group for Q and R; of --mode r one array.")
@click.option("--mode", type=click.Choice(["reduced", "complete", "r", "raw"]), default="reduced",
              show_default=True)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def qr(
    a: str, out: str, mode: str, overwrite: bool, memory: int | None, scratch_directory: str | None,
    only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write Q and R of A, R alone, or the reflectors."""
    check_new("qr", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        operand = dense_matrix("qr", a)
        plan = run_qr.plan(operand, mode=mode, out=out)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "qr", plan, as_json):
            run_qr(operand, mode=mode, out=out)
        done = stats()
        if as_json:
            print_json({"out": out, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}")
