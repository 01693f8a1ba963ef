"""The head: a small file next to the catalog that records the last acknowledged commit.

SQLite accepts a truncated log as complete, and last week's catalog as current. The head detects both. It is
written after each commit, in place and without waiting for the disk. So it can be behind the catalog, but
never ahead of it. Invariant: a catalog that is behind the head is not the store's latest one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.names import read_small
from sparqlive.store.private import open_private

NAME = "head"
_MOST_BYTES = 1_000


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
    """Reads the head; None if there is none."""
    path = directory / NAME
    try:
        content = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error}.") from error
    text = (content or b"").decode("utf-8", "replace")
    if not text:  # the machine crashed just after the file was created
        return None
    try:
        store, number, root, _ = text.split()
        head = Head(store, int(number), int(root, 16))
    except ValueError:
        head = None
    if head is None or head.line != text:
        raise StoreFailed(
            f"{path} is damaged, so it cannot tell whether the catalog is up to date. "
            f"Remove {path} if nothing else was changed, or restore the whole store from a backup."
        )
    return head


def compare_head(directory: Path, head: Head | None, catalog: Head) -> None:
    """Raises if the catalog is not the latest one. The head was read before the catalog."""
    if head is None:
        return
    path = directory / NAME
    if head.store != catalog.store:
        raise StoreFailed(
            f"{directory} holds files of two stores: {path} and the catalog do not belong together. "
            f"Restore the whole store from a backup."
        )
    if head.number > catalog.number or (head.number == catalog.number and head.root != catalog.root):
        raise StoreFailed(
            f"The catalog of the store {directory} is outdated: it ends at commit {catalog.number}, but "
            f"commit {head.number} was acknowledged. catalog.sqlite or catalog.sqlite-wal is missing, "
            f"damaged or an older copy. Restore the latest ones, or the whole store from a backup. To "
            f"continue with the older catalog and lose the later changes, remove {path}."
        )


class HeadFile:
    """Writes the head. Failures are ignored, because an outdated head is harmless."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = open_private(directory / NAME, os.O_WRONLY, directory)

    def write(self, head: Head) -> None:
        with suppress(OSError):
            os.pwrite(self._descriptor, head.line.encode(), 0)

    def close(self) -> None:
        with suppress(OSError):
            os.fsync(self._descriptor)
        os.close(self._descriptor)
