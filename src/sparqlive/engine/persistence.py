"""Connects a session to its store: loads it when it opens, and writes each step.

Owns what belongs in one transaction, from contents, views and terms. What is on disk is `store`, the quads
and terms of the session are `data`, the files that readers hold are `pins`: others use these directly.
Decides which history is deleted. Invariant: a result is written before the session makes it visible.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparqlive.engine.assertions import ASSERTED, BY_QUAD, BY_SOURCE, LOCAL, Assertions
from sparqlive.engine.batches import Batch
from sparqlive.engine.deferred import Deferred, Refresh, gathered_name
from sparqlive.engine.older_assertions import gather_assertions
from sparqlive.engine.pins import Pins
from sparqlive.engine.stored_data import StoredData
from sparqlive.engine.stored_names import all_names, names_of_failed, unshared_names
from sparqlive.errors import StoreFailed
from sparqlive.live.compiled_plan import is_of_totals
from sparqlive.live.materialization import Materialization, Product
from sparqlive.plan.operators import Operator
from sparqlive.quads.current import Change, Quads, inserts_of
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.store.catalog import Durability
from sparqlive.store.commits import Commit
from sparqlive.store.compactor import Compactor
from sparqlive.store.connections import Poller
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.runs import QUADS, TERMS, RunFile
from sparqlive.store.saving import Saved
from sparqlive.store.store import REFRESHES, Store
from sparqlive.zset.relation import Elsewhere, Relation, Row
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Retention:
    """Deltas are kept for the last `epochs` epochs, and for at most `seconds`."""

    epochs: int
    seconds: float | None


_log = logging.getLogger("sparqlive.store")

_NOT_MOVED = "New rows could not be mapped, and stay in memory: %s"
_NO_EXCEPTIONS: Mapping[str, int] = {}
_NOTHING_SAVED: Mapping[str, Saved] = {}
# Relations that cannot be recomputed from the quads.
_NOT_COMPUTED = {QUADS, TERMS, "gathered", "source", "sources"}


class Persistence:
    def __init__(
        self,
        directory: Path,
        quads: Quads,
        dictionary: Dictionary,
        lock: AbstractContextManager[Any],
        retention: Retention,
        memory: int,
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
            tuning=quads.tuning,
        )
        self._catalog = self.store.catalog
        self._retention = retention
        self._dictionary = dictionary
        self._poller: Poller | None = None
        self.pins = Pins(self.store)
        self._contents_in_use: Callable[[], Iterable[Materialization]] = tuple
        self._assertions: Assertions | None = None
        self._catalog.use_under(lock)
        try:
            self.data = StoredData(self.store, quads, dictionary)
            self.compactor = Compactor(self.store, lock, self._mapped, self._moved, self._history_end, memory)
        except BaseException:
            self.store.close()
            raise

    def default_graph(self, wanted: str | None) -> Any:
        """The default graph that the store was created with, on which its views depend."""
        recorded = self._catalog.meta("default_graph")
        if recorded is None and self._catalog.read_only:
            return "strict"
        if recorded is None:
            recorded = wanted or "strict"
            with self._catalog.transaction():
                self._catalog.set_meta("default_graph", recorded)
        if wanted is not None and wanted != recorded:
            raise StoreFailed(
                f"The store {self.store.directory} was created with the default graph {recorded!r}, and its "
                f"views depend on it. Open it with that setting, or create another store for {wanted!r}."
            )
        return recorded

    def lineage(self) -> str | None:
        """Identifies the history of the store's epochs; None for a reader of a store without one."""
        recorded = self._catalog.meta("lineage")
        if recorded is None and not self._catalog.read_only:
            recorded = uuid4().hex
            with self._catalog.transaction():
                self._catalog.set_meta("lineage", recorded)
        return recorded

    def attach(self, contents: Callable[[], Iterable[Materialization]]) -> None:
        """Sets the contents that are moved to new bases."""
        self._contents_in_use = contents

    # Opening

    def saved(self, name: str, plan: Operator) -> Elsewhere | None:
        """The stored content of a relation, or None. A reader gets an empty one, because it computes none."""
        saved = self.store.relation(name)
        if saved is None and self._catalog.read_only:
            return Elsewhere(lambda: Relation(len(plan.variables)))
        return saved

    def load_assertions(self, assertions: Assertions) -> None:
        """Loads which source asserts which quad, and the quads that `local` asserts as well."""
        gather_assertions(self.store)
        self._assertions = assertions
        self._move_assertions()
        local = self.store.relation(LOCAL)
        if local is not None:
            assertions.local.load(local)

    def _move_assertions(self) -> None:
        assert self._assertions is not None
        self._assertions.use(self.store.keyed(ASSERTED, 1, BY_SOURCE), self.store.keyed(ASSERTED, 4, BY_QUAD))

    def has(self, content: Materialization) -> bool:
        """Whether all relations of a content are in the store."""
        return all(self._catalog.has(name) for name, _, _ in content.relations())

    # Writing

    def commit(
        self,
        epoch: int,
        changes: Sequence[Change],
        deltas: Mapping[str, tuple[int, Mapping[Row, int]]],
        strategy: str,
        note: Mapping[str, Any],
        batch: Batch,
        failed: Iterable[Materialization] = (),
        saved: Mapping[str, Saved] = _NOTHING_SAVED,
    ) -> None:
        """Makes an epoch durable: its changes, new terms, the deltas of all stored relations, and its notes.

        Relations of failed contents are deleted; they are recomputed when the store is next opened. `saved`
        are deltas that a backend computed for contents that stay in files.
        """
        inserted, files = inserts_of(changes), batch.files
        counts = (inserted, len(changes) - inserted) if files is None else (files.inserted, files.deleted)
        in_files = () if files is None else files.runs
        bases: dict[str, tuple[int, None]] = {}
        if files is not None and files.are_base:
            note = {"rejected": files.rejected, "seconds": dict(files.seconds)}
            bases = {QUADS: (4, None)}
        forgotten = names_of_failed(failed)
        kept = {name: delta for name, delta in deltas.items() if name not in forgotten}
        kept |= {name: (d.width, d.few()) for name, d in saved.items() if d.count and not d.files}
        self._write(
            Commit(
                epoch,
                counts,
                strategy,
                note,
                changes if files is None else None,
                kept,
                *self._dictionary.journal(),
                runs=[
                    *in_files,
                    *self.store.staged_terms,
                    *(run for delta in saved.values() for run in delta.files),
                ],
                forgotten=forgotten,
                bases=bases,
                batch=batch.number,
                notes=batch.notes,
            )
        )
        if bases:  # nothing to compact
            return
        rows = sum(counts) + sum(delta.count for delta in saved.values() if delta.files)
        self.compactor.count_epoch(rows + sum(len(rows) for _, rows in kept.values()))

    def _write(self, commit: Commit, also: Callable[[], None] | None = None) -> None:
        """Writes a commit, and what `also` writes to the catalog, as one transaction."""
        self.data.committed(self.store.write(commit, also))

    def keep(
        self,
        name: str,
        text: str,
        base: str | None,
        refresh: Refresh,
        owner: str | None,
        content: Materialization,
        epoch: int,
        instead_of: Materialization | None,
        notes: Mapping[str, str],
    ) -> None:
        """Registers a view, replacing an existing view of the same name.

        Writes the relations of its content that the store does not have yet, and the notes.
        """
        forgotten = set() if instead_of is None else unshared_names(instead_of)
        commit = self._contents(content, epoch, unshared_names(content))
        unseen: dict[str, tuple[int, dict[Row, int]]] = {}
        if refresh != "immediate":
            unseen = {gathered_name(name): (4, {})}
        commit = replace(
            commit,
            forgotten={gathered_name(name), *forgotten, *commit.forgotten},
            notes=notes,
            bases={**commit.bases, **unseen},
        )

        def register() -> None:
            self._catalog.add_view(name, text, base, epoch, str(refresh))
            self._catalog.set_refreshed(name, epoch)
            self._catalog.set_owner(name, owner)

        self._write(commit, register)
        self._rebase(content, commit.bases.keys())

    def damaged(self) -> set[str]:
        """The damaged relations that can be recomputed; raises if another relation is damaged."""
        found = self.store.damaged()
        for relation, error in found.items():
            if relation.partition("/")[0] in _NOT_COMPUTED:
                raise error
        return set(found)

    def save(
        self,
        name: str,
        content: Materialization,
        epoch: int,
        damaged: Set[str] = frozenset(),
        since: int | None = None,
        deferred: Deferred | None = None,
    ) -> int:
        """Writes a recomputed content. Returns where its history starts: now, or `since` if rows stay.

        `deferred`: the deferred view's state, whose epoch may have changed.
        """
        commit = self._contents(content, epoch, damaged)
        forgotten = {*commit.forgotten, *(damaged & all_names(content)), *self._left_over(content)}
        if deferred is not None and not deferred.gathered:
            forgotten.add(deferred.relation)
            commit = replace(commit, bases={**commit.bases, deferred.relation: (4, {})})
        begin = epoch if since is None or not all(map(is_of_totals, commit.forgotten)) else since

        def register() -> None:
            self._catalog.set_since(name, begin)
            self._catalog.set_refreshed(name, epoch)

        self._write(replace(commit, forgotten=forgotten), register)
        self._rebase(content, commit.bases.keys())
        return begin

    def _left_over(self, content: Materialization) -> set[str]:
        """Relations of a content that older versions stored."""
        names = all_names(content)
        keys = {name.partition("/")[0] for name in names}
        return {name for name in self._catalog.bases() if name.partition("/")[0] in keys} - names

    def _contents(self, content: Materialization, epoch: int, new: Set[str]) -> Commit:
        """The relations of a content that are new or not in the store, ready to commit."""
        fresh = {
            key: (width, rows)
            for key, width, rows in content.relations()
            if key in new or not self._catalog.has(key)
        }
        runs = [*self.store.staged_terms]
        bases: dict[str, tuple[int, Mapping[Row, int] | Run | None]] = {}
        for key, (width, rows) in fresh.items():
            if isinstance(rows, Saved):
                runs += rows.files
                bases[key] = (width, None if rows.files else rows.few())
            else:
                bases[key] = (width, _whole(rows))
        return Commit(epoch, **self._new_terms(), runs=runs, bases=bases, forgotten=fresh.keys())

    def _new_terms(self) -> dict[str, Any]:
        """The part of a commit with the terms that are not in the store yet."""
        terms, columns, exceptions = self._dictionary.journal()
        return {"terms": terms, "term_columns": columns, "exceptions": exceptions}

    def drop(self, name: str, content: Materialization, epoch: int) -> None:
        """Drops a view, and the relations that no other view uses."""
        with self._catalog.transaction():
            self._catalog.forget_view(name)
            self._catalog.set_owner(name, None)
            for relation in (*unshared_names(content), gathered_name(name)):
                self._catalog.forget_relation(relation, epoch)
        self.store.remove_other_maps()

    def forget(self, relations: Set[str], views: Iterable[str] = ()) -> None:
        """Deletes relations, which are recomputed when they are needed.

        `views`: those whose history is deleted too.
        """
        with self._catalog.transaction():
            for name in relations:
                self._catalog.forget_relation(name, self._catalog.epoch())
            for name in views:
                self._catalog.set_since(name, self._catalog.epoch())

    # Deferred views

    def has_gathered_all(self, name: str, deferred: Deferred) -> bool:
        """Whether the store has the changes of every epoch that a deferred view has not seen.

        Older versions could refresh a view while its store opened, and the store missed it; and two views
        of one product shared their history.
        """
        catalog = self._catalog
        base = catalog.base(deferred.relation)
        if base is None or catalog.refreshed(name) > catalog.epoch():
            return False
        if catalog.meta(REFRESHES) is None:
            return False
        seen = catalog.delta_epochs(deferred.relation, base.epoch)
        return catalog.change_epochs(base.epoch) <= seen

    def trust_refreshes(self) -> None:
        """Records that no refresh is missing: deferred views that may lack one were computed again."""
        if self._catalog.meta(REFRESHES) is None:
            with self._catalog.transaction():
                self._catalog.set_meta(REFRESHES, "1")

    def is_beyond(self, content: Materialization, epoch: int) -> bool:
        """Whether a stored relation of a content belongs to a later epoch."""
        return any(self._catalog.last_epoch(name) > epoch for name in all_names(content))

    def load_deferred(self, name: str, deferred: Deferred) -> None:
        """Loads the changes that a deferred view has not seen yet."""
        saved = self.store.relation(deferred.relation)
        gathered = {} if saved is None else saved.rows()
        deferred.load(gathered, self._catalog.refreshed(name) if gathered else self._catalog.epoch())

    def refresh(self, name: str, deferred: Deferred, epoch: int, failed: Iterable[Materialization]) -> None:
        """Makes the refresh of a view durable."""
        forgotten = names_of_failed(failed)
        deltas = {key: delta for key, delta in deferred.registry.staged().items() if key not in forgotten}
        forgotten = {*forgotten, deferred.relation}
        bases = {deferred.relation: (4, dict[Row, int]())}
        commit = Commit(epoch, deltas=deltas, **self._new_terms(), forgotten=forgotten, bases=bases)
        self._write(commit, lambda: self._catalog.set_refreshed(name, epoch))

    # Reading while another process writes

    def _mapped(self, runs: Sequence[RunFile]) -> QuadMaps | None:
        """Maps new files of quads; if Spark compacts, only where this process reads quads."""
        if self.data.maps is None and self.compactor.runs_elsewhere:
            return None
        return self.data.mapped(runs)

    def _moved(self, maps: QuadMaps | None, relations: Set[str]) -> None:
        """Switches to new files; the old ones may be removed now. `relations` have new bases."""
        self.data.moved(maps)
        self.pins.move()
        for content in self._contents_in_use():
            self._rebase(content, relations)
        if self._assertions is not None:
            self._rebase_assertions(self._assertions, relations)
        self.store.remove_other_maps()

    def _rebase_assertions(self, assertions: Assertions, relations: Set[str]) -> None:
        try:
            if ASSERTED in relations:
                self._move_assertions()
            if LOCAL in relations:
                assertions.local.rebase(self.store.mapped(LOCAL))
        except StoreFailed as error:
            _log.warning(_NOT_MOVED, error)

    def _rebase(self, content: Materialization, relations: Set[str]) -> None:
        """Has a content read new bases, if they are in files."""
        catalog = self._catalog

        def mapped(name: str) -> Relation | None:
            return self.store.mapped(name) if name in relations and catalog.runs(name) else None

        try:
            content.rebase(mapped)
        except StoreFailed as error:  # the commit succeeded; the rows stay where they are
            _log.warning(_NOT_MOVED, error)

    def follow(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` whenever the writer has committed."""
        self._poller = Poller(self._catalog.poll(), on_change)

    def advance(self) -> int:
        """Moves to the store's last epoch; returns its number."""
        self.pins.move()
        return self.data.advance()

    def changed(self, content: Materialization, since: int) -> bool:
        """Whether a content has a delta after an epoch."""
        parts = content.parts if isinstance(content, Product) else []
        return any(self._catalog.delta_rows(one.name, since) for one in (content, *parts))

    # History

    def history(
        self, content: Materialization, since: int, until: int
    ) -> Iterator[tuple[int, dict[Row, int]]]:
        """The deltas of a content's rows after epoch `since`, up to epoch `until`."""
        for epoch, rows in self.store.deltas(content.name, since, until):
            yield epoch, {tuple(row): weight for *row, weight in rows.tolist()}

    # Compaction

    def _history_end(self) -> int:
        """The epoch up to which history is deleted."""
        epoch = self._catalog.epoch() - self._retention.epochs
        if self._retention.seconds is not None:
            epoch = max(epoch, self._catalog.epoch_before(time.time() - self._retention.seconds))
        return epoch

    # Batches of streams

    def record(self, batch: tuple[str, int] | None, epoch: int, notes: Mapping[str, str]) -> None:
        """Records a stream's batch, or a source's report, that changed nothing."""
        with self._catalog.transaction():
            if batch is not None:
                self._catalog.add_batch(*batch, epoch)
            for key, note in notes.items():
                self._catalog.set_meta(key, note)

    def close(self) -> None:
        """Closes the store after a running compaction; the caller must not hold the session's lock."""
        if self._poller is not None:
            self._poller.stop()
        self.compactor.wait()
        self.pins.release()
        self.store.close()


def _whole(rows: Any) -> dict[Row, int] | Run:
    run = rows.whole() if isinstance(rows, Relation) else None
    return dict(rows.items()) if run is None else run
