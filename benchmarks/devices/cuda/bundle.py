"""One folder that runs where only a driver and CUDA's libraries are: ``bundle.py BUILD FOLDER``.

Of `make gpu-bundle`. Programs, the library of CUDA's devices, and what they need of other libraries but the C
library and CUDA's own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

MOST = 60 << 20
PROGRAMS = ("device_floors", "device_rates", "device_figures", "device_fetch")
TESTS = "algorithms_kernels_test"
LIBRARY = "libflagstone_cuda.so.1"
# The C library is the machine's; libstdc++ goes along, the machine's may be older.
LEFT = re.compile(
    r"^(libc|libm|libmvec|libdl|libpthread|librt|libgcc_s|ld-linux.*|linux-vdso|libcu\w*|libnv\w*)\.so"
)


def needed(file: Path) -> set[Path]:
    """Return the libraries that a file is linked to, as they were found here."""
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    found = (re.match(r"\s*(\S+) => (/\S+)", line) for line in listed.splitlines())
    return {Path(m[2]) for m in found if m and not LEFT.match(m[1])}


def main() -> None:
    """Copy all of it, and refuse what is too large."""
    build, folder = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [build / "benchmarks" / name for name in PROGRAMS]
    files += [next(build.rglob(LIBRARY)), next(p for p in build.rglob(TESTS) if p.is_file())]
    for file in [*files, *set().union(*map(needed, files))]:
        copied = Path(shutil.copy(file.resolve(), folder / file.name))
        if copied.stat().st_size > 1 << 16:
            subprocess.run(["strip", "--strip-unneeded", copied], check=False)  # symbols are half of it
    shutil.copy(Path(__file__).with_name("run.sh"), folder)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder}: {size >> 20} MiB")
    if size > MOST:
        raise SystemExit(f"gpu-bundle: {size >> 20} MiB are more than {MOST >> 20}.")


if __name__ == "__main__":
    main()
