"""Data frames as epochs: by columns in this process, or through files that the workers of Spark write.

Invariant: all rows are read and checked before anything changes; reading does not lock the session.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparqlive.engine.batches import Batch, BatchNumber, with_weight
from sparqlive.engine.carry import Strategy, failure_of
from sparqlive.engine.changes import commit_by_workers, load_into_blank, text_bytes
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error
from sparqlive.numbers import short_repr
from sparqlive.rdf.columns import Encoded, Encoder, Ids, labels
from sparqlive.rdf.frames import (
    FrameColumns,
    StatementFiles,
    as_arrow,
    changes,
    frame_columns,
    is_frame,
    is_spark_frame,
    names_of,
    wanted_names,
)
from sparqlive.rdf.read import changes_of, check_quad

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.documents import Document
    from sparqlive.bulk.ingest.effective import Parse
    from sparqlive.bulk.ingest.parts import Part

Parts = list[tuple[Encoded, Ids]]
Given = tuple[Any, FrameColumns]
"""A frame, or quads, and what they mean."""


def frames_of(
    insert: Any, delete: Any, changes: Any, *, op: str | None, order: str | None, **shape: Any
) -> list[tuple[Any, FrameColumns]]:
    """The frames of a batch with what their columns mean, in the order in which they count."""
    sides = [(side, weight) for side, weight in ((delete, -1), (insert, 1)) if is_frame(side) or side]
    if changes is not None:
        if sides:
            raise Error("Pass either changes or insert and delete: their order would be unclear.")
        if not is_frame(changes):
            raise Error(
                f"changes must be a Spark, Arrow, pandas or Polars data frame, not {short_repr(changes)}."
            )
        names = column_names(changes, shape["mapping"], op, order)
        return [(changes, frame_columns(names, weight=None, op=op, order=order, **shape))]
    if op is not None or order is not None:
        raise Error("op and order describe a frame of changes: pass it as changes=…")
    return [
        (side, frame_columns(column_names(side, shape["mapping"]), weight=weight, **shape))
        if is_frame(side)
        else (side, FrameColumns(weight=weight))
        for side, weight in sides
    ]


def column_names(
    frame: Any, mapping: object, op: str | None = None, order: str | None = None
) -> Sequence[str]:
    """The names of a frame's columns; for a Spark frame, also other names that it resolves to columns."""
    if not is_spark_frame(frame):
        return names_of(frame)
    from sparqlive.bulk.backends.spark.columns import Columns

    return Columns.of(frame).names(wanted_names(mapping, op, order))


def apply_frames(
    writer: Writer, given: Sequence[Given], strategy: Strategy, number: BatchNumber | None
) -> Epoch:
    """Commits rows as an epoch. Of several changes of a statement, the last one counts."""
    writer.ensure_open()
    with _folder(writer) if any(is_spark_frame(frame) for frame, _ in given) else nullcontext("") as folder:
        read = [
            (_written(one, meaning, folder) if is_spark_frame(one) else _in_process(one, meaning), meaning)
            for one, meaning in given
        ]
        with writer.reading():
            match read:
                case [(StatementFiles(inserts, ()), _)] if inserts and _writes_runs(writer, strategy):
                    return load_into_blank(writer, _documents(inserts), None, "fail", number)
        parse = _parse_of(writer, read)
        if parse is not None:
            epoch = commit_by_workers(writer, parse, None, strategy, number, counts_each=True)
            if epoch is not None:
                return epoch
        columns = [part for one in read for part in _parts(writer, *one)]
        return writer.commit(Batch((), (), strategy, number, columns=columns, counts_each=True))


def _writes_runs(writer: Writer, strategy: Strategy) -> bool:
    """Whether workers can write runs into a store that has none yet."""
    return writer.persistence is not None and strategy == "auto" and writer.is_blank


def _in_process(given: Any, meaning: FrameColumns) -> Any:
    return as_arrow(given, meaning) if is_frame(given) else given


def _parse_of(writer: Writer, read: Sequence[Given]) -> Parse | None:
    """How workers read the data: from files that they wrote, or from large tables; None: they do not."""
    from sparqlive.bulk.ingest.lines import Lines
    from sparqlive.bulk.ingest.parts import PartWriter

    least = text_bytes(writer)
    if least is None:
        return None
    given = [one for one, _ in read]
    if all(isinstance(one, StatementFiles) for one in given):
        files = [(path, weight) for one in given for weight in (-1, 1) for path in one.files(weight)]
        return Lines(writer.strategies.workers()[0], files=files) if files else None
    if not all(is_frame(one) for one in given) or sum(one.nbytes for one in given) <= least:
        return None

    def put_down(folder: str, encoder: Encoder) -> Sequence[Part]:
        parts = PartWriter(folder)
        for table, meaning in read:
            for encoded, weights in changes(table, meaning, encoder):
                parts.add(encoded, weights)
        parts.flush()
        return parts.parts

    return put_down


def _parts(writer: Writer, given: Any, meaning: FrameColumns) -> Parts:
    if isinstance(given, StatementFiles):
        return _read(writer, given)
    encoder = Encoder(exceptions=writer.terms.dictionary.exceptions)
    if is_frame(given):
        return changes(given, meaning, encoder)
    encoded = encoder.quads((check_quad(quad, None) for quad in changes_of(given)), labels(None))
    assert meaning.weight is not None
    return with_weight([encoded], meaning.weight) if len(encoded) else []


# Spark


@contextmanager
def _folder(writer: Writer) -> Iterator[str]:
    """A folder that Spark's workers can reach; it exists during the block."""
    if writer.persistence is None:
        with tempfile.TemporaryDirectory(prefix="sparqlive-") as folder:
            yield folder
        return
    from sparqlive.bulk.ingest.documents import absolute

    store = writer.persistence.store
    with store.attempt() as attempt:
        folder = f"{attempt}/statements"
        store.place.make(folder)
        try:
            yield absolute(store.place.text(folder))  # the workers may have another current directory
        finally:
            store.place.remove_folder(attempt)


def _written(frame: Any, meaning: FrameColumns, folder: str) -> StatementFiles:
    from sparqlive.bulk.backends.spark.frames import write_statements

    try:
        return write_statements(frame, meaning, folder)
    except (Error, MemoryError):
        raise
    except Exception as error:
        raise failure_of("spark", error) from error


def _documents(paths: Sequence[str]) -> list[Document]:
    """Files whose blank nodes have the labels of the store."""
    from sparqlive.bulk.ingest.documents import find_documents

    return [replace(document, keeps_labels=True) for document in find_documents(paths)]


def _read(writer: Writer, files: StatementFiles) -> Parts:
    from sparqlive.bulk.ingest.job import read

    exceptions = writer.terms.dictionary.exceptions
    parts: Parts = []
    for weight in (-1, 1):
        if paths := files.files(weight):
            parts += with_weight(read(_documents(paths), None, exceptions), weight)
    return parts
