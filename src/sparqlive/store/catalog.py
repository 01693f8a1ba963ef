"""The catalog: one SQLite database that says what is in a store.

Owns epochs, the change log, the list of runs, views and deltas. A file that it does not name does not exist.
Refuses a store of another format. Invariants: an epoch is there whole or not at all, because it is one
transaction, synced before it returns (`synchronous=FULL` in WAL mode) unless durability is relaxed; only the
holder of the writer's lock writes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparqlive.errors import StoreFailed
from sparqlive.store.locks import WriterLock
from sparqlive.zset.run import Column

FORMAT = 2
Durability = Literal["epoch", "relaxed"]
Rows = Mapping[tuple[int, ...], int]

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (
  number INTEGER PRIMARY KEY, time REAL NOT NULL, inserted INTEGER NOT NULL, deleted INTEGER NOT NULL,
  strategy TEXT NOT NULL, note TEXT NOT NULL);
CREATE TABLE changes (epoch INTEGER PRIMARY KEY, quads BLOB NOT NULL);
CREATE TABLE terms (number INTEGER PRIMARY KEY, id INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE exceptions (text TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE relations (
  name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, width INTEGER NOT NULL, rows BLOB) WITHOUT ROWID;
CREATE TABLE runs (
  path TEXT PRIMARY KEY, relation TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
  first TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE replaced (path TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE views (
  name TEXT PRIMARY KEY, text TEXT NOT NULL, base TEXT, since INTEGER NOT NULL, refresh TEXT NOT NULL,
  position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE deltas (
  relation TEXT NOT NULL, epoch INTEGER NOT NULL, width INTEGER NOT NULL, rows BLOB NOT NULL,
  PRIMARY KEY (relation, epoch)) WITHOUT ROWID;
CREATE TABLE batches (source TEXT NOT NULL, batch INTEGER NOT NULL, epoch INTEGER NOT NULL,
  PRIMARY KEY (source, batch)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class RunFile:
    """A file of a relation. `first` is its first row, by which the files of a relation are in order."""

    path: str
    relation: str
    rows: int
    bytes: int
    first: tuple[int, ...]


@dataclass(frozen=True)
class Base:
    """What stands under a relation's deltas: its content as of an epoch, in runs, or here if it is small."""

    epoch: int
    width: int
    rows: Column | None


class Catalog:
    """The catalog of a store; `read_only` for a process beside the writer."""

    def __init__(
        self,
        directory: Path,
        *,
        read_only: bool = False,
        durability: Durability = "epoch",
        sync_milliseconds: int = 100,
        first_meta: Mapping[str, str] | None = None,
    ) -> None:
        """`first_meta` is recorded if the store is made now."""
        self.directory = directory
        self.read_only = read_only
        self._lock = None if read_only else WriterLock(directory)
        self._syncer: _Syncer | None = None
        try:
            with self._said("opened"):
                self._database = self._connect()
                if not read_only:
                    self._database.execute("PRAGMA journal_mode=WAL")
                    self._database.execute(
                        f"PRAGMA synchronous={'FULL' if durability == 'epoch' else 'NORMAL'}"
                    )
                self._check_format(first_meta or {})
            if durability == "relaxed" and not read_only:
                self._syncer = _Syncer(self._path.with_name("catalog.sqlite-wal"), sync_milliseconds / 1000)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    @property
    def _path(self) -> Path:
        return self.directory / "catalog.sqlite"

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        if not self._path.exists():
            raise StoreFailed(f"There is no store at {self.directory}: only a writer makes one.")
        return _read_connection(self._path)

    def _check_format(self, first_meta: Mapping[str, str]) -> None:
        there = self._database.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone()
        if there is None and not self.read_only:
            with self.transaction():
                for statement in _TABLES.split(";"):
                    if statement.strip():
                        self._database.execute(statement)
                self.set_meta("format", str(FORMAT))
                for key, value in first_meta.items():
                    self.set_meta(key, value)
                self.set_base("quads", 0, 4, None)
            return
        found = int((there and self.meta("format")) or 0)
        if found != FORMAT:
            older = "an older" if found < FORMAT else "a newer"
            raise StoreFailed(
                f"The store {self.directory} has format {found}, of {older} version of sparqlive, and this "
                f"version reads format {FORMAT}: use the version that wrote it."
            )

    def close(self) -> None:
        if self._syncer is not None:
            self._syncer.stop()
        try:
            if not self.read_only:
                self._database.execute("PRAGMA synchronous=FULL")
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:  # full or gone: the log next to the database holds what was committed
            pass
        finally:
            self._database.close()
            if self._lock is not None:
                self._lock.release()

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Errors of the disk and of SQLite as sentences."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreFailed(
                f"The store {self.directory} could not be {what}: {error}. Its last epoch is as it was; "
                f"what was not acknowledged did not happen, and can be done again once the cause is removed."
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; synced when the block is left."""
        self.ensure_writable()
        with self._said("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            if self._syncer is not None:
                self._syncer.due = True

    def ensure_writable(self) -> None:
        if self.read_only:
            raise StoreFailed(f"The store {self.directory} is open read-only: nothing can be changed here.")

    @contextmanager
    def snapshot(self) -> Iterator[Catalog]:
        """The catalog as it is now, whatever is committed meanwhile; for another thread, or to read much."""
        other = object.__new__(Catalog)
        other.directory, other.read_only = self.directory, True
        other._lock = other._syncer = None
        with self._said("read"):
            other._database = _read_connection(self._path)
            try:
                with other.reading():
                    yield other
            finally:
                other._database.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever is read inside belongs to one epoch, also while another process writes."""
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("COMMIT")

    def renew(self) -> None:
        """From now on, whatever is read is as of the last epoch there is now."""
        if self._database.in_transaction:
            self._database.execute("COMMIT")
        self._database.execute("BEGIN")
        self.epoch()

    def poll(self) -> sqlite3.Connection:
        """Another connection, which sees each commit."""
        return _read_connection(self._path)

    # Meta

    def meta(self, key: str) -> str | None:
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def metas(self, prefix: str) -> list[str]:
        """The values of all keys that begin so."""
        rows = self._database.execute(
            "SELECT value FROM meta WHERE substr(key, 1, ?) = ? ORDER BY key", (len(prefix), prefix)
        )
        return [str(value) for (value,) in rows.fetchall()]

    def set_meta(self, key: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # Epochs and changes

    def epoch(self) -> int:
        row = self._database.execute("SELECT max(number) FROM epochs").fetchone()
        return int(row[0] or 0)

    def add_epoch(
        self,
        number: int,
        counts: tuple[int, int],
        strategy: str,
        note: Mapping[str, Any],
        changes: Sequence[Sequence[int]] | None,
    ) -> None:
        """An epoch and its changes, unless runs written in the same transaction hold them."""
        self._database.execute(
            "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?)",
            (number, time.time(), *counts, strategy, json.dumps(note) if note else "{}"),
        )
        if changes is not None:
            packed = array("q", chain.from_iterable(changes)).tobytes()
            self._database.execute("INSERT INTO changes VALUES (?, ?)", (number, packed))

    def epochs(self, last: int = 100) -> list[dict[str, Any]]:
        names = ("number", "time", "inserted", "deleted", "strategy", "note")
        rows = self._database.execute("SELECT * FROM epochs ORDER BY number DESC LIMIT ?", (last,)).fetchall()
        return [{**dict(zip(names, row, strict=True)), "note": json.loads(row[5])} for row in rows]

    def epoch_before(self, time: float) -> int:
        """The last epoch that was made before a time."""
        row = self._database.execute("SELECT max(number) FROM epochs WHERE time < ?", (time,)).fetchone()
        return int(row[0] or 0)

    def changes(self, since: int) -> Iterator[tuple[int, Column]]:
        """The changes after an epoch, each as rows of s, p, o, g, w."""
        rows = self._database.execute(
            "SELECT epoch, quads FROM changes WHERE epoch > ? ORDER BY epoch", (since,)
        )
        for epoch, blob in rows.fetchall():
            yield epoch, np.frombuffer(blob, np.int64).reshape(-1, 5)

    def change_rows(self, since: int) -> int:
        """How many changes there are after an epoch."""
        query = "SELECT coalesce(sum(length(quads)), 0) FROM changes WHERE epoch > ?"
        return int(self._database.execute(query, (since,)).fetchone()[0]) // 40

    # Terms

    def add_terms(self, terms: Sequence[tuple[int, str]], exceptions: Sequence[tuple[str, int]]) -> None:
        if terms:
            self._database.executemany("INSERT INTO terms (id, text) VALUES (?, ?)", terms)
        if exceptions:
            self._database.executemany("INSERT OR REPLACE INTO exceptions VALUES (?, ?)", exceptions)

    def terms(self, after: int = 0) -> list[tuple[int, str]]:
        query = "SELECT id, text FROM terms WHERE number > ?"
        return self._database.execute(query, (after,)).fetchall()

    def last_term(self) -> int:
        return int(self._database.execute("SELECT coalesce(max(number), 0) FROM terms").fetchone()[0])

    def exceptions(self) -> list[tuple[str, int]]:
        return self._database.execute("SELECT text, id FROM exceptions").fetchall()

    # Relations and their runs

    def set_base(self, name: str, epoch: int, width: int, rows: Rows | None) -> None:
        """The content under the deltas of a relation, from now on; rows None: in runs."""
        packed = None if rows is None else packed_rows(rows)
        self._database.execute(
            "INSERT OR REPLACE INTO relations VALUES (?, ?, ?, ?)", (name, epoch, width, packed)
        )

    def begin(self, name: str, width: int) -> None:
        """A relation that was empty before its first delta."""
        self._database.execute("INSERT OR IGNORE INTO relations VALUES (?, -1, ?, NULL)", (name, width))

    def base(self, name: str) -> Base | None:
        query = "SELECT epoch, width, rows FROM relations WHERE name = ?"
        row = self._database.execute(query, (name,)).fetchone()
        if row is None:
            return None
        epoch, width, blob = row
        return Base(
            epoch, width, None if blob is None else np.frombuffer(blob, np.int64).reshape(-1, width + 1)
        )

    def bases(self) -> dict[str, int]:
        """The epoch under the deltas of each relation."""
        return dict(self._database.execute("SELECT name, epoch FROM relations").fetchall())

    def add_run(self, run: RunFile) -> None:
        self._database.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
            (run.path, run.relation, run.rows, run.bytes, json.dumps(run.first)),
        )

    def runs(self, relation: str | None = None) -> list[RunFile]:
        """The files of a relation in the order of their rows, or all files."""
        where, values = ("", ()) if relation is None else (" WHERE relation = ?", (relation,))
        rows = self._database.execute(f"SELECT path, relation, rows, bytes, first FROM runs{where}", values)
        found = [
            RunFile(path, name, count, size, tuple(json.loads(first)))
            for path, name, count, size, first in rows
        ]
        return sorted(found, key=lambda run: (run.relation, run.first, run.path))

    def forget_runs(self, paths: Iterable[str], epoch: int) -> None:
        """Files that are no part of anything after an epoch; they stay until nobody reads older epochs."""
        for path in paths:
            self._database.execute("DELETE FROM runs WHERE path = ?", (path,))
            self._database.execute("INSERT OR REPLACE INTO replaced VALUES (?, ?)", (path, epoch))

    def replaced(self) -> dict[str, int]:
        return dict(self._database.execute("SELECT path, epoch FROM replaced").fetchall())

    def forget_replaced(self, paths: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM replaced WHERE path = ?", [(path,) for path in paths])

    def forget_relation(self, name: str, epoch: int) -> None:
        self.forget_runs([run.path for run in self.runs(name)], epoch)
        self._database.execute("DELETE FROM relations WHERE name = ?", (name,))
        self._database.execute("DELETE FROM deltas WHERE relation = ?", (name,))

    # Views and deltas

    def add_view(self, name: str, text: str, base: str | None, since: int, refresh: str) -> None:
        position = self._database.execute("SELECT coalesce(max(position), 0) + 1 FROM views").fetchone()[0]
        self._database.execute(
            "INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?, ?, ?)",
            (name, text, base, since, refresh, position),
        )

    def forget_view(self, name: str) -> None:
        self._database.execute("DELETE FROM views WHERE name = ?", (name,))

    def set_since(self, name: str, epoch: int) -> None:
        """The view's history begins at this epoch."""
        self._database.execute("UPDATE views SET since = ? WHERE name = ?", (epoch, name))

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        return self._database.execute(
            "SELECT name, text, base, since, refresh FROM views ORDER BY position"
        ).fetchall()

    def add_delta(self, relation: str, epoch: int, width: int, rows: Rows) -> None:
        """A delta of a stored relation: rows of `width` columns and a weight."""
        self._database.execute(
            "INSERT OR REPLACE INTO deltas VALUES (?, ?, ?, ?)", (relation, epoch, width, packed_rows(rows))
        )

    def deltas(self, relation: str, since: int, until: int | None = None) -> Iterator[tuple[int, Column]]:
        rows = self._database.execute(
            "SELECT epoch, width, rows FROM deltas WHERE relation = ? AND epoch > ? AND epoch <= ? "
            "ORDER BY epoch",
            (relation, since, 2**62 if until is None else until),
        )
        for epoch, width, blob in rows.fetchall():
            yield epoch, np.frombuffer(blob, np.int64).reshape(-1, width + 1)

    def delta_rows(self, relation: str, since: int) -> int:
        """How many rows the deltas of a relation after an epoch have."""
        query = (
            "SELECT coalesce(sum(length(rows) / (8 * (width + 1))), 0) FROM deltas "
            "WHERE relation = ? AND epoch > ?"
        )
        return int(self._database.execute(query, (relation, since)).fetchone()[0])

    # Forgetting what is no longer kept

    def history_start(self) -> int:
        """Deltas and changes after this epoch are kept."""
        return int(self.meta("history_start") or 0)

    def forget_history(self, until: int, most_epochs: int) -> bool:
        """Deltas and changes up to an epoch, some epochs at a time; whether there are more."""
        start = self.history_start()
        stop = min(until, start + most_epochs)
        if stop <= start:
            return False
        self.set_meta("history_start", str(stop))
        self._database.execute("DELETE FROM changes WHERE epoch <= ?", (stop,))
        bases = self.bases()
        for relation in self.delta_relations():
            folded = min(stop, bases.get(relation, stop))
            self._database.execute("DELETE FROM deltas WHERE relation = ? AND epoch <= ?", (relation, folded))
        return stop < until

    def delta_relations(self) -> list[str]:
        return [name for (name,) in self._database.execute("SELECT DISTINCT relation FROM deltas").fetchall()]

    def forget_terms(self, until: int) -> None:
        """Terms up to this place, which a run holds now."""
        self._database.execute("DELETE FROM terms WHERE number <= ?", (until,))

    # Batches of streams

    def batch_epoch(self, source: str, batch: int) -> int | None:
        """The epoch that a stream's batch became, if it was committed."""
        row = self._database.execute(
            "SELECT epoch FROM batches WHERE source = ? AND batch = ?", (source, batch)
        ).fetchone()
        return None if row is None else int(row[0])

    def add_batch(self, source: str, batch: int, epoch: int) -> None:
        self._database.execute("INSERT INTO batches VALUES (?, ?, ?)", (source, batch, epoch))


class Poller:
    """Looks, every so often, whether another process has committed something."""

    def __init__(self, catalog: Catalog, on_change: Callable[[], None], seconds: float = 0.05) -> None:
        self._database = catalog.poll()
        self._on_change = on_change
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparqlive-follow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen = None
        while not self._stopped.wait(self._seconds):
            version = self._database.execute("PRAGMA data_version").fetchone()[0]
            if version != seen:
                seen = version
                self._on_change()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._database.close()


class _Syncer:
    """Brings the database's log to the disk every so often, where durability is relaxed."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.due = False
        self._path = path
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparqlive-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            if self.due:
                self.due = False
                try:
                    descriptor = os.open(self._path, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _read_connection(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. In a directory that cannot be written there is no log to look at."""
    ways = ["mode=ro"]
    if not os.access(path.parent, os.W_OK) and not path.with_name("catalog.sqlite-wal").exists():
        ways = ["mode=ro&immutable=1"]
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{ways[0]}", uri=True, isolation_level=None, check_same_thread=False
    )
    database.execute("PRAGMA busy_timeout=5000")
    return database


def packed_rows(rows: Rows) -> bytes:
    """Rows, each followed by its weight, as numbers of 64 bits."""
    return array("q", chain.from_iterable((*row, weight) for row, weight in rows.items())).tobytes()
