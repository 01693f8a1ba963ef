"""Computes an epoch on DuckDB, in process: deltas and contents of plans as columns.

Reads the quads of a session in place, by graph and predicate, before and after the current epoch. Supports
everything that live supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparqlive.bulk.backend import Later
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.bulk.scan import PairTables
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES
from sparqlive.zset.run import Column, Run, RunRows

Rows = Mapping[tuple[int, ...], int]


class InProcess:
    """Evaluates plans of one session. `terms` gives the dictionary with typed columns, if a plan needs it."""

    def __init__(
        self,
        quads: PairTables,
        terms: Callable[[], pa.Table],
        id_of: Callable[[Term], int],
        exceptions: Mapping[str, int],
        enter: Callable[[str], int],
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
    ) -> list[Rows]:
        """The change of each plan by its delta rules. The quads know the changes."""
        contents = (
            self._content(
                delta(
                    plan, self._backend, self._quads, None, self._terms, self._id_of,
                    parameters=parameters, exceptions=self._exceptions, few=False,
                )
            )
            for plan in plans
        )  # fmt: skip
        return [RunRows(content) if isinstance(content, Run) else content for content in contents]

    def contents(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Rows | Run]:
        """The content of each plan after the changes, from scratch; a run, unless it has no columns."""
        return [
            self._content(
                evaluate(
                    plan, self._backend, self._quads, self._terms, self._id_of,
                    parameters=parameters, exceptions=self._exceptions,
                )
            )
            for plan in plans
        ]  # fmt: skip

    def _content(self, result: ResultTables) -> Rows | Run:
        """Computed terms are entered, and have the ids that the rows say."""
        if result.new_terms is not None:
            for number, text in zip(*result.new_terms.to_pydict().values(), strict=True):
                assert self._enter(text) == number, "a computed term has another id here than in SQL"
        *columns, weights = _columns(result.rows)
        if columns:
            return Run.sort(columns, weights)
        return {(): int(weights[0])} if len(weights) else {}


def _columns(table: Any) -> list[Column]:
    return [table.column(name).to_numpy() for name in table.column_names]
