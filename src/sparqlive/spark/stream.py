"""Follows a folder with Structured Streaming, and passes each new file on once.

Spark stores in the checkpoint which files belong to which of its batches; after a failure it passes the
current batch on again, with the same files. Spark reads only names and times; the handler reads the content.
Owns the stream, its trigger and its errors. Invariant: the files of a batch come in the order of their
modification times, then of their names. As for every file stream of Spark, files must appear in the folder
complete (written elsewhere, then moved), and must never change.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sparqlive.bulk.backends.spark.follow import RunningStream
from sparqlive.store.place import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_LOCAL = re.compile(r"file:/+")


@dataclass(frozen=True)
class NewFile:
    """A file of the folder: its absolute path or URI, and its name within the folder."""

    path: str
    name: str

    def open(self) -> BinaryIO:
        """Opens the file, decompressed according to its name."""
        files, path = file_system(self.path)
        return cast("BinaryIO", io.BufferedReader(files.open_input_stream(path)))


Handle = Callable[[Sequence[NewFile]], None]


def follow_files(
    spark: SparkSession,
    folder: str,
    pattern: str,
    checkpoint: str,
    handle: Handle,
    *,
    once: bool,
    poll_interval_seconds: float = 1.0,
) -> RunningStream:
    """Passes new files on as they appear; with `once`, only the existing ones, and then the stream ends."""
    failures: list[BaseException] = []

    def handle_batch(frame: DataFrame, _: int) -> None:
        try:
            files = _in_order(frame.select("path", "modificationTime").collect())
            if files:
                handle(files)
        except BaseException as error:
            failures.append(error)
            raise

    frame = spark.readStream.format("binaryFile").schema(_SCHEMA).option("pathGlobFilter", pattern)
    writer = frame.load(folder).select("path", "modificationTime").writeStream.foreachBatch(handle_batch)
    writer = writer.option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(poll_interval_seconds * 1000)} milliseconds")
    return RunningStream(writer.start(), failures)


def _in_order(rows: Sequence[Any]) -> list[NewFile]:
    ordered = sorted(rows, key=lambda row: (row.modificationTime, row.path))
    paths = [_LOCAL.sub("/", row.path, count=1) for row in ordered]
    return [NewFile(path, path.rpartition("/")[2]) for path in paths]
