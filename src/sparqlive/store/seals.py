"""Sealed tables: how a store sees that its catalog is not as it was written.

Owns the rows of the catalog and what they are compared with. Each row carries a seal, a hash of its table and
of everything in it; a term carries none, because its id is the hash of its text. Each table, and the deltas
of each relation, has a total of the seals of its rows, so that a row that is missing or older than it should
be is noticed. The root is a total of the totals, with the number of the commit. Invariants: no row is given
out whose seal does not fit; the total of a table is compared before its rows are first read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_intdigest

from sparqlive.errors import StoreFailed

Row = tuple[Any, ...]

_HALF = 0xFFFFFFFF
_SIGNED = 0x7FFFFFFFFFFFFFFF
_ROOT = ""
_OF_THE_MACHINE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_MISUSE,
}


@dataclass(frozen=True)
class Table:
    """The columns of a table; the first `keys` are its key, the seal comes after them, then a blob if any."""

    definition: str
    columns: tuple[str, ...]
    keys: int
    blob: str | None = None
    seal: str = "seal"


TABLES = {
    "meta": Table("key TEXT PRIMARY KEY, value TEXT NOT NULL, seal INTEGER NOT NULL", ("key", "value"), 1),
    "epochs": Table(
        "number INTEGER PRIMARY KEY, time REAL NOT NULL, inserted INTEGER NOT NULL, "
        "deleted INTEGER NOT NULL, strategy TEXT NOT NULL, note TEXT NOT NULL, seal INTEGER NOT NULL",
        ("number", "time", "inserted", "deleted", "strategy", "note"),
        1,
    ),
    "changes": Table(
        "epoch INTEGER PRIMARY KEY, seal INTEGER NOT NULL, quads BLOB NOT NULL", ("epoch",), 1, "quads"
    ),
    "terms": Table(
        "number INTEGER PRIMARY KEY, id INTEGER NOT NULL, text TEXT NOT NULL", ("id", "text"), 0, seal="id"
    ),
    "exceptions": Table(
        "text TEXT PRIMARY KEY, id INTEGER NOT NULL, seal INTEGER NOT NULL", ("text", "id"), 1
    ),
    "relations": Table(
        "name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, width INTEGER NOT NULL, seal INTEGER NOT NULL, "
        "rows BLOB",
        ("name", "epoch", "width"),
        1,
        "rows",
    ),
    "runs": Table(
        "path TEXT PRIMARY KEY, relation TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL, "
        "first TEXT NOT NULL, seal INTEGER NOT NULL, digests BLOB NOT NULL",
        ("path", "relation", "rows", "bytes", "first"),
        1,
        "digests",
    ),
    "replaced": Table(
        "path TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seal INTEGER NOT NULL", ("path", "epoch"), 1
    ),
    "views": Table(
        "name TEXT PRIMARY KEY, text TEXT NOT NULL, base TEXT, since INTEGER NOT NULL, "
        "refresh TEXT NOT NULL, position INTEGER NOT NULL, seal INTEGER NOT NULL",
        ("name", "text", "base", "since", "refresh", "position"),
        1,
    ),
    "deltas": Table(
        "relation TEXT NOT NULL, epoch INTEGER NOT NULL, width INTEGER NOT NULL, seal INTEGER NOT NULL, "
        "rows BLOB NOT NULL, PRIMARY KEY (relation, epoch)",
        ("relation", "epoch", "width"),
        2,
        "rows",
    ),
    "batches": Table(
        "source TEXT NOT NULL, batch INTEGER NOT NULL, epoch INTEGER NOT NULL, seal INTEGER NOT NULL, "
        "PRIMARY KEY (source, batch)",
        ("source", "batch", "epoch"),
        2,
    ),
}
_WITH_ROWID = ("epochs", "changes", "terms")


def _inserts(verb: str) -> dict[str, str]:
    made = {}
    for name, table in TABLES.items():
        blob = () if table.blob is None else (table.blob,)
        titles = (*table.columns, "seal", *blob)
        made[name] = f"{verb} INTO {name} ({', '.join(titles)}) VALUES ({', '.join('?' * len(titles))})"
    return made


_INSERT, _REPLACE = _inserts("INSERT"), _inserts("REPLACE")


def seal_of(table: str, row: Row, blob: bytes | None = None) -> int:
    """A hash of a row, with the table that it is in."""
    seed = xxh3_64_intdigest(repr((table, row, blob is None)).encode("utf-8", "surrogatepass"))
    return (xxh3_64_intdigest(blob, seed) if blob else seed) & _SIGNED


class Damaged(StoreFailed):
    """The catalog is not as it was written. `relation` is the one that is damaged, if it is only one."""

    def __init__(self, path: Path, what: str, relation: str | None = None) -> None:
        remedy = (
            "`sparqlive check --repair` computes views again; the rest must come from a copy of the store"
            if relation is not None
            else "Put a copy of the store in its place"
        )
        super().__init__(f"The catalog {path} is damaged: {what}. {remedy}.")
        self.relation = relation


class Sealed:
    """The tables of a catalog by their rows. Only a writer adds and deletes."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self.database = database
        self._path = path
        self._compared: set[str] = set()
        self._totals: dict[str, tuple[int, int]] = {}
        self._changed: dict[str, tuple[int, int]] = {}

    def create(self) -> None:
        """Makes the tables."""
        for name, table in TABLES.items():
            rowid = "" if name in _WITH_ROWID else " WITHOUT ROWID"
            self.database.execute(f"CREATE TABLE {name} ({table.definition}){rowid}")
        self.database.execute(
            "CREATE TABLE totals (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, total INTEGER NOT NULL) "
            "WITHOUT ROWID"
        )

    # Writing

    def add(self, table: str, row: Row, blob: bytes | None = None) -> None:
        """A row that is new, or takes the place of the one with its key."""
        seal = seal_of(table, row, blob)
        values = (*row, seal) if TABLES[table].blob is None else (*row, seal, blob)
        try:
            self.database.execute(_INSERT[table], values)
        except sqlite3.IntegrityError:
            keys = TABLES[table].keys
            where = " AND ".join(f"{title} = ?" for title in TABLES[table].columns[:keys])
            self._count(table, row, where, row[:keys], -1)
            self.database.execute(_REPLACE[table], values)
        self._change(_group(table, row), 1, seal & _HALF)

    def add_terms(self, terms: Sequence[tuple[int, str]]) -> None:
        self.database.executemany("INSERT INTO terms (id, text) VALUES (?, ?)", terms)
        self._change("terms", len(terms), sum(number & _HALF for number, _ in terms))

    def delete(self, table: str, where: str, values: Row) -> None:
        """Rows of a table; of deltas those of one relation, which is the first value."""
        self._count(table, values, where, values, -1)
        self.database.execute(f"DELETE FROM {table} WHERE {where}", values)

    def forget_deltas(self, relation: str) -> None:
        """All deltas of a relation, whatever they are."""
        self.database.execute("DELETE FROM deltas WHERE relation = ?", (relation,))
        self._changed[_group("deltas", (relation,))] = 0, 0

    def _count(self, table: str, row: Row, where: str, values: Row, sign: int) -> None:
        rows, total = self._sum(table, where, values)
        self._change(_group(table, row), sign * rows, sign * total)

    def _sum(self, table: str, where: str, values: Row) -> tuple[int, int]:
        """How many rows there are, and the total of their seals."""
        query = (
            f"SELECT count(*), coalesce(sum({TABLES[table].seal} & {_HALF}), 0) FROM {table} WHERE {where}"
        )
        rows, total = self.database.execute(query, values).fetchone()
        return rows, total

    def _change(self, group: str, rows: int, total: int) -> None:
        before = self._changed.get(group) or self._totals.get(group, (0, 0))
        self._changed[group] = before[0] + rows, before[1] + total

    def seal(self) -> tuple[int, int]:
        """Writes what the transaction under way changed of the totals; the number and root of the commit."""
        number, root = self._totals.get(_ROOT, (0, 0))
        for group, (rows, total) in self._changed.items():
            root += _part(group, rows, total) - _part(group, *self._totals.get(group, (0, 0)))
        self._changed[_ROOT] = number + 1, root & _HALF
        written = [(group, *now) for group, now in self._changed.items()]
        self.database.executemany("REPLACE INTO totals VALUES (?, ?, ?)", written)
        if any(not rows for _, rows, _ in written):
            self.database.execute("DELETE FROM totals WHERE rows = 0")
        return self._changed[_ROOT]

    def committed(self) -> None:
        self._totals.update(self._changed)
        self._changed = {}

    def rolled_back(self) -> None:
        self._changed = {}

    # Reading

    def load(self) -> tuple[int, int]:
        """Reads and compares the totals; the number and root of the last commit."""
        found = {name: (rows, total) for name, rows, total in self._fetch("SELECT * FROM totals", ())}
        number, root = found.get(_ROOT, (0, -1))
        parts = sum(_part(group, *total) for group, total in found.items() if group != _ROOT)
        if parts & _HALF != root:
            raise Damaged(self._path, "its totals do not fit together")
        self._totals = found
        return number, root

    def compare(self, group: str) -> None:
        """Raises unless a table, or the deltas of a relation, has just the rows that it was left with."""
        if group in self._compared:
            return
        table, _, relation = group.partition("/")
        try:
            if relation:
                found = self._sum(table, "relation = ?", (relation,))
            else:
                found = self._sum(table, "true", ())
        except sqlite3.Error as error:
            raise self._told(error, relation or None) from error
        if found != self.total(group):
            what = f"deltas of the relation {relation}" if relation else f"rows of the table {table}"
            raise Damaged(self._path, f"{what} are missing or are not the last ones", relation or None)
        self._compared.add(group)

    def total(self, group: str) -> tuple[int, int]:
        """How many rows a table, or the deltas of a relation, was left with, and the total of their seals."""
        if group in self._changed:  # by the transaction under way
            return self._changed[group]
        found = self._fetch("SELECT rows, total FROM totals WHERE name = ?", (group,))
        return found[0] if found else (0, 0)

    def rows(self, table: str, where: str = "true", values: Row = (), order: str = "") -> list[Row]:
        """Rows of a table as they were added: the columns, and the blob where the table has one."""
        about = TABLES[table]
        self.compare(_group(table, values))
        titles = (*about.columns, "seal", *(() if about.blob is None else (about.blob,)))
        query = f"SELECT {', '.join(titles)} FROM {table} WHERE {where} {order}"
        width = len(about.columns)
        found = []
        for row in self._fetch(query, values, _relation(table, values)):
            given, blob = row[:width], row[width + 1] if about.blob is not None else None
            if not isinstance(blob, bytes | None) or row[width] != seal_of(table, given, blob):
                relation = given[0] if table in ("relations", "deltas") else None
                raise Damaged(self._path, f"a row of the table {table} is not as it was written", relation)
            found.append((*given, blob) if about.blob is not None else given)
        return found

    def terms(self) -> list[tuple[int, int, str]]:
        """The terms, each with its place. Whoever asks compares ids with texts."""
        self.compare("terms")
        found = self._fetch("SELECT number, id, text FROM terms ORDER BY number", ())
        if found and [row[0] for row in found] != [*range(found[0][0], found[0][0] + len(found))]:
            raise Damaged(self._path, "rows of the table terms are missing")
        return found

    def pairs(self, query: str) -> list[tuple[Any, Any]]:
        """What a query finds, which has two columns; not compared with seals."""
        return self._fetch(query, ())

    def value(self, query: str, values: Row = ()) -> Any:
        """The first value that a query finds."""
        row = self._fetch(query, values)
        return row[0][0] if row else None

    def _fetch(self, query: str, values: Row, relation: str | None = None) -> list[Any]:
        try:
            return self.database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._told(error, relation) from error

    def _told(self, error: sqlite3.Error, relation: str | None) -> StoreFailed:
        """What SQLite says of damage, or of the machine."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_MACHINE:
            return StoreFailed(
                f"The catalog {self._path} could not be read: {error}. "
                f"It is as it was; try again once the cause is removed."
            )
        return Damaged(self._path, str(error), relation)

    def verify(self) -> None:
        """Raises unless every row is as it was written, and the database is sound."""
        self._compared.clear()
        for group in self.groups():
            table, _, relation = group.partition("/")
            if table == "terms":
                self.terms()
            elif relation:
                self.rows(table, "relation = ?", (relation,))
            else:
                self.rows(table)
        known = set(self.groups())
        for (relation,) in self._fetch("SELECT DISTINCT relation FROM deltas", ()):
            if _group("deltas", (relation,)) not in known:
                raise Damaged(self._path, f"deltas of the relation {relation} are there again", relation)
        said = self.value("PRAGMA quick_check(1)")
        if said != "ok":
            raise Damaged(self._path, str(said))

    def groups(self) -> Iterable[str]:
        """The tables, and the deltas of each relation, that there are totals of."""
        relations = self._fetch("SELECT name FROM totals WHERE substr(name, 1, 7) = 'deltas/'", ())
        return (*(table for table in TABLES if table != "deltas"), *(name for (name,) in relations))


def _relation(table: str, values: Row) -> str | None:
    return values[0] if table == "deltas" else None


def _group(table: str, row: Row) -> str:
    """What a row is counted under."""
    return f"deltas/{row[0]}" if table == "deltas" else table


def _part(group: str, rows: int, total: int) -> int:
    """What a total adds to the root."""
    return xxh3_64_intdigest(f"{group}\n{rows}\n{total}".encode()) & _HALF if rows else 0
