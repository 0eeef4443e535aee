"""The command line: ``flagstone info | check | repair | pack | convert | matmul | pca | scratch | ...``."""

from __future__ import annotations

import json
import os
import sys

import click

from .. import _core
from .._commands import (
    dense,
    factors,
    projections,
    routines,
    simulate,
    sorting,
    spectra,
    stencils,
    summaries,
)
from .._errors.classes import Error
from .._learning import clusters, documents, graphs, labels, models, topics
from .._runtime import environment
from . import demo, resumed, stored, upkeep

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_core.__version__, prog_name="flagstone")
def cli() -> None:
    """Linear algebra on matrices bigger than memory, inside a memory limit that is true."""


for command in (
    stored.info,
    stored.check_command,
    stored.repair_command,
    stored.pack_command,
    stored.convert,
    routines.matmul,
    dense.lstsq,
    dense.qr,
    factors.cholesky,
    factors.lu,
    factors.solve,
    routines.rechunk,
    routines.turn,
    sorting.sort,
    stencils.stencil,
    routines.pca,
    summaries.norm,
    summaries.cov,
    spectra.eigsh,
    spectra.svd,
    graphs.embed,
    documents.recipe,
    clusters.kmeans,
    clusters.knn,
    labels.labels,
    topics.topics,
    models.gp,
    projections.project,
    resumed.resume_command,
    upkeep.scratch_command,
    upkeep.calibrate_command,
    upkeep.timeline_command,
    simulate.simulate,
    demo.demo,
):
    cli.add_command(command)


def _told_as_json(error: BaseException, text: str) -> bool:
    """Print an error as a JSON object where that was asked for; say whether it was."""
    if "--json" not in sys.argv[1:]:
        return False
    click.echo(json.dumps({"error": text, "kind": type(error).__name__}))
    return True


def main() -> None:
    """Run the command line; exit with 0, 1 (failed), 2 (not understood) or 130 (interrupted)."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        if not _told_as_json(error, error.format_message()):
            error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort) as stop:
        kept = "; ".join(getattr(stop, "__notes__", [])) or "nothing half-written is left"
        if not _told_as_json(stop, f"interrupted; {kept}."):
            click.echo(f"flagstone: interrupted; {kept}.", err=True)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (Error, OSError, MemoryError, ValueError, TypeError) as error:
        if environment.traceback():
            raise
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", []))
        if not _told_as_json(error, f"{error}{notes}"):
            click.echo(f"flagstone: {error}{notes}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
