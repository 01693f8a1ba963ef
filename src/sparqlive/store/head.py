"""The head: a small file beside the catalog that says which commit was acknowledged last.

SQLite takes the part of its log that is whole for the whole log, and a catalog of last week for the catalog.
The head is written after each commit, in place and without waiting for the disk: it can be behind the
catalog, but never ahead of it. Invariant: a catalog that is behind the head is not the store's last one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.private import open_private

NAME = "head"


class Head(NamedTuple):
    """The number and root of a commit of a store."""

    store: str
    number: int
    root: int

    @property
    def line(self) -> str:
        words = f"{self.store} {self.number:020d} {self.root:08x}"
        return f"{words} {xxh3_64_hexdigest(words.encode())}\n"


def read_head(directory: Path) -> Head | None:
    """What the head says; None where there is none."""
    path = directory / NAME
    try:
        said = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error}.") from error
    if not said:  # the machine failed when it had just been created
        return None
    try:
        store, number, root, _ = said.split()
        head = Head(store, int(number), int(root, 16))
    except ValueError:
        head = None
    if head is None or head.line != said:
        raise StoreFailed(
            f"{path} is damaged, so that nobody knows whether the catalog beside it is the store's last one. "
            f"Remove {path} if nothing else was touched, or put a copy of the whole store in its place."
        )
    return head


def compare_head(directory: Path, head: Head | None, catalog: Head) -> None:
    """Raises if the catalog is not the one that was written last. The head was read before the catalog."""
    if head is None:
        return
    path = directory / NAME
    if head.store != catalog.store:
        raise StoreFailed(
            f"{directory} holds files of two stores: {path} belongs to another one than the catalog. "
            f"Put a copy of the whole store in its place."
        )
    if head.number > catalog.number or (head.number == catalog.number and head.root != catalog.root):
        raise StoreFailed(
            f"The catalog of the store {directory} is older than it was: it ends at commit {catalog.number}, "
            f"and commit {head.number} was acknowledged. catalog.sqlite or catalog.sqlite-wal is missing, "
            f"damaged or an older copy. Put the last ones back, or a copy of the whole store. To go on with "
            f"the older catalog and lose what came after it, remove {path}."
        )


class HeadFile:
    """The head, to be written. A failure is passed over: a head that is behind says nothing wrong."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = open_private(directory / NAME, os.O_WRONLY, directory)

    def write(self, head: Head) -> None:
        with suppress(OSError):
            os.pwrite(self._descriptor, head.line.encode(), 0)

    def close(self) -> None:
        with suppress(OSError):
            os.fsync(self._descriptor)
        os.close(self._descriptor)
