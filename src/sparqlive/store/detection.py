"""Decides whether a directory holds a store, or whether one can be created there.

A store is created only in a directory that is missing or empty, apart from files that operating systems and
editors leave in any directory. Rejects a directory with the remains of a store whose catalog is missing: a
person has to repair or remove it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sparqlive.errors import StoreFailed
from sparqlive.store.head import NAME as HEAD
from sparqlive.store.names import ATTEMPT, ensure_file

CATALOG = "catalog.sqlite"
# Files that can exist before the catalog, or that an interrupted creation leaves behind.
_OWN = re.compile(
    r"writer\.lock|leases|runs|maps|tokens\.(json|lock|new)|audit\.jsonl|head|catalog\.(sqlite|new)(-wal|-shm|-journal)?"
)
# How some of these files start; protects another program's file of the same name.
_BEGINNINGS = {"writer.lock": b"process ", "catalog.new": b"SQLite format 3\0"}
# Hidden files, backups of editors, and files of operating systems, which a store never touches.
_HARMLESS = re.compile(
    r"\..*|.*~|#.*#|lost\+found|Thumbs\.db|desktop\.ini|Icon\r|@eaDir|\$RECYCLE\.BIN", re.DOTALL
)


def is_store(directory: Path) -> bool:
    """Whether the directory holds a store; raises if its catalog is missing or empty."""
    catalog = directory / CATALOG
    if directory.exists() and not directory.is_dir():
        raise StoreFailed(f"{directory} is a file, but a store is a directory. Choose another path.")
    if catalog.is_symlink():
        raise StoreFailed(
            f"{catalog} is a link to {catalog.readlink()}, but the lock and the runs of a store must be next "
            f"to its catalog. Use the directory of the catalog itself, or link to that directory."
        )
    if catalog.is_file() and catalog.stat().st_size:
        return True
    remains = _remains(directory)
    if remains is None:
        return False
    state = "empty" if catalog.exists() else "missing"
    raise StoreFailed(
        f"The catalog of the store {directory} is {state}: {remains}. Without {CATALOG}, the store cannot be "
        f"read. Restore {CATALOG}, or the whole store from a backup. To start with an empty store, choose "
        f"another directory."
    )


def check_files(directory: Path, *, writes: bool) -> None:
    """Raises unless SQLite can open the catalog and its log without reaching other files."""
    ensure_file(directory / CATALOG, writes=writes)
    for ending in ("-wal", "-shm"):  # readers write the latter
        ensure_file(directory / f"{CATALOG}{ending}", writes=True)
    journal = directory / f"{CATALOG}-journal"
    if os.path.lexists(journal):  # SQLite removes files that it names
        raise StoreFailed(
            f"{journal} is not from sparqlive, which keeps a log instead. SQLite would roll it back, and "
            f"remove files that it names. Remove it, or restore the store from a backup that you trust."
        )


def is_harmless(name: str) -> bool:
    """Whether operating systems and editors leave files of this name in any directory."""
    return _HARMLESS.fullmatch(name) is not None


def _remains(directory: Path) -> str | None:
    """The evidence that a catalog existed, if any."""
    if (directory / CATALOG).exists():
        return f"sparqlive never leaves {CATALOG} empty"
    if (directory / HEAD).exists():
        return f"the file {HEAD} shows that there was one"
    log = directory / f"{CATALOG}-wal"
    if log.is_file() and log.stat().st_size:
        return f"its log {log.name} exists"
    runs = directory / "runs"
    if runs.is_dir():
        attempts = [path for path in runs.iterdir() if ATTEMPT.fullmatch(path.name)]
        if any(path.is_dir() and next(path.rglob("*.parquet"), None) for path in attempts):
            return "its runs exist"
    return None


def check_ground(directory: Path) -> None:
    """Raises unless a store can be created in the directory."""
    if not directory.exists():
        return
    foreign = sorted(path.name for path in directory.iterdir() if not _is_allowed(path))
    runs = directory / "runs"
    if runs.is_dir() or runs.is_symlink():
        found = runs.iterdir() if runs.is_dir() else ()
        foreign += sorted(f"runs/{path.name}" for path in found if not is_harmless(path.name))
    if foreign:
        named = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise StoreFailed(
            f"{directory} is not a store, and it is not empty: it contains {named}. A store can only be "
            f"created in a new or empty directory. Choose another one, such as {directory / 'store'}."
        )


def _is_allowed(path: Path) -> bool:
    if is_harmless(path.name):
        return True
    return _OWN.fullmatch(path.name) is not None and _has_beginning(path, _BEGINNINGS.get(path.name))


def _has_beginning(path: Path, beginning: bytes | None) -> bool:
    """Whether a file starts like the store's own; after a crash it may be truncated or contain zeros."""
    if beginning is None:
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(len(beginning))
    return beginning.startswith(start) or not start.strip(b"\0")
