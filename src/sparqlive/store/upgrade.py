"""Upgrades a store from an older format, in one transaction.

Format 2 has no seals, no digests and no mark of the store. The upgrade reads every file once, and assumes
that files are undamaged. A file that is missing, or that has the wrong size, gets a digest that never
matches. In format 3, all files belong to bases: change log, deltas and new terms are in the catalog. In
format 4, no totals of groups are stored, and files have another layout, which this version still reads. In
format 5, what a source asserts is a relation of its own: the session that upgrades the store puts them
together (`engine/older_assertions.py`), and readers, which do not read them, need no upgrade.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparqlive.errors import StoreFailed
from sparqlive.store.place import LocalPlace, Place, check_recorded, place_at
from sparqlive.store.private import belong
from sparqlive.store.runs import digests_of
from sparqlive.store.seals import NO_EPOCH, TABLES, Sealed

if TYPE_CHECKING:
    import sqlite3

UNSEALED = 2
SAME_TABLES = 4
"""The first format with the tables of this one."""
UPGRADED = (UNSEALED, 3, 4, 5)
"""The formats that are upgraded when a store is opened for writing."""
READ = (5,)
"""Those of them that readers read as they are."""


def upgrade(database: sqlite3.Connection, sealed: Sealed, directory: Path, found: int, number: int) -> None:
    """Upgrades a catalog from the format `found` to the format `number`, inside a transaction."""
    if found == UNSEALED:
        _add_seals(database, sealed, directory, number)
        return
    sealed.load()
    if found < SAME_TABLES:
        _add_epochs(sealed)
    sealed.add("meta", ("format", str(number)))


def _add_epochs(sealed: Sealed) -> None:
    """Adds the column with the epochs of deltas to the table of runs."""
    rows = sealed.replace("runs", "path, relation, rows, bytes, first, digest")
    for path, relation, *about, _, digests in rows:
        sealed.add("runs", (relation, NO_EPOCH, path, *about), digests)


def _add_seals(database: sqlite3.Connection, sealed: Sealed, directory: Path, number: int) -> None:
    for table in TABLES:
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    sealed.create()
    meta = dict(database.execute("SELECT key, value FROM old_meta").fetchall())
    for key, value in (meta | {"format": str(number), "store": uuid4().hex}).items():
        sealed.add("meta", (key, value))
    place: Place = LocalPlace(directory, "runs")
    if "runs" in meta:
        check_recorded(meta["runs"], meta["runs_folder"])
        place = place_at(meta["runs"], meta["runs_folder"])
    for path, relation, *about in database.execute("SELECT path, relation, rows, bytes, first FROM old_runs"):
        sealed.add("runs", (relation, NO_EPOCH, path, *about), _digests(place, path, about[1]))
    sealed.add_terms(database.execute("SELECT id, text FROM old_terms ORDER BY number").fetchall())
    for table in ("epochs", "exceptions", "replaced", "views", "batches"):
        columns = ", ".join(TABLES[table].columns)
        for values in database.execute(f"SELECT {columns} FROM old_{table}"):
            sealed.add(table, values)
    for table in ("changes", "relations", "deltas"):
        columns = ", ".join((*TABLES[table].columns, str(TABLES[table].blob)))
        for *values, blob in database.execute(f"SELECT {columns} FROM old_{table}"):
            sealed.add(table, tuple(values), blob)
    for table in TABLES:
        database.execute(f"DROP TABLE old_{table}")


def make_private(directory: Path) -> None:
    """Restricts files that were created with the umask to their owner."""
    for path in (*directory.glob("catalog.sqlite*"), *directory.glob("writer.lock"), directory / "runs"):
        if os.path.lexists(path):
            belong(path, directory)


def _digests(place: Place, path: str, size: Any) -> bytes:
    try:
        if place.size(path) == size:
            return digests_of(place, path)
    except (OSError, StoreFailed):
        pass
    return bytes(8)
