"""Carries an epoch on Spark: deltas and contents of plans as Python rows.

Owns what Spark reads of a session: files of quads and terms, and the little that came after them. Refuses
plans with an operator that Spark does not evaluate yet. Invariant: `before` is the state before the epoch
under way, `after` is that with the epoch's changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparqlive.plan import operators as op
from sparqlive.spark.delta import delta
from sparqlive.spark.evaluate import Result, evaluate
from sparqlive.sparql.algebra import Term
from sparqlive.store.store import Sources

Rows = dict[tuple[int, ...], int]
_QUAD = ("s", "p", "o", "g")


class Carrier:
    """Evaluates plans of one session on Spark."""

    def __init__(
        self,
        spark: SparkSession,
        sources: Sources,
        id_of: Callable[[Term], int],
        exceptions: Mapping[str, int],
        enter: Callable[[str], int],
    ) -> None:
        self._spark = spark
        self._id_of = id_of
        self._exceptions = exceptions
        self._enter = enter
        self._before = self._with_changes(self._files(sources.quad_files, _QUAD), sources.log)
        terms = self._files(sources.term_files, ("id", "term"))
        self._terms = terms.unionByName(self._term_frame(sources.terms)) if sources.terms else terms

    def _files(self, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        if files:
            return self._spark.read.parquet(*files).select(*columns)
        if "term" in columns:
            return self._term_frame([])
        return self._frame(np.empty((0, len(columns)), dtype=np.int64), columns)

    def _frame(self, rows: npt.NDArray[np.int64], columns: Sequence[str]) -> DataFrame:
        arrays = {name: pa.array(rows[:, i], pa.int64()) for i, name in enumerate(columns)}
        return self._spark.createDataFrame(pa.table(arrays))

    def _term_frame(self, terms: Sequence[tuple[int, str]]) -> DataFrame:
        ids = pa.array([number for number, _ in terms], pa.int64())
        return self._spark.createDataFrame(
            pa.table({"id": ids, "term": pa.array([t for _, t in terms], pa.string())})
        )

    def _with_changes(self, quads: DataFrame, log: npt.NDArray[np.int64]) -> DataFrame:
        """The quads after a log in which the last word on a quad stands last."""
        if not len(log):
            return quads
        final = {tuple(row[:4]): row[4] for row in log.tolist()}
        touched = self._frame(np.array(list(final), dtype=np.int64), _QUAD)
        there = [quad for quad, weight in final.items() if weight > 0]
        kept = quads.join(touched.hint("broadcast"), list(_QUAD), "left_anti")
        if not there:
            return kept
        return kept.unionByName(self._frame(np.array(there, dtype=np.int64), _QUAD))

    def deltas(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Rows]:
        """The change of each plan by its delta rules."""
        changed = self._frame(np.array(changes, dtype=np.int64), (*_QUAD, "w"))
        return [
            self._collected(
                delta(
                    plan, self._before, changed, self._terms, self._id_of,
                    parameters=parameters, exceptions=self._exceptions,
                )
            )
            for plan in plans
        ]  # fmt: skip

    def contents(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Rows]:
        """The content of each plan after the changes, from scratch."""
        after = self._with_changes(self._before, np.array(changes, dtype=np.int64).reshape(-1, 5))
        return [
            self._collected(
                evaluate(
                    plan, after, self._terms, self._id_of, parameters=parameters, exceptions=self._exceptions
                )
            )
            for plan in plans
        ]

    def _collected(self, result: Result) -> Rows:
        """Rows in this process; computed terms are entered, and have the ids that the rows say."""
        if result.new_terms is not None:
            for row in result.new_terms.collect():
                number = self._enter(row["term"])
                assert number == row["id"], "a computed term has another id here than on Spark"
        table: Any = result.rows.toArrow()
        columns = [table.column(name).to_pylist() for name in table.column_names]
        if len(columns) == 1:
            return {(): columns[0][0]} if columns[0] else {}
        return dict(zip(zip(*columns[:-1], strict=True), columns[-1], strict=True))
