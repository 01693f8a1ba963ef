"""Implements the backend on Spark: registers DataFrames and Arrow functions under names for SQL."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from operator import itemgetter
from types import TracebackType
from typing import Any, Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

from sparqlive.bulk.backend import Function, Later
from sparqlive.bulk.backends.spark.files import parquet
from sparqlive.bulk.backends.spark.start import frame_of, is_connect
from sparqlive.bulk.backends.spark.stopping import Result, stoppable
from sparqlive.bulk.dialect import Dialect, SparkSql, total
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.new_terms import NewTerms, TermSaving
from sparqlive.bulk.solutions import WEIGHT
from sparqlive.bulk.stored_rows import StoredRelation, table
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.sparql.columns import TERM_SCHEMA
from sparqlive.store.compaction import Target
from sparqlive.store.runs import RunFile
from sparqlive.store.saving import Saved, Saving, combined

_VIEW = re.compile(r"\bsparqlive_view_[0-9]+\b")
_LASTING: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The functions that sessions of Spark Connect know."""
_ARROW_FUNCTION: Any = arrow_udf  # its stub leaves out the form with only a return type
_pickled: Any = cloudpickle.dumps
_NUMBERS = count()
_PARTITIONS = "spark.sql.shuffle.partitions"


class SparkBackend:
    shares = False
    joins_after_sum = 1

    def __init__(
        self,
        session: SparkSession,
        scratch: Target | None = None,
        quads: int = 0,
        tuning: Tuning = DEFAULT,
    ) -> None:
        """`scratch`: a folder that all workers reach, for tables of this process that are not small.

        quads: how many are read, if that may be all of them.
        """
        self.dialect: Dialect = SparkSql()
        self._session = session
        self._scratch = scratch
        self._quads = quads
        self._partitions: str | None = None
        """The session's own number of partitions, while this backend has changed it."""
        self._tuning = tuning
        self._views: list[str] = []
        self._functions: list[str] = []
        # Spark Connect resolves names when rows are read, possibly after this backend has ended. Tables are
        # therefore part of the query there, and functions stay registered.
        self._is_connect = is_connect(session)
        self._tables: dict[str, DataFrame] = {}
        self._held: dict[int, tuple[Frame, Frame, pa.Table | None]] = {}
        """Computed frames by their nodes: the frame itself, the table for it, and its rows."""
        self._persisted: list[DataFrame] = []

    def frame(self, data: DataFrame | Later, columns: Sequence[str]) -> Frame:
        data = data.make() if isinstance(data, Later) else data
        name = f"sparqlive_view_{next(_NUMBERS)}"
        if self._is_connect:
            self._tables[name] = data
        else:
            data.createOrReplaceTempView(name)
            self._views.append(name)
        return Frame.table(name, columns)

    def columns(self, data: DataFrame | Later) -> Sequence[str]:
        return data.columns

    def share(self, frame: Frame) -> tuple[Frame, bool]:
        """Prepares a frame for several uses in one query. A long frame runs now, and workers keep its rows.

        Repeated uses of uses would make a query's text grow exponentially with the depth of its plan.
        """
        is_short = len(frame.sql(self.dialect)) <= self._tuning.repeated_characters
        return (frame, True) if is_short else self.measured(frame)

    def measured(self, frame: Frame) -> tuple[Frame, bool]:
        """Runs the frame now: a few rows come to this process, the workers keep more; the number decides.

        Either way Spark forgets how the rows were computed. It would analyze that again for each use.
        """
        rows = self.query(frame).persist()
        try:
            count = self._run(rows.count)
            if count <= self._tuning.catalog_rows:
                return self.local(self._run(rows.toArrow)), True
            is_broadcast = count <= self._tuning.broadcast_rows
            return self.frame(self._run(rows.localCheckpoint), frame.columns), is_broadcast
        finally:
            rows.unpersist()

    def are_few(self, frame: Frame) -> bool:
        return self._run(self.query(frame).count) <= self._tuning.broadcast_rows

    def held(self, frame: Frame) -> tuple[Frame, pa.Table | None]:
        known = self._held.get(id(frame.node))
        if known is None:
            most = self._tuning.catalog_rows
            table = self.rows(frame.limited(most))
            is_few = table.num_rows < most
            held = (self.local(table), table) if is_few else (frame, None)
            known = self._held[id(frame.node)] = (frame, *held)
        return known[1:]

    def repeats(self, frame: Frame) -> bool:
        """Limits the tables read, because Spark computes a common table expression once per reader."""
        return frame.reads() <= self._tuning.repeated_tables

    def materialize(self, frame: Frame) -> Frame:
        """Lets workers keep the rows, which the first query computes, until this backend ends.

        Without a folder for files, results are read after the backend ends, so nothing is computed ahead.
        """
        if self._scratch is None or id(frame.node) in self._held:
            return frame
        rows = self.query(frame).persist()
        self._persisted.append(rows)
        return self.frame(rows, frame.columns)

    def function(self, function: Function, kind: pa.DataType) -> str:
        if self._is_connect:
            return self._lasting_function(function, kind)
        name = f"sparqlive_function_{next(_NUMBERS)}"
        self._session.udf.register(name, _ARROW_FUNCTION(function, returnType=from_arrow_type(kind)))
        self._functions.append(name)
        return name

    def _lasting_function(self, function: Function, kind: pa.DataType) -> str:
        """Registers a function under a name that describes it, so that it is registered only once."""
        digest = blake2b(_pickled((function, str(kind))), digest_size=16).hexdigest()
        name = f"sparqlive_function_{digest}"
        known = _LASTING.setdefault(self._session, set())
        if name not in known:
            self._session.udf.register(name, _ARROW_FUNCTION(function, returnType=from_arrow_type(kind)))
            known.add(name)
        return name

    def files(self, paths: Sequence[str], columns: Sequence[str]) -> Frame:
        return self.frame(read_files(self._session, paths, columns), columns)

    def local(self, table: pa.Table) -> Frame:
        if table.num_rows <= self._tuning.catalog_rows or self._scratch is None:
            frame = self.frame(frame_of(self._session, table), table.column_names)
            frame = replace(frame, is_empty=table.num_rows == 0)
            self._held[id(frame.node)] = frame, frame, table
            return frame
        place, name = self._scratch.place, f"{self._scratch.folder}/{uuid4()}.parquet"
        pq.write_table(table, place.path(name), filesystem=place.files)
        return self.files([place.uri(name)], table.column_names)

    def view(self, frame: Frame) -> Frame:
        return self.frame(self.query(frame), frame.columns)

    def rows(self, frame: Frame) -> pa.Table:
        return self._run(self.query(frame).toArrow)

    def save(self, frame: Frame, relation: str, target: Target) -> Saved:
        """Lets workers sort ranges of the rows and write their files; returns only the names, or few rows."""
        *columns, _ = frame.columns
        rows = self.query(frame)
        rows = rows.repartitionByRange(*columns) if columns else rows.repartition(1)
        rows = rows.sortWithinPartitions(*columns or [WEIGHT])
        keep = _ARROW_FUNCTION(_partition_saver(target, relation, len(columns)), returnType="binary")
        kept = rows.select(keep.asNondeterministic()(*frame.columns).alias("saved"))
        rows_saved = self._run(kept.where("saved IS NOT NULL").collect)
        found = [pickle.loads(row["saved"]) for row in rows_saved]
        parts = [saved for _, saved in sorted(found, key=itemgetter(0))]
        return combined(parts, len(columns), target, relation)

    def save_difference(self, frame: Frame, stored: StoredRelation, relation: str, target: Target) -> Saved:
        *columns, _ = frame.columns
        there = table(self, frame.columns, stored).select(*columns, f"-{WEIGHT} AS {WEIGHT}")
        differing = frame.union(there).grouped(columns, total(WEIGHT)).where(f"{WEIGHT} <> 0")
        return self.save(differing, relation, target)

    def save_terms(self, frame: Frame, known: Sequence[RunFile], target: Target) -> NewTerms:
        """Lets workers compare ranges of terms with the store's, and write files; returns only the names."""
        rows = self.query(frame).repartitionByRange("id").sortWithinPartitions("id", "term")
        keep = _ARROW_FUNCTION(_term_saver(target, known), returnType="binary").asNondeterministic()
        kept = rows.select(keep("id", "term").alias("saved")).where("saved IS NOT NULL")
        found: list[NewTerms] = [pickle.loads(row["saved"]) for row in self._run(kept.collect)]
        runs = [run for new in found for run in new.runs]
        return NewTerms(runs, {number: texts for new in found for number, texts in new.clashes.items()})

    def _run(self, action: Callable[[], Result]) -> Result:
        return stoppable(self._session, action)

    def query(self, frame: Frame) -> DataFrame:
        text = frame.sql(self.dialect)
        if not self._is_connect:
            return self._session.sql(text)
        used: dict[str, Any] = {name: self._tables[name] for name in set(_VIEW.findall(text))}
        escaped = text.replace("{", "{{").replace("}", "}}")
        return self._session.sql(_VIEW.sub(r"{\g<0>}", escaped), **used)

    def __enter__(self) -> Self:
        most = self._tuning.partition_quads
        if self._quads > most:
            own = self._session.conf.get(_PARTITIONS) or "1"
            times = -(-self._quads // (most * int(own)))
            if times > 1:
                self._partitions = own
                self._session.conf.set(_PARTITIONS, str(times * int(own)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        if self._partitions is not None:
            self._session.conf.set(_PARTITIONS, self._partitions)
            self._partitions = None
        while self._persisted:
            self._persisted.pop().unpersist()
        while self._views:
            self._session.catalog.dropTempView(self._views.pop())
        while self._functions:
            self._session.sql(f"DROP TEMPORARY FUNCTION {self._functions.pop()}")


_TERM_FIELDS = {field.name: field for field in from_arrow_schema(TERM_SCHEMA)}


def read_files(session: SparkSession, paths: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Reads columns of Parquet files: those of terms, or numbers."""
    fields = [_TERM_FIELDS.get(name) or StructField(name, LongType()) for name in columns]
    return parquet(session, paths, StructType(fields))


# In the workers


def _partition_saver(target: Target, relation: str, width: int) -> Callable[..., Iterator[pa.Array]]:
    """Returns a function of the columns of a partition; Spark reads its type."""

    def save_columns(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return _save_partition(target, relation, width, batches)

    def save_weights(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return _save_partition(target, relation, width, ((weights,) for weights in batches))

    return save_columns if width else save_weights


def _term_saver(target: Target, known: Sequence[RunFile]) -> Callable[..., Iterator[pa.Array]]:
    """Returns a function of the ids and texts of a partition; Spark reads its type."""

    def save_terms(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        saving = TermSaving(target, known, _ending())
        return _at_the_end(batches, lambda c: saving.add(c[0].to_numpy(), c[1]), saving.finish)

    return save_terms


def _ending() -> str:
    """Returns the end of a task's file names, which no other attempt has."""
    task = TaskContext.get()
    assert task is not None
    return f"-{task.partitionId()}-{task.taskAttemptId()}"


def _save_partition(
    target: Target, relation: str, width: int, batches: Iterator[tuple[pa.Array, ...]]
) -> Iterator[pa.Array]:
    """Saves the sorted rows of a partition: many of them in files.

    Returns the number of the partition together with the description of its rows.
    """
    task = TaskContext.get()
    assert task is not None
    number = task.partitionId()
    saving = Saving(target, relation, width, few=target.tuning.partition_rows, ending=_ending())
    return _at_the_end(
        batches,
        lambda columns: saving.add([column.to_numpy() for column in columns]),
        lambda: (number, saving.finish()),
    )


def _at_the_end(
    batches: Iterator[tuple[pa.Array, ...]],
    add: Callable[[tuple[pa.Array, ...]], None],
    finish: Callable[[], object],
) -> Iterator[pa.Array]:
    """Consumes the rows of a partition, and yields the result for all of them with the last row."""
    size = 0
    for columns in batches:
        if size:
            yield pa.nulls(size, pa.binary())
        size = len(columns[0])
        add(columns)
    if size:
        result = pickle.dumps(finish())
        yield pa.concat_arrays([pa.nulls(size - 1, pa.binary()), pa.array([result], pa.binary())])
