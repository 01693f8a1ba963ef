"""Who uses a store: the lock of its one writer, and the leases of readers in other processes.

Owns `writer.lock` and `leases/`. Both are locks of the operating system, which end with their process however
it ends: nothing is left to clean up by hand. Invariant: a lease names the oldest epoch that its holder may
still read.
"""

from __future__ import annotations

import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparqlive.errors import StoreFailed, StoreLocked


class WriterLock:
    """Held by the one process that writes; a second one is told who it is."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._stream: IO[str] = open(directory / "writer.lock", "a+")  # noqa: SIM115 - held until release
        except OSError as error:
            raise StoreFailed(
                f"The store {directory} cannot be opened for writing: {error}. "
                f"Where it may only be read, open it read-only."
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
        folder.mkdir(exist_ok=True)
        while True:
            self._path = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
            self._stream: IO[str] = open(self._path, "w+")  # noqa: SIM115 - held until release
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
        try:
            with open(path, "r+") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield int(stream.read() or 0)
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
