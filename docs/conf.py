"""The documentation site: `make docs`.

The source directory is the project's root, so that README.md, ARCHITECTURE.md, the pages of the rooms and
the changelog are pages of the site as they stand, and a link works there, here and in an editor.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.ext.autodoc import FunctionDocumenter
from sphinx.util.docutils import SphinxDirective

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
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
autosummary_generate = False
html_theme = "furo"
html_title = f"Flagstone {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
nitpicky = False
suppress_warnings = ["ref.python"]  # a word in a type, "shape", that several classes have as an attribute

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
napoleon_use_ivar = True  # else attributes that are told twice are objects twice
napoleon_use_param = False  # else the type of a parameter, "path", is a link to whatever is called so
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


class Face(SphinxDirective):
    """A page of a face: a table of all its names, then what each does. Exceptions stand on their own page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write both as directives of autosummary and autodoc."""
        face = self.arguments[0]
        module = importlib.import_module(face)
        names = sorted((name for name in module.__all__ if not name.startswith("__")), key=str.lower)
        if face != "flagstone.errors":
            names = [name for name in names if not _is_error(getattr(module, name))]
        # What flagstone has too is told there, once; a table of another face leads to it.
        above = set() if face in ("flagstone", "flagstone.errors") else set(flagstone.__all__)
        own = [name for name in names if name not in above]
        classes = [name for name in names if isinstance(getattr(module, name), type)]
        # Those of NumPy, which stand among the names of the standard: after what is ours.
        dtypes = [name for name in classes if issubclass(getattr(module, name), np.generic)]
        functions = [name for name in names if name not in classes and callable(getattr(module, name))]
        others = [name for name in names if name not in classes and name not in functions]
        text = "".join(
            f".. rubric:: {kind}\n\n.. autosummary::\n   :signatures: none\n\n"
            + "".join(f"   {'flagstone' if name in above else face}.{name}\n" for name in some)
            + "\n"
            for kind, some in (
                ("Classes", [name for name in classes if name not in dtypes]),
                ("Functions", functions),
                ("NumPy's dtypes", dtypes),
            )
            if some
        )
        text += f".. automodule:: {face}\n   :members: {', '.join(own)}\n" if own else ""
        if others:
            text += f"\nBeside these: {', '.join(f'``{name}``' for name in others)}.\n"
        return self.parse_text_to_nodes(text)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def code_role(name: str, rawtext: str, text: str, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
    """Single backticks of docstrings are code."""
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
    app.add_directive("face", Face)
    app.add_role("any_or_code", code_role)
