"""The recipe of documents: recipe lsa."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._commands.options import bar, command_runtime, common_options, open_operand, print_json
from .._commands.routines import check_new, recipe
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import storage_error
from .._recipes.lsa import LsaResult
from .._recipes.lsa import lsa as run_lsa
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._sparse.array import SparseArray

__all__ = ["read_words", "recipe"]  # with the command that stands here

_SHOWN = 12  # directions


@recipe.command("lsa")
@click.argument("x", metavar="X")
@click.option("-k", "k", type=int, default=100, show_default=True, help="Directions.")
@click.option("-o", "--out", required=True, help="Zarr group for u, v, s and idf.")
@click.option("--vocab", help="Words, one a line, or a JSON list. [default: their numbers]")
@click.option("--words", "number", type=int, default=10, show_default=True, help="Of a direction.")
@click.option("--tol", type=float, default=1e-4, show_default=True, help="Of residuals, relative.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--key", help="Member of a group or a file.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def lsa(
    x: str, k: int, out: str, vocab: str | None, number: int, tol: float, seed: int, key: str | None,
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Weigh counts X (documents x words) by tf-idf, and tell the top words of their leading directions."""
    check_new("recipe lsa", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix = open_operand(x, key, as_json)
        if not isinstance(matrix, SparseArray):
            raise ShapeError(f"recipe lsa: '{x}' is dense; sparse counts of documents x words are needed.")
        names = None if vocab is None else read_words("recipe lsa", vocab, matrix.shape[1])
        options: dict[str, Any] = {"tol": tol, "seed": seed, "out": out}
        plan = run_lsa.plan(matrix, k, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "lsa", plan, as_json):
            found = run_lsa(matrix, k, **options)
        done = stats()
    from .._terminal.documents import write_documents

    words = _named(found, number, names)
    picture = write_documents(out, found, words, f"{Path(x).name}, {len(found.s)} directions")
    if as_json:
        told = {"values": found.s.tolist(), "residual": found.residual.tolist(), "words": words}
        print_json({"out": out, "picture": picture, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
        return
    click.echo(comparison(plan, done))
    for j, top in enumerate(words[:_SHOWN]):
        click.echo(f"{j + 1:>4}  {found.s[j]:>9.4g}  {' '.join(top)}")
    if len(words) > _SHOWN:
        click.echo(f"      {len(words) - _SHOWN} more")
    click.echo(f"  residuals are at most {np.max(found.residual):.1e}")
    click.echo(f"Wrote {out} and {picture}.")


def _named(found: LsaResult, number: int, names: list[str] | None) -> list[list[str]]:
    places = found.top_words(number)
    return [[str(at) if names is None else names[at] for at in row] for row in places]


def read_words(who: str, path: str, count: int) -> list[str]:
    """Return the words of a file; refuse another number of them."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{who}: '{path}' is no text in UTF-8; give words, one a line.") from None
    except OSError as error:
        raise storage_error(
            f"{who}: '{path}' cannot be read ({os.strerror(error.errno or 0)}).", error.errno or 0, path
        ) from None
    words = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    if not isinstance(words, list) or len(words) != count:
        raise ShapeError(
            f"{who}: '{path}' has {len(words):,} words and X {count:,} columns; they must agree."
        )
    return [str(word) for word in words]
