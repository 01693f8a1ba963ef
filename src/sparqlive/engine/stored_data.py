"""The quads and terms of a store, as a session sees them: runs on disk, and later changes in memory.

Owns which files hold the part on disk, and which changes after them are in memory. Invariant: quads and
dictionary belong to the epoch that was last written or read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparqlive.live.quads import Change, Quads
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.store.commits import TermRun
from sparqlive.store.quad_runs import QuadRuns
from sparqlive.store.runs import QUADS
from sparqlive.store.store import Sources, Store
from sparqlive.store.term_runs import TermRuns
from sparqlive.zset.columns import COLUMN_ROWS, ColumnRows
from sparqlive.zset.run import Column


class StoredData:
    """A session's part of a store's quads and terms."""

    def __init__(self, store: Store, quads: Quads, dictionary: Dictionary) -> None:
        self._store = store
        self._quads = quads
        self._dictionary = dictionary
        self._runs: QuadRuns | None = None
        self._terms = store.terms()
        dictionary.load(self._terms, store.catalog.terms(), store.catalog.exceptions())
        self._at = store.catalog.epoch()
        if not store.catalog.read_only:
            dictionary.start_journal()

    @property
    def terms_are_limited(self) -> bool:
        """Whether memory has no room for all terms."""
        return self._terms.is_limited

    def load_quads(self) -> tuple[QuadRuns, TermRuns]:
        """Attaches the runs, which stay on disk until they are read, and loads the changes after them."""
        runs, log = self._store.quads()
        self._runs = runs
        self._quads.attach(runs)
        for rows in log:
            self._quads.add(_changes(rows))
        return runs, self._terms

    def sources(self) -> Sources:
        """Where a bulk backend finds the quads and terms of the last epoch."""
        return self._store.sources(self._dictionary.new_entries())

    def committed(self, terms: TermRun | None) -> None:
        """Starts a new journal of terms after a commit; `terms` is the file of those in the old journal."""
        if terms is None:
            self._dictionary.start_journal()
        else:
            self._terms.add(*terms)
            self._dictionary.move_journal()

    def moved(self, runs: QuadRuns, terms: TermRuns) -> None:
        """Switches to the files that a compaction wrote."""
        self._terms = terms
        self._quads.move(runs, self._logged())
        self._dictionary.move(terms, self._store.catalog.terms())

    def replaced_terms(self) -> None:
        """Switches to new runs of terms."""
        self._terms = self._store.terms(self._terms)
        self._dictionary.load(self._terms, (), ())

    def advance(self) -> int:
        """Moves to the store's last epoch; returns its number."""
        catalog = self._store.catalog
        catalog.renew()
        runs = catalog.runs(QUADS)
        if catalog.history_start() > self._at:  # the changes since are no longer kept
            self._quads.clear()
            self.load_quads()
        else:
            for _, rows in self._store.changes(self._at):
                self._quads.add(_changes(rows))
            if self._runs is None or self._runs.paths() != {run.path for run in runs}:
                self._runs = QuadRuns(self._store.place, runs, self._runs)
                self._quads.move(self._runs, self._logged())
        self._terms = self._store.terms(self._terms)
        self._dictionary.load(self._terms, catalog.terms(), catalog.exceptions())
        self._at = catalog.epoch()
        self._store.read_until(self._at)
        return self._at

    def _logged(self) -> list[Change]:
        """The changes that are not in runs yet."""
        log = self._store.changes(self._store.quads_epoch())
        return [change for _, rows in log for change in _changes(rows)]


def _changes(rows: Column) -> Sequence[Change]:
    """The changes of an epoch, which are distinct and change something; many of them as sorted columns."""
    if len(rows) < COLUMN_ROWS:
        return [(s, p, o, g, w) for s, p, o, g, w in rows.tolist()]
    subjects, predicates, objects, graphs, _ = rows.T
    order = np.lexsort((objects, subjects, graphs, predicates))
    return ColumnRows([np.ascontiguousarray(column[order]) for column in rows.T])
