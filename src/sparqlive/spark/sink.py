"""A store as a sink of Spark: the rows of a write, or of a micro-batch, become one epoch.

Tasks check the rows and write files of statements; Spark then commits the files of the tasks that succeeded,
in a process on the driver's machine, which opens the store. A micro-batch is committed under the id of its
query and its number, so it counts once. With the mode "overwrite", the rows replace the quads of the store.
Rejects malformed rows, and a store that another process writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyoxigraph import DefaultGraph, Quad
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sparqlive.bulk.backends.spark.columns import Columns, check_types
from sparqlive.bulk.backends.spark.frames import OrderedFiles, in_order, written_statements
from sparqlive.errors import Error, InvalidChange
from sparqlive.rdf.frames import FrameColumns, StatementFiles, frame_columns, operation_column, wanted_names
from sparqlive.session import Session
from sparqlive.spark.options import Options
from sparqlive.spark.reporting import sentence_first
from sparqlive.store.place import file_system

_OPTIONS = ("store", "op", "order", "graph", "staging", "name")


@dataclass
class _Written(WriterCommitMessage):
    files: Sequence[OrderedFiles] = ()
    fault: str | None = None


class _Sink:
    """What both writers share. `staging`: a folder that tasks reach, by default beside the store."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        known = Options("sparqlive", options, _OPTIONS)
        self._store = known.store()
        staging = known.get("staging") or f"{Path(self._store).absolute()}.staging"
        self._staging, self._folder = staging, f"{staging}/{uuid4()}"
        self._checkpoint, self._name = known.get("checkpointlocation"), known.get("name")
        self._shape = {name: known.get(name) for name in ("op", "graph")}
        if known.get("order") is not None:
            raise Error(
                "A sink orders changes only by _commit_version and _epoch. Use session.follow(df, order=…)."
            )
        columns = Columns(schema)
        self._meaning = self._meaning_of(columns.names(wanted_names(None, self._shape["op"], None)))
        self._names = check_types(columns, self._meaning)

    def _meaning_of(self, names: Sequence[str]) -> FrameColumns:
        has_changes = self._shape["op"] or operation_column(names)
        found = frame_columns(names, weight=None if has_changes else 1, **self._shape)  # type: ignore[arg-type]
        if found.is_envelope:
            raise Error("A sink does not take rows with before and after. Use session.follow(df, order=…).")
        return found

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        first = next(iterator, None)
        if first is None:
            return _Written()
        system, path = file_system(self._folder)
        system.create_dir(path, recursive=True)
        batches = (
            pa.RecordBatch.from_arrays([batch.column(own) for own in self._names.values()], [*self._names])
            for batch in _chained(first, iterator)
        )
        try:
            return _Written(written_statements(batches, self._meaning, self._folder))
        except Error as error:
            return _Written(fault=str(error))

    def _commit(
        self, messages: Sequence[Any], batch: tuple[str, int] | None, overwrite: bool = False
    ) -> None:
        """Applies the files of all tasks as one epoch, in the order of their changes; or raises a fault.

        `overwrite`: the quads that the store has are deleted first.
        """
        written = [message for message in messages if isinstance(message, _Written)]
        faults = sorted(message.fault for message in written if message.fault is not None)
        try:
            if faults:
                raise InvalidChange(faults[0])
            with Session(self._store, watch=False) as session:
                files = in_order(one for message in written for one in message.files)
                if overwrite:
                    files.insert(0, StatementFiles(deletes=(self._write_quads(session.quads()),)))
                session.apply_statements(files, batch=batch)
        finally:
            self._clean()

    def _write_quads(self, quads: Iterable[Quad]) -> str:
        """A file of the quads that are in the store."""
        system, path = file_system(self._folder)
        system.create_dir(path, recursive=True)
        with system.open_output_stream(f"{path}/old.nq") as stream:
            for quad in quads:
                graph = "" if isinstance(quad.graph_name, DefaultGraph) else f" {quad.graph_name}"
                stream.write(f"{quad.subject} {quad.predicate} {quad.object}{graph} .\n".encode())
        return f"{self._folder}/old.nq"

    def _clean(self) -> None:
        system, path = file_system(self._folder)
        with suppress(FileNotFoundError):
            system.delete_dir(path)
        system, path = file_system(self._staging)
        if not system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            with suppress(OSError):
                system.delete_dir(path)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class BatchSink(_Sink, DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema)
        self._overwrites = overwrite
        if overwrite and self._meaning.weight is None:
            raise Error(
                f"The column {self._meaning.operation!r} says what happens to each row of a store. "
                f"Use mode('append'), or drop the column."
            )

    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages, None, self._overwrites)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._clean()


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._commit(messages, (f"sink:{self._query_id()}", batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._clean()

    def _query_id(self) -> str:
        """The id that the checkpoint keeps: with a new checkpoint, batches count from 0 again."""
        if self._name is not None:
            return self._name
        if self._checkpoint is None:
            raise Error(
                "A stream into a store needs the option checkpointLocation, or a name: the option name "
                "identifies the stream, and must be another one when its checkpoint is new."
            )
        system, path = file_system(self._checkpoint)
        with system.open_input_stream(f"{path}/metadata") as stream:
            return str(json.loads(bytes(stream.read()))["id"])
