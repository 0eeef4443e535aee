"""The documentation site: `make docs`.

The source directory is the project's root, so that README.md, ARCHITECTURE.md, the pages of the rooms and
the changelog are pages of the site as they stand, and a link works there, here and in an editor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.ext.autodoc import FunctionDocumenter

import flagstone
from flagstone._runtime.routine import RoutineFunction

project = "Flagstone"
author = "the Flagstone authors"
copyright = f"2026, {author}"
version = release = flagstone.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "*.md",
    "src/flagstone/**/README.md",
    "python/README.md",
    "python/*/README.md",
    "python/flagstone/**/README.md",
    "benchmarks/README.md",
]
exclude_patterns = ["docs/conf.py"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Flagstone {release}"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
nitpicky = False

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
# Sphinx 9 leaves out, without a word, what a documenter of our own tells.
autodoc_use_legacy_class_based = True
default_role = "any_or_code"


class RoutineDocumenter(FunctionDocumenter):
    """`fl.matmul` is an object with .plan(); it reads as the function that it stands for."""

    objtype = "routine"
    directivetype = "function"
    priority = FunctionDocumenter.priority + 10

    @classmethod
    def can_document_member(cls, member: Any, membername: str, isattr: bool, parent: Any) -> bool:
        return isinstance(member, RoutineFunction)


def code_role(name: str, rawtext: str, text: str, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
    """Single backticks of docstrings are code."""
    from docutils import nodes

    return [nodes.literal(rawtext, text)], []


def check_routines(app: Sphinx, error: Exception | None) -> None:
    """Refuse a site whose page of routines lacks one."""
    page = Path(app.outdir, "docs", "reference", "routines.html")
    if error is not None or not page.exists():
        return
    told = page.read_text(encoding="utf-8")
    routines = [name for name in flagstone.__all__ if isinstance(getattr(flagstone, name), RoutineFunction)]
    missing = [name for name in routines if f'<span class="pre">{name}</span>' not in told]
    if missing:
        raise ExtensionError(f"docs/reference/routines.md: {', '.join(missing)} are missing on the page.")


def setup(app: Sphinx) -> None:
    """Register all of them."""
    app.connect("build-finished", check_routines)
    app.add_autodocumenter(RoutineDocumenter)
    app.add_role("any_or_code", code_role)
