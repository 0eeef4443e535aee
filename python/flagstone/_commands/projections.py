"""Command of projections: project."""

from __future__ import annotations

from typing import Any

import click

from .._formats.open import open_path
from .._nuclear.basis_of_j import basis_of_j, planned_basis
from .._nuclear.commutator import check_scalar
from .._nuclear.interaction import Interaction
from .._nuclear.space import Counts, Space
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._sparse.array import SparseArray
from .._subspace.project import project as run_project
from .._terminal.projection_map import Projected, write_report
from .options import bar, command_runtime, common_options, print_json
from .routines import check_new

#: Rows of table 1 of Aktulga et al. (Euro-Par 2012): Nmax, J, and the seconds of arithmetic that they report,
#: on 946 cores and, of Nmax 14 (a tenth of 970 s), on 10,011.
_TABLE = ((12, 0, 87.5), (12, 1, 108), (12, 2, 118), (12, 3, 111), (12, 4, 94), (14, 3, 97))


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
@click.option(
    "-J", "momenta", multiple=True, default=("0",), show_default=True,
    help="Angular momentum, as 2 or 5/2; several times: one after the other, {J} in OUT stands for it.",
)  # fmt: skip
@click.option("-M", "M", help="Total M of the rows, J at most; default J.")
@click.option(
    "--interaction", metavar="FILE|random:SEED",
    help="KSHELL's .snt, BIGSTICK's .int (its .sps beside it), or a random ensemble.",
)  # fmt: skip
@click.option(
    "--hamiltonian", metavar="PATH",
    help="H by rows (nuclear.Space.hamiltonian, --keep-h) in place of an interaction; looked at for J.",
)  # fmt: skip
@click.option("-o", "--out", help="Zarr group for H'; a report (PNG, JSON) is written beside it.")
@click.option("--energies", type=int, default=0, help="So many lowest eigenvalues.")
@click.option(
    "--order", type=click.Choice(["panels", "columns"]), default="panels", show_default=True,
    help="What of Z stays: what fits, or one block, as in the paper's algorithm 1.",
)  # fmt: skip
@click.option("--panel", help="Most bytes of Z that stay, as 16MiB.")
@click.option("--files", type=int, default=1, show_default=True, help="Arrays that Z is dealt to.")
@click.option("--keep-h", metavar="PATH", help="Store H too, by rows.")
@click.option("--no-dedup", is_flag=True, help="Store equal blocks of Z each for itself.")
@click.option("--float64", "wide", is_flag=True, help="Z and H' in float64: five decimals need it.")
@click.option("--count", "only_count", is_flag=True, help="Print the sizes and run nothing.")
@click.option(
    "--table1", is_flag=True, help="Print the sizes of table 1 of Aktulga et al. 2012 and run nothing."
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def project(
    protons: int, neutrons: int, nmax: int | None, momenta: tuple[str, ...], M: str | None,
    interaction: str | None, hamiltonian: str | None, out: str | None, energies: int, order: str,
    panel: str | None, files: int,
    keep_h: str | None, no_dedup: bool, wide: bool, only_count: bool, table1: bool, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Project a nuclear Hamiltonian on the states of one angular momentum."""
    if table1:
        _print_table(as_json)
        return
    space = Space(protons, neutrons, nmax, _interaction(interaction))
    if only_count:
        counted = [(J, space.counts(J)) for J in momenta]
        told = [{"J": J, **c._asdict()} for J, c in counted]
        if as_json:
            print_json(told[0] if len(told) == 1 else told)
        else:
            click.echo("\n".join(_told(space, J, c) for J, c in counted))
        return
    for place in (out, keep_h):
        if place is not None and len(momenta) > 1 and "{J}" not in place:
            raise click.BadParameter(f"{place!r} is for several J; write {{J}} where theirs goes.")
        for J in momenta if place is not None else ():
            check_new("project", _of(place, J) or "", overwrite or only_plan)
    basis = {
        "dedup": not no_dedup, "dtype": "float64" if wide else "float32", "M": M, "files": files,
    }  # fmt: skip
    options = {"order": order, "panel": panel}
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        if only_plan:
            for J in momenta:
                _print_plan(space, J, basis, options, as_json, hamiltonian)
            return
        found, told = [], []
        for J in momenta:
            run = _Run(space, J, runtime, as_json, energies, hamiltonian)
            one, facts = run.projected(basis, options | {"out": _of(out, J), "keep_h": _of(keep_h, J)})
            found.append(one)
            told.append(facts)
        facts = told[0] if len(told) == 1 else {"runs": told}
        if out is not None:
            base = out.rstrip("/").removesuffix(".zarr").replace("{J}", "").rstrip("-_.")
            picture, written = write_report(base, f"{space!r}", found, facts)
            facts |= {"picture": picture, "report": written}
        if as_json:
            print_json(facts)
        elif out is not None:
            click.echo(f"Wrote {', '.join(_of(out, J) or '' for J in momenta)}, {picture} and {written}.")


def _of(path: str | None, J: str) -> str | None:
    """Return the path of one J."""
    return None if path is None else path.replace("{J}", J.replace("/", "_"))


class _Run:
    """One J of a command: what it tells while it goes."""

    def __init__(
        self, space: Space, J: str, runtime: Any, as_json: bool, energies: int, hamiltonian: str | None
    ) -> None:
        self.space, self.J, self.runtime, self.as_json, self.energies = space, J, runtime, as_json, energies
        self.hamiltonian = hamiltonian

    def say(self, text: str) -> None:
        if not self.as_json:
            click.echo(text)

    def projected(self, basis: dict[str, Any], options: dict[str, Any]) -> tuple[Projected, dict[str, Any]]:
        """Make Z, project, look for energies; return what was found and what JSON tells of it."""
        counts = self.space.counts(self.J)
        self.say(_told(self.space, self.J, counts))
        plan = basis_of_j.plan(self.space, self.J, **basis)
        with bar(self.runtime, "basis", plan, self.as_json):
            Z = basis_of_j(self.space, self.J, **basis)
        made = stats()
        source = _source(self.space, self.hamiltonian)
        if self.hamiltonian is not None:
            check_scalar("project", source, self.space, Z.about["two_m"])
        plan = run_project.plan(source, Z, **options)
        self.say(f"{made.what}\n{plan}")
        with bar(self.runtime, "project", plan, self.as_json):
            H = run_project(source, Z, **options)
        done = stats()
        values = H.eigvalsh(self.energies).tolist() if self.energies else []
        self.say(f"{done.what}\n{comparison(plan, done)}\n{done.note}\n{H!r}")
        for number, value in enumerate(values):
            self.say(f"{number:>6} {value:>14.5f}")
        told = {
            "J": self.J, "out": options["out"], "counts": counts._asdict(), "shape": H.shape, "nnz": H.nnz,
            "energies": values, "basis": made.as_dict(), "plan": plan.as_dict(), "stats": done.as_dict(),
        }  # fmt: skip
        return Projected(self.J, H, values, done), told


def _source(space: Space, hamiltonian: str | None) -> Any:
    """Return what is projected: what the space makes, or a matrix that is stored."""
    if hamiltonian is None:
        return space
    found = open_path(hamiltonian)
    if not isinstance(found, SparseArray):
        raise click.BadParameter(f"{hamiltonian!r} holds {found!r}; a sparse matrix is needed.")
    return found


def _print_plan(
    space: Space, J: str, basis: dict[str, Any], options: dict[str, Any], as_json: bool,
    hamiltonian: str | None,
) -> None:  # fmt: skip
    """Nothing is made: the layout of Z decides the rest."""
    shapes, source = planned_basis(space, J, **basis), _source(space, hamiltonian)
    plans = {
        "basis": basis_of_j.plan(space, J, **basis),
        "project": run_project.plan(source, shapes, **options),
    }
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
    rows = [(nmax, J, Space(3, 3, nmax).counts(J), seconds) for nmax, J, seconds in _TABLE]
    if as_json:
        told = [
            {"nmax": nmax, "J": J, **c._asdict(), "published_seconds": seconds}
            for nmax, J, c, seconds in rows
        ]
        print_json({"rows": told})
        return
    click.echo(
        f"{'Nmax, J':>8} {'groups':>9} {'rows':>13} {'columns':>12} {'Z, GB':>8} {'distinct':>9} "
        f"{'pairs':>13} {'H, TB':>8} {'theirs, s':>10}"
    )
    for nmax, J, c, seconds in rows:
        click.echo(
            f"{nmax:>5}, {J} {c.groups_used:>9,} {c.dimension:>13,} {c.columns:>12,} {c.z_bytes / 1e9:>8.2f} "
            f"{c.distinct_bytes / 1e9:>9.3f} {c.tasks:>13,} {c.h_prime_bytes / 1e12:>8.3f} {seconds:>10g}"
        )
    click.echo("theirs: arithmetic, Aktulga et al., Euro-Par 2012, on 946 cores (Nmax 12) and 10,011 (14).")
