"""The quads and terms of a store, as a session sees them: a mapped base, and later changes in memory.

Owns which files hold the part on disk, and which changes after them are in memory. Invariant: quads and
dictionary belong to the epoch that was last written or read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from sparqlive.quads.base import Base
from sparqlive.quads.current import Change, Quads
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.store.quad_map_building import Order
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.quad_runs import QuadRuns
from sparqlive.store.runs import QUADS, TERMS, RunFile, check_present
from sparqlive.store.store import Sources, Store
from sparqlive.store.term_runs import write_term_run
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles, Known

_ORDERS: tuple[Order, ...] = ("pso", "pos", "spo")
_NO_EXCEPTIONS: Mapping[str, int] = {}
_NO_COLUMN = np.empty(0, dtype=np.int64)


class StoredData:
    """A session's part of a store's quads and terms."""

    def __init__(self, store: Store, quads: Quads, dictionary: Dictionary) -> None:
        self.store = store
        self._quads = quads
        self._dictionary = dictionary
        self.maps: QuadMaps | None = None
        """The mapped base, once something has read quads."""
        self._terms = store.terms()
        dictionary.load(self._terms, store.catalog.terms(), store.catalog.exceptions())
        self._at = store.catalog.epoch()
        self._segments: QuadRuns | None = None
        """What is known about the segments of files, most of which stay."""
        if not store.catalog.read_only:
            dictionary.start_journal()

    def load_quads(self) -> None:
        """Attaches the quads, which are mapped and brought up to date when they are first read."""
        store = self.store
        runs = store.catalog.runs(QUADS)
        check_present(store.place, runs)
        base = sum(run.rows for run in runs)
        later = self._later()
        size = base + int(later.columns[4].sum())
        is_blank = not base and not any(store.catalog.changes(store.quads_epoch()))
        self._quads.attach(partial(self._loaded, later), size, is_blank=is_blank)

    def _loaded(self, later: ColumnRows | None = None) -> tuple[Base, ColumnRows]:
        """The maps of the base, and the net changes after it, sorted by p."""
        runs = self.store.catalog.runs(QUADS)
        if self.maps is None or self.maps.paths != {run.path for run in runs}:
            self.maps = QuadMaps(self.store.directory, self.store.place, runs)
        return self.maps, self._later() if later is None else later

    def map_ahead(self) -> None:
        """Maps the base in the orders that most queries need."""
        self.maps = self.mapped(self.store.catalog.runs(QUADS))

    def mapped(self, runs: Sequence[RunFile]) -> QuadMaps:
        """The maps of a base, in the orders in use; a large base also gets those that most queries need.

        For a small base, creating an order when it is needed takes only a moment.
        """
        maps = QuadMaps(self.store.directory, self.store.place, runs)
        maps.prepare(dict.fromkeys((*_ORDERS, *(() if self.maps is None else self.maps.orders))))
        return maps

    def _later(self) -> ColumnRows:
        """The net changes after the base."""
        log = [rows for _, rows in self.store.changes(self.store.quads_epoch())]
        if not log:
            return ColumnRows([_NO_COLUMN] * 5)
        subjects, predicates, objects, graphs, weights = np.concatenate(log).T
        run = Run.sort([np.ascontiguousarray(c) for c in (predicates, graphs, subjects, objects)], weights)
        predicates, graphs, subjects, objects = run.columns
        assert run.weights is not None
        return ColumnRows((subjects, predicates, objects, graphs, run.weights))

    def sources(self) -> Sources:
        """Where a bulk backend finds the quads and terms of the last epoch."""
        return self.store.sources(self._dictionary.new_entries)

    def committed(self, terms: RunFile | None) -> None:
        """Starts a new journal of terms after a commit; `terms` is the file of those in the old journal.

        The commit has named the files of terms that were staged.
        """
        self.store.stage_terms(())
        if terms is None:
            self._dictionary.start_journal()
        else:
            self.replaced_terms()
            self._dictionary.move_journal()

    def moved(self, maps: QuadMaps | None) -> None:
        """Switches to the files that a compaction wrote, of which `maps` are mapped."""
        self._terms = self.store.terms()
        self.maps = maps
        self._quads.move(self._loaded)
        self._dictionary.move(self._terms, self.store.catalog.terms())

    def replaced_terms(self) -> None:
        """Switches to new runs of terms."""
        self._terms = self.store.terms()
        self._dictionary.load(self._terms, (), ())

    def stage_terms(self, runs: Sequence[RunFile], exceptions: Mapping[str, int] = _NO_EXCEPTIONS) -> None:
        """Makes terms in new files known; the next commit names the files."""
        self.store.stage_terms([*self.store.staged_terms, *runs])
        self.replaced_terms()
        self._dictionary.load_exceptions(exceptions)

    @contextmanager
    def staging(
        self, exceptions: Mapping[str, int] = _NO_EXCEPTIONS, *, only_here: bool = False
    ) -> Iterator[None]:
        """Context that forgets the terms and exceptions staged in it if it fails, unless they were committed.

        `only_here`: also if it succeeds.
        """
        terms, staged = self._terms, self.store.staged_terms
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            if (has_failed or only_here) and self.store.staged_terms:  # otherwise committed, or none
                self.store.stage_terms(staged)
                self._terms = terms
                self._dictionary.unload(terms, exceptions)

    def known(self, folder: str) -> Known:
        """What the store has, for workers to read; writes a file into a folder. Called under the lock."""
        from sparqlive.bulk.ingest.effective import Known

        self._segments = self.store.all_quads(self._segments)
        dictionary = self._dictionary
        terms = self.files_of_terms(folder)
        return Known(self._segments, terms, dict(dictionary.exceptions), dictionary.text_of)

    def state(self) -> tuple[Any, ...]:
        """Differs if quads, terms or their files have changed; the epoch is first. Called under the lock."""
        catalog, (entries, columns, _) = self.store.catalog, self._dictionary.journal()
        files = {run.path for relation in (QUADS, TERMS) for run in catalog.runs(relation)}
        return catalog.epoch(), files, catalog.last_term(), len(entries), sum(map(len, columns))

    @contextmanager
    def staged(self, files: ChangeFiles) -> Iterator[None]:
        """Context in which the terms of an epoch that workers read are known, and which may commit them."""
        with self.staging(files.exceptions):
            self.stage_terms(files.terms, files.exceptions)
            yield

    def files_of_terms(self, folder: str) -> list[RunFile]:
        """Files with all terms; terms that are in no file yet are written to a folder."""
        pairs, columns, _ = self._dictionary.journal()
        terms = TermColumns.together([TermColumns.of([*self.store.catalog.terms(), *pairs]), *columns])
        self.store.place.make(folder)
        ending, files = f"-{uuid4().hex}", self.store.term_runs()
        return [*files, write_term_run(self.store.place, folder, terms, ending)] if len(terms) else files

    def committed_files(self) -> None:
        """Reads the changes of a committed epoch, which workers wrote."""
        self._quads.move(self._loaded)

    def advance(self) -> int:
        """Moves to the store's last epoch; returns its number."""
        catalog = self.store.catalog
        catalog.renew()
        changes = [stored for _, stored in catalog.changes(self._at)]
        are_few = all(isinstance(stored, np.ndarray) for stored in changes)
        is_kept = catalog.history_start() <= self._at
        if self._quads.is_unread or not is_kept or not are_few:  # read later, lost, or better left in files
            self._quads.clear()
            self.load_quads()
        else:
            for rows in changes:
                assert isinstance(rows, np.ndarray)
                self._quads.add(_changes(rows, self._quads.tuning.column_rows))
            if self.maps is not None and self.maps.paths != {run.path for run in catalog.runs(QUADS)}:
                self._quads.move(self._loaded)
        self._terms = self.store.terms()
        self._dictionary.load(self._terms, catalog.terms(), catalog.exceptions())
        self._at = catalog.epoch()
        self.store.read_until(self._at)
        return self._at


def _changes(rows: Column, column_rows: int) -> Sequence[Change]:
    """The changes of an epoch, distinct and effective; many of them as sorted columns."""
    if len(rows) < column_rows:
        return [(s, p, o, g, w) for s, p, o, g, w in rows.tolist()]
    subjects, predicates, objects, graphs, _ = rows.T
    order = np.lexsort((objects, subjects, graphs, predicates))
    return ColumnRows([np.ascontiguousarray(column[order]) for column in rows.T])
