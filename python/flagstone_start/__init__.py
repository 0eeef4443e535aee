"""Where the command begins: a Ctrl-C while the package is still being loaded gets its sentence too."""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Load and run the command line."""
    try:
        from flagstone._cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("flagstone: interrupted; nothing half-written is left.\n")
        sys.stderr.flush()
        os._exit(130)  # what was half loaded may not end well
    run()
