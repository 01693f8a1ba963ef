"""Looks up quads by subject and terms by id, for few keys. Stored rows are in `store/streaming.py`.

A delta of a few changes needs few rows. This process finds them and passes them to the backend as a small
table, so the cost of a delta does not depend on the size of the data. If there are many keys relative to the
rows, a scan by the backend is cheaper, and the result is None. Invariant: a lookup returns what a scan would
find for the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.lookup import unmerged
from sparqlive.quads.reader import own_graph
from sparqlive.quads.scope import PREDICATE, SUBJECT, scope_in
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import term_table
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.quads.current import Quads


class Lookup:
    """Looks up quads and terms of one epoch, whose changes are staged. `changes`: rows of s, p, o, g, w."""

    def __init__(
        self,
        quads: Quads,
        changes: Column,
        id_of: Callable[[Term], int],
        known_terms: Callable[[Column], TermColumns],
    ) -> None:
        self._quads = quads
        self._changes = changes
        self._id_of = id_of
        self._known_terms = known_terms

    def quads(
        self, state: State, graph: op.GraphChoice, predicate: int | None, subjects: Column
    ) -> pa.Table | None:
        """Returns the quads of some subjects, each once: s, p, o, g, w. None if a scan is cheaper."""
        tuning = self._quads.tuning
        if len(subjects) * tuning.rows_per_search > self._quads.size_about(predicate) > tuning.scanned_rows:
            return None
        scope, after = scope_in(graph, self._id_of), state is State.NEW
        known, own = {} if predicate is None else {PREDICATE: predicate}, own_graph(scope)
        found = [
            quad
            for subject in subjects.tolist()
            for quad in unmerged(self._quads, {**known, SUBJECT: subject}, own, after)
            if scope.covers(quad[3])
        ]
        columns = np.array(found, dtype=np.int64).reshape(-1, 4).T
        return _table(*columns, np.ones(len(found), dtype=np.int64))

    def changes(self, graph: op.GraphChoice, predicate: int | None) -> pa.Table:
        """Returns the changes of the epoch in some graphs: s, p, o, g, w."""
        is_read = scope_in(graph, self._id_of).covered(self._changes[:, 3])
        if predicate is not None:
            is_read &= self._changes[:, 1] == predicate
        return _table(*self._changes[is_read].T)

    def terms(self, numbers: Column) -> pa.Table:
        """Returns terms with their typed columns, for the ids that the dictionary has."""
        found = self._known_terms(np.unique(numbers))
        return term_table(pa.array(found.ids), found.texts)


def _table(*columns: Column) -> pa.Table:
    return pa.table(dict(zip("spogw", map(np.ascontiguousarray, columns), strict=True)))
