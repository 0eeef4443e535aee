"""``python -m flagstone`` is the command line."""

from .cli import main

main()
