"""Changes that workers read from files, between their discovery and their commit.

Owns the state of the store that they were found in. Invariant: only what was found in the current state of
the store is committed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles, Reading
    from sparqlive.engine.persistence import Persistence


class Incoming:
    """Changes that workers read, on their way into a store.

    They are found without the lock, as of a state of the store; they can be committed if it is still that.
    """

    def __init__(self, store: Persistence, reading: Reading, scratch: str) -> None:
        self._store = store
        self._reading = reading
        self._scratch = scratch
        self._state: tuple[Any, ...] | None = None
        self.is_closed = False

    def find(self, lock: AbstractContextManager[Any]) -> ChangeFiles:
        """Has workers find the changes as of now; the lock is not held meanwhile."""
        with ExitStack() as pinned:
            with lock:
                self._state = self._store.state()
                known, epoch = self._store.known(f"{self._scratch}/known"), self._store.epoch + 1
                pinned.enter_context(self._store.pinned())
            return self._reading.changes(epoch, known)

    @property
    def is_current(self) -> bool:
        """Whether what was found can be committed. Called under the lock."""
        return self._state == self._store.state()

    def close(self) -> None:
        """Removes what was only read, before the commit."""
        self._reading.close()
        self.is_closed = True
