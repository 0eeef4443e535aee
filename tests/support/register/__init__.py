"""The register: an entry for everything public that touches data, each with a small case of its own."""

from . import (  # noqa: F401
    along,
    arrays,
    command_line,
    elementwise,
    files,
    lazy,
    linear_algebra,
    models,
    sparse,
    storage,
)
from .entry import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry"]
