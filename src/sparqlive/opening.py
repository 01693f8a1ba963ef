"""How commands open stores.

Owns when a store is created: a command that only reads never creates one, and one that fails before it has
committed anything leaves none behind. A store that another process writes is read beside it. Invariant:
nothing is removed that was there before the command.
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
from sparqlive.session import Session
from sparqlive.store import ground
from sparqlive.store.locks import WriterLock

_HOLDER = re.compile(r"process (?P<pid>\d+) on (?P<host>\S+?)(?:, the agent at (?P<address>\S+))?")
_SQLITE_MAY_NOT = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
# What a new store may have; tokens and the audit log are there for themselves.
_FOLDERS = ("runs", "leases", "streams")
_OTHERS = ("tokens.", "audit.")


def is_store(directory: Path) -> bool:
    """Whether there is a store, as far as this process may look."""
    return os.path.exists(directory / "catalog.sqlite")


def ensure_store(directory: Path) -> None:
    """Refuses a directory without a store."""
    if is_store(directory):
        return
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise StoreFailed(f"There is no store at {directory}, which is not a directory. Check --store.")
    with suppress(OSError):
        ground.is_store(directory)  # what is left of a store is said to be
    raise StoreFailed(
        f"There is no store at {directory}. Check --store, or create one by loading data: "
        f"sparqlive load --store {directory} FILE."
    )


def reading(directory: Path, *, watched: str | None = None, **options: Any) -> Session:
    """A session to read from: beside the process that writes the store, if there is one.

    `watched` is a view whose changes are wanted, too: an agent sends them.
    """
    ensure_store(directory)
    try:
        return Session(directory, watch=False, **options)
    except StoreLocked as error:
        holder = _HOLDER.fullmatch(error.holder)
        follow = ""
        if watched is not None and holder is not None and holder["address"] is not None:
            follow = f" To follow its changes: sparqlive watch {holder['address']}/views/{watched}"
        say(f"Reading {directory} beside {error.holder}, which has it open for writing.{follow}")
    except StoreFailed as error:
        if not _may_not_write(error):
            raise
        say(f"Reading {directory} without the right to write it.")
    return Session(directory, read_only=True, watch=False, **options)


def _may_not_write(error: StoreFailed) -> bool:
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):  # in a directory that may not be written it cannot create its log
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_MAY_NOT
    return isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def writing(
    directory: Path, open_session: Callable[[], Session], *, creates: bool = True, runs_long: bool = False
) -> Iterator[Session]:
    """A session to write with; without a store there, one is created, or that is refused.

    A new store in which nothing was committed when an error ended the command is removed again. What runs
    long says at its beginning that it created one, and other commands at their end.
    """
    if not creates:
        ensure_store(directory)
    if is_store(directory):
        with open_session() as session:
            yield session
        return
    before = _Before(directory)
    is_open = False
    try:
        with open_session() as session:
            is_open = True
            if runs_long:
                say_created(directory)
            yield session
    except BaseException:
        if is_open and before.restored():
            if runs_long:
                say(f"Removed store {directory}: nothing was written to it.")
        elif is_open and not runs_long:
            say_created(directory)
        raise
    if not runs_long:
        say_created(directory)


class _Before:
    """What was at a directory before a store was created there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._missing = [path for path in (directory, *directory.parents) if not os.path.exists(path)]
        self._names = set(os.listdir(directory)) if os.path.isdir(directory) else set()

    def restored(self) -> bool:
        """Removes a store in which nothing is, unless somebody else has it by now; whether that was done."""
        try:
            lock = WriterLock(self._directory)
        except StoreFailed:
            return False
        try:
            with Session(self._directory, read_only=True, watch=False) as session:
                is_blank = session.epoch == 0 and not session.views and not session.sources
            if is_blank:
                self._remove_new()
            return is_blank
        finally:
            lock.release()

    def _remove_new(self) -> None:
        for name in set(os.listdir(self._directory)) - self._names:
            path = self._directory / name
            if path.is_file() and not name.startswith(_OTHERS):
                path.unlink()
            elif name in _FOLDERS:
                shutil.rmtree(path)
        for path in self._missing:
            with suppress(OSError):  # somebody else put something there meanwhile
                path.rmdir()


def say_created(directory: Path) -> None:
    """Says that a store is new: a mistyped --store is noticed."""
    say(f"Created store {directory}.")


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def locked(error: StoreLocked) -> Error:
    """What to do about a store that another process writes, for whoever wanted to write it."""
    said = f"The store {error.directory} is open for writing in {error.holder}."
    holder = _HOLDER.fullmatch(error.holder)
    if holder is None:
        return StoreFailed(f"{said} Try again when that process has ended.")
    here = holder["host"] == socket.gethostname()
    stop = f"stop it (kill {holder['pid']})" if here else f"stop it on {holder['host']}"
    address = holder["address"]
    if address is None:
        return StoreFailed(f"{said} Try again when it has ended, or {stop}.")
    return StoreFailed(
        f"{said} Send the change to the agent, with updates to {address}/sparql, views to "
        f"{address}/views/NAME and sources to {address}/sources (see docs/AGENT.md), or {stop} first."
    )
