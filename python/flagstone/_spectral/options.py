"""What `eigsh` and `svds` take of the solver, checked; what they say where it does not converge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ConvergenceError, Error, ShapeError
from .._resume.identity import memory_identity
from .._runtime.arguments import array_of, check_flags, one_of, real_number, seed_number, whole_number

__all__ = [
    "in_own_units", "not_converged", "options_again", "recorded", "solver_options", "start_block", "units_of",
]  # fmt: skip

_MOST = (1 << 31) - 1  # what the core counts in
_METHODS = ("auto", "krylov-schur", "krylov")


def solver_options(
    who: str, n: int, k: int, start: NDArray[Any] | None, *, which: str, tol: float, method: str,
    block: int | None, ncv: int | None, keep: int | None, maxiter: int | None, passes: int | None, seed: int,
    verify: bool, dtype: np.dtype[Any], symmetry: float,
) -> _core.EigshOptions:  # fmt: skip
    """Return the options of a matrix of order `n`; ShapeError says what is out of range."""
    one_of(who, "method", method, *_METHODS)
    one_of(who, "which", which, "LM", "LA", "SA", "BE")
    check_flags(who, verify=verify)
    counts = {"k": k, "block": block, "ncv": ncv, "keep": keep, "maxiter": maxiter, "passes": passes}
    for name, value in counts.items():
        if value is not None or name == "k":
            whole_number(who, name, value, 1, _MOST)
    tol = real_number(who, "tol", tol, lambda v: 0 < v < 1, "a number between 0 and 1 is needed")
    seed = seed_number(who, seed)
    return _core.EigshOptions(
        who, n, int(k), which, tol, method, int(block or 0), int(ncv or 0), int(keep or 0),
        int(maxiter or 0), int(passes or 0), seed, bool(verify), dtype.name, symmetry,
        None if start is None else _core.memory_array(start),
    )  # fmt: skip


def start_block(who: str, v0: ArrayLike, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the vectors to start from, n x b; ShapeError where they are no independent ones."""
    given = array_of(who, "v0", v0)
    start = given.reshape(-1, 1) if given.ndim == 1 else given
    if start.ndim != 2 or len(start) != n or start.dtype.kind not in "biuf" + dtype.kind:
        raise ShapeError(
            f"{who}: v0 is {shape_text(given.shape)} {given.dtype}; vectors of {n} {dtype} are needed."
        )
    start = np.ascontiguousarray(start, dtype)
    finite = bool(np.isfinite(start).all())
    start = in_own_units(start) if finite else start
    if not finite or np.linalg.matrix_rank(start) < start.shape[1]:
        raise ShapeError(
            f"{who}: v0 holds NaN or Inf, or its vectors depend on each other or are zero; leave v0 out, or "
            "give independent ones."
        )
    return start


def units_of(vectors: NDArray[Any]) -> NDArray[np.intc]:
    """Return the power of two above the largest number of each vector (of zeros 0), within ±1000."""
    return np.asarray(np.clip(np.frexp(np.abs(vectors).max(axis=0))[1], -1000, 1000))


def in_own_units(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors divided by powers of two, exactly, so that their squares are in range."""
    return vectors * np.ldexp(1.0, -units_of(vectors))


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
    told |= {name: bool(value) for name, value in options.items() if name == "verify"}
    told |= {name: int(value) for name, value in options.items() if name not in told}
    return told | {"v0": None if start is None else memory_identity(start)}


def options_again(who: str, told: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a recorded call."""
    if told["v0"] is not None:
        raise Error(f"resume: {who} was begun with v0, which is in no file; make the same call again.")
    return {name: told[name] for name in names}
