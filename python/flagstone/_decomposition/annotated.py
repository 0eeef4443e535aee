"""Matrices that AnnData or h5py hold open: seen as what lies in their file, so that nothing is loaded."""

from __future__ import annotations

from typing import Any

from .._errors.classes import Error, FormatError
from .._resume.registers import OPENERS

__all__ = ["matrix_in"]


def matrix_in(who: str, X: Any) -> Any:
    """Return what an AnnData, its backed X or a data set of h5py stands for; anything else as it is.

    Told by the module of the class: neither library is loaded for it.
    """
    module = type(X).__module__.partition(".")[0]
    if module == "anndata" and hasattr(X, "obs") and hasattr(X, "X"):
        if not X.isbacked:
            return X.X
        if X.is_view:
            raise FormatError(
                f"{who}: X is a view of a backed AnnData; open its file and choose there: "
                f"fl.open('{X.filename}')[mask]."
            )
        return _opened(who, X, str(X.filename), "X")
    node = getattr(X, "group", None) if module == "anndata" else X if module == "h5py" else None
    if node is None or not type(node).__module__.startswith("h5py"):
        return X
    return _opened(who, node, str(node.file.filename), str(node.name).strip("/"))


def _opened(who: str, X: Any, path: str, key: str) -> Any:
    try:
        return OPENERS["path"](path, key)
    except (Error, OSError) as failed:
        mode = getattr(getattr(X, "file", None), "mode", "r")
        if mode == "r":
            raise
        raise FormatError(
            f"{who}: '{path}' is open for writing (mode {mode!r}), so it cannot be read beside it "
            f"({str(failed).rstrip('.')}); close it, or open it with backed='r'."
        ) from failed
