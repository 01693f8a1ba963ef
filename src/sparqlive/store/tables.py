"""The tables of a catalog: epochs, the change log, terms, runs, views and deltas, as rows in SQLite.

Owns what the rows mean; `store/catalog.py` owns the database, its lock and its transactions, `store/seals.py`
the seal of each row. Invariant: every value is compared with its seal before it is returned,
unless a method says otherwise.
"""

from __future__ import annotations

import json
import sqlite3
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sparqlive.errors import StoreFailed
from sparqlive.rdf.dictionary import hash_of
from sparqlive.store.runs import QUADS, RunFile
from sparqlive.store.seals import NO_EPOCH, Damaged, Sealed
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.run import Column, RunRows

Rows = Mapping[tuple[int, ...], int]
_LAST = 2**62
"""An epoch after all others."""


@dataclass(frozen=True)
class Base:
    """The base of a relation's deltas: its content as of an epoch, in runs, or here if it is small."""

    epoch: int
    width: int
    rows: Column | None


class Tables:
    """The tables of the catalog at a path, read and written by one connection at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def use(self, database: sqlite3.Connection) -> None:
        """Switches to another connection."""
        self._database = database
        self._sealed = Sealed(database, self._path)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which all reads belong to one epoch, even while another process writes."""
        with self._sealed.in_use:
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with self._sealed.in_use:
                self._database.execute("COMMIT")

    def last_commit(self) -> tuple[int, int]:
        """The number and root of the last commit."""
        return self._sealed.load()

    # Meta

    def meta(self, key: str) -> str | None:
        rows = self._sealed.rows("meta", "key = ?", (key,))
        return str(rows[0][1]) if rows else None

    def metas(self, prefix: str) -> list[str]:
        """The non-empty values of all keys that start with `prefix`; removed entries are empty."""
        where, values = "substr(key, 1, ?) = ?", (len(prefix), prefix)
        return [value for _, value in self._sealed.rows("meta", where, values, "ORDER BY key") if value]

    def set_meta(self, key: str, value: str) -> None:
        self._sealed.add("meta", (key, value))

    # Epochs and changes

    def epoch(self) -> int:
        """The last epoch. Epochs are numbered from 1, and are never removed."""
        last = int(self._sealed.value("SELECT max(number) FROM epochs") or 0)
        if last != self._sealed.total("epochs")[0]:
            raise Damaged(self._path, "epochs are missing")
        return last

    def add_epoch(
        self,
        number: int,
        counts: tuple[int, int],
        strategy: str,
        note: Mapping[str, Any],
        changes: Sequence[Sequence[int]] | None,
    ) -> None:
        """Adds an epoch and its changes; None if runs of the same transaction hold the changes."""
        text = json.dumps(note) if note else "{}"
        self._sealed.add("epochs", (number, time.time(), *counts, strategy, text))
        if changes is not None:
            self._sealed.add("changes", (number,), packed_changes(changes))

    def deletes(self, epoch: int) -> int:
        """The number of quads that an epoch deleted."""
        return int(self._sealed.rows("epochs", "number = ?", (epoch,))[0][3])

    def epoch_before(self, time: float) -> int:
        """The last epoch before a time."""
        number = int(self._sealed.value("SELECT max(number) FROM epochs WHERE time < ?", (time,)) or 0)
        self._sealed.rows("epochs", "number = ?", (number,))
        return number

    def changes(self, since: int, until: int | None = None) -> Iterator[tuple[int, Column | list[RunFile]]]:
        """The changes of each epoch after `since`: rows of s, p, o, g, w, or the files that hold them."""
        last = _LAST if until is None else until
        changes: dict[int, Column | list[RunFile]] = {
            epoch: np.frombuffer(blob, np.int64).reshape(-1, 5)
            for epoch, blob in self._sealed.rows("changes", "epoch > ? AND epoch <= ?", (since, last))
        }
        yield from sorted((changes | self._delta_runs(QUADS, since, last)).items())

    def change_rows(self, since: int) -> int:
        """The number of changes after an epoch."""
        query = "SELECT coalesce(sum(length(quads)), 0) FROM changes WHERE epoch > ?"
        return int(self._sealed.value(query, (since,))) // 40 + self._rows_in_files(QUADS, since)

    # Terms

    def add_terms(self, terms: Sequence[tuple[int, str]], exceptions: Sequence[tuple[str, int]]) -> None:
        if terms:
            self._sealed.add_terms(terms)
        for exception in exceptions:
            self._sealed.add("exceptions", exception)

    def terms(self) -> list[tuple[int, str]]:
        terms = [(number, text) for _, number, text in self._sealed.terms()]
        check_terms(terms, dict(self.exceptions()), str(self._path))
        return terms

    def last_term(self) -> int:
        return int(self._sealed.value("SELECT coalesce(max(number), 0) FROM terms"))

    def exceptions(self) -> list[tuple[str, int]]:
        return [(text, number) for text, number in self._sealed.rows("exceptions")]

    # Relations and their runs

    def set_base(self, name: str, epoch: int, width: int, rows: Rows | None) -> None:
        """Sets the base of a relation's deltas; `rows` is None if it is in runs."""
        self._sealed.add("relations", (name, epoch, width), None if rows is None else packed_rows(rows))

    def begin(self, name: str, width: int) -> None:
        """Adds an empty relation, unless it exists."""
        if not self.has(name):
            self._sealed.add("relations", (name, -1, width))

    def base(self, name: str) -> Base | None:
        rows = self._sealed.rows("relations", "name = ?", (name,))
        if not rows:
            return None
        ((_, epoch, width, blob),) = rows
        return Base(
            epoch, width, None if blob is None else np.frombuffer(blob, np.int64).reshape(-1, width + 1)
        )

    def base_rows(self, name: str) -> int:
        """The number of rows of a relation's base; its content is not verified."""
        query = "SELECT coalesce(sum(length(rows) / (8 * (width + 1))), 0) FROM relations WHERE name = ?"
        in_files = "SELECT coalesce(sum(rows), 0) FROM runs WHERE relation = ? AND epoch = ?"
        rows = self._sealed.value(query, (name,)), self._sealed.value(in_files, (name, NO_EPOCH))
        return int(rows[0]) + int(rows[1])

    def has(self, name: str) -> bool:
        """Whether a relation exists; its content is not verified."""
        return bool(self._sealed.value("SELECT count(*) FROM relations WHERE name = ?", (name,)))

    def bases(self) -> dict[str, int]:
        """The epoch of each relation's base."""
        return dict(self._sealed.pairs("SELECT name, epoch FROM relations"))

    def relations(self) -> set[str]:
        """The names of all relations, including those that have only deltas."""
        return {*self.bases(), *self.delta_relations()}

    def add_run(self, run: RunFile) -> None:
        epoch = NO_EPOCH if run.epoch is None else run.epoch
        row = (run.relation, epoch, run.path, run.rows, run.bytes, json.dumps(run.first))
        self._sealed.add("runs", row, run.digests)

    def runs(self, relation: str) -> list[RunFile]:
        """The files of a relation's base in the order of their rows."""
        return self._runs("relation = ? AND epoch = ?", (relation, NO_EPOCH))

    def all_runs(self) -> list[RunFile]:
        """The files of all bases and deltas."""
        return self._runs("true", ())

    def _runs(self, where: str, values: tuple[Any, ...]) -> list[RunFile]:
        runs = [
            RunFile(
                path,
                name,
                count,
                size,
                tuple(json.loads(first)),
                digests,
                None if epoch == NO_EPOCH else epoch,
            )
            for name, epoch, path, count, size, first, digests in self._sealed.rows("runs", where, values)
        ]
        return sorted(runs, key=lambda run: (run.relation, run.first, run.path))

    def _delta_runs(self, relation: str, since: int, until: int) -> dict[int, list[RunFile]]:
        """The files of a relation's deltas after `since`, by epoch."""
        runs_by_epoch: dict[int, list[RunFile]] = {}
        where = "relation = ? AND epoch > ? AND epoch <= ?"
        for run in self._runs(where, (relation, max(since, NO_EPOCH), until)):
            assert run.epoch is not None
            runs_by_epoch.setdefault(run.epoch, []).append(run)
        return runs_by_epoch

    def _rows_in_files(self, relation: str, since: int) -> int:
        query = "SELECT coalesce(sum(rows), 0) FROM runs WHERE relation = ? AND epoch > ?"
        return int(self._sealed.value(query, (relation, max(since, NO_EPOCH))))

    def forget_runs(self, runs: Iterable[RunFile], epoch: int) -> None:
        """Marks files as replaced after an epoch; they stay until no reader needs older epochs."""
        for run in runs:
            key = (run.relation, NO_EPOCH if run.epoch is None else run.epoch, run.path)
            self._sealed.delete("runs", "relation = ? AND epoch = ? AND path = ?", key)
            self._sealed.add("replaced", (run.path, epoch))

    def replaced(self) -> dict[str, int]:
        return dict(self._sealed.rows("replaced"))

    def forget_replaced(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._sealed.delete("replaced", "path = ?", (path,))

    def forget_relation(self, name: str, epoch: int) -> None:
        self.forget_runs(self._runs("relation = ?", (name,)), epoch)
        self._sealed.delete("relations", "name = ?", (name,))
        self._sealed.forget_deltas(name)

    # Views and deltas

    def add_view(self, name: str, text: str, base: str | None, since: int, refresh: str) -> None:
        position = self._sealed.value("SELECT coalesce(max(position), 0) + 1 FROM views")
        self._sealed.add("views", (name, text, base, since, refresh, position))

    def forget_view(self, name: str) -> None:
        self._sealed.delete("views", "name = ?", (name,))

    def owner(self, view: str) -> str | None:
        """The recorded owner of a view, if any."""
        return self.meta(f"owner/{view}") or None

    def set_owner(self, view: str, owner: str | None) -> None:
        if owner != self.owner(view):
            self.set_meta(f"owner/{view}", owner or "")

    def refreshed(self, view: str) -> int:
        """The epoch of a view's last refresh, or of its first content."""
        return int(self.meta(f"refreshed/{view}") or 0)

    def set_refreshed(self, view: str, epoch: int) -> None:
        self.set_meta(f"refreshed/{view}", str(epoch))

    def set_since(self, name: str, epoch: int) -> None:
        """Sets the epoch at which the view's history starts."""
        for _, text, base, _, refresh, position in self._sealed.rows("views", "name = ?", (name,)):
            self._sealed.add("views", (name, text, base, epoch, refresh, position))

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        rows = self._sealed.rows("views", order="ORDER BY position")
        return [(name, text, base, since, refresh) for name, text, base, since, refresh, _ in rows]

    def add_delta(self, relation: str, epoch: int, width: int, rows: Rows) -> None:
        """Adds a delta of a stored relation: rows of `width` columns and a weight."""
        self._sealed.add("deltas", (relation, epoch, width), packed_rows(rows))

    def deltas(
        self, relation: str, since: int, until: int | None = None
    ) -> Iterator[tuple[int, Column | list[RunFile]]]:
        """The delta of each epoch after `since` that has one: its rows, or the files that hold them."""
        last = _LAST if until is None else until
        where = "relation = ? AND epoch > ? AND epoch <= ?"
        deltas: dict[int, Column | list[RunFile]] = {
            epoch: np.frombuffer(blob, np.int64).reshape(-1, width + 1)
            for _, epoch, width, blob in self._sealed.rows("deltas", where, (relation, since, last))
        }
        yield from sorted((deltas | self._delta_runs(relation, since, last)).items())

    def delta_epochs(self, relation: str, since: int) -> set[int]:
        """The epochs after `since` in which a relation has a delta."""
        query = (
            "SELECT epoch FROM deltas WHERE relation = ?1 AND epoch > ?2 "
            "UNION SELECT epoch FROM runs WHERE relation = ?1 AND epoch > ?2"
        )
        return self._sealed.numbers(query, (relation, max(since, NO_EPOCH)))

    def change_epochs(self, since: int) -> set[int]:
        """The epochs after `since` whose changes are kept."""
        query = (
            "SELECT epoch FROM changes WHERE epoch > ?2 "
            "UNION SELECT epoch FROM runs WHERE relation = ?1 AND epoch > ?2"
        )
        return self._sealed.numbers(query, (QUADS, max(since, NO_EPOCH)))

    def last_epoch(self, relation: str) -> int:
        """The last epoch of a relation's base, deltas and files; -1 if it has none."""
        query = (
            "SELECT max(epoch) FROM (SELECT epoch FROM relations WHERE name = ?1 UNION ALL "
            "SELECT max(epoch) FROM deltas WHERE relation = ?1 UNION ALL "
            "SELECT max(epoch) FROM runs WHERE relation = ?1)"
        )
        epoch = self._sealed.value(query, (relation,))
        return NO_EPOCH if epoch is None else int(epoch)

    def delta_rows(self, relation: str, since: int) -> int:
        """The number of rows of a relation's deltas after an epoch."""
        query = (
            "SELECT coalesce(sum(length(rows) / (8 * (width + 1))), 0) FROM deltas "
            "WHERE relation = ? AND epoch > ?"
        )
        return int(self._sealed.value(query, (relation, since))) + self._rows_in_files(relation, since)

    # Deleting old history

    def history_start(self) -> int:
        """The epoch after which deltas and changes are kept."""
        return int(self.meta("history_start") or 0)

    def forget_history(self, until: int, most_epochs: int) -> bool:
        """Deletes deltas and changes of some epochs up to `until`; returns whether there are more."""
        start = self.history_start()
        stop = min(until, start + most_epochs)
        if stop <= start:
            return False
        self.set_meta("history_start", str(stop))
        self._sealed.delete("changes", "epoch <= ?", (stop,))
        bases = self.bases()
        for relation in self._small_delta_relations():
            folded = min(stop, bases.get(relation, stop))
            self._sealed.delete("deltas", "relation = ? AND epoch <= ?", (relation, folded))
        for run in self.all_runs():
            if run.epoch is not None and run.epoch <= min(stop, bases.get(run.relation, stop)):
                self.forget_runs([run], self.epoch())
        return stop < until

    def forget_folded(self, relation: str, most_epochs: int) -> bool:
        """Deletes some deltas that a relation's base contains, even if they are history.

        Returns whether there are more.
        """
        folded = self.bases().get(relation, NO_EPOCH)
        epochs = sorted(epoch for epoch in self.delta_epochs(relation, NO_EPOCH) if epoch <= folded)
        if epochs:
            last = epochs[:most_epochs][-1]
            self._sealed.delete("deltas", "relation = ? AND epoch <= ?", (relation, last))
            where = "relation = ? AND epoch > ? AND epoch <= ?"
            self.forget_runs(self._runs(where, (relation, NO_EPOCH, last)), self.epoch())
        return len(epochs) > most_epochs

    def delta_relations(self) -> set[str]:
        """The relations with deltas in the catalog or in files."""
        return self._small_delta_relations() | {
            run.relation for run in self.all_runs() if run.epoch is not None
        }

    def _small_delta_relations(self) -> set[str]:
        return {group.partition("/")[2] for group in self._sealed.groups() if group.startswith("deltas/")}

    def forget_terms(self, until: int) -> None:
        """Deletes the terms up to a position, which are in a run now."""
        self._sealed.delete("terms", "number <= ?", (until,))

    # Batches of streams

    def batch_epoch(self, source: str, batch: int) -> int | None:
        """The epoch of a stream's batch, if it was committed."""
        rows = self._sealed.rows("batches", "source = ? AND batch = ?", (source, batch))
        return int(rows[0][2]) if rows else None

    def add_batch(self, source: str, batch: int, epoch: int) -> None:
        self._sealed.add("batches", (source, batch, epoch))

    # Verification

    def verify(self) -> None:
        """Raises unless every row of the catalog is unchanged."""
        self._sealed.verify()
        self.terms()
        self.epoch()


def check_terms(terms: Iterable[tuple[int, str]], exceptions: Mapping[str, int], where: str) -> None:
    """Raises if an id does not match its text."""
    for number, text in terms:
        if hash_of(text) != number and exceptions.get(text) != number:
            raise StoreFailed(
                f"{where} is damaged: {number} is not the id of the term {text}. "
                f"Restore the store from a backup."
            )


def packed_changes(changes: Sequence[Sequence[int]]) -> bytes:
    """Packs changes as 64-bit numbers."""
    if isinstance(changes, ColumnRows):
        return changes.packed()
    return array("q", chain.from_iterable(changes)).tobytes()


def packed_rows(rows: Rows) -> bytes:
    """Packs rows, each followed by its weight, as 64-bit numbers."""
    if isinstance(rows, RunRows):
        assert rows.run.weights is not None
        return ColumnRows((*rows.run.columns, rows.run.weights)).packed()
    return array("q", chain.from_iterable((*row, weight) for row, weight in rows.items())).tobytes()
