"""Who uses a store: the lock of its one writer, and the leases of readers in other processes.

Owns `writer.lock` and `leases/`. Both are locks of the operating system, which end with their process however
it ends: nothing is left to clean up by hand. Invariant: a lease names the oldest epoch that its holder may
still read.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparqlive.errors import StoreFailed, StoreLocked
from sparqlive.store.private import make_directory, make_folder, open_private

# The names of leases: a process and a random number. What has another name is somebody else's.
_LEASE = re.compile(r"[0-9]+-[0-9a-f]{8}")


class WriterLock:
    """Held by the one process that writes; a second one is told who it is."""

    def __init__(self, directory: Path) -> None:
        try:
            make_directory(directory)
            descriptor = open_private(directory / "writer.lock", os.O_RDWR | os.O_APPEND, directory)
            self._stream: IO[str] = open(descriptor, "a+", errors="replace")  # noqa: SIM115 - held until release
        except OSError as error:
            raise StoreFailed(
                f"The store {directory} cannot be opened for writing: {error}. "
                f"Where it may only be read, open it with read_only=True."
            ) from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._stream.seek(0)
            holder = self._stream.read().strip() or "another process"
            self._stream.close()
            raise StoreLocked(directory, holder) from None
        self._stream.truncate(0)
        self._stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._stream.flush()

    def release(self) -> None:
        self._stream.close()


def describe_writer(directory: Path, words: str) -> None:
    """What others are told of this process, which holds the lock, beside its number."""
    with suppress(OSError), open(directory / "writer.lock", "a") as stream:
        stream.write(f", {words}")


class Lease:
    """A reader's word that it reads no epoch before the one it names."""

    def __init__(self, directory: Path, epoch: int) -> None:
        folder = directory / "leases"
        make_folder(folder, directory)
        while True:
            self._path = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
            descriptor = open_private(self._path, os.O_RDWR | os.O_EXCL, directory)
            self._stream: IO[str] = open(descriptor, "w+")  # noqa: SIM115 - held until release
            fcntl.flock(self._stream, fcntl.LOCK_EX)
            if self._path.exists():  # else the writer took it for one that was left behind, just before
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


def leased_epochs(directory: Path) -> Iterator[int]:
    """The epochs that readers may still read; what a reader that is gone left behind is removed."""
    for path in (directory / "leases").glob("*"):
        if _LEASE.fullmatch(path.name) is None or path.is_symlink() or not path.is_file():
            continue
        try:
            with open(path, "r+", errors="replace") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    said = stream.read()
                    yield int(said) if said.isdecimal() else 0
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
