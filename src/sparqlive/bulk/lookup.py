"""Looks up what few keys reach in a store: quads by subject, stored rows by their first column, terms by id.

A delta of a few changes meets few rows. They are found in this process, by searching the sorted files, and
the backend gets them as a small table; so the cost of a delta does not depend on the size of what it reads
from. Where the keys are many in relation to the rows, a scan by the backend is cheaper, and the answer is
None. Invariant: what is looked up is what a scan would find for the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.scope import scope_in
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import term_table
from sparqlive.store.quad_runs import QuadRuns
from sparqlive.store.seeking import ROWS_PER_SEARCH, places_of
from sparqlive.zset.columns import Mask
from sparqlive.zset.run import Column, Run

SCANNED_ROWS = 1_000_000
"""Fewer rows than this are never scanned by the backend: opening the files would take as long."""


class Lookup:
    """Looks up quads and terms as of one epoch.

    before: the changes after the files, net; changes: those of the epoch. Both are sorted by s, p, o, g.
    """

    def __init__(
        self,
        runs: QuadRuns,
        before: Run,
        changes: Run,
        id_of: Callable[[Term], int],
        known_terms: Callable[[Column], TermColumns],
    ) -> None:
        self._runs = runs
        self._before = before
        self._changes = changes
        self._id_of = id_of
        self._known_terms = known_terms

    def quads(
        self, state: State, graph: op.GraphChoice, predicate: int | None, subjects: Column
    ) -> pa.Table | None:
        """The quads of some subjects, sorted and distinct: s, p, o, g, w. None if a scan is cheaper."""
        covers = scope_in(graph, self._id_of).covers

        def is_read(name: int, of: int) -> bool:
            return (predicate is None or of == predicate) and covers(name)

        size = sum(size for key, size in self._runs.sizes.items() if is_read(*key))
        if len(subjects) * ROWS_PER_SEARCH > size > SCANNED_ROWS:
            return None
        parts: list[Sequence[Column]] = [*self._in_files(subjects, is_read)]
        for run in (self._before, self._changes) if state is State.NEW else (self._before,):
            parts.append(_chosen(run, places_of(run.columns[0], subjects), predicate, covers))
        columns = [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        found = Run.sort(columns[:4], columns[4])
        assert found.weights is not None and (found.weights == 1).all(), "each quad is there once"
        return _table((*found.columns, found.weights))

    def changes(self, graph: op.GraphChoice, predicate: int | None) -> pa.Table:
        """The changes of the epoch in some graphs: s, p, o, g, w."""
        return _table(_chosen(self._changes, slice(None), predicate, scope_in(graph, self._id_of).covers))

    def _in_files(
        self, subjects: Column, is_read: Callable[[int, int], bool]
    ) -> Iterator[tuple[Column, Column, Column, Column, Column]]:
        for (graph, predicate), s, o, w in self._runs.of_subjects(subjects, is_read):
            yield s, np.full(len(s), predicate), o, np.full(len(s), graph), w

    def terms(self, numbers: Column) -> pa.Table:
        """Terms with their typed columns; those of the ids that the dictionary has."""
        found = self._known_terms(np.unique(numbers))
        return term_table(pa.array(found.ids), found.texts)


def _table(columns: Sequence[Column]) -> pa.Table:
    return pa.table(dict(zip("spogw", columns, strict=True)))


def _chosen(
    run: Run, places: Column | slice, predicate: int | None, covers: Callable[[int], bool]
) -> tuple[Column, ...]:
    """Of some changes, those in some graphs and of a predicate."""
    assert run.weights is not None
    chosen = [column[places] for column in (*run.columns, run.weights)]
    is_read: Mask = np.isin(chosen[3], [name for name in np.unique(chosen[3]).tolist() if covers(name)])
    if predicate is not None:
        is_read &= chosen[1] == predicate
    return tuple(column[is_read] for column in chosen)
