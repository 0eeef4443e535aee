"""One folder that runs where only a driver and CUDA's libraries are: ``bundle.py BUILD FOLDER`` (`make gpu-bundle`).

Programs, the library of CUDA's devices, and what they need of other libraries but the C library and CUDA's own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

MOST = 60 << 20
PROGRAMS = ("device_floors", "device_rates", "device_figures")
TESTS = "algorithms_kernels_test"
LIBRARY = "libflagstone_cuda.so"
# The C library is the machine's; libstdc++ goes along, the machine's may be older.
LEFT = re.compile(
    r"^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux.*|linux-vdso|libcu\w*|libnv\w*)\.so"
)

RUN = """#!/bin/bash
# bash run.sh [OPTIONS of device_figures]: kernels against float64, floors of this card, rates of tiles, then routines end
# to end; a line of JSON each in results/, tables on the way.
cd "$(dirname "$0")" && mkdir -p results
for d in ${CUDA_HOME:-/usr/local/cuda}/lib64 /usr/local/cuda/lib64; do
  [ -d "$d" ] && CUDA_LIBRARIES=$d && break
done
export LD_LIBRARY_PATH=$PWD:$CUDA_LIBRARIES:$LD_LIBRARY_PATH
set -e
./algorithms_kernels_test --gtest_filter='*DeviceTable*cuda*' --gtest_brief=1
./device_floors --link 2147483648 --gemm32 49152 --gemm64 40960 --potrf 49152 --geqrf 65536 8192 > results/floors.json
cat results/floors.json
./device_rates 256 512 1024 2048 4096 > results/rates.json
./device_figures --scratch "$PWD/results" ${@:---memory 8 --product32 49152 --product64 40960 --cholesky 49152 \\
  --qr 65536 8192 --disk 24576} > results/figures.json
cat results/figures.json
"""


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
    (folder / "run.sh").write_text(RUN)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder}: {size >> 20} MiB")
    if size > MOST:
        raise SystemExit(f"gpu-bundle: {size >> 20} MiB are more than {MOST >> 20}.")


if __name__ == "__main__":
    main()
