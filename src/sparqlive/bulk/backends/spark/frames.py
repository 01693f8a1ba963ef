"""Rows of a Spark DataFrame as files of statements, which the workers check and write.

The driver gets the names of the files, and the first fault if there is one. A file is N-Quads with canonical
terms, in which blank nodes have the labels of the store; inserts and deletes are in files of their own.
Invariant: the files of a task that ran twice are not listed twice, and a statement is in files of one kind
only where the changes have an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sparqlive.errors import Error, InvalidChange
from sparqlive.rdf.frames import FrameColumns, StatementFiles, statements
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
    """Has the workers write the statements of a DataFrame to a folder that they and the driver reach."""
    if frame.isStreaming:
        raise Error("The DataFrame is a stream. Use session.follow(df) to apply its changes as they arrive.")
    if meaning.order is None:
        checked = frame.mapInArrow(_Check(meaning), StructType(_CHECKED_FIELDS))
    else:
        schema = StructType([*_CHECKED_FIELDS, StructField(_ORDER, frame.schema[meaning.order].dataType)])
        ordered = frame.mapInArrow(_Check(meaning), schema)
        last = functions.max_by("weight", functions.struct(_ORDER, "weight")).alias("weight")
        checked = ordered.groupBy("line", "fault").agg(last).select("line", "weight", "fault")
    written = checked.mapInArrow(_Write(folder), _WRITTEN).collect()
    faults = sorted(row["fault"] for row in written if row["fault"] is not None)
    if faults:
        raise InvalidChange(faults[0])
    return StatementFiles(
        tuple(row["path"] for row in written if row["weight"] > 0),
        tuple(row["path"] for row in written if row["weight"] < 0),
    )


# In the workers


def written_statements(
    batches: Iterator[pa.RecordBatch], meaning: FrameColumns, folder: str
) -> StatementFiles:
    """The statements of the rows of one task, in files; raises the first fault."""
    task = TaskContext.get()
    where = "" if task is None else f" of partition {task.partitionId()}"
    files, first_row = {1: _File(folder), -1: _File(folder)}, 0
    for batch in batches:
        found = statements(batch, meaning, first_row, where)
        lines, weights = found.lines(), pa.array(found.weights)
        for weight, file in files.items():
            file.add(lines.filter(pc.equal(weights, weight)))
        first_row += batch.num_rows
    inserts, deletes = (tuple(path for path, _ in files[weight].finish()) for weight in (1, -1))
    return StatementFiles(inserts, deletes)


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
            order = self.meaning.order
            try:
                found = statements(batch, self.meaning, first_row, where)
            except InvalidChange as error:
                kind = [] if order is None else [pa.nulls(1, batch.schema.field(order).type)]
                yield _checked(pa.nulls(1, pa.string()), pa.array([0]), pa.array([str(error)]), *kind)
                return
            kind = [] if order is None else [batch.column(order).take(pa.array(found.rows))]
            yield _checked(found.lines(), pa.array(found.weights), pa.nulls(len(found), pa.string()), *kind)
            first_row += batch.num_rows


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
        self._bytes = 0
        self._written: list[tuple[str, int]] = []

    def add(self, lines: pa.Array) -> None:
        if len(lines):
            self._waiting.append(lines)
            self._bytes += lines.nbytes
        if self._bytes >= _FILE_BYTES:
            self._flush()

    def finish(self) -> list[tuple[str, int]]:
        """The paths of the files, with their numbers of lines."""
        if self._waiting:
            self._flush()
        return self._written

    def _flush(self) -> None:
        path = f"{self._folder}/{uuid4()}.nq"
        files, place = file_system(path)
        with files.open_output_stream(place) as stream:
            for lines in self._waiting:
                stream.write("\n".join(lines.to_pylist()).encode() + b"\n")
        self._written.append((path, sum(map(len, self._waiting))))
        self._waiting, self._bytes = [], 0
