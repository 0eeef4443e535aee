"""What several test files need: operands in every kind of storage, acceptance, memory of a process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ["float32", "float64", "complex64", "complex128"]
#: Kinds of storage an operand may come from; see `stored`.
KINDS = ["memory", "memory_f", "memory_strided", "npy", "npy_f", "npy_odd", "zarr", "zarr_small"]


def wide(a: np.ndarray) -> np.ndarray:
    """The same numbers in a precision in which rounding does not count."""
    if a.dtype == np.float32:
        return a.astype(np.float64)
    if a.dtype == np.complex64:
        return a.astype(np.complex128)
    return a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble)


def random_matrix(rng, shape, dtype, signed=True) -> np.ndarray:
    low = -1.0 if signed else 0.0
    a = rng.uniform(low, 1.0, shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.uniform(low, 1.0, shape)
    return a.astype(dtype)


def write_npy_at_odd_offset(path: Path, a: np.ndarray) -> None:
    """A legal .npy whose data start at an offset that is a multiple of nothing but the header's own 16."""
    head = repr({"descr": a.dtype.str, "fortran_order": False, "shape": a.shape}).encode()
    length = 10 + len(head) + 1
    pad = -length % 16 + 16 * 7
    head += b" " * pad + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + a.tobytes())


def stored(a: np.ndarray, kind: str, path: Path):
    """`a` as an operand of the given kind: an ndarray or an Array below `path` (a name that is not taken)."""
    if kind == "memory":
        return np.ascontiguousarray(a)
    if kind == "memory_f":
        return np.asfortranarray(a)
    if kind == "memory_strided":  # a leading dimension that no vector register likes
        padded = np.full((a.shape[0], a.shape[1] + 3), np.nan, dtype=a.dtype)
        padded[:, 1 : 1 + a.shape[1]] = a
        return padded[:, 1 : 1 + a.shape[1]]
    if kind in ("npy", "npy_f", "npy_odd"):
        file = path.with_suffix(".npy")
        if kind == "npy_odd":
            write_npy_at_odd_offset(file, a)
        else:
            np.save(file, np.asfortranarray(a) if kind == "npy_f" else np.ascontiguousarray(a))
        return fl.open(str(file))
    chunks = {"zarr": None, "zarr_small": (16, 32)}[kind]
    array = fl.create(str(path.with_suffix(".zarr")), a.shape, a.dtype, chunks=chunks)
    array[...] = a
    array.flush()
    return array


def acceptance(c_out, alpha, a, b, beta, c_in, rng) -> float:
    """‖C_out X − (α A (B X) + β C_in X)‖₁ / ‖…‖₁ with a random X of ten columns, in units of eps of C_out."""
    eps = np.finfo(c_out.dtype).eps
    x = wide(rng.uniform(0, 1, (c_out.shape[1], 10)).astype(c_out.dtype))
    y = wide(np.asarray(alpha)) * (wide(a) @ (wide(b) @ x))
    if c_in is not None and beta != 0:
        y = y + wide(np.asarray(beta)) * (wide(c_in) @ x)
    norm = float(np.abs(y).sum(axis=0).max())
    error = float(np.abs(wide(c_out) @ x - y).sum(axis=0).max())
    return 0.0 if error == 0 else error / norm / float(eps)


def random_csr(rows: int, cols: int, density: float, seed: int, dtype="float64") -> sp.csr_matrix:
    """Values of [0, 1) in places drawn at random; scipy.sparse.random shuffles all rows x cols places."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.integers(0, rows * cols, round(rows * cols * density)))
    places = places[np.diff(places, prepend=-1) > 0]
    ends = np.searchsorted(places, np.arange(rows + 1) * cols)
    return sp.csr_matrix((rng.random(places.size).astype(dtype), places % cols, ends), shape=(rows, cols))


def fingerprint(*arrays) -> str:
    """One hash of the bits of arrays (disk ones are read whole)."""
    digest = hashlib.sha256()
    for a in arrays:
        values = np.ascontiguousarray(a if isinstance(a, np.ndarray) else a[...])
        digest.update(str((values.shape, values.dtype)).encode() + values.tobytes())
    return digest.hexdigest()


def output_of(*arguments: str, folder: Path) -> str:
    """What Python prints when it runs with these arguments, in a process of its own, in `folder`."""
    inherited = [os.environ.get("PYTHONPATH")]  # a tree under test that is not installed
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, inherited)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def beside(mebibytes: int) -> int:
    """Return a limit of so many MiB beside what this process holds: modules and results of other tests."""
    return fl._core.resident_bytes() + (mebibytes << 20)


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def row_sum(a, row: int) -> float:
    """What workers of a pool compute; here, because they find it by its module's name."""
    return float(a[row].sum())
