"""Compaction in the background, without blocking the writer for long.

Owns the thread, and decides when compaction is due. Files are written without the session's lock, from a
snapshot of the catalog. The lock is held for the transaction that registers the new runs, and to delete
history, some epochs at a time. Invariant: at most one compaction runs at a time. One that fails leaves the
store unchanged, and is tried again later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any

from sparqlive.errors import StoreFailed
from sparqlive.runtime.interrupts import uninterrupted
from sparqlive.runtime.memory import give_back
from sparqlive.store.compaction import Each, Folded, FoldedTerms, fold, fold_terms, unfolded_rows
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.runs import QUADS, RunFile, is_read_whole
from sparqlive.store.store import Store
from sparqlive.store.tables import Tables
from sparqlive.zset.run import Run

_log = logging.getLogger("sparqlive.store")


class Compactor:
    def __init__(
        self,
        store: Store,
        lock: AbstractContextManager[Any],
        mapped: Callable[[Sequence[RunFile]], QuadMaps | None],
        moved: Callable[[QuadMaps | None, Set[str]], None],
        kept_from: Callable[[], int],
        memory: int,
    ) -> None:
        """Calls `mapped` to map new files of quads, then `moved` with the result, under the lock.

        `moved` also gets the names of the relations that have new bases. Deletes history before `kept_from`.
        `memory`: the bytes that the session may use, including changes after the files.
        """
        self._each: Each | None = None
        self._store = store
        self._lock = lock
        self._mapped = mapped
        self._moved = moved
        self._kept_from = kept_from
        self._memory = memory
        self._tuning = store.tuning
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None
        self._rows = store.catalog.change_rows(store.quads_epoch())
        self._epochs = 0

    def run_by(self, each: Each) -> None:
        """From now on, uses `each` to run the tasks of a compaction, except small ones."""
        self._each = each

    @property
    def runs_elsewhere(self) -> bool:
        return self._each is not None

    def count_epoch(self, rows: int) -> None:
        """Counts an epoch, and starts a compaction if one is due; called under the lock."""
        self._rows += rows
        self._epochs += 1
        is_due = self._rows > self._tuning.compacted_rows or self._epochs > self._tuning.compacted_epochs
        if is_due and self._thread is None:
            self._rows = self._epochs = 0
            self._thread = threading.Thread(target=self._in_background, name="sparqlive-compact", daemon=True)
            self._thread.start()

    def _in_background(self) -> None:
        try:
            self.run(everything=False)
        except StoreFailed as error:
            _log.warning("Compaction failed and will be tried again: %s", error)
        finally:
            self._thread = None

    def wait(self) -> None:
        """Waits until a running compaction has ended."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def run(self, everything: bool) -> None:
        """Folds the relations that are worth it, or all; the caller must not hold the session's lock."""
        with self._one_at_a_time, self._store.attempt() as folder:
            with self._store.catalog.snapshot() as snapshot:
                relations = [name for name in snapshot.bases() if everything or self._pays(snapshot, name)]
                target, epoch = self._store.target(folder), snapshot.epoch()
                terms = fold_terms(target, snapshot, self._each)
                self._store.map_terms(terms.runs)
                candidates = (fold(target, snapshot, name, epoch, self._each) for name in relations)
                folded = [one for one in candidates if one is not None]
                runs = {run.path: run for run in snapshot.runs(QUADS)}
                bases = self._map_bases(snapshot, folded)
            for one in folded:
                if one.relation == QUADS:
                    runs = _replaced(runs, one.replaced, one.runs)
            maps = self._mapped(list(runs.values()))
            with self._lock, uninterrupted:
                self._install(folded, terms)
                self._moved(maps, {one.relation for one in folded})
            del bases
            if maps is not None:
                maps.remove_others()
        self._forget()
        give_back()

    def _pays(self, snapshot: Tables, relation: str) -> bool:
        base = snapshot.base(relation)
        assert base is not None
        in_files = sum(run.rows for run in snapshot.runs(relation))
        waiting = unfolded_rows(snapshot, relation, base.epoch)
        fills_memory = waiting * self._tuning.waiting_bytes > self._memory
        return fills_memory or waiting * self._tuning.rewritten_part > in_files

    def _map_bases(self, snapshot: Tables, folded: Iterable[Folded]) -> list[Run]:
        """Maps the new bases of the relations that the session reads from maps."""
        maps, mapped = self._store.maps, list[Run]()
        for one in folded:
            files = _replaced({run.path: run for run in snapshot.runs(one.relation)}, one.replaced, one.runs)
            in_order = sorted(files.values(), key=lambda run: run.first)
            mapped += maps.renewed(one.relation, one.width, in_order)
        return mapped

    def _install(self, folded: Iterable[Folded], terms: FoldedTerms) -> None:
        """Replaces the folded inputs by the results, for relations that have not changed meanwhile."""
        catalog = self._store.catalog
        epoch = catalog.epoch()
        with catalog.transaction():
            for one in folded:
                base = catalog.base(one.relation)
                inputs = [run.path for run in catalog.runs(one.relation)]
                if base is None or base.epoch != one.base or one.inputs != inputs:
                    continue
                catalog.forget_runs(one.replaced, epoch)
                catalog.set_base(one.relation, one.epoch, one.width, one.rows)
                for run in one.runs:
                    catalog.add_run(run)
            catalog.forget_runs(terms.replaced, epoch)
            for run in terms.runs:
                catalog.add_run(run)
            catalog.forget_terms(terms.last)

    def _forget(self) -> None:
        """Deletes expired history, and folded deltas of relations that are only read as a whole.

        Changes that are not folded yet stay.
        """
        catalog, more, most = self._store.catalog, True, self._tuning.forgotten_epochs
        while more:
            with self._lock, uninterrupted, catalog.transaction():
                until = min(self._kept_from(), self._store.quads_epoch())
                more = catalog.forget_history(until, most)
                for name in filter(is_read_whole, catalog.bases()):
                    more |= catalog.forget_folded(name, most)
        with self._lock, uninterrupted:
            self._store.remove_orphans()


def _replaced(
    runs: Mapping[str, RunFile], old: Iterable[RunFile], new: Iterable[RunFile]
) -> dict[str, RunFile]:
    """Replaces some files by others; returns all files by path."""
    gone = {run.path for run in old}
    return {path: run for path, run in runs.items() if path not in gone} | {run.path: run for run in new}
