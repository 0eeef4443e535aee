"""``python -m flagstone`` is the command line."""

from ._cli import main

main()
