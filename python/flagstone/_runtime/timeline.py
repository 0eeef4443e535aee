"""What runs do and when, in a file that viewers of traces open."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from .. import _core
from .._errors.messages import storage_error

__all__ = ["timeline"]


@contextlib.contextmanager
def timeline(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[None]:
    """Write what every call inside the ``with`` block does, and when, to a file.

    Parameters
    ----------
    path : path
        A file of the Trace Event Format (JSON), which ui.perfetto.dev and chrome://tracing open, and
        ``flagstone timeline FILE -o FILE.png`` draws.
    overwrite : bool
        Replace a file that is there.

    Returns
    -------
    context manager
        The file is whole when it ends.

    Raises
    ------
    StorageError
        A file is there, or cannot be written; what fails later, when the block ends (the calls go on).
    Error
        Another timeline is being written in this process.

    Notes
    -----
    Events are tasks, packing and unpacking and waits of each worker, loads and stores of the ring, tiles that
    leave memory, and bytes of the limit in use. They go to the file as they come, some 150 bytes each,
    through a buffer of 256 KiB that the limit counts. Plans, and boxes that are read or assigned beside calls
    (``A[i:j]``), are not in it.

    Examples
    --------
    >>> with fl.timeline("run.json"):
    ...     fl.matmul(A, B, out="c.zarr")
    """
    target = os.path.abspath(os.fspath(path))
    if os.path.isdir(target) or (os.path.lexists(target) and not overwrite):
        what = "is a directory" if os.path.isdir(target) else "exists; pass overwrite=True to replace it"
        raise storage_error(f"timeline: '{os.fspath(path)}' {what}.", errno.EEXIST, target)
    _core.begin_timeline(target, overwrite)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # what ended the block is what counts
            _core.end_timeline()
        raise
    _core.end_timeline()
