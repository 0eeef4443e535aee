"""LAPACK of the wheel that the core links to, called on Fortran-order arrays in memory, with all threads."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import numpy as np


def library() -> ctypes.CDLL:
    import scipy_openblas32

    found = ctypes.CDLL(str(next(Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas.so*"))))
    found.scipy_openblas_set_num_threads(len(os.sched_getaffinity(0)))
    return found


def _number(value: int) -> ctypes.Array:
    return ctypes.byref(ctypes.c_int(value))


def _data(a: np.ndarray) -> ctypes.c_void_p:
    return a.ctypes.data_as(ctypes.c_void_p)


#: The largest order of `dpotrf` here: OpenBLAS 0.3.34 on two threads writes beyond its buffer in dsyrk from
#: n = 15,360 on, and the process ends with signal 11.
MOST_DPOTRF = 14336


def dpotrf(a: np.ndarray) -> None:
    """The lower triangle in place; of MOST_DPOTRF rows at most."""
    assert len(a) <= MOST_DPOTRF
    assert a.flags.f_contiguous
    n, info = len(a), ctypes.c_int()
    library().scipy_dpotrf_(
        ctypes.c_char_p(b"L"), _number(n), _data(a), _number(n), ctypes.byref(info), ctypes.c_size_t(1)
    )
    assert info.value == 0


def dgeqrf(a: np.ndarray) -> np.ndarray:
    """In place; returns tau."""
    (m, n), lapack = a.shape, library()
    assert a.flags.f_contiguous
    tau, work, info = np.empty(min(m, n)), np.empty(128 * n), ctypes.c_int()
    lapack.scipy_dgeqrf_(
        _number(m), _number(n), _data(a), _number(m), _data(tau), _data(work), _number(work.size),
        ctypes.byref(info),
    )  # fmt: skip
    assert info.value == 0
    return tau


def dorgqr(a: np.ndarray, tau: np.ndarray) -> None:
    (m, n), lapack = a.shape, library()
    work, info = np.empty(128 * n), ctypes.c_int()
    lapack.scipy_dorgqr_(
        _number(m), _number(n), _number(tau.size), _data(a), _number(m), _data(tau), _data(work),
        _number(work.size), ctypes.byref(info),
    )  # fmt: skip
    assert info.value == 0


def dgels(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (m, n), lapack = a.shape, library()
    assert a.flags.f_contiguous
    work, info = np.empty(130 * n), ctypes.c_int()
    lapack.scipy_dgels_(
        ctypes.c_char_p(b"N"), _number(m), _number(n), _number(1), _data(a), _number(m), _data(b), _number(m),
        _data(work), _number(work.size), ctypes.byref(info), ctypes.c_size_t(1),
    )  # fmt: skip
    assert info.value == 0
    return b[:n]


def dgemm_rate(n: int = 2048) -> float:
    """Flops a second of all processors: what a baseline is held against."""
    library()
    a, best = np.asfortranarray(np.random.default_rng(0).standard_normal((n, n))), 0.0
    c, lapack, one = np.empty_like(a), library(), ctypes.byref(ctypes.c_double(1.0))
    zero, letter = ctypes.byref(ctypes.c_double(0.0)), ctypes.c_char_p(b"N")
    for _ in range(3):
        started = time.perf_counter()
        lapack.scipy_dgemm_(
            letter, letter, _number(n), _number(n), _number(n), one, _data(a), _number(n), _data(a),
            _number(n), zero, _data(c), _number(n), ctypes.c_size_t(1), ctypes.c_size_t(1),
        )  # fmt: skip
        best = max(best, 2 * n**3 / (time.perf_counter() - started))
    return best
