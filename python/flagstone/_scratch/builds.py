"""What is being built aside: whole or not at all, locked by its process."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

__all__ = ["unreserved", "whole_or_nothing"]


#: Whether a file system was met, in the call that runs, that cannot reserve space.
unreserved: contextvars.ContextVar[bool] = contextvars.ContextVar("unreserved", default=False)


@contextlib.contextmanager
def whole_or_nothing(*built: Any) -> Iterator[None]:
    """Call discard() of what is being built when the body fails: a traceback may keep it alive for long."""
    try:
        yield
    except BaseException:
        for one in built:
            if one is not None:
                one.discard()
        raise
