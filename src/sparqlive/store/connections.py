"""Connections to a catalog, and their background threads.

Opens SQLite for writing and for reading. Owns the thread that syncs its log if durability is relaxed, the
thread that polls for commits of another process, and the placeholder for a connection in a forked process.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparqlive.errors import StoreFailed
from sparqlive.store.head import Head

_log = logging.getLogger("sparqlive.store")

# An epoch of one change writes about ten pages of 4 kB, mostly the same as the previous epoch. SQLite's
# default of 1,000 pages would copy and sync them every hundred epochs.
_PAGES_PER_CHECKPOINT = 4_000
_POLL_SECONDS = 0.05


def write_connection(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA trusted_schema=OFF")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute(f"PRAGMA wal_autocheckpoint={_PAGES_PER_CHECKPOINT}")
    return database


def read_connection(path: Path) -> sqlite3.Connection:
    """Opens a connection that cannot write; a read-only directory without a log is opened as immutable."""
    ways = ["mode=ro"]
    if not os.access(path.parent, os.W_OK) and not path.with_name("catalog.sqlite-wal").exists():
        ways = ["mode=ro&immutable=1"]
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{ways[0]}", uri=True, isolation_level=None, check_same_thread=False
    )
    database.execute("PRAGMA trusted_schema=OFF")
    database.execute("PRAGMA busy_timeout=5000")
    return database


class Poller:
    """Regularly checks whether another process has committed."""

    def __init__(self, database: sqlite3.Connection, on_change: Callable[[], None]) -> None:
        self._database = database
        self._on_change = on_change
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparqlive-follow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen = None
        while not self._stopped.wait(_POLL_SECONDS):
            try:
                version = self._database.execute("PRAGMA data_version").fetchone()[0]
                if version != seen:
                    seen = version
                    self._on_change()
            except (StoreFailed, sqlite3.Error) as error:
                _log.error("The reader cannot follow the store and stays at its epoch: %s", error)

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._database.close()


class Syncer:
    """Regularly syncs the database's log to disk if durability is relaxed."""

    def __init__(self, path: Path, seconds: float, synced: Callable[[Head], None]) -> None:
        """Calls `synced` with the last commit that is on disk."""
        self._due: Head | None = None
        self._synced = synced
        self._path = path
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparqlive-sync", daemon=True)
        self._thread.start()

    def owe(self, head: Head) -> None:
        """Schedules a commit, and all before it, to be synced."""
        self._due = head

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            head, self._due = self._due, None
            if head is not None:
                try:
                    descriptor = os.open(self._path, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                self._synced(head)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


class Forked:
    """Replaces the database in a process that was forked from the one that opened it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._opened_by = os.getppid()

    def __getattr__(self, name: str) -> Any:
        raise StoreFailed(
            f"The store {self._directory} was opened by process {self._opened_by} before it forked this "
            f"process, {os.getpid()}. SQLite connections cannot be shared across a fork. Open the store "
            f"after the fork, read-only if another process writes it."
        )
