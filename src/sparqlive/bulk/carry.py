"""Computes an epoch on DuckDB, in process: deltas and contents of plans as columns.

Reads the quads of a session in place, by graph and predicate, before and after the current epoch. Supports
every operator that live supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparqlive.bulk import stored_totals
from sparqlive.bulk.aggregate import totals as totals_of
from sparqlive.bulk.backend import Later
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import Evaluation, ResultTables, evaluate, rows_of_table, table_columns
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import QuadsByPredicate, SessionTables
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES
from sparqlive.zset.kept import Kept
from sparqlive.zset.run import Column, Run, RunRows

Rows = Mapping[tuple[int, ...], int]


class InProcess:
    """Evaluates plans of one session. `terms` returns the dictionary with typed columns, on demand."""

    def __init__(
        self,
        quads: SessionTables,
        terms: Callable[[], pa.Table],
        id_of: Callable[[Term], int],
        exceptions: Mapping[str, int],
        enter: Callable[[Column, pa.Array], Column],
    ) -> None:
        self._quads = quads
        self._terms = Later(("id", "term", *NAMES), terms)
        self._id_of = id_of
        self._exceptions = exceptions
        self._enter = enter
        self._backend = DuckDb()

    def deltas(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
        kept: Mapping[op.Keeping, Kept],
        names: Mapping[op.Keeping, Sequence[str]],
    ) -> list[Rows]:
        """Computes the change of each plan by its delta rules. The quads know the changes."""
        stored = {of.source: _later(of.source, held) for of, held in kept.items() if not held.are_totals}
        changed: dict[op.Operator, pa.Table] = {}
        totals: dict[op.Group, tuple[pa.Table, pa.Table, bool]] = {}
        deltas: list[Rows] = []
        for plan in plans:
            result = delta(
                plan, self._backend, self._quads, None, self._terms, self._id_of, parameters=parameters,
                exceptions=self._exceptions, few=False, kept=stored, changed=changed, totals=totals,
            )  # fmt: skip
            changed[plan] = result.rows
            content = self._content(result)
            deltas.append(RunRows(content) if isinstance(content, Run) else content)
            if deltas[-1]:
                self._add_totals(plan, result.rows, kept, totals)
        return deltas

    def _add_totals(
        self,
        source: op.Operator,
        change: pa.Table,
        kept: Mapping[op.Keeping, Kept],
        known: dict[op.Group, tuple[pa.Table, pa.Table, bool]],
    ) -> None:
        """Adds the totals of groups whose source has changed: before the change, and of the change."""
        for operator, held in kept.items():
            if operator.source != source or not held.are_totals:
                continue
            assert isinstance(operator, op.Group)
            stored = _table(*held.parts())
            with self._backend as backend:
                terms = Terms(backend, self._terms, operator, self._id_of, self._exceptions)
                evaluation = Evaluation(
                    backend, QuadsByPredicate(backend, self._quads, self._id_of), terms, ()
                )
                rows = rows_of_table(source, backend.frame(change, table_columns(source)), are_entered=True)
                new, new_rows = self._here(totals_of(evaluation, operator, rows))
                kept_rows = backend.frame(stored, stored_totals.columns(operator))
                old, old_rows = self._here(stored_totals.unpacked(backend.dialect, operator, kept_rows, new))
                both = (old, old_rows), (new, new_rows)
                complete = not any(stored_totals.has_others(backend, operator, *part) for part in both)
            known[operator] = old_rows, new_rows, complete

    def _here(self, frame: Frame) -> tuple[Frame, pa.Table]:
        """Computes the rows of a frame now."""
        rows = self._backend.rows(frame)
        return self._backend.local(rows), rows

    def contents(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Rows | Run]:
        """Computes each plan's content after the changes from scratch; a run, unless it has no columns."""
        made: dict[op.Operator, pa.Table] = {}
        contents = []
        for plan in plans:
            result = evaluate(
                plan, self._backend, self._quads, self._terms, self._id_of,
                parameters=parameters, exceptions=self._exceptions, made=made,
            )  # fmt: skip
            made[plan] = result.rows
            contents.append(self._content(result))
        return contents

    def _content(self, result: ResultTables) -> Rows | Run:
        """Enters computed terms into the dictionary, which gives them the ids in the rows."""
        if result.new_terms is not None:
            numbers, texts = result.new_terms.columns
            ids = numbers.to_numpy()
            entered = self._enter(ids, texts.combine_chunks())
            assert (entered == ids).all(), "a computed term has another id here than in SQL"
        *columns, weights = _columns(result.rows)
        if columns:
            return Run.sort(columns, weights)
        return {(): int(weights[0])} if len(weights) else {}


def _later(source: op.Operator, held: Kept) -> Later:
    names = tuple(f"c{number}" for number in range(len(source.variables)))
    return Later((*names, "w"), lambda: _table(*held.parts()))


def _table(*parts: Sequence[Column]) -> pa.Table:
    """Builds a table of columns and weights with the names of `ResultTables.rows`, chunked by part."""
    *ids, weights = (pa.chunked_array(columns) for columns in zip(*parts, strict=True))
    return pa.table({**{f"c{number}": ids[number] for number in range(len(ids))}, "w": weights})


def _columns(table: Any) -> list[Column]:
    return [table.column(name).to_numpy() for name in table.column_names]
