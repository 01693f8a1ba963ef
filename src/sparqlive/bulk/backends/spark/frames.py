"""Turns rows of a Spark DataFrame into files of statements, which the workers check and write.

The driver receives the names of the files, and the first fault if there is one. A file is N-Quads with
canonical terms, in which blank nodes have the labels of the store; inserts and deletes are in separate files.
Invariant: if a task ran twice, its files are listed once; only where changes are ordered may a statement be
in files of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sparqlive.bulk.backends.spark.columns import selected
from sparqlive.bulk.backends.spark.start import use_this_python
from sparqlive.errors import Error, InvalidChange
from sparqlive.rdf.frames import FrameColumns, StatementFiles, Statements, contradiction, statements
from sparqlive.store.place import file_system

_FILE_BYTES = 64 << 20
_ORDER = "ordering"
_CHECKED_FIELDS = [
    StructField("line", StringType()),
    StructField("weight", LongType()),
    StructField("fault", StringType()),
]
_WRITTEN = "path STRING, weight BIGINT, rows BIGINT, fault STRING"
_WRITTEN_ARROW = pa.schema(
    [("path", pa.string()), ("weight", pa.int64()), ("rows", pa.int64()), ("fault", pa.string())]
)


def write_statements(frame: DataFrame, meaning: FrameColumns, folder: str) -> StatementFiles:
    """Lets the workers write the statements of a DataFrame to a folder that the driver can access too."""
    if frame.isStreaming:
        raise Error("The DataFrame is a stream. Use session.follow(df) to apply its changes as they arrive.")
    use_this_python(frame.sparkSession)
    written = _checked_lines(selected(frame, meaning), meaning).mapInArrow(_Write(folder), _WRITTEN).collect()
    faults = sorted(row["fault"] for row in written if row["fault"] is not None)
    if faults:
        raise InvalidChange(faults[0])
    return StatementFiles(
        tuple(row["path"] for row in written if row["weight"] > 0),
        tuple(row["path"] for row in written if row["weight"] < 0),
    )


def _checked_lines(frame: DataFrame, meaning: FrameColumns) -> DataFrame:
    """Returns lines with weights, and faults; if changes are ordered, only the last change of each line."""
    kind = LongType() if meaning.order is None else frame.schema[meaning.order].dataType
    frame = frame.toDF(*(f"c{place}" for place in range(len(meaning.columns))))  # a dot would be a field
    if meaning.order is None and not meaning.is_envelope:
        return frame.mapInArrow(_Check(meaning), StructType(_CHECKED_FIELDS))
    ordered = frame.mapInArrow(_Check(meaning), StructType([*_CHECKED_FIELDS, StructField(_ORDER, kind)]))
    weight, fault = functions.col("weight"), functions.col("fault")
    insert_wins, delete_wins = (
        functions.max_by(weight, functions.struct(_ORDER, rank)) for rank in (weight, -weight)
    )
    last = ordered.groupBy("line", "fault").agg(insert_wins.alias("weight"), delete_wins.alias("other"))
    if meaning.is_envelope:
        before, after = contradiction("\0", meaning.order).split("\0")
        said = functions.concat(functions.lit(before), "line", functions.lit(after))
        fault = functions.coalesce(fault, functions.when(weight != functions.col("other"), said))
    return last.select("line", "weight", fault.alias("fault"))


OrderedFiles = tuple[int, StatementFiles]
"""Files of statements, and the order of their changes; 0 if unknown."""


def in_order(files: Iterable[OrderedFiles]) -> list[StatementFiles]:
    """Returns the files of all tasks, those with the latest changes last."""
    found: dict[int, list[StatementFiles]] = {}
    for order, one in files:
        found.setdefault(order, []).append(one)
    return [
        StatementFiles(
            tuple(path for one in found[order] for path in one.inserts),
            tuple(path for one in found[order] for path in one.deletes),
        )
        for order in sorted(found)
    ]


# In the workers


def written_statements(
    batches: Iterator[pa.RecordBatch], meaning: FrameColumns, folder: str
) -> list[OrderedFiles]:
    """Writes the statements in the rows of one task to files; raises the first fault.

    Changes with different values in the column that orders them, whole numbers, are in different files.
    """
    task = TaskContext.get()
    where = "" if task is None else f" of partition {task.partitionId()}"
    files: dict[tuple[int, int], _File] = {}
    first_row = 0
    for batch in batches:
        found = statements(batch, meaning, first_row, where)
        lines, orders = found.lines(), np.zeros(len(found), dtype=np.int64)
        if meaning.order is not None:
            orders = batch.column(meaning.order).to_numpy()[found.rows]
        for order in np.unique(orders).tolist():
            for weight in (-1, 1):
                file = files.setdefault((order, weight), _File(folder))
                file.add(lines.filter(pa.array((orders == order) & (found.weights == weight))))
        if sum(file.waiting_bytes for file in files.values()) >= _FILE_BYTES:
            for file in files.values():
                file.flush()
        first_row += batch.num_rows
    written: list[OrderedFiles] = []
    for (order, weight), file in files.items():
        paths = tuple(path for path, _ in file.finish())
        written.append((order, StatementFiles(paths, ()) if weight > 0 else StatementFiles((), paths)))
    return written


Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class _Check:
    """Turns rows into lines with weights. The first fault ends a partition."""

    meaning: FrameColumns

    def __call__(self, batches: Batches) -> Batches:
        task = TaskContext.get()
        where = "" if task is None else f" of partition {task.partitionId()}"
        first_row = 0
        for batch in batches:
            batch = batch.rename_columns(list(self.meaning.columns))
            try:
                found = statements(batch, self.meaning, first_row, where)
            except InvalidChange as error:
                orders = self._orders(batch, None)
                yield _checked(pa.nulls(1, pa.string()), pa.array([0]), pa.array([str(error)]), *orders)
                return
            orders = self._orders(batch, found)
            yield _checked(found.lines(), pa.array(found.weights), pa.nulls(len(found), pa.string()), *orders)
            first_row += batch.num_rows

    def _orders(self, batch: pa.RecordBatch, found: Statements | None) -> list[pa.Array]:
        """Returns the column that orders the changes, if there is one; for a fault, a null."""
        order = self.meaning.order
        if order is None:
            return [pa.array([0] * (1 if found is None else len(found)))] if self.meaning.is_envelope else []
        column = batch.column(order)
        return [pa.nulls(1, column.type) if found is None else column.take(pa.array(found.rows))]


def _checked(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), ["line", "weight", "fault", _ORDER][: len(columns)])


@dataclass(frozen=True)
class _Write:
    """Writes lines to files with unique names."""

    folder: str

    def __call__(self, batches: Batches) -> Batches:
        files = {1: _File(self.folder), -1: _File(self.folder)}
        fault = None
        for batch in batches:
            lines, weights, faults = batch.columns
            fault = fault or next(iter(faults.drop_null().to_pylist()), None)
            for weight, file in files.items():
                file.add(lines.filter(pc.equal(weights, weight)))
        if fault is not None:
            yield pa.RecordBatch.from_pylist([{"weight": 0, "rows": 0, "fault": fault}], _WRITTEN_ARROW)
            return
        written = [
            {"path": path, "weight": weight, "rows": rows}
            for weight, file in files.items()
            for path, rows in file.finish()
        ]
        yield pa.RecordBatch.from_pylist(written, _WRITTEN_ARROW)


class _File:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._waiting: list[pa.Array] = []
        self.waiting_bytes = 0
        self._written: list[tuple[str, int]] = []

    def add(self, lines: pa.Array) -> None:
        if len(lines):
            self._waiting.append(lines)
            self.waiting_bytes += lines.nbytes
        if self.waiting_bytes >= _FILE_BYTES:
            self.flush()

    def finish(self) -> list[tuple[str, int]]:
        """Returns the paths of the files, with their numbers of lines."""
        self.flush()
        return self._written

    def flush(self) -> None:
        if not self._waiting:
            return
        path = f"{self._folder}/{uuid4()}.nq"
        files, place = file_system(path)
        with files.open_output_stream(place) as stream:
            for lines in self._waiting:
                stream.write("\n".join(lines.to_pylist()).encode() + b"\n")
        self._written.append((path, sum(map(len, self._waiting))))
        self._waiting, self.waiting_bytes = [], 0
