"""Between a session and its store: what is loaded when it opens, and what each step writes.

Owns the translation: sessions know ids, relations and views; stores know files and a catalog. Owns when the
store is compacted, and what is forgotten of its history. Invariant: it writes before the session shows the
result to anybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparqlive.engine.deferred import Deferred, Refresh, gathered_name
from sparqlive.engine.ingest import ingest_runs
from sparqlive.engine.stored_data import StoredData
from sparqlive.engine.stored_names import all_names, names_of_failed, names_of_nobody_else
from sparqlive.errors import StoreFailed
from sparqlive.live.content import PlanContent, Product
from sparqlive.live.quads import Change, Quads, inserts_of
from sparqlive.plan.operators import Operator
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.store.catalog import Durability
from sparqlive.store.compaction import QUADS
from sparqlive.store.compactor import Compactor
from sparqlive.store.connections import Poller
from sparqlive.store.locks import Lease
from sparqlive.store.store import TERMS, Commit, Sources, Store
from sparqlive.zset.relation import Elsewhere, Relation, Row
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.job import Ingested, OnError
    from sparqlive.bulk.ingest.workers import Workers


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
        self._dictionary = dictionary
        self._poller: Poller | None = None
        self.store.catalog.use_under(lock)
        try:
            self._data = StoredData(self.store, quads, dictionary)
            self._compactor = Compactor(self.store, lock, self._data.moved, self._kept_from)
        except BaseException:
            self.store.close()
            raise

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
        self._compactor.opened(*self._data.load_quads())

    def sources_noted(self) -> list[str]:
        """The notes of the sources that are there."""
        return [note for note in self.store.catalog.metas("source/") if note]

    def notes(self, prefix: str) -> list[str]:
        """The notes whose key begins so."""
        return [note for note in self.store.catalog.metas(prefix) if note]

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        return self.store.catalog.views()

    def owner(self, view: str) -> str | None:
        """Who registered a view, where that was said."""
        return self.store.owner(view)

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

    def has(self, content: PlanContent) -> bool:
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
        failed: Iterable[PlanContent] = (),
    ) -> None:
        """Makes an epoch durable: its changes, its new terms, the deltas of all that is stored, its notes.

        What failed contents store is forgotten: it is computed again when the store is next opened.
        """
        inserted = inserts_of(changes)
        forgotten = names_of_failed(failed)
        kept = {name: delta for name, delta in deltas.items() if name not in forgotten}
        self.store.commit(
            Commit(
                epoch,
                (inserted, len(changes) - inserted),
                strategy,
                note,
                changes,
                kept,
                *self._dictionary.journal(),
                forgotten=forgotten,
                batch=batch,
                notes=notes,
            )
        )
        self._dictionary.start_journal()
        self._compactor.committed(len(changes) + sum(len(rows) for _, rows in kept.values()))

    def keep(
        self,
        name: str,
        text: str,
        base: str | None,
        refresh: Refresh,
        owner: str | None,
        content: PlanContent,
        epoch: int,
        instead_of: PlanContent | None,
        notes: Mapping[str, str],
    ) -> None:
        """Registers a view, in the place of another one if there is one of that name.

        What its content stores is written if it is not there yet; notes are kept with it.
        """
        forgotten = set() if instead_of is None else names_of_nobody_else(instead_of)
        with self._contents(content, epoch, names_of_nobody_else(content)) as commit:
            unseen: dict[str, tuple[int, dict[Row, int]]] = {}
            if refresh != "immediate":
                unseen = {gathered_name(name): (4, {})}
            commit = replace(
                commit,
                forgotten={gathered_name(name), *forgotten, *commit.forgotten},
                notes=notes,
                bases={**commit.bases, **unseen},
            )
            self.store.keep(name, text, base, str(refresh), owner, commit)
        self._dictionary.start_journal()

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

    def reads(self, content: PlanContent, relations: Set[str]) -> bool:
        """Whether a content stores one of the relations."""
        return not relations.isdisjoint(all_names(content))

    def save(self, name: str, content: PlanContent, epoch: int, damaged: Set[str] = frozenset()) -> int:
        """Writes a content that was computed anew; its history begins now."""
        with self._contents(content, epoch, damaged) as commit:
            forgotten = {*commit.forgotten, *(damaged & all_names(content))}
            self.store.save(name, replace(commit, forgotten=forgotten))
        self._dictionary.start_journal()
        return epoch

    @contextmanager
    def _contents(self, content: PlanContent, epoch: int, new: Set[str]) -> Iterator[Commit]:
        """What a content stores that is new, or not in the store, ready to be committed."""
        fresh = {
            key: (width, _whole(rows))
            for key, width, rows in content.relations()
            if key in new or not self.store.catalog.has(key)
        }
        with self.store.contents(fresh) as (runs, bases):
            terms, exceptions = self._dictionary.journal()
            yield Commit(
                epoch, terms=terms, exceptions=exceptions, runs=runs, bases=bases, forgotten=fresh.keys()
            )

    def drop(self, name: str, content: PlanContent, epoch: int) -> None:
        """Forgets a view, and what its content stores if nobody else uses it."""
        self.store.drop(name, {*names_of_nobody_else(content), gathered_name(name)}, epoch)

    # Views that are refreshed later

    def deferred(self, name: str, deferred: Deferred) -> None:
        """What a view that is refreshed later has not seen yet."""
        gathered = self.rows(deferred.relation)
        deferred.load(gathered, self.store.refreshed(name) if gathered else self.epoch)

    def refresh(self, name: str, deferred: Deferred, epoch: int, failed: Iterable[PlanContent]) -> None:
        """Makes the refreshing of a view durable."""
        forgotten = names_of_failed(failed)
        deltas = {key: delta for key, delta in deferred.keeper.staged().items() if key not in forgotten}
        terms, exceptions = self._dictionary.journal()
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
        self._dictionary.start_journal()

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
        return self._data.advance()

    def changed(self, content: PlanContent, since: int) -> bool:
        """Whether a content has a delta after an epoch."""
        parts = content.parts if isinstance(content, Product) else []
        return any(self.store.catalog.delta_rows(one.name, since) for one in (content, *parts))

    # History

    def history_start(self) -> int:
        """Deltas after this epoch are kept."""
        return self.store.catalog.history_start()

    def history(self, content: PlanContent, since: int, until: int) -> Iterator[tuple[int, dict[Row, int]]]:
        """The deltas of a content's rows after an epoch and up to another."""
        for epoch, rows in self.store.catalog.deltas(content.name, since, until):
            yield epoch, {tuple(row): weight for *row, weight in rows.tolist()}

    # Compaction

    def compact(self) -> None:
        """Folds log and deltas into new runs, and forgets the history that is no longer kept."""
        self._compactor.run(everything=True)

    def _kept_from(self) -> int:
        """History up to this epoch is forgotten."""
        epoch = self.epoch - self._retention.epochs
        if self._retention.seconds is not None:
            epoch = max(epoch, self.store.catalog.epoch_before(time.time() - self._retention.seconds))
        return epoch

    # Loads by Spark, and batches of streams

    def ingest(
        self,
        workers: Workers,
        paths: Sequence[str],
        graph: str | None,
        on_error: OnError,
        epoch: int,
        strategy: str,
        batch: tuple[str, int] | None,
    ) -> Ingested:
        """Files straight into runs, by workers, as one epoch of a store that has no quads yet."""
        with self.store.attempt() as attempt:
            made, runs = ingest_runs(self.store, self._dictionary, attempt, workers, paths, graph, on_error)
            self._dictionary.load_exceptions(made.exceptions)
            terms, exceptions = self._dictionary.journal()
            note = {"rejected": made.rejected, "seconds": dict(made.seconds)}
            self.store.commit(
                Commit(
                    epoch,
                    (made.quads, 0),
                    strategy,
                    note,
                    terms=terms,
                    exceptions=exceptions,
                    runs=runs,
                    bases={QUADS: (4, None)},
                    batch=batch,
                )
            )
        self._dictionary.start_journal()
        self._data.replaced_terms()
        return made

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
        """Where a bulk backend finds the quads and terms of the last epoch."""
        return self._data.sources()

    def close(self) -> None:
        """The caller does not hold the session's lock: a compaction under way ends first."""
        if self._poller is not None:
            self._poller.stop()
        self._compactor.wait()
        self.store.close()


def _whole(rows: Any) -> dict[Row, int] | Run:
    run = rows.whole() if isinstance(rows, Relation) else None
    return dict(rows.items()) if run is None else run
