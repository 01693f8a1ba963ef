"""Files, texts and batches of files of changes become epochs, read by this process or by workers.

Decides who reads: this process row by row, this process by columns, or other processes and Spark, which take
a second to start. Invariant: everything is read and checked before anything changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode, Quad

from sparqlive.engine.carry import Strategy
from sparqlive.engine.view import Epoch
from sparqlive.engine.writer import Epochs
from sparqlive.errors import Unsupported
from sparqlive.rdf.change_columns import EncodedBatch, TextBatch
from sparqlive.rdf.changes import Batch
from sparqlive.rdf.columns import encoded_text
from sparqlive.rdf.files import is_address
from sparqlive.rdf.read import changes_of, paths_of, read_source, size_of
from sparqlive.runtime.collector import collector_paused

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.job import OnError

_TRIPLE_TERM = "<<("
"""How a triple term begins in N-Quads."""

BatchNumber = tuple[str, int] | None
"""The source of a batch and its number there."""


def load_files(
    epochs: Epochs,
    source: str | os.PathLike[str] | Iterable[Any],
    graph: NamedNode | None,
    on_error: OnError,
    batch: BatchNumber,
) -> Epoch:
    """Adds files, or quads, as one epoch; see `Session.load`."""
    paths, name = paths_of(source), None if graph is None else graph.value
    size = _size_of(paths)
    with epochs.lock:  # no source may write into the empty store before the files are loaded
        by_workers = bool(paths) and _reads_on_workers(epochs, size, on_error)
        if by_workers and is_blank(epochs):
            return epochs.ingest(paths, name, on_error, batch)
    if by_workers:
        return epochs.load_on_workers(paths, name, on_error, batch)
    if on_error != "fail":
        raise Unsupported('on_error="skip" works only for files loaded into a store that has no sources.')
    with collector_paused():
        if batch is not None and epochs.knows(batch):
            return epochs.unchanged()
        if size > epochs.tuning.column_bytes or any(map(is_address, paths)):
            from sparqlive.bulk.ingest.job import read

            parts = read(paths, name, epochs.terms.dictionary.exceptions)
            epoch = epochs.apply_encoded((), parts, "auto", batch)
        else:
            epoch = _apply_quads(epochs, (), list(read_source(source, graph)), "auto", batch)
    epochs.settle()
    return epoch


def _size_of(paths: Sequence[str]) -> int:
    """The size in bytes of the files that paths, globs and addresses stand for."""
    if not any(map(is_address, paths)):
        return size_of(paths)
    from sparqlive.bulk.ingest.documents import find_documents

    return sum(document.size for document in find_documents(paths))


def _reads_on_workers(epochs: Epochs, size: int, on_error: OnError) -> bool:
    """Whether other processes, which take a second to start, read so many bytes."""
    if epochs.persistence is None or not (is_blank(epochs) or epochs.can_apply_parts):
        return False
    return on_error == "skip" or epochs.strategies.has_spark_setting or size > epochs.tuning.worker_bytes


def is_blank(epochs: Epochs) -> bool:
    """Whether files can become the runs of the store as they are."""
    return not epochs.views.readers and epochs.quads.is_blank()


def text_bytes(epochs: Epochs) -> int | None:
    """Batches of more bytes are read by workers, who are given their text; None: this process reads."""
    if not epochs.can_apply_parts or epochs.reads_changes:
        return None
    tuning = epochs.tuning
    return tuning.spark_batch_bytes if epochs.strategies.has_spark_setting else tuning.worker_bytes


def apply_changes(
    epochs: Epochs,
    insert: str | Iterable[Any],
    delete: str | Iterable[Any],
    strategy: Strategy,
    batch: BatchNumber,
) -> Epoch:
    """Applies quads, triples or N-Quads text; see `Session.apply`."""
    if isinstance(insert, str) or isinstance(delete, str):
        texts = [part for part in (delete, insert) if isinstance(part, str)]
        others = any(part for part in (delete, insert) if not isinstance(part, str))
        if not others and sum(map(len, texts)) > epochs.tuning.column_bytes:
            return _apply_texts(epochs, str(delete or ""), str(insert or ""), strategy, batch)
    return _apply_quads(epochs, changes_of(delete), changes_of(insert), strategy, batch)


def _apply_quads(
    epochs: Epochs, deletes: Sequence[Any], inserts: Sequence[Any], strategy: Strategy, batch: BatchNumber
) -> Epoch:
    """Applies quads that are encoded one by one, or many of them as text, which is read by columns."""
    is_few = len(deletes) + len(inserts) < epochs.tuning.text_quads
    if is_few or {*map(type, chain(deletes, inserts))} != {Quad}:
        return epochs.apply(deletes, inserts, strategy, batch)
    size = epochs.tuning.largest_piece_rows
    texts = _texts_of(deletes, size), _texts_of(inserts, size)
    if any(_TRIPLE_TERM in text for text in chain(*texts)):
        return epochs.apply(deletes, inserts, strategy, batch)  # raises, unless it is within a literal
    exceptions = epochs.terms.dictionary.exceptions
    gone, new = ([part for text in some for part in encoded_text(text, exceptions)] for some in texts)
    return epochs.apply_encoded(gone, new, strategy, batch)


def _texts_of(quads: Sequence[Quad], size: int) -> list[str]:
    """Quads as N-Quads texts, in pieces."""
    pieces = (quads[start : start + size] for start in range(0, len(quads), size))
    return [" .\n".join(map(str, piece)) + " .\n" for piece in pieces]


def _apply_texts(epochs: Epochs, delete: str, insert: str, strategy: Strategy, batch: BatchNumber) -> Epoch:
    """Reads large N-Quads texts: by workers, or by columns."""
    least = text_bytes(epochs)
    if least is not None and len(delete) + len(insert) > least:
        from sparqlive.bulk.ingest.lines import pieces_of

        pieces = chain(pieces_of(delete, -1), pieces_of(insert, 1))
        epoch = epochs.apply_lines(pieces, None, strategy, batch, count_each=False)
        if epoch is not None:
            return epoch
    exceptions = epochs.terms.dictionary.exceptions
    deletes, inserts = encoded_text(delete, exceptions), encoded_text(insert, exceptions)
    return epochs.apply_encoded(deletes, inserts, strategy, batch)


def apply_batch(
    epochs: Epochs, changes: Batch | EncodedBatch | TextBatch, strategy: Strategy, batch: BatchNumber
) -> Epoch:
    """Applies one batch of a file of changes."""
    if isinstance(changes, TextBatch):
        if text_bytes(epochs) is not None:
            from sparqlive.bulk.ingest.lines import TextPiece

            pieces = (TextPiece(text, None, is_marked) for text, is_marked in changes.pieces)
            graph = None if changes.graph is None else str(changes.graph)
            epoch = epochs.apply_lines(pieces, graph, strategy, batch, count_each=True)
            if epoch is not None:
                return epoch
        changes = changes.read(epochs.terms.dictionary.exceptions) or Batch((), ())
    if isinstance(changes, EncodedBatch):
        return epochs.apply_changes(changes.parts, strategy, batch)
    return apply_changes(epochs, changes.insert, changes.delete, strategy, batch)
