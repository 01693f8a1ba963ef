"""A store as a sink of Spark: the rows of a write, or of a micro-batch, become one epoch.

Tasks check the rows and write files of statements; Spark then commits the files of the tasks that succeeded,
in a process on the driver's machine, which opens the store. A micro-batch is committed under the id of its
query and its number, so it counts once. Rejects malformed rows, and a store that another process writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sparqlive.bulk.backends.spark.frames import OrderedFiles, in_order, written_statements
from sparqlive.errors import Error, InvalidChange
from sparqlive.rdf.frames import FrameColumns, frame_columns, operation_column
from sparqlive.session import Session
from sparqlive.spark.options import Options
from sparqlive.store.place import file_system

_OPTIONS = ("store", "op", "order", "graph", "staging", "name")


@dataclass
class _Written(WriterCommitMessage):
    files: Sequence[OrderedFiles] = ()
    fault: str | None = None


class _Sink:
    """What both writers share. `staging`: a folder that tasks reach, by default beside the store."""

    def __init__(self, options: Mapping[str, str], names: Sequence[str] | None) -> None:
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
        self._meaning = None if names is None else self._meaning_of(names)

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
        try:
            meaning = self._meaning or self._meaning_of(first.schema.names)
            return _Written(written_statements(_chained(first, iterator), meaning, self._folder))
        except Error as error:
            return _Written(fault=str(error))

    def _commit(self, messages: Sequence[Any], batch: tuple[str, int] | None) -> None:
        """Applies the files of all tasks as one epoch, in the order of their changes; or raises a fault."""
        written = [message for message in messages if isinstance(message, _Written)]
        faults = sorted(message.fault for message in written if message.fault is not None)
        try:
            if faults:
                raise InvalidChange(faults[0])
            with Session(self._store, watch=False) as session:
                session.apply_statements(
                    in_order(one for message in written for one in message.files), batch=batch
                )
        finally:
            self._clean()

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
        if overwrite:
            raise Error('A store cannot be overwritten: use mode("append"), and delete what has to go.')
        super().__init__(options, schema.names)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._clean()


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options, None)

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
