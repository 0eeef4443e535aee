"""Processes whose syncs reach no disk (`unsynced.cpp`), where there is a compiler.

The half of a small result's time is in syncs, three dozen of them. For processes that are asked for values,
memory, refusals, or what a kill leaves: whether syncs stand where they must is asked in tests/durability.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


@functools.cache
def _library() -> tuple[str, tempfile.TemporaryDirectory | None]:
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None:
        return "", None
    folder = tempfile.TemporaryDirectory(prefix="flagstone-unsynced-")
    library, source = f"{folder.name}/unsynced.so", str(Path(__file__).with_suffix(".cpp"))
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library, folder


def environment() -> dict[str, str]:
    """What such a process has in its environment."""
    preloaded = " ".join(filter(None, [_library()[0], os.environ.get("LD_PRELOAD")]))
    return {**os.environ, **({"LD_PRELOAD": preloaded} if preloaded else {})}
