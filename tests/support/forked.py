"""Processes for code that is killed, forked from one that has imported what each would import first.

That takes 0.4 s of a processor, a fork a hundredth of it, and calls that are killed and go on need a thousand
processes. Nothing but modules is there before the code: the process that forks opened no file and started
no worker. Where there is a compiler, syncs reach no disk in them (`forked.cpp`): a checkpoint makes dozens.
"""

from __future__ import annotations

import atexit
import functools
import gc
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import types
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    ["hashlib", "json", "numpy", "flagstone.linalg", "flagstone._formats.open", "flagstone._resume.resume"]
)


@functools.cache
def _begin() -> tempfile.TemporaryDirectory | None:
    """Start the process that forks, with the library before the C library's; what keeps that library."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None:
        return None
    folder, before = tempfile.TemporaryDirectory(prefix="flagstone-forked-"), os.environ.get("LD_PRELOAD")
    library = f"{folder.name}/forked.so"
    source = str(Path(__file__).with_suffix(".cpp"))
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    os.environ["LD_PRELOAD"] = " ".join(filter(None, [library, before]))
    forkserver.ensure_running()
    if before is None:
        del os.environ["LD_PRELOAD"]
    else:
        os.environ["LD_PRELOAD"] = before
    return folder


def run(code: str, folder: Path, environment: dict[str, str], timeout: float) -> CompletedProcess[str]:
    """Run code as `python -c` would, in a folder; what it printed comes back."""
    _begin()
    printed = [folder / ".stdout", folder / ".stderr"]
    child = _processes.Process(target=_body, args=(code, str(folder), environment, list(map(str, printed))))
    child.start()
    child.join(timeout)
    if child.exitcode is None:
        child.kill()
        child.join()
        raise TimeoutExpired(code, timeout)
    out, err = (file.read_text(errors="replace") for file in printed)
    for file in printed:
        file.unlink()
    return CompletedProcess(code, child.exitcode, out, err)


def _body(code: str, folder: str, environment: dict[str, str], printed: list[str]) -> None:
    for number, file in enumerate(printed, 1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(code, "<string>", "exec"), vars(main))
    finally:  # as an interpreter ends; a child of multiprocessing leaves that out
        atexit._run_exitfuncs()
        vars(main).clear()
        gc.collect()
