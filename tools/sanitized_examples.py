"""Runs examples/*.py with the extension module of a sanitizer's build: sanitized_examples.py asan|tsan.

The build (cmake --preset NAME -DFLAGSTONE_PYTHON=ON, target _core) comes first; `make asan` and `make tsan`
do all of it. A sanitizer's shadow memory counts as resident: limits are lifted here; other tests hold them.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
# libstdc++ beside the sanitizer: its interceptor of exceptions looks for it before Python has loaded it.
LIBRARIES = {"asan": ("libasan.so", "libstdc++.so"), "tsan": ("libtsan.so", "libstdc++.so")}
OPTIONS = {
    # CPython and NumPy keep what they allocate until the end: leaks are the C++ tests' matter.
    "asan": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
    "tsan": {"TSAN_OPTIONS": f"halt_on_error=1:suppressions={TOP / 'tools' / 'tsan.supp'}"},
}


def site(name: str) -> Path:
    """A package directory of links: the sources here, the extension module of that build."""
    folder = TOP / "build" / name / "site" / "flagstone"
    folder.mkdir(parents=True, exist_ok=True)
    module = next((TOP / "build" / name / "python" / "bindings").glob("_core.*.so"))
    modules = (path for path in (TOP / "python" / "flagstone").iterdir() if path.name != "__pycache__")
    for path in (*modules, module):
        link = folder / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    return folder.parent


def child(example: str) -> None:
    from flagstone._runtime import call, runtime

    call.memory_bytes = runtime.memory_bytes = lambda memory: 1 << 40
    sys.argv = [example]
    runpy.run_path(example, run_name="__main__")


def main(name: str) -> int:
    found = [
        subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        for library in LIBRARIES[name]
    ]
    environment = {
        **os.environ,
        **OPTIONS[name],
        "LD_PRELOAD": " ".join(done.stdout.strip() for done in found),
        "PYTHONPATH": str(site(name)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    for example in sorted((TOP / "examples").glob("*.py")):
        print(f"== {name} {example.name}", flush=True)
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(example)], env=environment, timeout=600
        )
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(child(sys.argv[2]) if sys.argv[1] == "--child" else main(sys.argv[1]))
