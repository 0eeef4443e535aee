"""Nothing public that touches data is forgotten: the register against the list of public names and verbs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import click

from flagstone._cli import cli
from tests.support.processes import ROOT
from tests.support.register import ENTRIES
from tests.support.register.exceptions import EXCEPTIONS


def public_names() -> set[str]:
    """What docs/reference/api.txt lists of Python, without "flagstone."; classes go by their members."""
    text = (ROOT / "docs/reference/api.txt").read_text().partition("# Python\n")[2].partition("# C++")[0]
    return set(re.findall(r"^flagstone\.([\w.]+)", text, re.MULTILINE))


def verbs(group: click.Group = cli, before: str = "flagstone") -> Iterator[str]:
    """The command line's, those of groups too."""
    for name, command in group.commands.items():
        yield f"{before} {name}"
        if isinstance(command, click.Group):
            yield from verbs(command, f"{before} {name}")


def test_every_public_name_has_an_entry_or_a_reason():
    covered = {name for entry in ENTRIES.values() for name in entry.covers}
    names = public_names() | set(verbs())
    assert len(names) > 400
    forgotten = {
        name for name in names - covered if not any(fnmatchcase(name, pattern) for pattern in EXCEPTIONS)
    }
    assert not forgotten, f"enter them in tests/support/register: {sorted(forgotten)}"
    assert not covered - names, f"no public names: {sorted(covered - names)}"


def test_every_exception_is_one():
    """An exception names something public that no entry covers; else it hides what is entered later."""
    covered = {name for entry in ENTRIES.values() for name in entry.covers}
    names = (public_names() | set(verbs())) - covered
    idle = [pattern for pattern in EXCEPTIONS if not any(fnmatchcase(name, pattern) for name in names)]
    assert not idle
