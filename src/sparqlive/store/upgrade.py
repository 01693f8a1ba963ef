"""Upgrades a store from format 2, which has no seals, no digests and no mark of the store.

One transaction adds them. It reads every file once, and assumes that files are undamaged. A file that is
missing, or that has the wrong size, gets a digest that never matches.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparqlive.errors import StoreFailed
from sparqlive.store.place import LocalPlace, Place, place_at
from sparqlive.store.private import belong
from sparqlive.store.runs import digests_of
from sparqlive.store.seals import TABLES, Sealed

if TYPE_CHECKING:
    import sqlite3

UPGRADED = 2
"""The format that is upgraded when a store is opened for writing."""


def upgrade(database: sqlite3.Connection, sealed: Sealed, directory: Path, number: int) -> None:
    """Upgrades a catalog to the format `number`, inside a transaction."""
    for table in TABLES:
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    sealed.create()
    meta = dict(database.execute("SELECT key, value FROM old_meta").fetchall())
    for key, value in (meta | {"format": str(number), "store": uuid4().hex}).items():
        sealed.add("meta", (key, value))
    place = place_at(meta["runs"], meta["runs_folder"]) if "runs" in meta else LocalPlace(directory, "runs")
    for *row, size, first in database.execute("SELECT path, relation, rows, bytes, first FROM old_runs"):
        sealed.add("runs", (*row, size, first), _digests(place, row[0], size))
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
        if path.exists():
            belong(path, directory)


def _digests(place: Place, path: str, size: Any) -> bytes:
    try:
        if place.size(path) == size:
            return digests_of(place, path)
    except (OSError, StoreFailed):
        pass
    return bytes(8)
