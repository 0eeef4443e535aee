"""A memory limit that the kernel enforces on one process: a cgroup (v1 or v2), page cache included."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Cap:
    """`with Cap(bytes) as cap: run([*cap.wrap, ...])`; PermissionError where cgroups are not ours to make."""

    def __init__(self, limit: int):
        self.limit = limit
        self.version = 2 if (ROOT / "cgroup.controllers").exists() else 1
        self.folder = self._parent() / f"flagstone-bench-{os.getpid()}"

    def _parent(self) -> Path:
        wanted = "" if self.version == 2 else "memory"
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == wanted or (wanted and wanted in controllers.split(",")):
                return (ROOT if self.version == 2 else ROOT / "memory") / path.lstrip("/")
        return ROOT if self.version == 2 else ROOT / "memory"

    def __enter__(self) -> Cap:
        try:
            if self.version == 2:
                control = self.folder.parent / "cgroup.subtree_control"
                if "memory" not in control.read_text().split():
                    control.write_text("+memory")
            self.folder.mkdir(exist_ok=True)
            self._write(("memory.max", "memory.limit_in_bytes"), self.limit)
            if Path("/proc/swaps").read_text().count("\n") > 1:
                self._write(
                    ("memory.swap.max", "memory.memsw.limit_in_bytes"), (0, self.limit)[self.version == 1]
                )
        except OSError as error:
            raise PermissionError(f"cap: a memory cgroup is not permitted ({error}); run as root.") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.rmdir()

    def _write(self, names: tuple[str, str], value: int) -> None:
        (self.folder / names[self.version == 1]).write_text(str(value))

    @property
    def wrap(self) -> list[str]:
        """Prefix of a command that shall run under the cap."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs")]

    def describe(self) -> str:
        return f"cgroup v{self.version}, {self.limit / 2**20:.0f} MiB, page cache included"
