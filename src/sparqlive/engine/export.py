"""Provides the quads and terms of a session to bulk backends.

For a session in memory, it owns a copy in files, written when first needed; a session with a store needs
none. Invariant: backends see the quads and terms as they were before the current epoch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparqlive.live.quad_pairs import PairTable
from sparqlive.live.quads import Change, Quads
from sparqlive.live.scan import scope_of
from sparqlive.plan.delta import State
from sparqlive.plan.operators import GraphChoice
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.columns import NAMES, typed
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.store.store import Sources


class BulkData:
    """The quads and terms of one session, for bulk backends."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        self.quads = quads
        self.dictionary = dictionary
        self._stored: Callable[[], Sources] | None = None
        self._export: _Export | None = None
        self._terms: pa.Table | None = None
        """The dictionary's terms in memory that are in no file."""
        self._counted = 0
        """How many of the dictionary's entries were read for `_terms`."""
        self._basis: tuple[int, tuple[str, ...]] | None = None
        """The moves of the dictionary and the files that `_terms` belongs to."""
        self._term_files: dict[str, pa.Table] = {}
        """The terms of a store's files, which never change."""

    def attach(self, stored: Callable[[], Sources]) -> None:
        """Takes quads and terms from a store from now on."""
        self._stored = stored

    def sources(self, undone: Sequence[Change] = ()) -> Sources:
        """The files, and the changes after them.

        `undone` are changes that lead from the last epoch back to a view's epoch.
        """
        if self._stored is not None:
            sources = self._stored()
        else:
            if self._export is None:
                self._export = _Export(self.quads, self.dictionary)
            sources = self._export.sources()
        if undone:
            sources = replace(sources, log=np.concatenate([sources.log, np.array(undone, dtype=np.int64)]))
        return sources

    def terms(self) -> pa.Table:
        """The dictionary with the terms of the current epoch: id, term, and its typed columns."""
        files = () if self._stored is None else tuple(self._stored().term_files)
        basis = (self.dictionary.moves, files)
        entries, count = self.dictionary.entries(), len(self.dictionary)
        if self._terms is None or self._basis != basis:
            self._term_files = {file: self._term_files.get(file) or _read_terms(file) for file in files}
            # A new entry is in no file, but new files may have terms that are in memory.
            self._terms = _not_in(self._term_files.values(), term_table(entries))
        elif self._counted < count:
            new = term_table(islice(entries, self._counted, None))
            self._terms = pa.concat_tables([self._terms, new])
        self._basis, self._counted = basis, count
        return pa.concat_tables([self._terms, *self._term_files.values()])

    def record(self, changes: Sequence[Change]) -> None:
        """Records the changes of a committed epoch."""
        if self._export is not None:
            self._export.add(changes)

    def close(self) -> None:
        """Removes the files."""
        if self._export is not None:
            self._export.close()
            self._export = None


class SessionTables:
    """The quads of a session by graph and predicate, for a backend in this process (`PairTables`)."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        self._quads = quads
        self._dictionary = dictionary

    def pairs(self, graph: GraphChoice, predicate: int | None, state: State) -> Iterator[PairTable]:
        return self._quads.tables(scope_of(self._dictionary, graph), predicate, state is State.NEW)

    def changes(self, graph: GraphChoice) -> Sequence[Column]:
        staged = self._quads.staged.get(scope_of(self._dictionary, graph), ())
        if isinstance(staged, ColumnRows):
            return staged.columns
        return list(np.array(staged, dtype=np.int64).reshape(-1, 5).T)

    def is_set(self, graph: GraphChoice) -> bool:
        return self._quads.is_merged(scope_of(self._dictionary, graph))


class _Export:
    """The quads and terms of a session in memory, written to files, and the changes after that."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        from sparqlive.store.store import Store  # imported late because it is slow to import

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


def term_table(entries: Iterable[tuple[int, str]]) -> pa.Table:
    """Terms with their ids and typed columns."""
    rows = list(entries)
    texts = pa.array([text for _, text in rows], pa.large_string())
    return _typed_table(pa.array([number for number, _ in rows], pa.int64()), texts)


def _read_terms(file: str) -> pa.Table:
    """Stores write texts as `string` or `large_string`; all tables here have the same type."""
    terms = pq.read_table(file, columns=["id", "term"])
    texts = terms.column("term").cast(pa.large_string())
    return _typed_table(terms.column("id").combine_chunks(), texts.combine_chunks())


def _not_in(files: Iterable[pa.Table], terms: pa.Table) -> pa.Table:
    """The terms whose ids are in none of the files' tables."""
    for file in files:
        ids = file.column("id")
        found = ids.filter(pc.is_in(ids, value_set=terms.column("id")))
        terms = terms.filter(pc.invert(pc.is_in(terms.column("id"), value_set=found)))
    return terms


def _typed_table(ids: pa.Array, texts: pa.Array) -> pa.Table:
    columns = zip(NAMES, typed(texts).flatten(), strict=True)
    return pa.table({"id": ids, "term": texts, **dict(columns)})
