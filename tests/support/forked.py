"""Processes for code that is killed, forked from one that has imported what each would import first.

That takes 0.4 s of a processor, a fork a hundredth of it, and calls that are killed and go on need a thousand
processes. Nothing but modules is there before the code: the process that forks opened no file and started
no worker. Syncs reach no disk in them: a checkpoint makes dozens, and a kill takes nothing from the kernel.
"""

from __future__ import annotations

import atexit
import functools
import gc
import multiprocessing
import os
import sys
import types
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

from tests.support import unsynced

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    ["hashlib", "json", "numpy", "flagstone.linalg", "flagstone._formats.open", "flagstone._resume.resume"]
)


@functools.cache
def _begin() -> None:
    """Start the process that forks, in the environment that it hands on."""
    kept = dict(os.environ)
    os.environ.update(unsynced.environment())
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(kept)


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
