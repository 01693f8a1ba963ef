"""Keeps the files that a query reads, while the writer replaces them.

Owns the leases of this process that are in use, and one that waits for the next query: writing its file takes
longer than most queries. Invariant: a lease that waits is for the current files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sparqlive.store.locks import Lease
from sparqlive.store.store import Store


class Pins:
    """The leases of a session on the files of its store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._idle: list[Lease] = []
        self._moves = 0
        """How often files were replaced: an older lease must not stay."""

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Context in which the files of the current quads are not removed.

        If no lease can be written, in a read-only directory or on a full disk, files are read without one:
        replacing them would need to write as well.
        """
        lease, moves = self._take(), self._moves
        try:
            yield
        finally:
            if lease is not None:
                self._idle.append(lease)
                self.release(but=int(moves == self._moves))

    def _take(self) -> Lease | None:
        """An unused lease, or a new one."""
        with suppress(IndexError):
            return self._idle.pop()
        with suppress(OSError):
            return Lease(self._store.directory, self._store.quads_epoch())
        return None

    def move(self) -> None:
        """Makes all leases old: the session reads new files from now on."""
        self._moves += 1
        self.release()

    def release(self, but: int = 0) -> None:
        """Releases unused leases, except for some."""
        while len(self._idle) > but:
            with suppress(IndexError):  # another thread has taken it
                self._idle.pop().release()
