"""Archives of NumPy and SciPy; how a member is opened again, without zipfile before one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._resume.registers import opener

if TYPE_CHECKING:
    from ..._array.array import Array


@opener("npz")
def open_again(path: str, name: str) -> Array:
    """Open an array of an archive."""
    from .dense import open_member

    return open_member(path, name)
