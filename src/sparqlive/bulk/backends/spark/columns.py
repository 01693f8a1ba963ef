"""Finds columns of DataFrames by the names in mappings and options, in the way that Spark finds them.

A name may refer to a field in a struct (`addr.street`), and may differ in case unless the session says
otherwise. Rejects columns that are missing, ambiguous or of a type without terms before a job starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, TimestampType

from sparqlive.errors import Error
from sparqlive.rdf.frames import FrameColumns, missing, statement_names, wanted_names
from sparqlive.rdf.table_mapping import datatype_of

_PART = re.compile(r"(`(?:[^`]|``)+`|[^.`]+)(?:\.(?!$)|$)")
"""Part of a dotted name; a part that itself contains dots is in backquotes."""


@dataclass(frozen=True)
class Found:
    """A column or a field: its path and its type."""

    path: tuple[str, ...]
    type: DataType

    def column(self) -> Column:
        return functions.col(".".join(f"`{part.replace('`', '``')}`" for part in self.path))


@dataclass(frozen=True)
class Columns:
    schema: StructType
    minds_case: bool = False

    @classmethod
    def of(cls, frame: DataFrame) -> Columns:
        minds: Any = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")
        return cls(frame.schema, str(minds).lower() == "true")

    def names(self, wanted: Iterable[str]) -> list[str]:
        """Returns the names of all columns, spelled as requested, and of the requested fields."""
        names, fields = list(self.schema.names), []
        for name in dict.fromkeys(wanted):
            column = None if name in names else self.find(name)
            if column is not None and column.path[0] in names and len(column.path) == 1:
                names[names.index(column.path[0])] = name
            elif column is not None:
                fields.append(name)
        return names + fields

    def find(self, name: str) -> Found | None:
        """Returns the column of this name, or else the field."""
        return self._in(self.schema, name, ()) or self._field(name)

    def _field(self, name: str) -> Found | None:
        parts = _PART.findall(name)
        if len(parts) < 2 or "".join(match[0] for match in _PART.finditer(name)) != name:
            return None
        found: Found | None = Found((), self.schema)
        for part in parts:
            if found is None or not isinstance(found.type, StructType):
                return None
            plain = part[1:-1].replace("``", "`") if part[0] == "`" else part
            found = self._in(found.type, plain, found.path)
        return found

    def _in(self, kind: StructType, name: str, path: tuple[str, ...]) -> Found | None:
        alike = [field for field in kind.fields if self._is_same(field.name, name)]
        if len({field.name for field in alike}) > 1:
            raise Error(
                f"The name {name!r} matches several columns: {', '.join(f.name for f in alike)}. Rename "
                f"or drop some, or set spark.sql.caseSensitive to true."
            )
        return Found((*path, alike[0].name), alike[0].dataType) if alike else None

    def _is_same(self, one: str, other: str) -> bool:
        return one == other or (not self.minds_case and one.lower() == other.lower())


def selected(frame: DataFrame, meaning: FrameColumns) -> DataFrame:
    """Selects the columns that are read, under the names in `meaning`, and checks their types."""
    columns = Columns.of(frame)
    chosen = []
    for name in meaning.columns:
        found = _required(columns, name, columns.schema.names, meaning)
        if meaning.is_envelope and name in ("before", "after"):
            chosen.append(_side(found, name, columns.minds_case, meaning).alias(name))
        else:
            _check_type(name, found.type, is_term=meaning.mapping is None and not meaning.says_when(name))
            chosen.append(found.column().alias(name))
    return frame.select(*chosen)


def check_types(columns: Columns, meaning: FrameColumns) -> dict[str, str]:
    """Checks the types of statement columns; returns their names, by the names in `meaning`."""
    names = {}
    for name in meaning.columns:
        column = _required(columns, name, columns.schema.names, meaning)
        _check_type(name, column.type, is_term=not meaning.says_when(name))
        names[name] = column.path[0]
    return names


def _required(columns: Columns, name: str, known: Sequence[str], meaning: FrameColumns) -> Found:
    column = columns.find(name)
    if column is None:
        raise missing(name, known, meaning.mapping is None)
    return column


def _side(side: Found, name: str, minds_case: bool, meaning: FrameColumns) -> Column:
    """Returns Debezium's `before` or `after`, with the columns that are read."""
    if not isinstance(side.type, StructType):
        raise Error(
            f"Column {name!r} has type {side.type.simpleString()}, but must be a struct of the row's columns."
        )
    inner, mapping = Columns(side.type, minds_case), meaning.mapping
    wanted = (
        statement_names(inner.names(wanted_names(None, None, None))) if mapping is None else mapping.columns()
    )
    fields = []
    for one in wanted:
        found = inner.find(one)
        if found is None:
            raise missing(f"{name}.{one}", side.type.names, mapping is None)
        _check_type(f"{name}.{one}", found.type, is_term=mapping is None)
        fields.append(Found((*side.path, *found.path), found.type).column().alias(one))
    return functions.when(side.column().isNotNull(), functions.struct(*fields))


def _check_type(name: str, kind: DataType, *, is_term: bool) -> None:
    if is_term and not isinstance(kind, StringType) and kind.typeName() != "void":
        raise Error(
            f"Column {name!r} has type {kind.simpleString()}, but must be a string with a term in "
            f"N-Triples syntax. Other tables need a mapping: "
            f"session.load(df, mapping=sparqlive.TableMapping(…))."
        )
    try:
        is_plain = datatype_of(arrow_type(kind)) is not None
    except (PySparkException, ValueError):  # a ValueError for arrays of nothing
        is_plain = False
    if not is_plain:
        raise Error(
            f"Column {name!r} has type {kind.simpleString()}, which has no RDF literal. "
            f"{_advice(name, kind)}, or leave the column out."
        )


def arrow_type(kind: DataType) -> pa.DataType:
    """Returns the Arrow type of a column's values; raises a PySparkException for types that Arrow lacks."""
    return pa.timestamp("us", "UTC") if isinstance(kind, TimestampType) else to_arrow_type(kind)


def _advice(name: str, kind: DataType) -> str:
    if isinstance(kind, StructType) and kind.names:
        return f"Name one of its fields, such as {f'{name}.{kind.names[0]}'!r}"
    if isinstance(kind, ArrayType | MapType):
        return f"Make a row per element with explode({name}), or text with to_json({name})"
    if isinstance(kind, BinaryType):
        return f"Make text with base64({name}) or hex({name})"
    return f"Make text with CAST({name} AS STRING)"
