"""Loads files by local processes or by Spark: into a store without quads, directly as its runs.

Ensures that the result fits the session: no id stands for two terms, and no quad uses a reserved name.
Invariant: nothing is in the store before its runs are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sparqlive.errors import InvalidChange
from sparqlive.rdf.columns import Encoder
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.reserved import graph_refusal, predicate_refusal
from sparqlive.store.quad_runs import segments_of
from sparqlive.store.runs import QUADS, TERMS, RunFile
from sparqlive.store.store import Store
from sparqlive.store.term_runs import texts_in

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.documents import Document
    from sparqlive.bulk.ingest.effective import ChangeFiles
    from sparqlive.bulk.ingest.job import IngestResult, OnError
    from sparqlive.bulk.ingest.parts import Part
    from sparqlive.bulk.ingest.workers import Workers


@contextmanager
def loading(
    store: Store,
    dictionary: Dictionary,
    workers: Workers,
    paths: Sequence[str | Document],
    graph: str | None,
    on_error: OnError,
) -> Iterator[ChangeFiles]:
    """Context in which workers have written files as the runs of a store that has no quads yet."""
    from sparqlive.bulk.ingest.effective import ChangeFiles

    with store.attempt() as attempt:
        ingested, runs = _ingest_runs(store, dictionary, attempt, workers, paths, graph, on_error)
        store.map_terms(runs)
        yield ChangeFiles(
            store.place,
            [run for run in runs if run.relation == QUADS],
            [run for run in runs if run.relation == TERMS],
            ingested.exceptions,
            given=ingested.quads,
            distinct=ingested.quads,
            inserted=ingested.quads,
            deleted=0,
            predicates=frozenset(),
            are_base=True,
            rejected=ingested.rejected,
            seconds=ingested.seconds,
        )


def _ingest_runs(
    store: Store,
    dictionary: Dictionary,
    attempt: str,
    workers: Workers,
    paths: Sequence[str | Document],
    graph: str | None,
    on_error: OnError,
) -> tuple[IngestResult, list[RunFile]]:
    """Writes runs into the folder of an attempt; returns a summary, and the runs to commit."""
    from sparqlive.bulk.ingest.job import ingest

    exceptions = dict(dictionary.exceptions)
    folder = f"{attempt}/ingest"
    target = store.place.text(folder)
    run = partial(ingest, workers, paths, graph, on_error=on_error, tuning=store.tuning)
    ingested = run(target, exceptions=exceptions)
    taken = _collisions(store, dictionary, ingested, folder)
    if taken:  # terms of the files whose id the dictionary uses for another term get new ids
        folder = f"{attempt}/again"
        target = store.place.text(folder)
        exceptions |= taken
        ingested = run(target, exceptions=exceptions)
    files = [(file.path, QUADS, None) for file in ingested.quad_files]
    runs = store.describe(folder, files + [(file.path, TERMS, None) for file in ingested.term_files])
    _check_names(store, runs, {n: text for file in ingested.term_files for n, text in file.reserved.items()})
    return ingested, runs


def _collisions(store: Store, dictionary: Dictionary, ingested: IngestResult, folder: str) -> dict[str, int]:
    """New ids for terms of the files whose id stands for another term in the dictionary."""
    unnamed = [RunFile(f"{folder}/{file.path}", TERMS, file.rows, 0, (), b"") for file in ingested.term_files]
    known = dict(dictionary.entries())
    others = texts_in(store.place, unnamed, known).items() if known else ()
    return {other: dictionary.enter(other) for number, other in others if other != known[number]}


def _check_names(store: Store, runs: Iterable[RunFile], texts: Mapping[int, str]) -> None:
    """Rejects quads under a reserved name; quads that workers read do not pass the session's gate.

    texts: the terms of the runs under such names.
    """
    quads = segments_of(store.place, (run for run in runs if run.relation == QUADS)) if texts else ()
    for graph, predicate in (segment.key for segment in quads):
        for number, refusal in ((graph, graph_refusal), (predicate, predicate_refusal)):
            refused = refusal(texts[number][1:-1]) if number in texts else None
            if refused is not None:
                raise InvalidChange(refused)


class Documents:
    """Has workers read documents into parts (`Parse`). `rejected` counts what they skipped."""

    def __init__(self, workers: Workers, paths: Sequence[str], on_error: OnError) -> None:
        from sparqlive.bulk.ingest.documents import find_documents

        self._workers = workers
        self._documents = find_documents(paths)
        self._on_error = on_error
        self.rejected = 0

    def __call__(self, folder: str, encoder: Encoder) -> Sequence[Part]:
        from sparqlive.bulk.ingest.job import parse_documents

        rejects = f"{folder.rsplit('/', 2)[0]}/rejects.jsonl"  # in the folder of the attempt
        parts, self.rejected = parse_documents(
            self._workers, self._documents, folder, encoder, self._on_error, rejects
        )
        return parts
