"""A file changed by another library, all of it or nothing: its new pages go to a journal first.

``.<name>.flagstone-journal.part`` collects the pages while the library writes; renamed to
``.<name>.flagstone-journal`` it is the commit. Then the pages are copied into the file and the journal is
removed. Whoever finds a committed journal finishes that (`recover`); an uncommitted one counts for nothing.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import struct
import zlib
from collections.abc import Iterator
from types import TracebackType

from ..._core import FileLock, sync_file, sync_folder
from ..._errors.classes import FormatError, StorageError
from ..._errors.messages import storage_error, with_advice

__all__ = ["Journal", "recover"]

_PAGE = 4096
_END = struct.Struct("<8sQQQQI")  # magic, pages, size of the file, device, inode, checksum of the table
_MAGIC = b"FLAGJRN2"


def _name(path: str) -> str:
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.flagstone-journal")


@contextlib.contextmanager
def _in_its_words() -> Iterator[None]:
    """Leave the system's word for what failed: what became of the file is said by who changes it."""
    try:
        yield
    except StorageError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0)) from None


def _sync(descriptor: int, path: str) -> None:
    with _in_its_words():
        sync_file(descriptor, path)


def _sync_name(path: str) -> None:
    with _in_its_words():
        sync_folder(os.path.dirname(os.path.abspath(path)))


class Journal(io.RawIOBase):
    """A file as a library sees it: what that writes is in the journal, the file itself is untouched."""

    def __init__(self, path: str) -> None:
        self._path, self._journal = os.path.realpath(path), _name(path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(
                f"write: '{path}' cannot be opened for writing ({error.strerror}).", error.errno or 0, path
            ) from None
        self._done = False
        try:
            self._lock = self._begin(path)
        except BaseException as error:
            os.close(self._file)
            self._tell(error)
            raise
        self._pages = self._lock.fileno()
        try:
            os.ftruncate(self._pages, 0)
        except BaseException as error:
            self._lock.close()
            os.close(self._file)
            self._tell(error)
            raise
        self._slots: dict[int, int] = {}  # page of the file -> page of the journal
        self._old = self._size = os.fstat(self._file).st_size
        self._at = 0
        self._failed: OSError | None = None  # what the library, which has its own words for it, was told

    def _begin(self, path: str) -> FileLock:
        """Return the uncommitted journal, locked: ours, and with no committed one beside it."""
        part = f"{self._journal}.part"
        while True:
            recover(path)
            os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            lock = FileLock.take(part)
            # What was opened may have been committed, or removed, by its writer before the lock was had.
            if lock and lock.is_at(part) and not os.path.exists(self._journal):
                return lock
            if not lock and os.path.exists(part):
                raise storage_error(
                    f"write: another process is writing into '{path}'; try again when it is done.",
                    errno.EBUSY,
                    path,
                )
            lock.close()

    # What h5py asks of a file -------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def writable(self) -> bool:
        """Say that it can be written."""
        return True

    def seekable(self) -> bool:
        """Say that it has places."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Set the length."""
        self._size = self._at if size is None else size
        for page in [p for p in self._slots if p * _PAGE >= self._size]:
            del self._slots[page]
        return self._size

    def _page(self, page: int) -> bytes:
        slot = self._slots.get(page)
        if slot is not None:
            return os.pread(self._pages, _PAGE, slot * _PAGE)
        start = page * _PAGE
        return os.pread(self._file, max(0, min(_PAGE, self._old - start)), start).ljust(_PAGE, b"\0")

    def readinto(self, buffer: object) -> int:
        """Read at the place."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        count = max(0, min(len(view), self._size - self._at))
        done = 0
        while done < count:
            page, inside = divmod(self._at + done, _PAGE)
            part = min(_PAGE - inside, count - done)
            view[done : done + part] = self._page(page)[inside : inside + part]
            done += part
        self._at += count
        return count

    def write(self, data: object) -> int:
        """Write at the place, into the journal."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        done = 0
        while done < len(view):
            page, inside = divmod(self._at + done, _PAGE)
            part = min(_PAGE - inside, len(view) - done)
            text = bytes(view[done : done + part])
            if part < _PAGE:
                old = self._page(page)
                text = old[:inside] + text + old[inside + part :]
            slot = self._slots.setdefault(page, len(self._slots))
            try:
                _write(self._pages, text, slot * _PAGE)
            except OSError as failed:
                self._failed = self._failed or failed
                raise
            done += part
        self._at += done
        self._size = max(self._size, self._at)
        return done

    # Commit -------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Make everything that was written part of the file; the rename is the point of no return."""
        os.posix_fallocate(self._file, 0, self._size)  # no disk that is full half-way
        status = os.fstat(self._file)
        used = max(self._slots.values(), default=-1) + 1
        table = b"".join(struct.pack("<QQ", page, slot) for page, slot in self._slots.items())
        end = _END.pack(_MAGIC, len(self._slots), self._size, status.st_dev, status.st_ino, 0)
        end = _with_checksum(table, end)
        _write(self._pages, table + end, used * _PAGE)
        os.ftruncate(self._pages, used * _PAGE + len(table) + len(end))
        _sync(self._pages, f"{self._journal}.part")
        os.rename(f"{self._journal}.part", self._journal)
        self._done = True
        _sync_name(self._journal)
        _apply(self._pages, self._file, self._path)
        os.unlink(self._journal)
        _sync_name(self._journal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._done:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._journal}.part")
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size > self._old:
                    os.ftruncate(self._file, self._old)
        self._lock.close()
        os.close(self._file)
        self._tell(self._failed or error)

    def _tell(self, cause: BaseException | None) -> None:
        """Say of what the system refused what became of the file."""
        if isinstance(cause, OSError) and not isinstance(cause, StorageError):
            raise storage_error(self._said(cause), cause.errno or 0, self._path) from cause

    def _said(self, cause: OSError) -> str:
        if self._done:
            return (
                f"write: what is new in '{self._path}' is stored, and copying it into the file failed "
                f"({cause.strerror}); the next time it is opened, that is finished."
            )
        told = f"write: '{self._path}' was not changed ({cause.strerror})"
        told = with_advice(told, cause.errno or 0, self._path)
        return told if told.endswith(".") else f"{told}."


def _write(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        put = os.pwrite(descriptor, data, offset)
        data, offset = data[put:], offset + put


def _with_checksum(table: bytes, end: bytes) -> bytes:
    """Return the end with the checksum of the table and of all that it says itself."""
    return end[:-4] + struct.pack("<I", zlib.crc32(table + end[:-4]))


def _table(pages: int, path: str) -> tuple[bytes, int, int, int]:
    """Return table, length of the file, device and inode of a committed journal."""
    size = os.fstat(pages).st_size
    end = os.pread(pages, _END.size, max(0, size - _END.size)).ljust(_END.size, b"\0")
    magic, count, length, device, inode, _ = _END.unpack(end)
    room = size - _END.size - 16 * count
    table = os.pread(pages, 16 * count, room) if magic == _MAGIC and room >= 0 else b""
    whole = magic == _MAGIC and len(table) == 16 * count and _with_checksum(table, end) == end
    if not whole or any((slot + 1) * _PAGE > room for _, slot in struct.iter_unpack("<QQ", table)):
        raise FormatError(
            f"open: '{_name(path)}' is damaged; remove it, and '{path}' may need to be copied again."
        )
    return table, length, device, inode


def _apply(pages: int, file: int, path: str) -> None:
    """Copy the pages of a committed journal into the file; may be repeated."""
    table, length, device, inode = _table(pages, path)
    status = os.fstat(file)
    if (status.st_dev, status.st_ino) != (device, inode):
        return  # of a file that was replaced since
    for page, slot in struct.iter_unpack("<QQ", table):
        data = os.pread(pages, _PAGE, slot * _PAGE)
        _write(file, data[: max(0, length - page * _PAGE)], page * _PAGE)
    os.ftruncate(file, length)
    _sync(file, path)


def recover(path: str) -> None:
    """Finish what a process had committed and did not live to complete; waits for one that is still at it."""
    journal = _name(path)
    lock = FileLock.wait(journal)
    if not lock:
        return
    try:
        if not os.path.exists(journal):
            return  # its writer finished meanwhile
        try:
            file = os.open(os.path.realpath(path), os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(
                f"open: '{path}' was being changed when its writer died, and may not be written by you "
                f"({error.strerror}); open it once as its owner.", error.errno or 0, path
            ) from None  # fmt: skip
        try:
            _apply(lock.fileno(), file, path)
        finally:
            os.close(file)
        os.unlink(journal)
        _sync_name(journal)
    finally:
        lock.close()
