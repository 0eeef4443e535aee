"""What `eigsh` and `svds` take of the solver, checked; what they say where it does not converge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ConvergenceError, Error, ShapeError
from .._resume.identity import memory_identity

__all__ = ["not_converged", "options_again", "recorded", "solver_options", "start_block"]

_METHODS = ("auto", "krylov-schur", "krylov")


def solver_options(
    who: str, n: int, k: int, start: NDArray[Any] | None, *, which: str, tol: float, method: str,
    block: int | None, ncv: int | None, keep: int | None, maxiter: int | None, passes: int | None, seed: int,
    verify: bool, dtype: np.dtype[Any], symmetry: float,
) -> _core.EigshOptions:  # fmt: skip
    """Return the options of a matrix of order `n`; ShapeError says what is out of range."""
    if method not in _METHODS:
        raise ShapeError(f"{who}: method is {method!r}; choose 'auto', 'krylov-schur' or 'krylov'.")
    counts = {"k": k, "block": block, "ncv": ncv, "keep": keep, "maxiter": maxiter, "passes": passes}
    for name, value in counts.items():
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise ShapeError(f"{who}: {name} is {value!r}; an integer of 1 or more is needed.")
    if isinstance(tol, bool) or np.asarray(tol).dtype.kind not in "iuf" or not 0 < tol < 1:
        raise ShapeError(f"{who}: tol is {tol!r}; a number between 0 and 1 is needed.")
    if not hasattr(seed, "__index__") or not 0 <= seed < 1 << 64:
        raise ShapeError(f"{who}: seed is {seed}; an integer of 0 or more is needed.")
    return _core.EigshOptions(
        who, n, int(k), which, float(tol), method, int(block or 0), int(ncv or 0), int(keep or 0),
        int(maxiter or 0), int(passes or 0), int(seed), bool(verify), dtype.name, symmetry,
        None if start is None else _core.memory_array(start),
    )  # fmt: skip


def start_block(who: str, v0: ArrayLike, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the vectors to start from, n x b; ShapeError where they are no independent ones."""
    given = np.asarray(v0)
    start = given.reshape(-1, 1) if given.ndim == 1 else given
    if start.ndim != 2 or len(start) != n or start.dtype.kind not in "biuf" + dtype.kind:
        raise ShapeError(
            f"{who}: v0 is {shape_text(given.shape)} {given.dtype}; vectors of {n} {dtype} are needed."
        )
    start = np.ascontiguousarray(start, dtype)
    if not np.isfinite(start).all() or np.linalg.matrix_rank(start) < start.shape[1]:
        raise ShapeError(
            f"{who}: v0 holds NaN or Inf, or its vectors depend on each other or are zero; leave v0 out, or "
            "give independent ones."
        )
    return start


def not_converged(who: str, job: _core.EigshJob, partial: Any) -> ConvergenceError:
    """Return the error that holds what was reached."""
    error = ConvergenceError(
        f"{who}: after {job.applications} applications, the last one to measure, the worst residual is "
        f"{max(job.residuals):.1e}, above tol; raise tol, ncv or maxiter (what was reached is the error's "
        "`partial`)."
    )
    error.partial = partial
    return error


def recorded(start: NDArray[Any] | None, **options: Any) -> dict[str, Any]:
    """Return what a record keeps of the options, as a call takes them; of a start, what it is known by."""
    told: dict[str, Any] = {
        name: value for name, value in options.items() if isinstance(value, (str, bool)) or value is None
    }
    told |= {name: float(value) for name, value in options.items() if name == "tol"}
    told |= {name: int(value) for name, value in options.items() if name not in told}
    return told | {"v0": None if start is None else memory_identity(start)}


def options_again(who: str, told: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a recorded call."""
    if told["v0"] is not None:
        raise Error(f"resume: {who} was begun with v0, which is in no file; make the same call again.")
    return {name: told[name] for name in names}
