"""The catalog: the SQLite database that describes the content of a store.

Owns the database: its creation, format, lock and transactions. Its tables are in `store/tables.py`; a run
that they do not list is not part of the store. Rejects a store of another format. Invariants: an epoch is
atomic, because it is one transaction, synced before it returns (`synchronous=FULL` in WAL mode) unless
durability is relaxed; only the holder of the writer's lock writes.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from sparqlive.errors import StoreFailed
from sparqlive.store.connections import Forked, Syncer, read_connection, write_connection
from sparqlive.store.detection import CATALOG, check_files, check_ground, is_store
from sparqlive.store.head import Head, HeadFile, compare_head, read_head
from sparqlive.store.locks import WriterLock
from sparqlive.store.place import sync
from sparqlive.store.private import open_private
from sparqlive.store.runs import QUADS
from sparqlive.store.seals import Damaged
from sparqlive.store.tables import Tables

FORMAT = 7
_UPGRADED = (4, 5, 6)
"""Older formats with the same tables; a store is upgraded when it is opened for writing.

In format 4, files have a different layout, which this version still reads. In format 5, each source has its
own relation of assertions; the upgrading session merges them (`engine/older_assertions.py`). In format 6,
totals of groups lack the rows that they leave out; they are recomputed, from the rows of groups if stored.
"""
_READ = (5, 6)
"""Older formats that readers can read without an upgrade; views with groups need it."""
# Tables that are compared when a store is opened. The others are compared when they are first read.
_COMPARED_FIRST = ("meta", "changes", "terms", "exceptions", "relations", "runs", "replaced", "views")
Durability = Literal["epoch", "relaxed"]


class Catalog(Tables):
    """The catalog of a store; `read_only` for a process other than the writer."""

    def __init__(
        self,
        directory: Path,
        *,
        read_only: bool = False,
        durability: Durability = "epoch",
        sync_milliseconds: int = 100,
        first_meta: Mapping[str, str] | None = None,
    ) -> None:
        """`first_meta` is recorded if the store is created now."""
        super().__init__(directory / CATALOG)
        self.directory = directory
        self.read_only = read_only
        self._syncer: Syncer | None = None
        self._head: HeadFile | None = None
        self._last = Head("", 0, 0)
        self._used_under: Any = None
        self._opened: _Files | None = None
        self.has_head = False
        """Whether the catalog was compared with the last acknowledged commit."""
        with self._failures("opened"):
            is_there = is_store(directory)
            if not is_there:
                if read_only:
                    raise StoreFailed(
                        f"There is no store at {directory}. Check the path, or create the store by opening "
                        f"it for writing."
                    )
                check_ground(directory)
            check_files(directory, writes=not read_only)
            if is_there and not read_only and not (directory / "writer.lock").exists():
                self._ensure_catalog()
        self._lock = None if read_only else WriterLock(directory)
        try:
            with self._failures("opened"):
                if not read_only and not self._path.exists():
                    self._create(first_meta or {})
                self._last = self._open_verified()
                if not read_only:
                    self._open_for_writing(durability, sync_milliseconds / 1000)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        _open_catalogs.add(self)

    def _create(self, first_meta: Mapping[str, str]) -> None:
        """Creates the catalog of an empty store. It gets its name when complete, so nobody sees it empty."""
        path = self.directory / "catalog.new"
        for left in self.directory.glob("catalog.new*"):
            left.unlink()
        os.close(open_private(path, os.O_RDWR, self.directory))
        self.use(write_connection(path))
        try:
            with self.transaction():
                self._sealed.create()
                self.set_meta("format", str(FORMAT))
                self.set_meta("store", uuid4().hex)
                for key, value in first_meta.items():
                    self.set_meta(key, value)
                self.set_base(QUADS, 0, 4, None)
        finally:
            self._database.close()
        sync(path)
        path.rename(self._path)
        sync(self._path)

    def _ensure_catalog(self) -> None:
        """Rejects a file that is not a catalog, before anything is created next to it."""
        self.use(read_connection(self._path))
        try:
            if not self._format():
                self._check_format()
        finally:
            self._database.close()

    def _open_verified(self) -> Head:
        """Opens the catalog and verifies it. Changes nothing, not even on closing."""
        head = read_head(self.directory)
        self.has_head = head is not None
        self.use(read_connection(self._path))
        try:
            if self._format() in _UPGRADED and not self.read_only:
                self._upgrade(head)
            with self.reading():
                self._check_format()
                number, root = self._sealed.load()
                catalog_head = Head(self.meta("store") or "", number, root)
                compare_head(self.directory, head, catalog_head)
                self._compare_first()
        except BaseException:
            self._database.close()
            raise
        return catalog_head

    def _compare_first(self) -> None:
        for table in _COMPARED_FIRST:
            self._sealed.compare(table)

    def _upgrade(self, head: Head | None) -> None:
        """Upgrades a catalog of an older format, unless it is outdated."""
        compare_head(self.directory, head, Head(self.meta("store") or "", *self._sealed.load()))
        self._compare_first()
        self._database.close()
        self.use(write_connection(self._path))
        with self.transaction():
            self._sealed.load()
            self.set_meta("format", str(FORMAT))
            for name in [name for name in self.bases() if "/totals/" in name]:
                self.forget_relation(name, self.epoch())
        self._database.close()
        self.use(read_connection(self._path))

    def _open_for_writing(self, durability: Durability, sync_seconds: float) -> None:
        reading = self._database
        self._database = write_connection(self._path)
        self._sealed.use(self._database)
        reading.close()
        self._database.execute(f"PRAGMA synchronous={'FULL' if durability == 'epoch' else 'NORMAL'}")
        self._opened = _Files(self._path)
        if durability == "relaxed":
            self._syncer = Syncer(self._path.with_name(f"{CATALOG}-wal"), sync_seconds, self._acknowledge)

    def acknowledge(self) -> None:
        """Starts writing the head, after the catalog was verified to be the latest."""
        with self._failures("opened"):
            self._head = HeadFile(self.directory)
        self._head.write(self._last)

    def _format(self) -> int:
        """The format recorded in the catalog; 0 if it is missing or impossible."""
        tables = {name for name, _ in self._sealed.pairs("SELECT name, type FROM sqlite_master")}
        if "meta" not in tables:  # another program's
            return 0
        self._sealed.check_schema()
        text = self._sealed.value("SELECT value FROM meta WHERE key = 'format'")
        number = int(text) if isinstance(text, str) and text.isdecimal() else 0
        return number if "totals" in tables or number < min(_UPGRADED) else 0

    def _check_format(self) -> None:
        number = self._format()
        if number == FORMAT or (self.read_only and number in _READ):
            return
        if not number:
            raise Damaged(self._path, "it does not state its format")
        if number in _UPGRADED:
            raise StoreFailed(
                f"The store {self.directory} has format {number}, from an older version of sparqlive. "
                f"Open it once for writing to upgrade it to format {FORMAT}; `sparqlive check` does this."
            )
        older = "an older" if number < FORMAT else "a newer"
        raise StoreFailed(
            f"The store {self.directory} has format {number}, from {older} version of sparqlive, but this "
            f"version reads format {FORMAT}. Use the version that wrote it."
        )

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that opened the catalog."""
        return isinstance(self._database, Forked)

    def use_under(self, lock: Any) -> None:
        """Sets the session's lock, which another thread may hold while the process forks."""
        self._used_under = lock

    def leave_to_the_parent(self) -> sqlite3.Connection:
        """Disables the catalog in a forked process; returns the parent's connection, which must stay open."""
        database = self._database
        self._database = Forked(self.directory)  # type: ignore[assignment]
        self._sealed.use(self._database)
        if self._used_under is not None:  # the thread that holds it does not exist in this process
            self._used_under._at_fork_reinit()
        return database

    def close(self) -> None:
        if self.is_forked:  # the process that opened it closes it
            return
        _open_catalogs.discard(self)
        if self._syncer is not None:
            self._syncer.stop()
        is_last = False
        try:
            if not self.read_only:
                is_last = self._sealed.is_current()
                self._database.execute("PRAGMA synchronous=FULL")
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (
            sqlite3.Error,
            StoreFailed,
        ):  # disk full or missing: the log next to the database has all commits
            pass
        finally:
            self._database.close()
            if self._head is not None:
                if is_last:
                    self._acknowledge(self._last)
                self._head.close()
            if self._lock is not None:
                self._lock.release()

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """Turns errors of the disk and of SQLite into StoreFailed."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreFailed(
                f"The store {self.directory} could not be {what}: {error}. Its last epoch is unchanged, and "
                f"unacknowledged changes were not made. Remove the cause and try again."
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """An atomic transaction, synced when the block ends."""
        self.ensure_writable()
        with self._failures("written"), self._sealed.in_use:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self.ensure_sole_writer()
                yield
                number, root = self._sealed.seal()
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                self._sealed.roll_back()
                raise
            self._sealed.commit()
            self._last = Head(self._last.store, number, root)
            if self._syncer is not None:
                self._syncer.owe(self._last)
            else:
                self._acknowledge(self._last)

    def _acknowledge(self, head: Head) -> None:
        """Records in the head that a commit is on disk."""
        if self._head is not None:
            self._head.write(head)

    @property
    def holds_lock(self) -> bool:
        """Whether the writer's lock is still the file that this process has locked."""
        return self._lock is not None and self._lock.is_held()

    def ensure_sole_writer(self) -> None:
        """Raises if another process has written the store or replaced its files since it was opened.

        The lock prevents this, unless its file is removed or replaced, the file system grants it twice, or
        the directory is moved, replaced or restored under this process.
        """
        if self._opened is None:  # being created, upgraded or read
            return
        assert self._lock is not None
        self._lock.is_held()
        replaced, is_touched = self._opened.compare()
        if replaced is not None:
            raise StoreFailed(
                f"The store {self.directory} was moved, removed, replaced or restored while this process had "
                f"it open: {replaced}. Nothing was written. Close this session, and open the store again."
            )
        is_current = self._sealed.is_current()
        if is_current and is_touched:
            is_current = self._is_current_on_disk()
            if is_current:  # a checkpoint has copied the log into the database
                self._opened.look()
        if not is_current:
            raise StoreFailed(
                f"Another process has written the store {self.directory} since this one opened it, although "
                f"only one may: writer.lock was removed or replaced, the file system does not support locks, "
                f"or files were restored. The other process's commits are kept; nothing from this one was "
                f"written. Close this session, end the other process, and open the store again."
            )

    def _is_current_on_disk(self) -> bool:
        """Like `Sealed.is_current`, but ignores what this connection has cached of the file."""
        database = read_connection(self._path)
        try:
            fresh = Tables(self._path)
            fresh.use(database)
            return fresh.last_commit() == (self._last.number, self._last.root)
        except StoreFailed:
            return False
        finally:
            database.close()

    def ensure_writable(self) -> None:
        if self.read_only:
            raise StoreFailed(
                f"The store {self.directory} is open read-only. Open it for writing to change it."
            )

    @contextmanager
    def snapshot(self) -> Iterator[Tables]:
        """The tables as of now, unaffected by later commits; for another thread, or for long reads."""
        with self._failures("read"):
            other = Tables(self._path)
            database = read_connection(self._path)
            try:
                other.use(database)
                with other.reading():
                    yield other
            finally:
                database.close()

    def renew(self) -> None:
        """Moves reads to the current last epoch."""
        with self._failures("read"), self._sealed.in_use:
            if self._database.in_transaction:
                self._database.execute("COMMIT")
            self._database.execute("BEGIN")
        self.epoch()

    def poll(self) -> sqlite3.Connection:
        """Opens another connection, which sees each commit."""
        return read_connection(self._path)


class _Files:
    """The identity of the database file and its log when this process last looked."""

    def __init__(self, path: Path) -> None:
        self._database = str(path)  # compared for each commit: a Path takes longer than the call
        self._log = f"{path}-wal"
        self._log_identity: tuple[int, int] | None = None
        self.look()

    def look(self) -> None:
        """Remembers the files as they are now."""
        self._found = _about(os.stat(self._database))
        if self._log_identity is None:
            with suppress(OSError):
                self._log_identity = _about(os.stat(self._log))[:2]

    def compare(self) -> tuple[str | None, bool]:
        """Which file is no longer the one that this process writes, if any; and whether the database was
        written since, if only by a checkpoint.
        """
        if self._log_identity is None:  # the first commit creates it
            self.look()
        try:
            now = _about(os.stat(self._database))
            if now[:2] != self._found[:2]:
                return f"{self._database} is another file", False
            if self._log_identity is not None and _about(os.stat(self._log))[:2] != self._log_identity:
                return f"{self._log} is another file", False
        except OSError as error:
            return str(error), False
        return None, now != self._found


def _about(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


_open_catalogs: weakref.WeakSet[Catalog] = weakref.WeakSet()
# Connections of the parent process: closing them here would release files and locks that it uses.
_of_the_parent: list[sqlite3.Connection] = []


def _forked() -> None:
    for catalog in list(_open_catalogs):
        _of_the_parent.append(catalog.leave_to_the_parent())


os.register_at_fork(after_in_child=_forked)
