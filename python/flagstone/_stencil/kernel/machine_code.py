"""Loops compiled so far, and when compiling one is worth while."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._expression.expression import Expression
from ..._runtime import environment
from .loops import Row, row_loop

__all__ = ["loop_code"]

_WORTH = 5e7  # updates: compiling takes as long as the fused kernel takes for about so many
_PATIENCE = 60.0  # seconds

_made: dict[str, tuple[bytes, int] | None] = {}


def worth_compiling(updates: float) -> bool:
    """Say whether a loop over so many points and steps is to be compiled."""
    asked = environment.compiles()
    return updates >= _WORTH if asked is None else asked


def loop_code(
    roots: Sequence[Expression], dtype: np.dtype[Any], updates: float
) -> tuple[tuple[bytes, int, list[Row]] | None, str]:
    """Return code, entry and rows of the loop that makes values of expressions at so many points and steps.

    Else None, and why not in words ("": it is not worth while).
    """
    if not worth_compiling(updates):
        return None, ""
    loop = row_loop(roots, dtype)
    if loop is None:
        return None, "verbs or dtypes without an instruction of their own"
    text, rows = loop
    made = compiled(text)
    if made is None:
        return None, "Numba's llvmlite is not installed, or not for this processor"
    return (*made, rows), ""


def compiled(text: str) -> tuple[bytes, int] | None:
    """Return code and entry of a loop in LLVM's text, compiled by a child process the first time.

    None: there is no compiler (llvmlite, which comes with Numba), or it cannot compile this one here.
    """
    if text not in _made:
        _made[text] = _compiled(text)
    return _made[text]


def _compiled(text: str) -> tuple[bytes, int] | None:
    if not sys.executable or importlib.util.find_spec("llvmlite") is None:
        return None
    child = [sys.executable, str(Path(__file__).with_name("assembly.py"))]
    try:
        done = subprocess.run(child, input=text.encode(), capture_output=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    (entry,) = struct.unpack_from("<Q", done.stdout)
    return done.stdout[8:], entry
