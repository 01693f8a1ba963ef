"""Between a session and its store: what is loaded when it opens, and what each step writes.

Owns the translation: sessions know ids, relations and views; stores know files and a catalog. Owns when the
store is compacted, and what is forgotten of its history. Invariant: it writes before the session shows the
result to anybody.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparqlive.engine.deferred import Deferred, Refresh, gathered_name
from sparqlive.errors import InvalidChange, StoreFailed
from sparqlive.live.keeper import Content, Product
from sparqlive.live.quads import Change, Quads
from sparqlive.plan.operators import Operator
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.reserved import PREFIXES, graph_refusal, predicate_refusal
from sparqlive.store.catalog import Durability
from sparqlive.store.compaction import QUADS
from sparqlive.store.compactor import Compactor
from sparqlive.store.connections import Poller
from sparqlive.store.locks import Lease
from sparqlive.store.quad_runs import QuadRuns, segments_of
from sparqlive.store.runs import RunFile, found_terms, read_terms
from sparqlive.store.store import TERMS, Commit, Sources, Store, TermRuns
from sparqlive.zset.relation import Elsewhere, Relation, Row
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.ingest import Ingested


@dataclass(frozen=True)
class Retention:
    """Deltas are kept for the last `epochs` epochs, and no longer than `seconds`."""

    epochs: int
    seconds: float | None


# The relations that do not follow from the quads.
_NOT_COMPUTED = {QUADS, TERMS, "gathered", "source", "sources"}


class Persistence:
    def __init__(
        self,
        directory: Path,
        quads: Quads,
        dictionary: Dictionary,
        lock: AbstractContextManager[Any],
        retention: Retention,
        durability: Durability = "epoch",
        sync_milliseconds: int = 100,
        read_only: bool = False,
        runs: str | os.PathLike[str] | None = None,
    ) -> None:
        self.store = Store(
            directory,
            read_only=read_only,
            durability=durability,
            sync_milliseconds=sync_milliseconds,
            runs=runs,
        )
        self._retention = retention
        self._quads = quads
        self._dictionary = dictionary
        self._runs: QuadRuns | None = None
        self._poller: Poller | None = None
        self.store.catalog.used_under = lock
        try:
            self._compactor = Compactor(self.store, lock, self._moved, self._kept_from)
            self._terms = dictionary.older = self.store.terms()
            dictionary.load(self.store.catalog.terms())
            dictionary.exceptions.update(self.store.catalog.exceptions())
            self._at = self.epoch
        except BaseException:
            self.store.close()
            raise
        dictionary.journal = None if read_only else []

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that opened the store."""
        return self.store.catalog.is_forked

    @property
    def epoch(self) -> int:
        return self.store.catalog.epoch()

    def default_graph(self, wanted: str | None) -> Any:
        """What the store was made with; a store whose views were made for another is not misread."""
        recorded = self.store.catalog.meta("default_graph")
        if recorded is None and self.store.catalog.read_only:
            return "strict"
        if recorded is None:
            recorded = wanted or "strict"
            with self.store.catalog.transaction():
                self.store.catalog.set_meta("default_graph", recorded)
        if wanted is not None and wanted != recorded:
            raise StoreFailed(
                f"The store {self.store.directory} was made with default_graph={recorded!r}, and its views "
                f"are kept for that: open it so, or make another store for {wanted!r}."
            )
        return recorded

    def lineage(self) -> str | None:
        """The name of the history that the store's epochs count; None where nobody has named it."""
        recorded = self.store.catalog.meta("lineage")
        if recorded is None and not self.store.catalog.read_only:
            recorded = uuid4().hex
            with self.store.catalog.transaction():
                self.store.catalog.set_meta("lineage", recorded)
        return recorded

    # Opening

    def load_quads(self) -> None:
        """The runs, which stay on disk until something reads them, and the changes after them."""
        runs, log = self.store.quads()
        self._runs = runs
        self._quads.attach(runs)
        for rows in log:
            self._quads.add(_changes(rows))
        self._compactor.opened(runs, self._terms)

    def sources_noted(self) -> list[str]:
        """The notes of the sources that are there."""
        return [note for note in self.store.catalog.metas("source/") if note]

    def notes(self, prefix: str) -> list[str]:
        """The notes whose key begins so."""
        return [note for note in self.store.catalog.metas(prefix) if note]

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        return self.store.catalog.views()

    def saved(self, name: str, plan: Operator) -> Elsewhere | None:
        """The content of a relation, if the store has it; a reader computes none."""
        saved = self.store.relation(name)
        if saved is None and self.store.catalog.read_only:
            return Elsewhere(lambda: (None, {}))
        return saved

    def rows(self, name: str) -> dict[Row, int]:
        """The content of a relation, which is empty where the store has none."""
        saved = self.store.relation(name)
        return saved.rows() if saved is not None else {}

    def has(self, content: Content) -> bool:
        """Whether everything that a content stores was saved."""
        return all(self.store.catalog.has(name) for name, _, _ in content.relations())

    # Writing

    def commit(
        self,
        epoch: int,
        changes: Sequence[Change],
        deltas: Mapping[str, tuple[int, Mapping[Row, int]]],
        strategy: str,
        note: Mapping[str, Any],
        batch: tuple[str, int] | None,
        notes: Mapping[str, str],
        failed: Iterable[Content] = (),
    ) -> None:
        """Makes an epoch durable: its changes, its new terms, the deltas of all that is stored, its notes.

        What failed contents store is forgotten: it is computed again when the store is next opened.
        """
        inserted = sum(change[4] > 0 for change in changes)
        forgotten = _of_failed(failed)
        kept = {name: delta for name, delta in deltas.items() if name not in forgotten}
        self.store.commit(
            Commit(
                epoch,
                (inserted, len(changes) - inserted),
                strategy,
                note,
                changes,
                kept,
                *self._new_terms(),
                forgotten=forgotten,
                batch=batch,
                notes=notes,
            )
        )
        self._entered()
        self._compactor.committed(len(changes) + sum(len(rows) for _, rows in kept.values()))

    def keep(
        self,
        name: str,
        text: str,
        base: str | None,
        refresh: Refresh,
        content: Content,
        epoch: int,
        instead_of: Content | None,
        notes: Mapping[str, str],
    ) -> None:
        """Registers a view, in the place of another one if there is one of that name.

        What its content stores is written if it is not there yet; notes are kept with it.
        """
        forgotten = set() if instead_of is None else _of_nobody_else(instead_of)
        with self._contents(content, epoch, _of_nobody_else(content)) as commit:
            commit.forgotten = {gathered_name(name), *forgotten, *commit.forgotten}
            commit.notes = notes
            if refresh != "immediate":
                commit.bases = {**commit.bases, gathered_name(name): (4, {})}
            self.store.keep(name, text, base, str(refresh), commit)
        self._entered()

    def damaged(self) -> set[str]:
        """The relations that are damaged; what does not follow from other data cannot be computed again."""
        found = self.store.damaged()
        for relation, error in found.items():
            if relation.partition("/")[0] in _NOT_COMPUTED:
                raise error
        return set(found)

    def verify(self) -> None:
        """Raises unless every file, every term and all history of the store is as it was written."""
        self.store.verify()

    def reads(self, content: Content, relations: Set[str]) -> bool:
        """Whether a content stores one of the relations."""
        return not relations.isdisjoint(_all_names(content))

    def save(self, name: str, content: Content, epoch: int, damaged: Set[str] = frozenset()) -> int:
        """Writes a content that was computed anew; its history begins now."""
        with self._contents(content, epoch, damaged) as commit:
            commit.forgotten = {*commit.forgotten, *(damaged & _all_names(content))}
            self.store.save(name, commit)
        self._entered()
        return epoch

    @contextmanager
    def _contents(self, content: Content, epoch: int, new: Set[str]) -> Iterator[Commit]:
        """What a content stores that is new, or not in the store, ready to be committed."""
        fresh = {
            key: (width, _whole(rows))
            for key, width, rows in content.relations()
            if key in new or not self.store.catalog.has(key)
        }
        with self.store.contents(fresh) as (runs, bases):
            terms, exceptions = self._new_terms()
            yield Commit(
                epoch, terms=terms, exceptions=exceptions, runs=runs, bases=bases, forgotten=fresh.keys()
            )

    def drop(self, name: str, content: Content, epoch: int) -> None:
        """Forgets a view, and what its content stores if nobody else uses it."""
        self.store.drop(name, {*_of_nobody_else(content), gathered_name(name)}, epoch)

    # Views that are refreshed later

    def deferred(self, name: str, deferred: Deferred) -> None:
        """What a view that is refreshed later has not seen yet."""
        gathered = self.rows(deferred.relation)
        deferred.gathered = {(s, p, o, g): weight for (s, p, o, g), weight in gathered.items()}
        deferred.epoch = self.store.refreshed(name) if gathered else self.epoch

    def refresh(self, name: str, deferred: Deferred, epoch: int, failed: Iterable[Content]) -> None:
        """Makes the refreshing of a view durable."""
        forgotten = _of_failed(failed)
        deltas = {key: delta for key, delta in deferred.keeper.staged().items() if key not in forgotten}
        terms, exceptions = self._new_terms()
        self.store.refresh(
            name,
            Commit(
                epoch,
                deltas=deltas,
                terms=terms,
                exceptions=exceptions,
                forgotten={*forgotten, deferred.relation},
                bases={deferred.relation: (4, {})},
            ),
        )
        self._entered()

    def _new_terms(self) -> tuple[list[tuple[int, str]], list[tuple[str, int]]]:
        return list(self._dictionary.journal or ()), list(self._dictionary.new_exceptions)

    def _entered(self) -> None:
        """The dictionary's new terms are in the store."""
        self._dictionary.journal, self._dictionary.new_exceptions = [], []

    # Reading beside the writer

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Inside, no file of the quads as they are now is removed.

        Where no lease can be left, in a directory that may not be written or on a full disk, files are read
        without one: replacing them would take writing, too.
        """
        lease = None
        with suppress(OSError):
            lease = Lease(self.store.directory, self.store.quads_epoch())
        try:
            yield
        finally:
            if lease is not None:
                lease.release()

    def follow(self, on_change: Callable[[], None]) -> None:
        """From now on, calls whenever the writer has committed something."""
        self._poller = Poller(self.store.catalog.poll(), on_change)

    def advance(self) -> int:
        """Goes on to the store's last epoch, which is what is read from now on; its number."""
        catalog = self.store.catalog
        catalog.renew()
        runs = catalog.runs(QUADS)
        if catalog.history_start() > self._at:  # the changes since are no longer kept
            self._quads.clear()
            self.load_quads()
        else:
            for _, rows in catalog.changes(self._at):
                self._quads.add(_changes(rows))
            if self._runs is None or self._runs.paths() != {run.path for run in runs}:
                self._runs = QuadRuns(self.store.place, runs, self._runs)
                log = catalog.changes(self.store.quads_epoch())
                self._quads.move(self._runs, [change for _, rows in log for change in _changes(rows)])
        self._terms = self.store.terms(self._terms)
        self._dictionary.older = self._terms
        self._dictionary.load(catalog.terms())
        self._dictionary.exceptions.update(catalog.exceptions())
        self._at = self.epoch
        self.store.read_until(self._at)
        return self._at

    def changed(self, content: Content, since: int) -> bool:
        """Whether a content has a delta after an epoch."""
        parts = content.parts if isinstance(content, Product) else []
        return any(self.store.catalog.delta_rows(one.name, since) for one in (content, *parts))

    # History

    def history_start(self) -> int:
        """Deltas after this epoch are kept."""
        return self.store.catalog.history_start()

    def history(self, content: Content, since: int, until: int) -> Iterator[tuple[int, dict[Row, int]]]:
        """The deltas of a content's rows after an epoch and up to another."""
        for epoch, rows in self.store.catalog.deltas(content.name, since, until):
            yield epoch, {tuple(row): weight for *row, weight in rows.tolist()}

    # Compaction

    def compact(self) -> None:
        """Folds log and deltas into new runs, and forgets the history that is no longer kept."""
        self._compactor.run(everything=True)

    def _moved(self, runs: QuadRuns, terms: TermRuns) -> None:
        """What was left on disk is in other files now."""
        log = self.store.catalog.changes(self.store.quads_epoch())
        self._quads.move(runs, [change for _, rows in log for change in _changes(rows)])
        self._dictionary.move(terms, self.store.catalog.terms())

    def _kept_from(self) -> int:
        """History up to this epoch is forgotten."""
        epoch = self.epoch - self._retention.epochs
        if self._retention.seconds is not None:
            epoch = max(epoch, self.store.catalog.epoch_before(time.time() - self._retention.seconds))
        return epoch

    # Loads by Spark, and batches of streams

    def ingest(
        self,
        spark: Any,
        paths: Sequence[str],
        graph: str | None,
        on_error: str,
        epoch: int,
        batch: tuple[str, int] | None,
    ) -> Ingested:
        """Files straight into runs, by Spark, as one epoch of a store that has no quads yet."""
        from sparqlive.bulk.backends.spark.ingest import ingest

        with self.store.attempt() as attempt:
            exceptions = dict(self._dictionary.exceptions)
            folder = f"{attempt}/ingest"
            target = self.store.place.text(folder)
            made = ingest(spark, paths, graph, target, on_error=on_error, exceptions=exceptions)  # type: ignore[arg-type]
            taken = self._taken(made, folder)
            if taken:  # a term of the dictionary has the id of another one in the files: that one gives way
                folder = f"{attempt}/again"
                target = self.store.place.text(folder)
                made = ingest(
                    spark, paths, graph, target, on_error=on_error, exceptions=exceptions | taken  # type: ignore[arg-type]
                )  # fmt: skip
            runs = self.store.written(folder, made.quad_files, made.term_files)
            self._check_names(runs)
            self._dictionary.exceptions.update(made.exceptions)
            self._dictionary.new_exceptions += made.exceptions.items()
            terms, known = self._new_terms()
            note = {"rejected": made.rejected, "seconds": dict(made.seconds)}
            self.store.commit(
                Commit(
                    epoch,
                    (made.quads, 0),
                    "spark",
                    note,
                    terms=terms,
                    exceptions=known,
                    runs=runs,
                    bases={QUADS: (4, None)},
                    batch=batch,
                )
            )
        self._entered()
        self._terms = self._dictionary.older = self.store.terms()
        return made

    def _taken(self, made: Ingested, folder: str) -> dict[str, int]:
        """New ids for terms of the files whose id stands for another term of the dictionary."""
        unnamed = [RunFile(f"{folder}/{file.path}", TERMS, file.rows, 0, (), b"") for file in made.term_files]
        files = TermRuns(self.store.place, unnamed)
        taken = {}
        for number, text in self._dictionary.entries():
            other = files(number)
            if other is not None and other != text:
                taken[other] = self._dictionary.enter(other)
        return taken

    def _check_names(self, runs: Iterable[RunFile]) -> None:
        """Quads that Spark has read pass no gate: those under a name that is reserved are refused here."""
        texts: dict[int, str] = {}
        for run in runs:
            if run.relation == TERMS:
                numbers, terms = read_terms(self.store.place, run)
                texts.update(found_terms(numbers, terms, PREFIXES))
        quads = segments_of(self.store.place, (run for run in runs if run.relation == QUADS)) if texts else ()
        for graph, predicate in (segment.key for segment in quads):
            for number, refusal in ((graph, graph_refusal), (predicate, predicate_refusal)):
                refused = refusal(texts[number][1:-1]) if number in texts else None
                if refused is not None:
                    raise InvalidChange(refused)

    def batch_epoch(self, batch: tuple[str, int]) -> int | None:
        return self.store.catalog.batch_epoch(*batch)

    def record(self, batch: tuple[str, int] | None, epoch: int, notes: Mapping[str, str]) -> None:
        """A stream's batch, or a source's report, that changed nothing."""
        with self.store.catalog.transaction():
            if batch is not None:
                self.store.catalog.add_batch(*batch, epoch)
            for key, note in notes.items():
                self.store.catalog.set_meta(key, note)

    def sources(self) -> Sources:
        """Where Spark finds the quads and terms of the last epoch."""
        return self.store.sources(self._dictionary.journal or ())

    def close(self) -> None:
        """The caller does not hold the session's lock: a compaction under way ends first."""
        if self._poller is not None:
            self._poller.stop()
        self._compactor.wait()
        self.store.close()


def _names(content: Content) -> set[str]:
    return {content.name, *(name for name, _, _ in content.relations())}


def _all_names(content: Content) -> set[str]:
    """What a content stores, and its parts."""
    parts = content.parts if isinstance(content, Product) else []
    return _names(content).union(*map(_all_names, parts))


def _of_nobody_else(content: Content) -> set[str]:
    """What is no longer stored when one user gives a content back."""
    if content.users > 1:
        return set()
    if isinstance(content, Product):
        return {content.name}.union(*map(_of_nobody_else, content.parts))
    return _names(content)


def _of_failed(contents: Iterable[Content]) -> set[str]:
    """What is no longer stored when all users of contents give them back."""
    failed = set(contents)
    found: set[str] = set()
    users = Counter(part for content in failed if isinstance(content, Product) for part in content.parts)
    for content in failed:
        if not isinstance(content, Product):
            found |= _names(content)
            continue
        found.add(content.name)
        for part in content.parts:
            if part.users <= users[part]:
                found |= _names(part)
    return found


def _changes(rows: Column) -> list[Change]:
    return [(s, p, o, g, w) for s, p, o, g, w in rows.tolist()]


def _whole(rows: Any) -> dict[Row, int] | Run:
    run = rows.whole() if isinstance(rows, Relation) else None
    return dict(rows.items()) if run is None else run
