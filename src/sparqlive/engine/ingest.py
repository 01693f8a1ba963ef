"""Files into the runs of a store that has no quads yet, by processes of this machine or by Spark.

Owns that what was read fits the session: no id stands for two terms, and no quad is under a reserved
name. Invariant: nothing is in the store before its runs are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sparqlive.errors import InvalidChange
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.reserved import PREFIXES, graph_refusal, predicate_refusal
from sparqlive.store.compaction import QUADS
from sparqlive.store.quad_runs import segments_of
from sparqlive.store.runs import RunFile, found_terms, read_terms
from sparqlive.store.store import TERMS, Store, TermRuns

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.job import Ingested, OnError
    from sparqlive.bulk.ingest.workers import Workers


def ingest_runs(
    store: Store,
    dictionary: Dictionary,
    attempt: str,
    workers: Workers,
    paths: Sequence[str],
    graph: str | None,
    on_error: OnError,
) -> tuple[Ingested, list[RunFile]]:
    """Writes the runs into the folder of an attempt; what was read, and the runs to be committed."""
    from sparqlive.bulk.ingest.job import ingest

    exceptions = dict(dictionary.exceptions)
    folder = f"{attempt}/ingest"
    target = store.place.text(folder)
    made = ingest(workers, paths, graph, target, on_error=on_error, exceptions=exceptions)
    taken = _taken(store, dictionary, made, folder)
    if taken:  # a term of the dictionary has the id of another one in the files: that one gives way
        folder = f"{attempt}/again"
        target = store.place.text(folder)
        exceptions |= taken
        made = ingest(workers, paths, graph, target, on_error=on_error, exceptions=exceptions)
    runs = store.written(folder, made.quad_files, made.term_files)
    _check_names(store, runs)
    return made, runs


def _taken(store: Store, dictionary: Dictionary, made: Ingested, folder: str) -> dict[str, int]:
    """New ids for terms of the files whose id stands for another term of the dictionary."""
    unnamed = [RunFile(f"{folder}/{file.path}", TERMS, file.rows, 0, (), b"") for file in made.term_files]
    files = TermRuns(store.place, unnamed)
    taken = {}
    for number, text in dictionary.entries():
        other = files(number)
        if other is not None and other != text:
            taken[other] = dictionary.enter(other)
    return taken


def _check_names(store: Store, runs: Iterable[RunFile]) -> None:
    """Quads that workers have read pass no gate: those under a name that is reserved are refused here."""
    texts: dict[int, str] = {}
    for run in runs:
        if run.relation == TERMS:
            numbers, terms = read_terms(store.place, run)
            texts.update(found_terms(numbers, terms, PREFIXES))
    quads = segments_of(store.place, (run for run in runs if run.relation == QUADS)) if texts else ()
    for graph, predicate in (segment.key for segment in quads):
        for number, refusal in ((graph, graph_refusal), (predicate, predicate_refusal)):
            refused = refusal(texts[number][1:-1]) if number in texts else None
            if refused is not None:
                raise InvalidChange(refused)
