"""Where a bulk backend finds the quads and terms of a session.

Owns the copy of a session in memory, which is written when it is first needed; a session with a store needs
none. Invariant: what is found are the quads and terms as they were before the epoch under way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparqlive.live.quads import Change, Quads
from sparqlive.rdf.dictionary import Dictionary

if TYPE_CHECKING:
    from sparqlive.store.store import Sources


class BulkData:
    """The quads and terms of one session, for bulk backends."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        self.quads = quads
        self.dictionary = dictionary
        self._stored: Callable[[], Sources] | None = None
        self._exported: _Exported | None = None

    def attach(self, stored: Callable[[], Sources]) -> None:
        """From now on a store has the quads and terms."""
        self._stored = stored

    def sources(self, undone: Sequence[Change] = ()) -> Sources:
        """The files, and what came after them.

        `undone` are changes that lead from the last epoch to the one a view stands for.
        """
        if self._stored is not None:
            sources = self._stored()
        else:
            if self._exported is None:
                self._exported = _Exported(self.quads, self.dictionary)
            sources = self._exported.sources()
        if undone:
            sources = replace(sources, log=np.concatenate([sources.log, np.array(undone, dtype=np.int64)]))
        return sources

    def committed(self, changes: Sequence[Change]) -> None:
        """An epoch was committed."""
        if self._exported is not None:
            self._exported.add(changes)

    def close(self) -> None:
        """Removes what was written."""
        if self._exported is not None:
            self._exported.close()
            self._exported = None


class _Exported:
    """The quads and terms of a session in memory, written to files, and what came after."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        from sparqlive.store.store import Store  # not before it is needed: it takes a while to import

        self._directory = tempfile.TemporaryDirectory(prefix="sparqlive-")
        self._store = Store(self._directory.name)
        self._dictionary = dictionary
        self._store.write_quads(quads.columns(), 0)
        self._store.write_terms(list(dictionary.entries()))
        dictionary.start_journal()
        self._log: list[Change] = []

    def add(self, changes: Sequence[Change]) -> None:
        self._log.extend(changes)

    def sources(self) -> Sources:
        found = self._store.sources(self._dictionary.journal()[0])
        return replace(found, log=np.array(self._log, dtype=np.int64).reshape(-1, 5))

    def close(self) -> None:
        self._store.close()
        self._directory.cleanup()
