"""Opens stores for commands.

Owns when a store is created: a command that only reads never creates one, and a command that fails before
its first commit leaves none behind. While another process writes a store, commands can read it. Invariant:
a command never removes files that existed before it started.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparqlive.errors import Error, StoreFailed, StoreLocked
from sparqlive.session import DefaultGraphs, Session
from sparqlive.store import detection
from sparqlive.store.locks import WriterLock

_HOLDER = re.compile(r"process (?P<pid>\d+) on (?P<host>\S+?)(?:, the agent at (?P<address>\S+))?")
_SQLITE_DENIED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
# Folders of a new store. Tokens and the audit log do not belong to the store, and stay.
_FOLDERS = ("runs", "leases", "streams")
_OTHERS = ("tokens.", "audit.")


def is_store(directory: Path) -> bool:
    """Whether the directory holds a store that this process can see."""
    return os.path.exists(directory / "catalog.sqlite")


def default_graph_of(directory: Path, setting: DefaultGraphs | None = None) -> DefaultGraphs | None:
    """The default graph to open a store with: `setting`, or else "union" for a new store, its own otherwise.

    Sources put triples into named graphs, so queries that name no graph would not see them in strict stores.
    """
    return setting or (None if is_store(directory) else "union")


def ensure_store(directory: Path) -> None:
    """Rejects a directory without a store."""
    if is_store(directory):
        return
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise StoreFailed(f"There is no store at {directory}: it is not a directory. Check --store.")
    _ensure_allowed(directory)
    with suppress(OSError):
        detection.is_store(directory)  # raises its own error for the remains of a store
    raise StoreFailed(
        f"There is no store at {directory}. Check --store, or load data to create one: "
        f"sparqlive load --store {directory} FILE."
    )


def _ensure_allowed(directory: Path) -> None:
    """Rejects a directory that this user cannot read, because it may hold a store."""
    if os.path.isdir(directory) and not os.access(directory, os.R_OK | os.X_OK):
        raise StoreFailed(
            f"You have no permission to read the directory {directory}. Run the command as its owner, or "
            f"check --store."
        )


def reading(directory: Path, *, watched: str | None = None, **options: Any) -> Session:
    """Returns a session for reading, even while another process writes the store.

    `watched` names the view to watch, for a hint where an agent serves its changes.
    """
    ensure_store(directory)
    try:
        return Session(directory, watch=False, **options)
    except StoreLocked as error:
        holder = _HOLDER.fullmatch(error.holder)
        follow = ""
        if watched is not None and holder is not None and holder["address"] is not None:
            follow = f" To watch its changes, run: sparqlive watch {holder['address']}/views/{watched}"
        say(f"Reading {directory} while another process has it open for writing ({error.holder}).{follow}")
    except StoreFailed as error:
        if not _is_write_denied(error):
            raise
        say(f"Reading {directory} without write permission.")
    return Session(directory, read_only=True, watch=False, **options)


def _is_write_denied(error: StoreFailed) -> bool:
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):  # SQLite cannot create its log in a read-only directory
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_DENIED
    return isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def writing(
    directory: Path, open_session: Callable[[], Session], *, creates: bool = True, runs_long: bool = False
) -> Iterator[Session]:
    """Opens a session for writing. With `creates`, a missing store is created; otherwise it is an error.

    A new store is removed again if the command fails before its first commit. Commands that run long report
    at the start that they created a store, other commands at the end.
    """
    if not creates:
        ensure_store(directory)
    if is_store(directory):
        with open_session() as session:
            yield session
        return
    _ensure_allowed(directory)
    before = _DirectoryBefore(directory)
    is_open = False
    try:
        with open_session() as session:
            is_open = True
            if runs_long:
                say_created(directory)
            yield session
    except BaseException as error:
        # Ctrl-C can come even while the store is created.
        if (is_open or isinstance(error, KeyboardInterrupt)) and before.restore():
            if runs_long:
                say(f"Removed store {directory}: nothing was written to it.")
        elif is_open and not runs_long:
            say_created(directory)
        raise
    if not runs_long:
        say_created(directory)


class _DirectoryBefore:
    """The content of a directory before a store was created in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._missing = [path for path in (directory, *directory.parents) if not os.path.exists(path)]
        self._names = set(os.listdir(directory)) if os.path.isdir(directory) else set()

    def restore(self) -> bool:
        """Removes an empty store, unless another process has it open. Returns whether it was removed."""
        if not os.path.isdir(self._directory):
            return False
        try:
            lock = WriterLock(self._directory)
        except StoreFailed:
            return False
        try:
            is_blank = self._is_blank()
            if is_blank:
                self._remove_new()
            return is_blank
        finally:
            lock.release()

    def _is_blank(self) -> bool:
        if not is_store(self._directory):
            return True  # it was not created completely
        with Session(self._directory, read_only=True, watch=False) as session:
            return session.epoch == 0 and not session.views and not session.sources

    def _remove_new(self) -> None:
        for name in set(os.listdir(self._directory)) - self._names:
            path = self._directory / name
            if path.is_file() and not name.startswith(_OTHERS):
                path.unlink()
            elif name in _FOLDERS:
                shutil.rmtree(path)
        for path in self._missing:
            with suppress(OSError):  # another process has added files meanwhile
                path.rmdir()


def say_created(directory: Path) -> None:
    """Reports a new store, so that the user notices a mistyped --store."""
    say(f"Created store {directory}.")


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def locked(error: StoreLocked) -> Error:
    """Returns an error that tells the user of a command which process is writing, and what to do."""
    fact = f"The store {error.directory} is open for writing in {error.holder}."
    holder = _HOLDER.fullmatch(error.holder)
    if holder is None:
        return StoreFailed(f"{fact} Try again when that process has ended.")
    here = holder["host"] == socket.gethostname()
    stop = f"stop it (kill {holder['pid']})" if here else f"stop it on {holder['host']}"
    address = holder["address"]
    if address is None:
        return StoreFailed(f"{fact} Try again when it has ended, or {stop}.")
    return StoreFailed(
        f"{fact} Send changes to the agent, with --agent {address} instead of --store, or {stop} first."
    )
