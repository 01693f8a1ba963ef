"""Files, texts and batches of files of changes become epochs, read by this process or by workers.

Decides what reads: this process, row by row or by columns, or workers (other processes, or Spark), which take
a second to start. Invariant: everything is read and checked before anything changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from sparqlive.engine.batches import Batch, BatchNumber, with_weight
from sparqlive.engine.carry import Strategy
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.incoming import read_by_workers
from sparqlive.engine.writer import Writer
from sparqlive.errors import Unsupported
from sparqlive.rdf.change_columns import EncodedBatch, TextBatch
from sparqlive.rdf.changes import Batch as ReadBatch
from sparqlive.rdf.columns import Encoder, encoded_text, labels
from sparqlive.rdf.compare import matched
from sparqlive.rdf.files import is_address
from sparqlive.rdf.read import changes_of, paths_of, read_source, size_of
from sparqlive.runtime.collector import collector_paused

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.documents import Document
    from sparqlive.bulk.ingest.effective import Parse
    from sparqlive.bulk.ingest.job import OnError

_TRIPLE_TERM = "<<("
"""How a triple term begins in N-Quads."""


def load_files(
    writer: Writer,
    source: str | os.PathLike[str] | Iterable[Any],
    graph: NamedNode | None,
    on_error: OnError,
    number: BatchNumber | None,
) -> Epoch:
    """Adds files, or quads, as one epoch; see `Session.load`."""
    paths, name = paths_of(source), None if graph is None else graph.value
    size = _size_of(paths)
    with writer.reading():  # no source may write into the empty store before the files are loaded
        by_workers = bool(paths) and _reads_on_workers(writer, size, on_error)
        if by_workers and writer.is_blank:
            return load_into_blank(writer, paths, name, on_error, number)
    if by_workers:
        return _load_by_workers(writer, paths, name, on_error, number)
    if on_error != "fail":
        raise Unsupported('on_error="skip" works only for files loaded into a store that has no sources.')
    with collector_paused():
        if size > writer.tuning.column_bytes or any(map(is_address, paths)):
            from sparqlive.bulk.ingest.job import read

            parts = read(paths, name, writer.terms.dictionary.exceptions)
            batch = Batch(number=number, columns=with_weight(parts, 1))
        else:
            batch = _batch_of(writer, (), list(read_source(source, graph)), "auto", number)
        epoch = writer.commit(batch)
    writer.settle()
    return epoch


def _size_of(paths: Sequence[str]) -> int:
    """The size in bytes of the files that paths, globs and addresses stand for."""
    if not any(map(is_address, paths)):
        return size_of(paths)
    from sparqlive.bulk.ingest.documents import find_documents

    return sum(document.size for document in find_documents(paths))


def _reads_on_workers(writer: Writer, size: int, on_error: OnError) -> bool:
    """Whether workers, which take a second to start, read files of this size in bytes."""
    if writer.persistence is None or not (writer.is_blank or writer.can_read_by_workers):
        return False
    return on_error == "skip" or writer.strategies.has_spark_setting or size > writer.tuning.worker_bytes


def load_into_blank(
    writer: Writer,
    paths: Sequence[str | Document],
    graph: str | None,
    on_error: OnError,
    number: BatchNumber | None,
) -> Epoch:
    """Has workers write files directly as runs of a store that has none. Called under the lock."""
    from sparqlive.engine.ingest import loading

    assert writer.persistence is not None
    begun, (workers, _) = time.perf_counter(), writer.strategies.workers()
    store, dictionary = writer.persistence.store, writer.terms.dictionary
    with loading(store, dictionary, workers, paths, graph, on_error) as files:
        return writer.commit(Batch(number=number, files=files, begun=begun))


def _load_by_workers(
    writer: Writer, paths: Sequence[str], graph: str | None, on_error: OnError, number: BatchNumber | None
) -> Epoch:
    """Has workers find what files change in a store that has quads."""
    from sparqlive.bulk.ingest.job import graph_text
    from sparqlive.engine.ingest import Documents

    begun = time.perf_counter()
    documents = Documents(writer.strategies.workers()[0], paths, on_error)
    with read_by_workers(writer, documents, None if graph is None else graph_text(graph)) as files:
        files = replace(files, rejected=documents.rejected)
        return writer.commit(Batch(number=number, files=files, begun=begun))


def text_bytes(writer: Writer) -> int | None:
    """Workers read the text of batches with more bytes than this; None: this process reads all batches."""
    if not writer.can_read_by_workers or writer.reads_changes:
        return None
    tuning = writer.tuning
    return tuning.spark_batch_bytes if writer.strategies.has_spark_setting else tuning.worker_bytes


def commit_by_workers(
    writer: Writer,
    parse: Parse,
    graph: str | None,
    strategy: Strategy,
    number: BatchNumber | None,
    *,
    counts_each: bool,
) -> Epoch | None:
    """Commits what workers find in text; None if its lines are unusual."""
    from sparqlive.bulk.ingest.lines import UnusualTextError

    begun = time.perf_counter()
    try:
        with read_by_workers(writer, parse, graph) as files:
            batch = Batch((), (), strategy, number, files=files, counts_each=counts_each, begun=begun)
            return writer.commit(batch)
    except UnusualTextError:
        return None


def apply_changes(
    writer: Writer,
    insert: str | Iterable[Any],
    delete: str | Iterable[Any],
    strategy: Strategy,
    number: BatchNumber | None,
) -> Epoch:
    """Applies quads, triples or N-Quads text; see `Session.apply`."""
    if isinstance(insert, str) or isinstance(delete, str):
        texts = [part for part in (delete, insert) if isinstance(part, str)]
        others = any(part for part in (delete, insert) if not isinstance(part, str))
        if not others and sum(map(len, texts)) > writer.tuning.column_bytes:
            return _apply_texts(writer, str(delete or ""), str(insert or ""), strategy, number)
    return writer.commit(_batch_of(writer, changes_of(delete), changes_of(insert), strategy, number))


def _batch_of(
    writer: Writer,
    deletes: Sequence[Any],
    inserts: Sequence[Any],
    strategy: Strategy,
    number: BatchNumber | None,
) -> Batch:
    """A batch of quads; many of them are written as text, which is read by columns."""
    is_few = len(deletes) + len(inserts) < writer.tuning.text_quads
    if is_few or {*map(type, chain(deletes, inserts))} != {Quad}:
        return Batch(deletes, inserts, strategy, number)
    size = writer.tuning.largest_piece_rows
    texts = _texts_of(deletes, size), _texts_of(inserts, size)
    if any(_TRIPLE_TERM in text for text in chain(*texts)):
        return Batch(deletes, inserts, strategy, number)  # is rejected, unless it is within a literal
    return _batch_of_texts(writer, *texts, strategy, number)


def _texts_of(quads: Sequence[Quad], size: int) -> list[str]:
    """Quads as N-Quads texts, in pieces."""
    pieces = (quads[start : start + size] for start in range(0, len(quads), size))
    return [" .\n".join(map(str, piece)) + " .\n" for piece in pieces]


def _batch_of_texts(
    writer: Writer,
    deletes: Iterable[str],
    inserts: Iterable[str],
    strategy: Strategy,
    number: BatchNumber | None,
) -> Batch:
    """A batch of N-Quads texts, read by columns."""
    exceptions = writer.terms.dictionary.exceptions
    columns = [
        part
        for texts, weight in ((deletes, -1), (inserts, 1))
        for text in texts
        for part in with_weight(encoded_text(text, exceptions), weight)
    ]
    return Batch((), (), strategy, number, columns=columns)


def _apply_texts(
    writer: Writer, delete: str, insert: str, strategy: Strategy, number: BatchNumber | None
) -> Epoch:
    """Reads large N-Quads texts: by workers, or by columns."""
    least = text_bytes(writer)
    if least is not None and len(delete) + len(insert) > least:
        from sparqlive.bulk.ingest.lines import Lines, pieces_of

        pieces = chain(pieces_of(delete, -1), pieces_of(insert, 1))
        lines = Lines(writer.strategies.workers()[0], pieces)
        epoch = commit_by_workers(writer, lines, None, strategy, number, counts_each=False)
        if epoch is not None:
            return epoch
    return writer.commit(_batch_of_texts(writer, [delete], [insert], strategy, number))


def apply_batch(
    writer: Writer,
    changes: ReadBatch | EncodedBatch | TextBatch,
    strategy: Strategy,
    number: BatchNumber | None,
) -> Epoch:
    """Applies one batch of a file of changes."""
    if isinstance(changes, TextBatch):
        if text_bytes(writer) is not None:
            from sparqlive.bulk.ingest.lines import Lines, TextPiece

            pieces = (TextPiece(text, None, is_marked) for text, is_marked in changes.pieces)
            graph = None if changes.graph is None else str(changes.graph)
            lines = Lines(writer.strategies.workers()[0], pieces)
            epoch = commit_by_workers(writer, lines, graph, strategy, number, counts_each=True)
            if epoch is not None:
                return epoch
        changes = changes.read(writer.terms.dictionary.exceptions) or ReadBatch((), ())
    if isinstance(changes, EncodedBatch):
        return writer.commit(Batch((), (), strategy, number, columns=changes.parts, counts_each=True))
    return apply_changes(writer, changes.insert, changes.delete, strategy, number)


def replace_graph(writer: Writer, graph: NamedNode | DefaultGraph, given: Sequence[Quad]) -> Epoch:
    """Replaces the content of a graph; see `Session.replace`."""
    dictionary = writer.terms.dictionary

    def content() -> set[Quad]:
        number = dictionary.find(graph)
        return set() if number is None else set(dictionary.quads(writer.quads.of_graph(number)))

    with writer.reading():
        writer.ensure_open()
        old, since = content(), writer.net_changes.start()
    new, encoded = set[Quad](), None
    try:  # without the lock, because it can be slow
        if old or any(type(quad.object) is Triple for quad in given):  # which is rejected below
            new = set(matched(old, given))
        else:
            encoded = Encoder(exceptions=dictionary.exceptions).quads(given, labels(uuid4().hex))
    except BaseException:
        with writer.reading():
            writer.net_changes.stop(since)
        raise
    with writer.reading():
        changes, number = writer.net_changes.stop(since), dictionary.find(graph)
        if changes is None or any(change[3] == number for change in changes):
            old, encoded = content(), None
            new = set(matched(old, given))
        if encoded is not None:
            return writer.commit(Batch(columns=with_weight([encoded], 1)))
        # Quads that a source also asserts become local too, and stay when the source is removed.
        insert = new if writer.assertions else new - old
        return writer.commit(Batch(old - new, insert))
