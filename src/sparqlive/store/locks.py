"""The lock of a store's only writer, and the leases of readers in other processes.

Owns `writer.lock` and `leases/`. Both use locks of the operating system, which end with their process, even
after a crash: nothing has to be cleaned up manually. A loan is a lease without a process, for readers on
other machines; it expires. Invariant: a lease names the oldest epoch that its holder may still read.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparqlive.errors import StoreFailed, StoreLocked
from sparqlive.store.names import ensure_folder, read_small
from sparqlive.store.private import make_directory, make_folder, open_private

# Names of leases: a process and a random number. Files with other names do not belong to the store.
_LEASE = re.compile(r"[0-9]+-[0-9a-f]{8}")
_MOST_TEXT = 1_000
_LOAN = re.compile(r"until-([0-9]+)-[0-9a-f]{8}")


class WriterLock:
    """Held by the only process that writes; a second process gets an error that names the first."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "writer.lock"
        self._name = str(self._path)
        try:
            make_directory(directory)
            self._stream = self._opened(os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise StoreFailed(
                f"The store {directory} cannot be opened for writing: {error}. "
                f"If you only need to read it, open it read-only."
            ) from error
        try:
            self._take(self._stream)
        except BlockingIOError:
            self._stream.seek(0)
            holder = self._stream.read(_MOST_TEXT).strip() or "another process"
            self._stream.close()
            raise StoreLocked(directory, holder) from None

    def _opened(self, flags: int) -> IO[str]:
        descriptor = open_private(self._path, flags, self._path.parent)
        return open(descriptor, "a+", errors="replace")

    def _take(self, stream: IO[str]) -> None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        stream.flush()
        status = os.fstat(stream.fileno())
        self._identity = status.st_ino, status.st_dev

    def is_held(self) -> bool:
        """Whether the file at the path is the locked one; a missing one is created and locked again."""
        try:
            status = os.lstat(self._name)  # for each commit: a Path takes longer than the call
        except FileNotFoundError:
            return self._take_again()
        except OSError:
            return False
        return (status.st_ino, status.st_dev) == self._identity

    def _take_again(self) -> bool:
        try:
            stream = self._opened(os.O_RDWR | os.O_APPEND | os.O_EXCL)
        except OSError:  # the directory is missing, or another process was faster
            return False
        try:
            self._take(stream)
        except OSError:
            stream.close()
            return False
        self._stream.close()
        self._stream = stream
        return True

    def release(self) -> None:
        self._stream.close()


def describe_writer(directory: Path, words: str) -> None:
    """Extends the description of this process, as the lock's holder, that other processes see."""
    with suppress(OSError):
        descriptor = open_private(directory / "writer.lock", os.O_WRONLY | os.O_APPEND, directory)
        with open(descriptor, "a") as stream:
            stream.write(f", {words}")


class Lease:
    """A reader's promise to read no epoch older than the one it names."""

    def __init__(self, directory: Path, epoch: int) -> None:
        folder = directory / "leases"
        make_folder(folder, directory)
        while True:
            self._path = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
            descriptor = open_private(self._path, os.O_RDWR | os.O_EXCL, directory)
            self._stream: IO[str] = open(descriptor, "w+")  # noqa: SIM115 - held until release
            fcntl.flock(self._stream, fcntl.LOCK_EX)
            if self._path.exists():  # otherwise the writer has just removed it as a leftover
                break
            self._stream.close()
        self.move(epoch)

    def move(self, epoch: int) -> None:
        self._stream.seek(0)
        self._stream.write(f"{epoch:020d}")
        self._stream.flush()

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self._stream.close()


def lend(directory: Path, epoch: int, seconds: float) -> None:
    """Keeps the files of an epoch for a time, for readers that this process does not know."""
    folder = directory / "leases"
    make_folder(folder, directory)
    name = f"until-{int(time.time() + seconds)}-{uuid.uuid4().hex[:8]}"
    with open(open_private(folder / name, os.O_WRONLY | os.O_EXCL, directory), "w") as stream:
        stream.write(f"{epoch:020d}")


def leased_epochs(directory: Path) -> Iterator[int]:
    """The oldest epochs that readers may still read; removes the leases of readers that have ended."""
    ensure_folder(directory / "leases")
    for path in (directory / "leases").glob("*"):
        loan = _LOAN.fullmatch(path.name)
        if loan is not None and path.is_file() and not path.is_symlink():
            if int(loan[1]) < time.time():
                path.unlink(missing_ok=True)
            else:
                with suppress(FileNotFoundError):
                    text = (read_small(path, _MOST_TEXT) or b"").decode(errors="replace")
                    yield int(text) if text.isdecimal() else 0
            continue
        if _LEASE.fullmatch(path.name) is None or path.is_symlink() or not path.is_file():
            continue
        try:
            with open(path, "r+", errors="replace") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = stream.read(_MOST_TEXT)
                    yield int(text) if text.isdecimal() else 0
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
