"""The catalog: one SQLite database that says what is in a store.

Owns epochs, the change log, the list of runs, views and recent deltas. A file that it does not name does
not exist. Refuses a store of another format. Invariants: an epoch is there whole or not at all, because it
is one transaction, synced before it returns (`synchronous=FULL` in WAL mode); only the holder of the
writer's lock writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from sparqlive.errors import Error
from sparqlive.zset.run import Column

FORMAT = 1

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (
  number INTEGER PRIMARY KEY, time REAL NOT NULL, inserted INTEGER NOT NULL, deleted INTEGER NOT NULL,
  strategy TEXT NOT NULL, note TEXT NOT NULL);
CREATE TABLE changes (epoch INTEGER PRIMARY KEY, quads BLOB NOT NULL);
CREATE TABLE terms (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE exceptions (text TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  path TEXT PRIMARY KEY, relation TEXT NOT NULL, epoch INTEGER NOT NULL, rows INTEGER NOT NULL,
  info TEXT NOT NULL) WITHOUT ROWID;
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
    """A file of a relation: its rows stand for the relation as of `epoch`."""

    path: str
    relation: str
    epoch: int
    rows: int
    info: Mapping[str, Any]


class Catalog:
    """The catalog of a store that this process may write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _writer_lock(directory)
        except OSError as error:
            raise Error(f"The store {directory} cannot be opened: {error}.") from error
        self._database = sqlite3.connect(
            directory / "catalog.sqlite", isolation_level=None, check_same_thread=False
        )
        try:
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._check_format()
        except BaseException:
            self.close()
            raise

    def _check_format(self) -> None:
        there = self._database.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone()
        if there is None:
            with self.transaction():
                for statement in _TABLES.split(";"):
                    if statement.strip():
                        self._database.execute(statement)
                self.set_meta("format", str(FORMAT))
            return
        found = int(self.meta("format") or 0)
        if found != FORMAT:
            raise Error(
                f"The store {self.directory} has format {found}, and this version reads format {FORMAT}: "
                f"use the version of sparqlive that wrote it."
            )

    def close(self) -> None:
        self._database.close()
        self._lock.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; synced when the block is left."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

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
        quads: Column | None,
    ) -> None:
        """An epoch and its changes, unless runs written in the same transaction hold them."""
        self._database.execute(
            "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?)",
            (number, time.time(), *counts, strategy, json.dumps(note)),
        )
        if quads is not None:
            self._database.execute("INSERT INTO changes VALUES (?, ?)", (number, quads.tobytes()))

    def epochs(self, last: int = 100) -> list[dict[str, Any]]:
        names = ("number", "time", "inserted", "deleted", "strategy", "note")
        rows = self._database.execute("SELECT * FROM epochs ORDER BY number DESC LIMIT ?", (last,)).fetchall()
        return [{**dict(zip(names, row, strict=True)), "note": json.loads(row[5])} for row in rows]

    def changes(self, since: int) -> Iterator[tuple[int, Column]]:
        """The changes after an epoch, each as rows of s, p, o, g, w."""
        rows = self._database.execute(
            "SELECT epoch, quads FROM changes WHERE epoch > ? ORDER BY epoch", (since,)
        )
        for epoch, blob in rows.fetchall():
            yield epoch, np.frombuffer(blob, np.int64).reshape(-1, 5)

    def forget_changes(self, until: int) -> None:
        self._database.execute("DELETE FROM changes WHERE epoch <= ?", (until,))

    # Terms

    def add_terms(self, terms: Sequence[tuple[int, str]], exceptions: Sequence[tuple[str, int]]) -> None:
        self._database.executemany("INSERT OR IGNORE INTO terms VALUES (?, ?)", terms)
        self._database.executemany("INSERT OR REPLACE INTO exceptions VALUES (?, ?)", exceptions)

    def terms(self) -> list[tuple[int, str]]:
        return self._database.execute("SELECT id, text FROM terms").fetchall()

    def exceptions(self) -> list[tuple[str, int]]:
        return self._database.execute("SELECT text, id FROM exceptions").fetchall()

    def forget_terms(self) -> None:
        self._database.execute("DELETE FROM terms")

    # Runs

    def add_run(self, run: RunFile) -> None:
        self._database.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
            (run.path, run.relation, run.epoch, run.rows, json.dumps(run.info)),
        )

    def runs(self, relation: str | None = None) -> list[RunFile]:
        query = "SELECT path, relation, epoch, rows, info FROM runs"
        if relation is None:
            rows = self._database.execute(f"{query} ORDER BY path").fetchall()
        else:
            rows = self._database.execute(f"{query} WHERE relation = ? ORDER BY path", (relation,)).fetchall()
        return [
            RunFile(path, name, epoch, count, json.loads(info)) for path, name, epoch, count, info in rows
        ]

    def forget_runs(self, relation: str) -> None:
        self._database.execute("DELETE FROM runs WHERE relation = ?", (relation,))

    # Views and deltas

    def add_view(self, name: str, text: str, base: str | None, since: int, refresh: str) -> None:
        position = self._database.execute("SELECT coalesce(max(position), 0) + 1 FROM views").fetchone()[0]
        self._database.execute(
            "INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?, ?, ?)",
            (name, text, base, since, refresh, position),
        )

    def forget_view(self, name: str) -> None:
        self._database.execute("DELETE FROM views WHERE name = ?", (name,))

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        return self._database.execute(
            "SELECT name, text, base, since, refresh FROM views ORDER BY position"
        ).fetchall()

    def add_delta(self, relation: str, epoch: int, width: int, rows: Column) -> None:
        """A delta of a stored relation: rows of `width` columns and a weight."""
        self._database.execute(
            "INSERT OR REPLACE INTO deltas VALUES (?, ?, ?, ?)", (relation, epoch, width, rows.tobytes())
        )

    def deltas(self, relation: str, since: int = 0) -> Iterator[tuple[int, Column]]:
        rows = self._database.execute(
            "SELECT epoch, width, rows FROM deltas WHERE relation = ? AND epoch > ? ORDER BY epoch",
            (relation, since),
        )
        for epoch, width, blob in rows.fetchall():
            yield epoch, np.frombuffer(blob, np.int64).reshape(-1, width + 1)

    def forget_deltas(self, relation: str, until: int | None = None) -> None:
        if until is None:
            self._database.execute("DELETE FROM deltas WHERE relation = ?", (relation,))
        else:
            self._database.execute("DELETE FROM deltas WHERE relation = ? AND epoch <= ?", (relation, until))

    # Batches of streams

    def batch_epoch(self, source: str, batch: int) -> int | None:
        """The epoch that a stream's batch became, if it was committed."""
        row = self._database.execute(
            "SELECT epoch FROM batches WHERE source = ? AND batch = ?", (source, batch)
        ).fetchone()
        return None if row is None else int(row[0])

    def add_batch(self, source: str, batch: int, epoch: int) -> None:
        self._database.execute("INSERT INTO batches VALUES (?, ?, ?)", (source, batch, epoch))


def _writer_lock(directory: Path) -> IO[str]:
    """An OS lock that ends with the process; a second writer is told who holds it."""
    stream = open(directory / "writer.lock", "a+")  # noqa: SIM115 - held until close
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        holder = stream.read().strip() or "another process"
        stream.close()
        raise Error(
            f"The store {directory} is open for writing in {holder}: close it there, or open another store."
        ) from None
    stream.truncate(0)
    stream.write(f"process {os.getpid()}")
    stream.flush()
    return stream
