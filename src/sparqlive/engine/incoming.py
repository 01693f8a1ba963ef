"""Changes that workers read from files, between their discovery and their commit.

Owns the state of the store that they were found in. Invariant: only what was found in the current state of
the store is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles, Parse, Reading
    from sparqlive.engine.persistence import Persistence
    from sparqlive.engine.writer import Writer


_TRIES = 3
"""Optimistic attempts before taking the lock."""


class _Incoming:
    """Changes that workers read, on their way into a store.

    They are found without the lock, in a state of the store; they can be committed if it has not changed.
    """

    def __init__(self, persistence: Persistence, reading: Reading, scratch: str) -> None:
        self._pins = persistence.pins
        self._data = persistence.data
        self._reading = reading
        self._scratch = scratch
        self._state: tuple[Any, ...] | None = None
        self.is_closed = False

    @contextmanager
    def found(self, lock: AbstractContextManager[Any]) -> Iterator[ChangeFiles]:
        """Context under the lock, with the changes that workers found as of now, ready to commit."""
        for _ in range(_TRIES):
            files = self._find(lock)
            with lock:
                if self._state == self._data.state():
                    yield self._closed(files)
                    return
        with lock:
            yield self._closed(self._find(lock))

    def _find(self, lock: AbstractContextManager[Any]) -> ChangeFiles:
        """Has workers find the changes as of now. Only the last attempt holds the lock meanwhile."""
        with ExitStack() as pinned:
            with lock:
                self._state = self._data.state()
                known, epoch = self._data.known(f"{self._scratch}/known"), self._state[0] + 1
                pinned.enter_context(self._pins.pinned())
            return self._reading.changes(epoch, known)

    def _closed(self, files: ChangeFiles) -> ChangeFiles:
        """Removes what was only read, before changes are committed."""
        if len(files):
            self._reading.close()
            self.is_closed = True
        return files


@contextmanager
def read_by_workers(writer: Writer, parse: Parse, graph: str | None = None) -> Iterator[ChangeFiles]:
    """Context under the lock, with the changes that workers found in the current state.

    `parse` has workers write parts (see `bulk/ingest/effective.py`): quads to insert, or changes with
    weights; the last change of each quad counts. `graph` is the canonical text of a graph for quads of
    the unnamed graph. Works only in a store, and only while no other source asserts quads.
    """
    from sparqlive.bulk.ingest.effective import SCRATCH, Reading

    writer.ensure_open()
    persistence, (workers, _) = writer.persistence, writer.strategies.workers()
    assert persistence is not None
    place = persistence.store.place
    with persistence.store.attempt() as folder:
        found = Reading(workers, parse, graph, persistence.store.target(folder))
        incoming = _Incoming(persistence, found, f"{folder}/{SCRATCH}")
        try:
            with incoming.found(writer.lock) as files:
                yield files
        finally:
            if not incoming.is_closed:  # otherwise a commit may have named the files
                with suppress(OSError):
                    place.remove_folder(folder)
