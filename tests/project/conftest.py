"""A copy of the tree in which faults are planted, one at a time."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))  # the checks are called as functions


class Tree:
    """A copy of what the checks look at; `planted` puts a fault in and takes it out again."""

    def __init__(self, top: Path) -> None:
        self.top = top
        skip = shutil.ignore_patterns("__pycache__", "*.so")
        for part in ("src", "python", "tools", "tests", "benchmarks", "examples", "docs/decisions"):
            shutil.copytree(ROOT / part, top / part, ignore=skip)

    @contextmanager
    def planted(self, files: dict[str, str | None], append: bool = False):
        """Files with these texts (None: gone; `append`: behind what is there) while the block runs."""
        paths = {self.top / name: text for name, text in files.items()}
        before = {path: path.read_bytes() if path.exists() else None for path in paths}
        made = {folder for path in paths for folder in path.parents if not folder.exists()}
        try:
            for path, text in paths.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                if text is None:
                    path.unlink()
                else:
                    old = before[path] or b""
                    path.write_bytes((old if append else b"") + text.encode())
            yield
        finally:
            for path, old in before.items():
                path.unlink(missing_ok=True)
                if old is not None:
                    path.write_bytes(old)
            for folder in sorted(made, reverse=True):
                folder.rmdir()


@pytest.fixture(scope="session")
def tree(tmp_path_factory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"))
