#!/usr/bin/env python3
"""Installs a wheel into an empty environment and uses it there: `check_wheel.py WHEEL [--demo]`.

What runs sees no compiler and no library of ours but the wheel's: the environment variables are its own, PATH
holds its programs alone, and every shared object that the process maps must lie in the environment or be one
that its manylinux tag promises. The README's first example runs on small files; --demo draws the picture of
`flagstone demo` at 160 MiB too, and says how long that took. --installed: use the environment of this very
interpreter, where the wheel is installed already.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 25 << 20

#: What the README's example opens, made without SciPy.
FILES = """
import numpy as np
import flagstone as fl
rng = np.random.default_rng(0)
counts = rng.poisson(0.1, (400, 120)).astype("float64")
rows, columns = np.nonzero(counts)
pointers = np.searchsorted(rows, np.arange(401)).astype("int32")
np.savez("cells.npz", format=b"csr", shape=counts.shape, data=counts[rows, columns],
         indices=columns.astype("int32"), indptr=pointers)
np.save("a.npy", rng.random((60, 50)))
fl.from_numpy(rng.random((40, 50)), "b.zarr")
"""

#: What is mapped beside Python's and NumPy's: in the environment, or promised by a manylinux tag.
MAPPED = """
import bz2, ctypes, hashlib, lzma, ssl, sys, zlib
import numpy

def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}

before = mapped()
import flagstone
promised = {"libc", "libm", "libmvec", "libpthread", "libdl", "librt", "libstdc++", "libgcc_s"}
strange = [p for p in mapped() - before
           if not p.startswith((sys.prefix, sys.base_prefix + "/lib/python3"))
           and p.rsplit("/")[-1].split(".so")[0] not in promised]
assert not strange, f"the wheel leans on libraries of this machine: {sorted(strange)}"
print(flagstone.features())
"""


class Environment:
    """Programs of an environment, which see nothing else."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.programs, self.work = folder / "bin", work
        work.mkdir(parents=True, exist_ok=True)

    def run(self, *command: str) -> None:
        """Run a program of the environment in its folder; what it says is shown where it fails."""
        alone = {"PATH": str(self.programs), "HOME": str(self.work), "LANG": "C.UTF-8"}
        program = str(self.programs / command[0])
        done = subprocess.run(
            [program, *command[1:]], cwd=self.work, env=alone, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"check_wheel: {command[0]} ended with {done.returncode}:\n{done.stdout}")


def installed(wheel: Path, folder: Path) -> float:
    """Install a wheel into a new environment; return the seconds that it took beyond what it depends on."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*install, *needs(wheel)], check=True)
    started = time.perf_counter()
    subprocess.run([*install, str(wheel)], check=True)
    return time.perf_counter() - started


def needs(wheel: Path) -> list[str]:
    """Return what a wheel depends on, its extras aside."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    found = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [need for need in found if "extra ==" not in need]


def example() -> str:
    """Return the README's first Python block."""
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def checked_name(wheel: Path) -> str:
    """Return what is told of a wheel; refuse one that is not repaired, or too large."""
    size = wheel.stat().st_size
    if "manylinux" not in wheel.name:
        sys.exit(f"check_wheel: {wheel.name} is not repaired: its tag must say manylinux.")
    if size > MOST_BYTES:
        sys.exit(f"check_wheel: {wheel.name} has {size} bytes, more than {MOST_BYTES}.")
    return f"{wheel.name}: {size / 1e6:.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "wheel-environment")
    args = parser.parse_args()
    if bool(args.wheel) == args.installed:
        parser.error("name a wheel, or give --installed")
    told, folder = "", args.folder.absolute()
    if args.wheel:
        told = checked_name(args.wheel)
        told += f", installed in {installed(args.wheel.resolve(), folder):.1f} s"
    environment = Environment(Path(sys.prefix) if args.installed else folder, folder / "work")
    environment.run("python", "-c", MAPPED)
    environment.run("python", "-c", FILES)
    environment.run("python", "-c", example())
    environment.run("flagstone", "info", "a.npy")
    if args.demo:
        started = time.perf_counter()
        environment.run("flagstone", "demo", "--memory", "160MiB")
        told += f", flagstone demo at 160 MiB in {time.perf_counter() - started:.1f} s"
    print(told.lstrip(", "))


if __name__ == "__main__":
    main()
