"""Computes an epoch on Spark: deltas and contents of plans as Python rows.

Defines what Spark reads of a session: files of quads and terms, and the few changes after them. Supports
everything that live supports. Invariant: `before` is the state before the current epoch, `after` is that
state with the epoch's changes.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sparqlive.bulk.backends.spark.backend import SparkBackend
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term
from sparqlive.store.store import Sources
from sparqlive.zset.run import Column, Run

Rows = dict[tuple[int, ...], int]
_QUAD = ("s", "p", "o", "g")
# Rows that Spark takes in from this process; beyond that, it reads them from a file.
_MANY = 10_000
FEW_CHANGES = 50_000
"""Up to so many changes are broadcast, and what they join is restricted by their keys."""


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
        self._directory: Path | None = None
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
        table = pa.table({name: pa.array(rows[:, i], pa.int64()) for i, name in enumerate(columns)})
        if len(rows) <= _MANY or not str(self._spark.sparkContext.master).startswith("local"):
            return self._spark.createDataFrame(table)
        # Spark reads a file much faster than it takes rows in; workers elsewhere would not find it.
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="sparqlive-"))
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        path = self._directory / f"{uuid4()}.parquet"
        pq.write_table(table, path)
        return self._spark.read.parquet(path.as_uri())

    def _term_frame(self, terms: Sequence[tuple[int, str]]) -> DataFrame:
        ids = pa.array([number for number, _ in terms], pa.int64())
        return self._spark.createDataFrame(
            pa.table({"id": ids, "term": pa.array([t for _, t in terms], pa.string())})
        )

    def _with_changes(self, quads: DataFrame, log: npt.NDArray[np.int64]) -> DataFrame:
        """The quads after a log in which the last word on a quad stands last."""
        if not len(log):
            return quads
        final = _last_words(log)
        touched = self._frame(final, _QUAD)
        there = final[final[:, 4] > 0]
        few = touched.hint("broadcast") if len(final) <= FEW_CHANGES else touched
        kept = quads.join(few, list(_QUAD), "left_anti")
        return kept.unionByName(self._frame(there, _QUAD)) if len(there) else kept

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
                    plan, SparkBackend(self._spark), self._before, changed, self._terms, self._id_of,
                    parameters=parameters, exceptions=self._exceptions, few=len(changes) <= FEW_CHANGES,
                )
            )
            for plan in plans
        ]  # fmt: skip

    def contents(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Rows | Run]:
        """The content of each plan after the changes, from scratch; a run, unless it has no columns."""
        after = self._with_changes(self._before, np.array(changes, dtype=np.int64).reshape(-1, 5))
        return [
            self._content(
                evaluate(
                    plan,
                    SparkBackend(self._spark),
                    after,
                    self._terms,
                    self._id_of,
                    parameters=parameters,
                    exceptions=self._exceptions,
                )
            )
            for plan in plans
        ]

    def _content(self, result: ResultTables) -> Rows | Run:
        *columns, weights = self._columns(result)
        return Run.sort(columns, weights) if columns else _rows(columns, weights)

    def _collected(self, result: ResultTables) -> Rows:
        *columns, weights = self._columns(result)
        return _rows(columns, weights)

    def _columns(self, result: ResultTables) -> list[Column]:
        """Rows in this process; computed terms are entered, and have the ids that the rows say."""
        if result.new_terms is not None:
            for row in result.new_terms.collect():
                number = self._enter(row["term"])
                assert number == row["id"], "a computed term has another id here than on Spark"
        table: Any = result.rows.toArrow()
        return [table.column(name).to_numpy() for name in table.column_names]


def _last_words(log: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The last row on each quad."""
    order = np.lexsort((np.arange(len(log)), *(log[:, column] for column in range(4))))
    sorted_log: npt.NDArray[np.int64] = log[order]
    is_last = np.append((sorted_log[1:, :4] != sorted_log[:-1, :4]).any(axis=1), True)
    return np.asarray(sorted_log[is_last])


def _rows(columns: Sequence[Column], weights: Column) -> Rows:
    if not columns:
        return {(): int(weights[0])} if len(weights) else {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return dict(zip(rows, weights.tolist(), strict=True))
