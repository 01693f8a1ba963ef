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

from sparqlive.bulk.backend import Later
from sparqlive.bulk.backends.spark.backend import SparkBackend, read_files
from sparqlive.bulk.backends.spark.start import frame_of, master_of
from sparqlive.bulk.backends.spark.stopping import stoppable
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES, entry_table
from sparqlive.store.store import LaterChanges, Sources
from sparqlive.zset.kept import Kept
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
        quads = self._quads(sources.quad_files)
        later = sources.later
        self._before = (
            self._with_files(quads, later) if later.files else self._with_changes(quads, later.rows)
        )
        columns = ("id", "term", *(NAMES if sources.has_types else ()))
        self._terms = Later(columns, lambda: self._term_frame(sources, columns))

    def _quads(self, files: Sequence[str]) -> DataFrame:
        if files:
            return read_files(self._spark, files, _QUAD)
        return self._frame(np.empty((0, len(_QUAD)), dtype=np.int64), _QUAD)

    def _frame(self, rows: npt.NDArray[np.int64], columns: Sequence[str]) -> DataFrame:
        table = pa.table({name: pa.array(rows[:, i], pa.int64()) for i, name in enumerate(columns)})
        if len(rows) <= _MANY or not master_of(self._spark).startswith("local"):
            return frame_of(self._spark, table)
        # Spark reads a file much faster than it takes rows in; workers elsewhere would not find it.
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="sparqlive-"))
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        path = self._directory / f"{uuid4()}.parquet"
        pq.write_table(table, path)
        return read_files(self._spark, [path.as_uri()], columns)

    def _term_frame(self, sources: Sources, columns: Sequence[str]) -> DataFrame:
        files = read_files(self._spark, sources.term_files, columns) if sources.term_files else None
        if files is not None and not sources.terms:
            return files
        table = entry_table(sources.terms).select(columns)
        table = table.set_column(1, "term", table.column("term").cast(pa.string()))
        later = frame_of(self._spark, table)
        return later if files is None else files.union(later)

    def _with_files(self, quads: DataFrame, later: LaterChanges) -> DataFrame:
        """The quads after a log that is in files, at least in part."""
        columns = (*_QUAD, "w")
        late = read_files(self._spark, later.files, columns)
        if len(later.rows):
            late = late.union(self._frame(later.rows, columns))
        if not later.deletes:
            return quads.union(late.select(*_QUAD))
        net = late.groupBy(*_QUAD).agg({"w": "sum"}).withColumnRenamed("sum(w)", "w")
        deleted = net.where("w < 0").select(*_QUAD)
        few = deleted.hint("broadcast") if later.deletes <= FEW_CHANGES else deleted
        return quads.join(few, list(_QUAD), "left_anti").union(net.where("w > 0").select(*_QUAD))

    def _with_changes(self, quads: DataFrame, log: npt.NDArray[np.int64]) -> DataFrame:
        """The quads after a log of changes, each of which changed something when it was made."""
        if not len(log):
            return quads
        net = Run.sort([np.ascontiguousarray(log[:, number]) for number in range(4)], log[:, 4].copy())
        assert net.weights is not None
        rows = np.column_stack(net.columns)
        inserted, deleted = rows[net.weights > 0], rows[net.weights < 0]
        if len(deleted):
            frame = self._frame(deleted, _QUAD)
            few = frame.hint("broadcast") if len(deleted) <= FEW_CHANGES else frame
            quads = quads.join(few, list(_QUAD), "left_anti")
        return quads.union(self._frame(inserted, _QUAD)) if len(inserted) else quads

    def deltas(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
        kept: Mapping[op.Keeping, Kept],
    ) -> list[Rows]:
        """The change of each plan by its delta rules, computed from the quads: what is kept is not here."""
        rows = np.array(changes, dtype=np.int64)
        changed = self._frame(rows, (*_QUAD, "w"))
        predicates = frozenset(np.unique(rows[:, 1]).tolist())
        return [
            self._collected(
                delta(
                    plan, SparkBackend(self._spark), self._before, changed, self._terms, self._id_of,
                    parameters=parameters, exceptions=self._exceptions, few=len(changes) <= FEW_CHANGES,
                    changed_predicates=predicates,
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
            for row in stoppable(self._spark, result.new_terms.collect):
                number = self._enter(row["term"])
                assert number == row["id"], "a computed term has another id here than on Spark"
        table: Any = stoppable(self._spark, result.rows.toArrow)
        return [table.column(name).to_numpy() for name in table.column_names]


def _rows(columns: Sequence[Column], weights: Column) -> Rows:
    if not columns:
        return {(): int(weights[0])} if len(weights) else {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return dict(zip(rows, weights.tolist(), strict=True))
