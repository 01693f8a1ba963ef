"""Provides the quads and terms of a session to bulk backends.

For a session in memory, it owns a temporary store, written when first needed; a session with a store needs
none. Invariant: backends see the quads and terms as they were before the current epoch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparqlive.quads.current import Change, Quads
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.term_columns import TermColumns, is_in
from sparqlive.sparql.columns import entry_table, term_table
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.bulk.stored_rows import StoredRelation
    from sparqlive.engine.stored_data import StoredData
    from sparqlive.store.store import Sources, Store


class BulkData:
    """The quads and terms of one session, for bulk backends."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        self.quads = quads
        self.dictionary = dictionary
        self._stored: StoredData | None = None
        self._temporary: _TemporaryStore | None = None
        self._terms: pa.Table | None = None
        """The dictionary's single entries that are in no file."""
        self._counted = 0
        """The number of the dictionary's single entries that `_terms` has read."""
        self._columns: dict[TermColumns, pa.Table] = {}
        """The dictionary's entries by columns, those that are in no file."""
        self._basis: tuple[int, tuple[str, ...]] | None = None
        """The state that `_terms` belongs to: the number of the dictionary's moves, and the files."""
        self._left: tuple[Mapping[int, str], list[TermColumns]] | None = None
        self._term_files: dict[str, pa.Table] = {}
        """The terms of a store's files, which never change, in mapped memory."""

    def attach(self, stored: StoredData) -> None:
        """Reads quads and terms from a store from now on."""
        self._stored = stored

    @property
    def _files(self) -> StoredData | _TemporaryStore:
        if self._stored is not None:
            return self._stored
        if self._temporary is None:
            self._temporary = _TemporaryStore(self.quads, self.dictionary)
        return self._temporary

    @property
    def store(self) -> Store:
        """The session's store, or a temporary one."""
        return self._files.store

    def sources(self, undone: Sequence[Change] = ()) -> Sources:
        """The files, and the changes after them.

        `undone` are changes that lead from the last epoch back to a view's epoch.
        """
        sources = self._files.sources()
        if undone:
            rows = np.concatenate([sources.later.rows, np.array(undone, dtype=np.int64)])
            later = replace(sources.later, rows=rows)
            sources = replace(sources, find_later=lambda: later)
        return sources

    def stored(self, name: str) -> StoredRelation | None:
        """The rows of a relation in the store; None if it has none."""
        from sparqlive.bulk.stored_rows import StoredRelation

        if self._stored is None or not self._stored.store.catalog.has(name):
            return None
        return StoredRelation.of(self._stored.store.parts(name), self._stored.store.readers)

    def terms(self) -> pa.Table:
        """The dictionary with the terms of the current epoch: id, term, and its typed columns."""
        files = {} if self._stored is None else self._stored.store.term_tables()
        basis = (self.dictionary.moves, tuple(files))
        entries = self.dictionary.single_entries()
        if self._terms is None or self._basis != basis:
            known = self._term_files
            self._term_files = {file: known.get(file) or make() for file, make in files.items()}
            # A new entry is in no file, but new files may have terms that are in memory.
            self._terms = self._in_no_file(TermColumns.of(list(entries.items())))
            self._columns = {}
        elif self._counted < len(entries):
            new = entry_table(islice(entries.items(), self._counted, None))
            self._terms = pa.concat_tables([self._terms, new])
        self._basis, self._counted = basis, len(entries)
        parts = [*self.dictionary.columns(), *self._leaving()]
        self._columns = {part: self._columns.get(part) or self._in_no_file(part) for part in parts}
        return pa.concat_tables([self._terms, *self._columns.values(), *self._term_files.values()])

    def _leaving(self) -> list[TermColumns]:
        """The terms that only requests still read, as columns; the same ones until the dictionary moves."""
        leaving = self.dictionary.leaving()
        if self._left is None or self._left[0] is not leaving:
            self._left = leaving, [TermColumns.of(list(leaving.items()))] if leaving else []
        return self._left[1]

    def _in_no_file(self, terms: TermColumns) -> pa.Table:
        """The typed columns of terms that are in no file."""
        known = np.zeros(len(terms), dtype=bool)
        for file in self._term_files.values():
            known |= is_in(terms.ids, file.column("id").to_numpy())
        return term_table(pa.array(terms.ids[~known]), terms.texts.filter(pa.array(~known)))

    def record(self, changes: Sequence[Change]) -> None:
        """Records the changes of a committed epoch."""
        if self._temporary is not None:
            self._temporary.add(changes)
            if self._temporary.changes > max(self.quads.tuning.exported_changes, self.quads.size):
                self.close()

    def close(self) -> None:
        """Removes the temporary store; it is written again when it is needed."""
        if self._temporary is not None:
            self._temporary.close()
            self._temporary = None


class _TemporaryStore:
    """The quads and terms of a session in memory, written to files, and later changes."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        from sparqlive.store.store import Store  # imported late because it is slow to import

        self._directory = tempfile.TemporaryDirectory(prefix="sparqlive-")
        self.store = Store(self._directory.name, tuning=quads.tuning)
        self._dictionary = dictionary
        self.store.write_quads(quads.columns())
        singles = TermColumns.of(list(dictionary.single_entries().items()))
        self.store.write_terms(TermColumns.together([singles, *dictionary.columns()]))
        dictionary.start_journal()
        self._later = Run([_NOTHING] * 4, _NOTHING)
        self._new: list[Sequence[Change]] = []
        self.changes = 0
        """The number of changes after the files."""

    def add(self, changes: Sequence[Change]) -> None:
        self._new.append(changes)
        self.changes += len(changes)

    def sources(self) -> Sources:
        """The files, and the net changes after them."""
        if self._new:
            rows = np.concatenate([np.array(changes, dtype=np.int64) for changes in self._new])
            *columns, weights = (np.ascontiguousarray(column) for column in rows.T)
            self._later, self._new = self._later.with_run(Run.sort(columns, weights)), []
        found, run = self.store.sources(self._dictionary.new_entries), self._later
        assert run.weights is not None
        later = replace(found.later, rows=np.column_stack([*run.columns, run.weights]))
        return replace(found, find_later=lambda: later)

    def close(self) -> None:
        self._dictionary.end_journal()
        self.store.close()
        self._directory.cleanup()


_NOTHING = np.empty(0, dtype=np.int64)
