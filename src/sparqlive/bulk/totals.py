"""Totals of groups for an epoch on DuckDB: a change is added to those that live keeps, and no group is read.

Totals of a content plus totals of its change are the totals after the change. Groups with numbers that totals
leave out are computed from their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from sparqlive.bulk import aggregate, scan, stored_totals
from sparqlive.bulk.backend import Backend
from sparqlive.bulk.evaluate import Evaluation, rows_of_table, table_columns
from sparqlive.bulk.solutions import column
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.totals import total_names
from sparqlive.sparql.algebra import Term


@dataclass(frozen=True)
class TotalsOf:
    """Computes totals of one session's groups, as Arrow tables."""

    backend: Backend
    quads: scan.SessionTables
    terms: Any
    id_of: Callable[[Term], int]
    exceptions: Mapping[str, int]

    def of_change(self, operator: op.Group, rows: Any) -> Any:
        """The totals of a change of the operator's source."""
        with self.backend as backend:
            quads = scan.QuadsByPredicate(backend, self.quads, self.id_of)
            terms = Terms(backend, self.terms, operator, self.id_of, self.exceptions)
            evaluation = Evaluation(backend, quads, terms, ())
            frame = backend.frame(rows, table_columns(operator.source))
            source = rows_of_table(operator.source, frame, are_entered=True)
            return backend.query(aggregate.totals(evaluation, operator, source))

    def before(self, operator: op.Group, stored: Any, change: Any) -> Any:
        """The stored totals of the groups that a change touches."""
        keys = [column(v) for v in operator.keys]
        with self.backend as backend:
            frame = backend.frame(stored, stored_totals.columns(operator))
            touched = backend.frame(change, (*keys, *total_names(operator)))
            return backend.query(stored_totals.unpacked(backend.dialect, operator, frame, touched))


def are_complete(operator: op.Group, *tables: Any) -> bool:
    """Whether all numbers are in the sums."""
    others = [name for name in total_names(operator) if name.startswith("others_")]
    return not any(pc.any(pc.not_equal(table.column(name), 0)).as_py() for table in tables for name in others)
