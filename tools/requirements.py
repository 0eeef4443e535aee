#!/usr/bin/env python3
"""Prints what pyproject.toml asks for, one requirement a line: `requirements.py build demo test`."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def main() -> None:
    project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
    for name in sys.argv[1:]:
        if name == "build":
            print(*project["build-system"]["requires"], sep="\n")
        else:
            print(*project["project"]["optional-dependencies"][name], sep="\n")


if __name__ == "__main__":
    main()
