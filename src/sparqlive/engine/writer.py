"""The writer: turns requested changes into a committed epoch.

Owns the current epoch and the lock under which it changes. A batch is staged, carried to the views that it
affects, and committed; or nothing changes at all. While it is carried, others can read the epoch before it
(`capturing`). Invariant: between calls, every view equals its query evaluated on the current quads, and
belongs to the current epoch, unless it is deferred.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sparqlive.engine.assertions import Assertions
from sparqlive.engine.batches import (
    NO_CHANGES,
    Batch,
    BatchNumber,
    CommittedBatches,
    IdChanges,
    by_columns,
)
from sparqlive.engine.budget import Budget
from sparqlive.engine.carry import (
    NO_OUTCOME,
    BulkChoice,
    CarryResult,
    Outcome,
    Strategies,
)
from sparqlive.engine.deferred import Refresher
from sparqlive.engine.epoch import Deltas, Epoch
from sparqlive.engine.export import BulkData
from sparqlive.engine.net_changes import NetChanges
from sparqlive.engine.results import Delta
from sparqlive.engine.sweeping import Sweeper
from sparqlive.engine.view_state import ViewState
from sparqlive.engine.views import Views
from sparqlive.errors import Closed, Error
from sparqlive.live.terms import Terms
from sparqlive.quads.current import Change, Quads, inserts_of
from sparqlive.rdf.reserved import LINKS, Gate
from sparqlive.runtime.collector import SettledObjects, collector_paused
from sparqlive.runtime.interrupts import uninterrupted
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles
    from sparqlive.engine.persistence import Persistence

_WAIT_SECONDS = 0.01
"""Lock timeout of `capturing`, before it checks whether an epoch is being carried."""
_NOT_CARRIED = CarryResult({}, {}, {})
"""An epoch of a session without views."""


class Writer:
    def __init__(self, terms: Terms, spark: Any, bulk: BulkChoice, read_only: bool, memory: int) -> None:
        self.epoch = 0
        self.lock = threading.RLock()
        """Only for the store, which has its own locks; all other code uses `reading` and `changing`."""
        self._capturing = threading.Lock()
        self._is_carrying = False
        """Whether an epoch is being carried or written, and not yet visible. Cleared under `_capturing`."""
        self.closed = False
        self.read_only = read_only
        self.terms = terms
        self.tuning = terms.tuning
        self.quads = Quads(self.tuning)
        # A reader evaluates no delta rules: its contents come from the store and need no quads in memory.
        self.carried_quads = Quads(self.tuning) if read_only else self.quads
        self.budget = Budget(memory, self.quads, terms.dictionary.id_of)
        self.views = Views(self.carried_quads, terms)
        self.assertions = Assertions(self.tuning)
        self._bulk_data = BulkData(self.quads, terms.dictionary)
        self.strategies = Strategies(self._bulk_data, spark, bulk, memory)
        self.persistence: Persistence | None = None
        self.scratch = ExitStack()
        """Files that others read until the session is closed."""
        self._observers: list[Callable[[Epoch], None]] = []
        self._witnesses: list[Callable[[str | None, Mapping[Row, int]], None]] = []
        self.net_changes = NetChanges()
        self._advanced = threading.Condition(self.lock)
        self._waiting = 0
        """The number of threads that wait for an epoch."""
        self._begun = 0.0
        self._committed_batches = CommittedBatches()
        self._gate = Gate(terms.dictionary)
        self._settled_objects = SettledObjects()
        self.refresher = Refresher(self)
        self.sweeper = Sweeper(self)

    def attach(self, persistence: Persistence) -> None:
        """Writes epochs into a store from now on."""
        self.persistence = persistence
        persistence.attach(lambda: self.views.readers)
        self._bulk_data.attach(persistence.data)
        if self.strategies.has_spark_setting and not self.read_only:
            persistence.compactor.run_by(
                lambda tasks, work, what: self.strategies.workers()[0].each(tasks, work, what)
            )

    def keep_in_store(self, persistence: Persistence) -> None:
        """Allows contents that stay in a store, from now on."""
        from sparqlive.engine.file_views import FileViews  # imported late because it is slow to import

        self.views.attach(FileViews(persistence, self.quads, self.terms))

    def used_bytes(self) -> int:
        """The memory of what sources assert, of held contents, and of the quads that they read."""
        held = self.quads.nbytes + self.views.held_bytes() if self.reads_changes else 0
        return self.assertions.nbytes + held

    def observe(self, observer: Callable[[Epoch], None]) -> None:
        """Calls an observer, under the lock, with each epoch and each refresh of a deferred view."""
        self._observers.append(observer)

    def witness(self, witness: Callable[[str | None, Mapping[Row, int]], None]) -> None:
        """Calls a witness, under the lock, with what each source (None: `local`) asserts or withdraws."""
        self._witnesses.append(witness)

    # Writing

    def commit(self, batch: Batch) -> Epoch:
        """Commits a batch as an epoch, unless it changes nothing or was committed before."""
        with self.lock, uninterrupted, collector_paused():
            self.ensure_open()
            if batch.number is not None and self._knows(batch.number):
                return self.unchanged()
            self._begun = time.perf_counter() if batch.begun is None else batch.begun
            if batch.files is not None:
                return self._commit_files(batch, batch.files)
            wanted, given = batch.encoded(self.terms.dictionary)
            changes = self._effective(wanted, batch.source) if given else ()
            ignored = given - len(changes)
            if not changes and not self.assertions.staged():
                self._record(batch)
                return self.unchanged(ignored)
            asserted = self.assertions.staged_by(batch.source, changes) if self._witnesses else {}
            try:
                epoch = self._carry(changes, ignored, batch)
            except BaseException:
                self.assertions.rollback()
                raise
            for witness in self._witnesses:
                witness(batch.source, asserted)
            return epoch

    def committed(self, number: BatchNumber) -> Epoch | None:
        """What committing a known batch returns, so that it need not be read; None if it is new."""
        with self.lock:
            self.ensure_open()
            return self.unchanged() if self._knows(number) else None

    def _effective(self, wanted: IdChanges, source: str | None) -> Sequence[Change]:
        """The requested changes that change something; a large batch as columns."""
        if source is not None or self.assertions:
            if type(wanted) is ColumnRows:
                wanted = {(s, p, o, g): weight for s, p, o, g, weight in wanted}
            if source != LINKS.value:
                self._gate.check(wanted)
            return self.quads.effective(self.assertions.resolve(source, wanted, self.quads.present))
        if type(wanted) is not ColumnRows:
            if len(wanted) < self.tuning.column_rows:
                self._gate.check(wanted)
                return self.quads.effective(wanted)
            wanted = by_columns(wanted)
        _, predicates, _, graphs, weights = wanted.columns
        inserted = weights > 0
        self._gate.check_names(np.unique(predicates[inserted]).tolist(), np.unique(graphs[inserted]).tolist())
        return self.quads.effective_columns(wanted)

    def unchanged(self, ignored: int = 0, rejected: int = 0) -> Epoch:
        return Epoch(self.epoch, 0, 0, ignored, Deltas(self.epoch, {}, self.views), rejected=rejected)

    def _knows(self, number: BatchNumber) -> bool:
        """Whether a batch was committed before."""
        if self.persistence is not None:
            return self.persistence.store.catalog.batch_epoch(*number) is not None
        return number in self._committed_batches

    def _record(self, batch: Batch) -> None:
        """Records a batch or a report that changed nothing."""
        if self.persistence is not None and (batch.number is not None or batch.notes):
            self.persistence.record(batch.number, self.epoch, batch.notes)
        elif batch.number is not None:
            self._committed_batches.add(batch.number)

    def _carry(self, changes: Sequence[Change], ignored: int, batch: Batch) -> Epoch:
        """Carries an epoch to all contents, and commits it.

        If workers wrote its changes into files, `changes` are those that this process needs.
        """
        number, files = self.epoch + 1, batch.files
        if not self.views.readers and files is None:
            self._save(number, changes, batch, _NOT_CARRIED, NO_OUTCOME)
            self.quads.add(changes)
            return self._advance(number, changes, ignored, {}, _NOT_CARRIED)
        registry, temporary = self.views.registry, self.views.temporary
        self.quads.stage(changes)
        try:
            self._is_carrying = True  # from now on, others can capture the last epoch
            try:
                carried = self.strategies.carry(registry, changes, batch.strategy)
                if files is not None and self.strategies.has_spark_setting:
                    carried.otherwise = "spark"
                results, failed = carried.deltas, carried.failed
                if temporary.is_used:
                    of_temporary = temporary.carry(len(changes), self.strategies)
                    results = {**results, **of_temporary.deltas}
                    failed = {**failed, **of_temporary.failed}
                if files is None and not self.views.file_views:
                    self._save(number, changes, batch, carried, NO_OUTCOME)
            finally:
                with self._capturing:
                    self._is_carrying = False
            if self.views.file_views:
                with self._carry_file_views(changes, batch, carried) as outcome:
                    results = {**results, **outcome.deltas}
                    self._save(number, changes, batch, carried, outcome)
            elif files is not None:
                self._save(number, changes, batch, carried, NO_OUTCOME)
        except BaseException:
            registry.rollback()
            temporary.registry.rollback()
            self.quads.rollback()
            raise
        changed = self.views.record(number, results)
        registry.commit()
        if temporary.is_used:
            temporary.registry.commit()
        self.quads.commit()
        if files is not None:
            self._leave_in_files(files, changes)
        if failed:
            self.views.fail(failed, number)
        return self._advance(number, changes, ignored, changed, carried, files)

    def _leave_in_files(self, files: ChangeFiles, staged: Sequence[Change]) -> None:
        """Leaves quads of an epoch that no plan reads in the files that workers wrote."""
        assert self.persistence is not None
        if not staged:
            self.quads.count(files.inserted, files.deleted)
            self.persistence.data.committed_files()
        if files.are_base and not self.strategies.has_spark_setting:
            self.persistence.data.map_ahead()  # Spark's files may be larger than what one machine can map
        self.net_changes.forget()

    @contextmanager
    def _carry_file_views(
        self, changes: Sequence[Change], batch: Batch, carried: CarryResult
    ) -> Iterator[Outcome]:
        """Carries an epoch to the contents that stay in the store; their files exist during the block."""
        from sparqlive.bulk.in_store import Changes
        from sparqlive.engine.file_views import changes_in

        given = Changes.given(changes) if batch.files is None else changes_in(batch.files)
        file_views, number, strategy = self.views.file_views, self.epoch + 1, batch.strategy
        assert file_views is not None
        way = self.strategies.file_backend(strategy, self.quads.size, given.count)
        with file_views.attempt() as folder:
            outcome = self.strategies.by_files(
                way, strategy, lambda way: file_views.carry(number, given, way, folder)
            )
            carried.choices.update(outcome.choices)
            yield outcome

    def _save(
        self,
        number: int,
        changes: Sequence[Change],
        batch: Batch,
        carried: CarryResult,
        outcome: Outcome,
    ) -> None:
        """Makes the current epoch durable before it becomes visible."""
        if self.persistence is not None:
            note = {m.key: asdict(choice) for m, choice in carried.choices.items()}
            deltas = self.views.registry.staged() if self.views.readers else {}
            if self.views.later:
                unseen: dict[Row, int] = {change[:4]: change[4] for change in changes}
                deltas.update({deferred.relation: (4, unseen) for deferred in self.views.later.values()})
            deltas.update(self.assertions.staged())
            strategy, failed = carried.summary(), carried.failed
            self.persistence.commit(number, changes, deltas, strategy, note, batch, failed, outcome.relations)
        elif batch.number is not None:
            self._committed_batches.add(batch.number)

    def _advance(
        self,
        number: int,
        changes: Sequence[Change],
        ignored: int,
        changed: Mapping[str, Delta],
        carried: CarryResult,
        files: ChangeFiles | None = None,
    ) -> Epoch:
        """Moves the session to the new epoch, and notifies the observers."""
        self.moved_to(number)
        self.assertions.commit()
        self._bulk_data.record(changes)
        self.refresher.gather(changes, number)
        self.net_changes.add(changes)
        inserted, count, rejected = inserts_of(changes), len(changes), 0
        if files is not None:
            inserted, count, rejected = files.inserted, len(files), files.rejected
        deltas = Deltas(number, changed, self.views)
        strategy, choices = carried.summary(), self.views.note_choices(number, carried.choices)
        seconds = time.perf_counter() - self._begun
        epoch = Epoch(
            number, inserted, count - inserted, ignored, deltas, strategy, choices, rejected, seconds
        )
        self.sweeper.count(count)
        self._notify(epoch)
        return epoch

    def _notify(self, epoch: Epoch) -> None:
        for observer in self._observers:
            observer(epoch)

    def _commit_files(self, batch: Batch, files: ChangeFiles) -> Epoch:
        """Commits changes that workers wrote."""
        assert self.persistence is not None
        if not files.are_base and not self.can_read_by_workers:
            raise Error("A source was added while workers read the batch. Load or apply it again.")
        ignored = (files.distinct if batch.counts_each else files.given) - len(files)
        if not len(files) and not files.are_base:
            self._record(batch)
            return self.unchanged(ignored, files.rejected)
        changes = files.rows() if self.reads_changes and not files.are_base else NO_CHANGES
        with self.persistence.data.staged(files):
            return self._carry(changes, ignored, batch)

    @property
    def can_read_by_workers(self) -> bool:
        """Whether workers can find the changes of a batch: see `engine/incoming.py`."""
        is_alone = not self.assertions and not self._witnesses
        return self.persistence is not None and not self.read_only and is_alone

    @property
    def is_blank(self) -> bool:
        """Whether files can become the runs of the store as they are."""
        return not self.views.readers and self.quads.is_blank()

    @property
    def reads_changes(self) -> bool:
        """Whether something in this process needs the changes of every epoch."""
        return bool(
            self.views.registry.is_used
            or self.views.temporary.is_used
            or self.views.later
            or self.quads.is_read
        )

    def moved_to(self, epoch: int) -> None:
        """Sets the current epoch, and wakes the threads that wait for it. The caller holds the lock."""
        self.epoch = epoch
        if self._waiting:
            self._advanced.notify_all()

    def settle(self) -> None:
        """Excludes present objects from garbage collection, after a load or a new view."""
        self._settled_objects.settle(self.quads.size)

    def refreshed(self, view: ViewState, delta: Delta, carried: CarryResult, seconds: float) -> None:
        """Announces that a deferred view has reached the current epoch. The caller holds the lock."""
        self.views.fail(carried.failed, self.epoch)
        self._advanced.notify_all()
        deltas = Deltas(self.epoch, {view.name: delta} if delta else {}, self.views)
        self._notify(Epoch(self.epoch, 0, 0, 0, deltas, carried.summary(), seconds=seconds))

    def forget_terms(self) -> None:
        """Forgets what depends on terms that may be given back; called under the lock."""
        self._bulk_data.close()
        self._gate.forget()

    # Reading and closing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which all reads belong to one epoch."""
        with self.lock:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Context in which shared state changes as a whole: no epoch runs, and interrupts wait."""
        with self.lock, uninterrupted:
            yield

    @contextmanager
    def capturing(self) -> Iterator[bool]:
        """Context in which snapshots of quads and contents can be taken, all of one epoch; for a moment.

        Takes the lock and yields False. If another thread is carrying an epoch, yields True without the lock:
        then only quads, and contents that are `capturable`, can be captured, as of the epoch before. The
        block must not take the lock.
        """
        while not self.lock.acquire(timeout=_WAIT_SECONDS):
            with self._capturing:
                if self._is_carrying:
                    yield True
                    return
        try:
            yield False
        finally:
            self.lock.release()

    def pinned(self) -> AbstractContextManager[None]:
        """Context in which the store's files of the current epoch stay. Entered under the lock."""
        if self.persistence is None:
            return nullcontext()
        return self.persistence.pins.pinned()

    def wait_beyond(self, view: ViewState, epoch: int) -> bool:
        """Waits until a view is at a later epoch; returns False when the session is closed."""
        with self._advanced:
            self._waiting += 1
            try:
                self._advanced.wait_for(lambda: self.closed or view.epoch > epoch)
            finally:
                self._waiting -= 1
            return not self.closed

    def ensure_open(self) -> None:
        if self.closed:
            raise Closed("The session is closed. Open a new one.")

    def ended_by_fork(self) -> bool:
        """Whether this process was forked from the one that opened the store, which keeps the session."""
        if self.persistence is None or not self.persistence.store.catalog.is_forked:
            return False
        self.closed = True
        return True

    def close(self) -> None:
        """Ends the epochs; closing it again does nothing."""
        with self._advanced:
            self.refresher.stop()
            self._settled_objects.unsettle()
            self.views.unlimit()
            was_closed, self.closed = self.closed, True
            self._advanced.notify_all()
        if not was_closed:  # without the lock, which a running compaction may need
            if self.persistence is not None:
                self.persistence.close()
            self._bulk_data.close()
            self.scratch.close()
