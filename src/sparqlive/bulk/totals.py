"""Running totals of groups: a change is added to them, so that no group is read again.

A backend keeps one row per group with the sums that COUNT, SUM and AVG follow from. Totals of a content plus
totals of its change are the totals after the change. Numbers that SQL cannot add are only counted: groups
that have some are computed from their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from sparqlive.bulk import aggregate, scan
from sparqlive.bulk.backend import Backend
from sparqlive.bulk.evaluate import Evaluation, rows_of_table, table_columns
from sparqlive.bulk.solutions import column
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term


@dataclass(frozen=True)
class TotalsOf:
    """Computes totals of one session's groups, as Arrow tables."""

    backend: Backend
    quads: scan.PairTables
    terms: Any
    id_of: Callable[[Term], int]
    exceptions: Mapping[str, int]

    def rows(self, operator: op.Group, rows: Any) -> Any:
        """The totals of a content of the operator's source, or of its change."""
        with self.backend as backend:
            quads = scan.QuadsByPredicate(backend, self.quads, self.id_of)
            terms = Terms(backend, self.terms, operator, self.id_of, self.exceptions)
            evaluation = Evaluation(backend, quads, terms, ())
            frame = backend.frame(rows, table_columns(operator.source))
            source = rows_of_table(operator.source, frame, are_entered=True)
            return backend.query(aggregate.totals(evaluation, operator, source))

    def sum(self, operator: op.Group, old: Any, change: Any) -> Any:
        """The totals after a change; groups without rows have none."""
        keys, names = [column(v) for v in operator.keys], aggregate.total_names(operator)
        with self.backend as backend:
            parts = [backend.frame(table, (*keys, *names)) for table in (old, change)]
            both = parts[0].union(parts[1]).grouped(keys, *aggregate.added(names))
            return backend.query(both.where(f"{aggregate.WEIGHTS} <> 0"))


def are_complete(operator: op.Group, *tables: Any) -> bool:
    """Whether all numbers are in the sums."""
    others = [name for name in aggregate.total_names(operator) if name.startswith("others_")]
    return not any(pc.any(pc.not_equal(table.column(name), 0)).as_py() for table in tables for name in others)
