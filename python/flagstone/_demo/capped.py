"""Another program under a memory cap that the system enforces, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from .. import _core
from .._errors.classes import Error
from .._runtime.plan import format_seconds

__all__ = ["Cap", "run_apart", "run_capped", "say"]

_PATIENCE = 60.0  # seconds that the other program is given


def say(text: str = "") -> None:
    """Print a line at once: the output may be a pipe."""
    print(text, flush=True)


class Cap:
    """A memory cap that the system enforces on a child process: a cgroup where permitted, else RLIMIT_DATA.

    Use as a context manager; `before` runs in the child, `name` says what is enforced.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._group: Path | None = None

    def __enter__(self) -> Cap:
        self._group = self._make_group()
        self.name = "a cgroup" if self._group else "RLIMIT_DATA"
        return self

    def before(self) -> None:
        """Put the child, which calls this before its program starts, under the cap."""
        if self._group is not None:
            (self._group / "cgroup.procs").write_text(str(os.getpid()))
        else:
            resource.setrlimit(resource.RLIMIT_DATA, (self.memory, self.memory))

    def _make_group(self) -> Path | None:
        name = f"flagstone-{os.getpid()}"
        for line in _read("/proc/self/cgroup").splitlines():
            _, controllers, inside = line.split(":", 2)
            if controllers == "":
                group, limits = Path("/sys/fs/cgroup" + inside) / name, ("memory.max", "memory.swap.max")
            elif "memory" in controllers.split(","):
                top = "/sys/fs/cgroup/memory"
                inside = inside if os.path.isdir(top + inside) else ""  # inside a container: the root is ours
                group = Path(top + inside) / name
                limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            else:
                continue
            with contextlib.suppress(OSError):
                group.mkdir()
                try:
                    (group / limits[0]).write_text(str(self.memory))
                    with contextlib.suppress(OSError):  # no swap accounting
                        (group / limits[1]).write_text("0" if "swap.max" in limits[1] else str(self.memory))
                    if not os.access(group / "cgroup.procs", os.W_OK):
                        raise PermissionError
                    return group
                except OSError:
                    group.rmdir()
        return None

    def __exit__(self, *exception: object) -> None:
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.rmdir()


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def run_apart(what: str, code: str, arguments: list[str]) -> None:
    """Write data in a process of its own: the C library keeps up to some 30 MiB of what threads freed.

    They would count as resident, and the limit of the demonstration be refused for them.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise Error(f"demo: the {what} could not be written: {last}")


def run_capped(
    title: str, code: str, arguments: list[str], memory: int, patience: float = _PATIENCE,
    needs: tuple[str, ...] = ("sklearn", "scipy"),
) -> bool:  # fmt: skip
    """Run code that needs these packages under the cap, say what happened and whether it finished."""
    try:
        import importlib.util

        missing = [name for name in needs if importlib.util.find_spec(name) is None]
    except ImportError:
        missing = list(needs)
    if missing:
        say("  scikit-learn is not installed (pip install 'flagstone[demo]'); the comparison is left out.")
        return False
    with Cap(memory) as cap:
        say(f"{title} under the same cap ({_core.format_bytes(memory)}, enforced by {cap.name}):")
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=cap.before,
        )  # fmt: skip
        try:
            output, trouble = child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            say(f"  still at it after {patience:.0f} s; stopped.")
            return False
        except BaseException:
            child.kill()
            child.communicate()
            raise
    after = format_seconds(time.perf_counter() - start)
    if child.returncode == 0:
        say(f"  finished: {output.strip()}.")
        return True
    lines = [line for line in trouble.strip().splitlines() if line and not line.startswith(" ")]
    if child.returncode == -signal.SIGKILL:
        last = "killed by the kernel (signal 9: out of memory)"
    elif child.returncode < 0:
        last = f"ended by signal {-child.returncode}" + (f" ({lines[-1]})" if lines else "")
    else:
        last = lines[-1] if lines else f"exit code {child.returncode}"
    say(f"  failed after {after}: {last}")
    return False
