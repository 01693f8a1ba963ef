"""Sealed tables: detect every change to a catalog since it was written.

Owns the rows of the catalog and their checksums. Each row has a seal, a hash of its table and its values; a
term has none, because its id is the hash of its text. Each table, and the deltas of each relation, has a
total of the seals of its rows, which reveals missing and outdated rows. The root is a total of the totals,
with the number of the commit. Invariants: a row whose seal does not match is never returned; the total of a
table is compared before its rows are first read.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_intdigest

from sparqlive.errors import StoreFailed

Row = tuple[Any, ...]

_HALF = 0xFFFFFFFF
_STEP = 40503
_ODD = 0x9E3779B97F4A7C15
_SIGNED = 0x7FFFFFFFFFFFFFFF
_ROOT = ""
_LAST_COMMIT = "SELECT rows, total FROM totals WHERE name = ''"
NO_EPOCH = -1
"""The epoch of files of a relation's base, in place of a delta's."""
_MACHINE_FAILURES = {
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
    """The columns of a table with their types; the first `keys` are its key.

    A blob comes last, after its digest, so that the columns before it can be checked without reading it.
    `number` is a key column that the totals include, so that moving a row is noticed.
    """

    columns: Mapping[str, str]
    keys: int = 1
    blob: str | None = None
    number: str | None = None
    seal: str = "seal"

    @property
    def header(self) -> tuple[str, ...]:
        """The sealed columns, and the seal."""
        return (*self.columns, *(() if self.blob is None else ("digest",)), "seal")

    @property
    def value(self) -> str:
        """SQL for the contribution of a row to the total of its table."""
        # Halves, because a sum in SQLite that exceeds 64 bits becomes a float.
        moved = f" + ({self.number} & {_HALF}) * {_STEP}" if self.number is not None else ""
        return f"((({self.seal} & {_HALF}){moved}) & {_HALF})"

    @property
    def definition(self) -> str:
        columns = [f"{name} {kind}" for name, kind in self.columns.items()]
        if self.blob is not None:
            columns += ["digest INTEGER NOT NULL", "seal INTEGER NOT NULL", f"{self.blob} BLOB"]
        else:
            columns += ["seal INTEGER NOT NULL"]
        return f"{', '.join(columns)}, PRIMARY KEY ({', '.join([*self.columns][: self.keys])})"


_TEXT, _NUMBER = "TEXT NOT NULL", "INTEGER NOT NULL"
TABLES = {
    "meta": Table({"key": _TEXT, "value": _TEXT}),
    "epochs": Table(
        {
            "number": "INTEGER",
            "time": "REAL NOT NULL",
            "inserted": _NUMBER,
            "deleted": _NUMBER,
            "strategy": _TEXT,
            "note": _TEXT,
        },
        number="number",
    ),
    "changes": Table({"epoch": "INTEGER"}, blob="quads", number="epoch"),
    "terms": Table({"id": _NUMBER, "text": _TEXT}, keys=0, seal="id"),
    "exceptions": Table({"text": _TEXT, "id": _NUMBER}),
    "relations": Table({"name": _TEXT, "epoch": _NUMBER, "width": _NUMBER}, blob="rows"),
    "runs": Table(
        {
            "relation": _TEXT,
            "epoch": _NUMBER,
            "path": _TEXT,
            "rows": _NUMBER,
            "bytes": _NUMBER,
            "first": _TEXT,
        },
        keys=3,
        blob="digests",
    ),
    "replaced": Table({"path": _TEXT, "epoch": _NUMBER}),
    "views": Table(
        {
            "name": _TEXT,
            "text": _TEXT,
            "base": "TEXT",
            "since": _NUMBER,
            "refresh": _TEXT,
            "position": _NUMBER,
        }
    ),
    "deltas": Table(
        {"relation": _TEXT, "epoch": _NUMBER, "width": _NUMBER}, keys=2, blob="rows", number="epoch"
    ),
    "batches": Table({"source": _TEXT, "batch": _NUMBER, "epoch": _NUMBER}, keys=2, number="batch"),
}
# Small tables with lookups by name: all rows are compared before a lookup may report a missing one.
_BY_NAME = ("meta", "exceptions", "relations", "runs", "replaced", "views")
_WITH_ROWID = ("epochs", "changes")


# The names of all tables, including statistics, which a user may have let SQLite collect.
_NAMES = {*TABLES, "totals"}
_STATISTICS = ("sqlite_stat1", "sqlite_stat4")
_PLAIN = re.compile(r'CREATE TABLE (?:\w+|"\w+") ?\([\w\s,()"]*\)(?: WITHOUT ROWID)?')
_CODE = re.compile(r"\b(?:CHECK|DEFAULT|GENERATED|AS|REFERENCES|COLLATE)\b", re.IGNORECASE)


def _inserts(verb: str) -> dict[str, str]:
    statements = {}
    for name, table in TABLES.items():
        titles = (*table.header, *(() if table.blob is None else (table.blob,)))
        values = ", ".join("?" * len(titles))
        statements[name] = f"{verb} INTO {name} ({', '.join(titles)}) VALUES ({values})"
    return statements


_INSERT, _REPLACE = _inserts("INSERT"), _inserts("REPLACE")


def seal_of(table: str, row: Row) -> int:
    """A hash of a row and the name of its table."""
    return xxh3_64_intdigest(repr((table, row)).encode("utf-8", "surrogatepass")) & _SIGNED


def _digest_of(blob: bytes | None) -> int:
    return -1 if blob is None else xxh3_64_intdigest(blob) & _SIGNED


class Damaged(StoreFailed):
    """The catalog is damaged."""

    def __init__(self, path: Path, what: str, relation: str | None = None) -> None:
        """`relation` names the damaged relation if only one is damaged."""
        remedy = (
            "`sparqlive check --repair` recomputes views; restore everything else from a backup of the store"
            if relation is not None
            else "Restore the store from a backup"
        )
        super().__init__(f"The catalog {path} is damaged: {what}. {remedy}.")


class Sealed:
    """The tables of a catalog. Only a writer adds and deletes rows.

    `in_use`: held for a transaction, or for one statement. Python gets the error of a statement from the
    connection; it would be the wrong one if another thread had used the connection meanwhile.
    """

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database = database
        self.in_use = threading.RLock()
        self._path = path
        self._compared: set[str] = set()
        self._totals: dict[str, tuple[int, int]] = {}
        self._parts: dict[str, int] = {}
        self._changed: dict[str, tuple[int, int]] = {}
        self._changed_parts: dict[str, int] = {}

    def use(self, database: sqlite3.Connection) -> None:
        """Switches to another connection to the same tables."""
        self._database = database
        self.in_use = threading.RLock()  # in a forked process, a thread of the parent may hold the old one

    def create(self) -> None:
        """Creates the tables."""
        for name, table in TABLES.items():
            if name != "terms":
                rowid = "" if name in _WITH_ROWID else " WITHOUT ROWID"
                self._database.execute(f"CREATE TABLE {name} ({table.definition}){rowid}")
        self._database.execute(
            "CREATE TABLE terms (number INTEGER PRIMARY KEY, id INTEGER NOT NULL, text TEXT NOT NULL)"
        )
        self._database.execute(
            "CREATE TABLE totals (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, total INTEGER NOT NULL) "
            "WITHOUT ROWID"
        )

    def check_schema(self) -> None:
        """Raises if the database has anything but plain tables: triggers and views would execute code."""
        entries = self._fetch("SELECT type, name, tbl_name, sql FROM sqlite_master", ())
        for kind, name, table, text in entries:
            is_own = table in _NAMES and (
                (kind == "index" and text is None)  # of a primary key
                or (kind == "table" and name == table and _is_plain(text))
            )
            if not is_own and table not in _STATISTICS:
                raise Damaged(self._path, f"it has a {str(kind)[:20]} {str(name)[:60]!r} that is not its own")

    # Writing

    def add(self, table: str, row: Row, blob: bytes | None = None) -> None:
        """Adds a row, replacing the row with the same key."""
        about = TABLES[table]
        sealed = row if about.blob is None else (*row, _digest_of(blob))
        seal = seal_of(table, sealed)
        values = (*sealed, seal) if about.blob is None else (*sealed, seal, blob)
        try:
            self._database.execute(_INSERT[table], values)
        except sqlite3.IntegrityError:
            where = " AND ".join(f"{title} = ?" for title in [*about.columns][: about.keys])
            self._uncount(table, where, row[: about.keys])
            self._database.execute(_REPLACE[table], values)
        number = 0 if about.number is None else row[about.keys - 1]
        self._change(_group(table, row), 1, ((seal & _HALF) + (number & _HALF) * _STEP) & _HALF)

    def add_terms(self, terms: Sequence[tuple[int, str]]) -> None:
        self._database.executemany("INSERT INTO terms (id, text) VALUES (?, ?)", terms)
        self._change("terms", len(terms), sum(number & _HALF for number, _ in terms))

    def delete(self, table: str, where: str, values: Row) -> None:
        """Deletes rows of a table; deltas only of one relation, the first value."""
        self._uncount(table, where, values)
        self._database.execute(f"DELETE FROM {table} WHERE {where}", values)

    def forget_deltas(self, relation: str) -> None:
        """Deletes all deltas of a relation, even damaged ones."""
        self._database.execute("DELETE FROM deltas WHERE relation = ?", (relation,))
        self._changed[_group("deltas", (relation,))] = 0, 0

    def _uncount(self, table: str, where: str, values: Row) -> None:
        rows, total = self._sum(table, where, values)
        self._change(_group(table, values), -rows, -total)

    def _sum(self, table: str, where: str, values: Row) -> tuple[int, int]:
        """The number of rows, and their contribution to the total of their table."""
        query = f"SELECT count(*), coalesce(sum({TABLES[table].value}), 0) FROM {table} WHERE {where}"
        with self.in_use:
            rows, total = self._database.execute(query, values).fetchone()
        return rows, total

    def _change(self, group: str, rows: int, total: int) -> None:
        before = self._changed.get(group) or self._totals.get(group, (0, 0))
        self._changed[group] = before[0] + rows, before[1] + total

    def seal(self) -> tuple[int, int]:
        """Writes the totals that the transaction changed; returns the number and root of the commit."""
        number, root = self._totals.get(_ROOT, (0, 0))
        parts = self._parts
        for group, (rows, total) in self._changed.items():
            part = _part(group, rows, total)
            root += part - parts.get(group, 0)
            self._changed_parts[group] = part
        self._changed[_ROOT] = number + 1, root & _HALF
        written = [(group, *now) for group, now in self._changed.items()]
        self._database.executemany("REPLACE INTO totals VALUES (?, ?, ?)", written)
        if any(not rows for _, rows, _ in written):
            self._database.execute("DELETE FROM totals WHERE rows = 0")
        return self._changed[_ROOT]

    def commit(self) -> None:
        self._totals.update(self._changed)
        self._parts.update(self._changed_parts)
        self.roll_back()

    def roll_back(self) -> None:
        self._changed, self._changed_parts = {}, {}

    # Reading

    def is_current(self) -> bool:
        """Whether the last commit in the database is the last one loaded or made by this process."""
        try:
            with self.in_use:
                row = self._database.execute(_LAST_COMMIT).fetchone()
        except sqlite3.Error as error:
            raise self._failure(error, None) from error
        return bool(row == self._totals.get(_ROOT))

    def load(self) -> tuple[int, int]:
        """Reads and compares the totals; returns the number and root of the last commit."""
        totals = {name: (rows, total) for name, rows, total in self._fetch("SELECT * FROM totals", ())}
        number, root = totals.get(_ROOT, (0, -1))
        parts = {group: _part(group, *total) for group, total in totals.items() if group != _ROOT}
        if sum(parts.values()) & _HALF != root:
            raise Damaged(self._path, "its totals are inconsistent")
        self._totals, self._parts = totals, parts
        return number, root

    def compare(self, group: str) -> None:
        """Raises unless a table, or the deltas of a relation, has exactly the rows of its total."""
        if group not in self._compared:
            with self.in_use:  # reads rows and totals of the same commit
                self._compare(group)
            self._compared.add(group)

    def _compare(self, group: str) -> None:
        table, _, relation = group.partition("/")
        try:
            if relation:
                total = self._sum(table, "relation = ?", (relation,))
            else:
                total = self._sum(table, "true", ())
            for row in self._headers(table, "true", (), "") if table in _BY_NAME else ():
                self._check(table, row)
        except sqlite3.Error as error:
            raise self._failure(error, relation or None) from error
        if total != self.total(group):
            what = f"deltas of the relation {relation}" if relation else f"rows of the table {table}"
            raise Damaged(self._path, f"{what} are missing or outdated", relation or None)

    def total(self, group: str) -> tuple[int, int]:
        """The recorded number of rows of a table or of a relation's deltas, and the total of their seals."""
        if group in self._changed:  # by the current transaction
            return self._changed[group]
        rows = self._fetch("SELECT rows, total FROM totals WHERE name = ?", (group,))
        return rows[0] if rows else (0, 0)

    def rows(self, table: str, where: str = "true", values: Row = (), order: str = "") -> list[Row]:
        """Rows of a table as they were added: the columns, and the blob if the table has one."""
        about = TABLES[table]
        self.compare(_group(table, values))
        rows = []
        for row in self._headers(table, where, values, order, about.blob):
            if about.blob is None:
                rows.append(self._check(table, row))
                continue
            *header, blob = row
            *given, digest = self._check(table, tuple(header))
            if not isinstance(blob, bytes | None) or digest != _digest_of(blob):
                raise self._other(table, header[0])
            rows.append((*given, blob))
        return rows

    def _headers(self, table: str, where: str, values: Row, order: str, blob: str | None = None) -> list[Any]:
        titles = (*TABLES[table].header, *(() if blob is None else (blob,)))
        query = f"SELECT {', '.join(titles)} FROM {table} WHERE {where} {order}"
        return self._fetch(query, values, values[0] if table == "deltas" else None)

    def _check(self, table: str, row: Row) -> Row:
        """Compares the seal of a row; returns the row without it."""
        *given, seal = row
        if seal != seal_of(table, tuple(given)):
            raise self._other(table, row[0])
        return tuple(given)

    def _other(self, table: str, key: Any) -> Damaged:
        relation = key if table in ("relations", "deltas") else None
        return Damaged(self._path, f"a row of the table {table} has changed since it was written", relation)

    def terms(self) -> list[tuple[int, int, str]]:
        """The terms with their positions. The caller compares ids with texts."""
        self.compare("terms")
        rows = self._fetch("SELECT number, id, text FROM terms ORDER BY number", ())
        if rows and [row[0] for row in rows] != [*range(rows[0][0], rows[0][0] + len(rows))]:
            raise Damaged(self._path, "rows of the table terms are missing")
        return rows

    def pairs(self, query: str) -> list[tuple[Any, Any]]:
        """The result of a query with two columns, without comparing seals."""
        return self._fetch(query, ())

    def value(self, query: str, values: Row = ()) -> Any:
        """The first value of a query's result, without comparing seals."""
        row = self._fetch(query, values)
        return row[0][0] if row else None

    def numbers(self, query: str, values: Row = ()) -> set[int]:
        """The numbers in a query's result, without comparing seals."""
        return {int(row[0]) for row in self._fetch(query, values)}

    def _fetch(self, query: str, values: Row, relation: str | None = None) -> list[Any]:
        try:
            with self.in_use:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._failure(error, relation) from error

    def _failure(self, error: sqlite3.Error, relation: str | None) -> StoreFailed:
        """Distinguishes damage of the catalog from failures of the machine."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _MACHINE_FAILURES:
            return StoreFailed(
                f"The catalog {self._path} could not be read: {error}. "
                f"It is unchanged. Remove the cause and try again."
            )
        return Damaged(self._path, str(error), relation)

    def verify(self) -> None:
        """Raises unless every row is unchanged and SQLite finds the database intact."""
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
                raise Damaged(self._path, f"deleted deltas of the relation {relation} reappeared", relation)
        outcome = self.value("PRAGMA quick_check(1)")
        if outcome != "ok":
            raise Damaged(self._path, str(outcome))

    def groups(self) -> Iterable[str]:
        """The groups that have totals: the tables, and the deltas of each relation."""
        relations = self._fetch("SELECT name FROM totals WHERE substr(name, 1, 7) = 'deltas/'", ())
        return (*(table for table in TABLES if table != "deltas"), *(name for (name,) in relations))


def _is_plain(text: Any) -> bool:
    """Whether the definition of a table has columns and a key, but no expressions."""
    return isinstance(text, str) and _PLAIN.fullmatch(text) is not None and _CODE.search(text) is None


def _group(table: str, row: Row) -> str:
    """The group whose total includes a row."""
    return f"deltas/{row[0]}" if table == "deltas" else table


@lru_cache(maxsize=10_000)
def _name(group: str) -> int:
    return xxh3_64_intdigest(group.encode("utf-8", "surrogatepass")) & _HALF


def _part(group: str, rows: int, total: int) -> int:
    """The contribution of a total to the root: a hash of the name, the number of rows and the total."""
    if not rows:
        return 0
    mixed = ((_name(group) + rows) * _ODD ^ total) * _ODD & _SIGNED
    return (mixed ^ mixed >> 29) * _ODD >> 16 & _HALF
