"""Command of projections: project."""

from __future__ import annotations

from typing import Any

import click

from .._nuclear.basis_of_j import basis_of_j
from .._nuclear.interaction import Interaction
from .._nuclear.space import Counts, Space
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._subspace.project import project as run_project
from .options import bar, command_runtime, common_options, print_json
from .routines import check_new

#: Nmax, J and what Aktulga et al. (Euro-Par 2012) print in table 1: dimension of M = J, columns, bytes of Z.
_TABLE = ((12, 0), (12, 1), (12, 2), (12, 3), (12, 4), (14, 3))


def _interaction(text: str | None) -> Interaction | None:
    if text is None:
        return None
    if text.startswith("random:"):
        try:
            return Interaction.random(int(text[len("random:") :]))
        except ValueError:
            raise click.BadParameter(f"{text!r}: give random:SEED, as random:1.") from None
    return Interaction.read(text)


@click.command()
@click.option("--protons", type=int, default=3, show_default=True)
@click.option("--neutrons", type=int, default=3, show_default=True)
@click.option(
    "--nmax", type=int, help="Most quanta of excitation; without it the interaction's valence space."
)
@click.option("-J", "J", default="0", show_default=True, help="Angular momentum, as 2 or 5/2.")
@click.option("--interaction", metavar="FILE|random:SEED", help="KSHELL's .snt, or a random ensemble.")
@click.option("-o", "--out", help="Zarr group for H'.")
@click.option("--energies", type=int, default=0, help="So many lowest eigenvalues.")
@click.option(
    "--order", type=click.Choice(["panels", "columns"]), default="panels", show_default=True,
    help="What of Z stays: what fits, or one stripe.",
)  # fmt: skip
@click.option("--no-dedup", is_flag=True, help="Store equal blocks of Z each for itself.")
@click.option("--float64", "wide", is_flag=True, help="Z and H' in float64: five decimals need it.")
@click.option("--count", "only_count", is_flag=True, help="Print the sizes and run nothing.")
@click.option(
    "--table1", is_flag=True, help="Print the sizes of table 1 of Aktulga et al. 2012 and run nothing."
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def project(
    protons: int, neutrons: int, nmax: int | None, J: str, interaction: str | None, out: str | None,
    energies: int, order: str, no_dedup: bool, wide: bool, only_count: bool, table1: bool, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Project a nuclear Hamiltonian on the states of one angular momentum."""
    if table1:
        _print_table(as_json)
        return
    space = Space(protons, neutrons, nmax, _interaction(interaction))
    counts = space.counts(J)
    if only_count:
        print_json(counts._asdict()) if as_json else click.echo(_told(space, J, counts))
        return
    if out is not None:
        check_new("project", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        options: dict[str, Any] = {"dedup": not no_dedup, "dtype": "float64" if wide else "float32"}
        if only_plan:
            _print_plan(space, J, options, order, as_json)
            return
        if not as_json:
            click.echo(_told(space, J, counts))
        plan = basis_of_j.plan(space, J, **options)
        with bar(runtime, "basis", plan, as_json):
            Z = basis_of_j(space, J, **options)
        made = stats()
        plan = run_project.plan(space, Z, out=out, order=order)
        if not as_json:
            click.echo(f"{made.what}\n{plan}")
        with bar(runtime, "project", plan, as_json):
            H = run_project(space, Z, out=out, order=order)
        done = stats()
        values = H.eigvalsh(energies).tolist() if energies else []
        if as_json:
            told = {"counts": counts._asdict(), "shape": H.shape, "nnz": H.nnz, "energies": values}
            print_json({
                "out": out, **told, "basis": made.as_dict(), "plan": plan.as_dict(), "stats": done.as_dict(),
            })  # fmt: skip
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{done.note}\n{H!r}")
        for number, value in enumerate(values):
            click.echo(f"{number:>6} {value:>14.5f}")
        if out is not None:
            click.echo(f"Wrote {out}.")


def _print_plan(space: Space, J: str, options: dict[str, Any], order: str, as_json: bool) -> None:
    """Z is made, for its layout alone decides the rest; H' is counted."""
    plans = {"basis": basis_of_j.plan(space, J, **options)}
    plans["project"] = run_project.plan(space, basis_of_j(space, J, **options), order=order)
    if as_json:
        print_json({name: plan.as_dict() for name, plan in plans.items()})
    else:
        click.echo("\n".join(str(plan) for plan in plans.values()))


def _told(space: Space, J: str, c: Counts) -> str:
    return (
        f"{space!r}, J = {J}\n"
        f"{c.groups:,} groups, {c.groups_used:,} with states of J; {c.dimension:,} rows, "
        f"{c.columns:,} columns\n"
        f"Z {c.z_bytes:,} bytes in float32, {c.distinct_bytes:,} of distinct blocks; "
        f"{c.tasks:,} pairs; H' {c.h_prime_bytes:,} bytes"
    )


def _print_table(as_json: bool) -> None:
    rows = [(nmax, J, Space(3, 3, nmax).counts(J)) for nmax, J in _TABLE]
    if as_json:
        print_json({"rows": [{"nmax": nmax, "J": J, **c._asdict()} for nmax, J, c in rows]})
        return
    click.echo(
        f"{'Nmax, J':>8} {'groups':>9} {'rows':>13} {'columns':>12} {'Z, GB':>8} {'distinct':>9} "
        f"{'pairs':>13} {'H, TB':>8}"
    )
    for nmax, J, c in rows:
        click.echo(
            f"{nmax:>5}, {J} {c.groups_used:>9,} {c.dimension:>13,} {c.columns:>12,} {c.z_bytes / 1e9:>8.2f} "
            f"{c.distinct_bytes / 1e9:>9.3f} {c.tasks:>13,} {c.h_prime_bytes / 1e12:>8.3f}"
        )
