"""Results as Arrow tables with typed columns.

Decides which type a variable has. If all of its values are nodes, or have one datatype that Arrow knows, the
column has that type; IRIs are strings without brackets, blank nodes strings that begin with `_:`. Otherwise
it is a struct of value, type and language, which loses nothing; where plain values are wanted, numbers of
several datatypes are numbers, and all else is a string. Null means unbound. Untyped columns hold terms in
N-Triples syntax. Separate from `results`, because importing Arrow is slow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.rdf.dictionary import UNDEF, literal_parts
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.column_names import WEIGHT, check_column_names
from sparqlive.sparql.columns import PLACES, UNIT, typed
from sparqlive.sparql.results import Texts, repeated
from sparqlive.sparql.values import (
    BOOLEAN,
    DATE,
    DATETIME,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    XSD,
    Kind,
    integer_bounds,
)
from sparqlive.zset.blocks import Block
from sparqlive.zset.run import Column

DATATYPE = b"sparqlive.datatype"
"""The key of a field's metadata: the datatype of its values, or `iri`."""
STRUCT = pa.struct([("value", pa.string()), ("type", pa.string()), ("language", pa.string())])
NODE, STRING = "iri", f"{XSD}string"
_MOST_DIGITS = 38
_NUMBERS = frozenset(map(int, (INTEGER, DECIMAL, FLOAT, DOUBLE)))
_FIRST_INSTANT, _LAST_INSTANT = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds: Python and Spark have no other dates."""
_KINDS: Mapping[str, Kind] = {
    "integer": INTEGER,
    **dict.fromkeys(integer_bounds(), INTEGER),
    "decimal": DECIMAL,
    "double": DOUBLE,
    "float": FLOAT,
    "boolean": BOOLEAN,
    "date": DATE,
    "dateTime": DATETIME,
    "dateTimeStamp": DATETIME,
}


@dataclass(frozen=True)
class ColumnType:
    """The type of a column: its datatype (None if there is no single one), and its Arrow type."""

    datatype: str | None
    arrow: pa.DataType

    def field(self, name: str) -> pa.Field:
        found = pa.field(name, self.arrow)
        return found if self.datatype is None else found.with_metadata({DATATYPE: self.datatype.encode()})

    def values(self, texts: Sequence[str]) -> pa.Array:
        """Returns the values of terms, given as canonical texts. All of them must fit the type."""
        if pa.types.is_struct(self.arrow):
            return pa.array([_parts(text) for text in texts], STRUCT)
        if self.datatype is None and pa.types.is_string(self.arrow):
            return pa.array(list(map(plain_text, texts)), pa.string())
        if self.datatype == NODE:
            return pa.array([text[1:-1] if text[0] == "<" else text for text in texts], pa.string())
        if self.datatype == STRING:
            return pa.array([literal_parts(text)[0] for text in texts], pa.string())
        if pa.types.is_decimal(self.arrow):
            return pa.array([_decimal(literal_parts(text)[0]) for text in texts], self.arrow)
        columns = typed(pa.array(texts, pa.string()))
        if pa.types.is_int64(self.arrow):
            return columns.field("whole")
        if pa.types.is_floating(self.arrow):
            return columns.field("nearest").cast(self.arrow)
        if pa.types.is_boolean(self.arrow):
            return columns.field("truth")
        instants = columns.field("instant")
        if pa.types.is_date(self.arrow):
            days = instants.to_numpy(zero_copy_only=False) // 86_400_000_000
            return pa.array(days.astype(np.int32)).cast(self.arrow)
        return instants.cast(self.arrow)

    def json(self, texts: Sequence[str]) -> list[str]:
        """Converts values to JSON: numbers and booleans as such, structs as objects, others as strings."""
        if self.datatype is None:
            return [json.dumps(_parts(text), ensure_ascii=False, separators=(",", ":")) for text in texts]
        if self.datatype == NODE:
            return [f'"{text[1:-1]}"' if text[0] == "<" else f'"{text}"' for text in texts]
        if self.datatype == STRING or pa.types.is_temporal(self.arrow):
            return [text[: text.rindex('"') + 1] for text in texts]
        return [_json_number(value) for value in self.values(texts).to_pylist()]


def _decimal(text: str) -> Decimal:
    """Drops trailing zeros, for which the scale of a column may have no room."""
    return Decimal(text.rstrip("0").rstrip(".") or "0" if "." in text else text)


def plain_text(text: str) -> str:
    """A term as a plain string: an IRI without brackets, a blank node with its label, a literal's value."""
    if text[0] == "<":
        return text[1:-1]
    return text if text[0] == "_" else literal_parts(text)[0]


def _parts(text: str) -> dict[str, str | None]:
    if text[0] == "<":
        return {"value": text[1:-1], "type": "iri", "language": None}
    if text[0] == "_":
        return {"value": text[2:], "type": "bnode", "language": None}
    value, kind = literal_parts(text)
    if kind[:1] == "@":
        tag = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
        return {"value": value, "type": tag, "language": kind[1:]}
    return {"value": value, "type": kind[3:-1] or STRING, "language": None}


def _json_number(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if value != value else '"INF"' if value > 0 else '"-INF"'
    return json.dumps(value)


class Typing:
    """Finds the type of a column by looking at its terms. `plain`: it is never a struct."""

    def __init__(self, plain: bool = False) -> None:
        self._plain = plain
        self._datatype: str | None = None
        self._mixed = False
        self._kinds: set[int] = set()
        """All kinds of values, for plain values with several datatypes."""
        self._fits_whole = True
        self._digits = 0
        """The most digits: of integers with more than 64 bits, and of decimals before the point."""
        self._scale = 0
        self._zoned: bool | None = None

    def see(self, texts: Sequence[str]) -> None:
        """Takes terms, given as canonical texts, into account."""
        if not texts or (self._mixed and not self._plain):
            return
        if self._datatype is None:
            self._datatype = _datatype_of(texts[0])
        array = pa.array(texts, pa.string())
        before = self._datatype.removeprefix(XSD)
        self._mixed = self._mixed or not (_all_have(array, self._datatype) and self._fit(array))
        if self._mixed and self._plain and self._kinds <= _NUMBERS:
            columns = typed(array)
            self._kinds.update(columns.field("kind").unique().to_pylist())
            self._kinds.add(int(_KINDS.get(before, BOOLEAN)))  # of the terms that were seen before
            self._fits_whole = self._fits_whole and not columns.field("whole").null_count

    def type(self) -> ColumnType:
        if self._mixed and not self._plain:
            return ColumnType(None, STRUCT)
        if self._mixed and self._kinds == {int(INTEGER)} and self._fits_whole and not self._digits:
            return ColumnType(None, pa.int64())
        if self._mixed:
            return ColumnType(None, pa.float64() if self._kinds <= _NUMBERS else pa.string())
        if self._datatype in (None, NODE, STRING):
            return ColumnType(self._datatype or STRING, pa.string())
        assert self._datatype is not None
        match _KINDS[self._datatype.removeprefix(XSD)]:
            case kind if kind == INTEGER:
                arrow = pa.decimal128(_MOST_DIGITS, 0) if self._digits else pa.int64()
            case kind if kind == DECIMAL:
                arrow = pa.decimal128(_MOST_DIGITS, self._scale)
            case kind if kind == BOOLEAN:
                arrow = pa.bool_()
            case kind if kind == DATE:
                arrow = pa.date32()
            case kind if kind == DATETIME:
                arrow = pa.timestamp("us", "UTC" if self._zoned else None)
            case kind:
                arrow = pa.float32() if kind == FLOAT else pa.float64()
        return ColumnType(self._datatype, arrow)

    def _fit(self, texts: pa.Array) -> bool:
        """Whether all terms have a value of the Arrow type of their datatype."""
        assert self._datatype is not None
        if self._datatype in (NODE, STRING):
            return True
        kind = _KINDS.get(self._datatype.removeprefix(XSD)) if self._datatype.startswith(XSD) else None
        if kind is None:
            return False
        columns = typed(texts)
        if not pc.all(pc.equal(columns.field("kind"), int(kind))).as_py():
            return False
        if kind == INTEGER:
            return self._integers_fit(columns)
        if kind == DECIMAL:
            return self._decimals_fit(columns)
        if kind in (DATE, DATETIME):
            return self._moments_fit(kind, columns)
        return True

    def _integers_fit(self, columns: pa.Array) -> bool:
        large = columns.field("content").drop_null().to_pylist()
        self._digits = max([self._digits, *(len(text.lstrip("-")) for text in large)])
        return self._digits <= _MOST_DIGITS

    def _decimals_fit(self, columns: pa.Array) -> bool:
        """Whether one precision has room for all digits before and after the points."""
        known = columns.filter(columns.field("whole").is_valid())
        whole, fractions = (known.field(name).to_numpy() for name in ("whole", "fraction"))
        if len(whole):
            # Of a negative number, the whole is the integer below it.
            bounds = int(whole.max()), -int((whole + ((whole < 0) & (fractions > 0))).min())
            self._digits = max(self._digits, *(len(str(bound)) for bound in bounds if bound > 0), 0)
        while self._scale < PLACES and (fractions % (UNIT // 10**self._scale)).any():
            self._scale += 1
        for text in columns.field("content").drop_null().to_pylist():
            before, _, after = text.lstrip("-").partition(".")
            self._digits = max(self._digits, len(before.lstrip("0")))
            self._scale = max(self._scale, len(after.rstrip("0")))
        return self._digits + self._scale <= _MOST_DIGITS

    def _moments_fit(self, kind: Kind, columns: pa.Array) -> bool:
        zones = columns.field("zone")
        zoned = zones.null_count == 0
        instants = columns.field("instant")
        if instants.null_count or (not zoned and zones.null_count < len(zones)):
            return False
        bounds = pc.min_max(instants)
        if bounds["min"].as_py() < _FIRST_INSTANT or bounds["max"].as_py() > _LAST_INSTANT:
            return False
        if self._zoned is None:
            self._zoned = zoned
        return self._zoned == zoned and not (kind == DATE and zoned)


def _datatype_of(text: str) -> str:
    if text[0] != '"':
        return NODE
    kind = text[text.rindex('"') + 1 :]
    return kind[3:-1] if kind[:2] == "^^" else kind or STRING


def _all_have(texts: pa.Array, datatype: str) -> bool:
    literal = pc.starts_with(texts, '"')
    if datatype == NODE:
        return not pc.any(literal).as_py()
    ending = '"' if datatype == STRING else f'"^^<{datatype}>'
    return bool(pc.all(pc.and_(literal, pc.ends_with(texts, ending))).as_py())


_UNTYPED = ColumnType("", pa.string())


class Tables:
    """A result as record batches: a row per solution; with `weights`, distinct rows and their weights."""

    def __init__(
        self,
        variables: Sequence[str],
        blocks: Sequence[Block],
        texts: Texts,
        typed: bool = True,
        weights: bool = False,
        plain: bool = False,
    ) -> None:
        if weights:
            check_column_names(variables, WEIGHT)
        self._blocks = blocks
        self._plain = plain
        self._texts = texts
        self._weights = weights
        self._typed = typed
        self.types = [self._type_of(place) if typed else _UNTYPED for place in range(len(variables))]
        fields = [
            type_.field(name) if typed else pa.field(name, pa.string())
            for name, type_ in zip(variables, self.types, strict=True)
        ]
        if weights:
            fields.append(pa.field(WEIGHT, pa.int64(), nullable=False))
        self.schema = pa.schema(fields)

    def _type_of(self, place: int) -> ColumnType:
        found = Typing(self._plain)
        for block in self._blocks:
            distinct = np.unique(block.columns[place])
            found.see(self._texts(distinct[distinct != UNDEF].tolist()))
        return found.type()

    def rows(self) -> Iterator[Block]:
        """The rows to write, in their order."""
        for block in self._blocks:
            yield from (block,) if self._weights else repeated(block)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for block in self.rows():
            columns = [self._column(ids, type_) for ids, type_ in zip(block.columns, self.types, strict=True)]
            if self._weights:
                columns.append(pa.array(block.weights))
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, ids: Column, type_: ColumnType) -> pa.Array:
        distinct, places = np.unique(ids, return_inverse=True)
        known = distinct != UNDEF
        texts = self._texts(distinct[known].tolist())
        values = type_.values(texts) if self._typed else pa.array(texts, pa.string())
        where = np.cumsum(known) - 1
        return values.take(pa.array(where[places], mask=~known[places]))

    def cells(self, ids: Column, encode: Callable[[Sequence[str]], list[str]]) -> list[str]:
        """The terms of a column as texts; unbound ones are empty."""
        numbers = ids.tolist()
        distinct = list(set(numbers) - {UNDEF})
        known = dict(zip(distinct, encode(self._texts(distinct)), strict=True))
        return [known.get(number, "") for number in numbers]

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), schema=self.schema)


def answer_tables(answer: bool, typed: bool) -> Tables:
    """The answer of an ASK as a table of one row."""
    text = f'"{str(answer).lower()}"^^<{XSD}boolean>'
    block = Block((np.array([2]),), np.array([1]))
    return Tables(("answer",), [block], lambda numbers: [text for _ in numbers], typed)


def schema(variables: Sequence[str]) -> pa.Schema:
    """Returns the schema of untyped rows: the variables and the weight."""
    check_column_names(variables, WEIGHT)
    return pa.schema([*((name, pa.string()) for name in variables), pa.field(WEIGHT, pa.int64(), False)])


def table(variables: Sequence[str], weights: Mapping[tuple[Term | None, ...], int]) -> pa.Table:
    """Returns untyped rows with their weights."""
    columns = [
        pa.array([None if row[place] is None else str(row[place]) for row in weights], pa.string())
        for place in range(len(variables))
    ]
    columns.append(pa.array(list(weights.values()), pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema(variables))


def typed_table(variables: Sequence[str], weights: Mapping[tuple[Term | None, ...], int]) -> pa.Table:
    """Returns rows with the types of their own values, and their weights."""
    texts = table(variables, weights)
    fields, columns = [], []
    for name, column in zip(variables, texts.columns, strict=False):
        typing, known = Typing(), column.drop_null().to_pylist()
        typing.see(known)
        places = np.cumsum(column.is_valid().to_numpy()) - 1
        missing = column.is_null().to_numpy()
        fields.append(typing.type().field(name))
        columns.append(typing.type().values(known).take(pa.array(places, pa.int64(), mask=missing)))
    schema_ = pa.schema([*fields, texts.schema.field(WEIGHT)])
    return pa.Table.from_arrays([*columns, texts.column(WEIGHT)], schema=schema_)


def data_frame(found: pa.Table, pandas: Any) -> Any:
    """Returns a table as a pandas data frame with numeric and date-time columns.

    pandas has no decimals: they become doubles. Integers and booleans stay such if some are unbound.
    """
    columns = {}
    nullable = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    for name, column in zip(found.column_names, found.columns, strict=True):
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        mapper = nullable.get if column.null_count else None
        columns[name] = column.to_pandas(date_as_object=False, types_mapper=mapper)
    return pandas.DataFrame(columns, index=None if columns else range(found.num_rows))


# Files


class Collected:
    """A file that keeps what was written to it until a reader takes it."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Does nothing: written data is available at once."""

    def close(self) -> None:
        """Does nothing: a reader can still take the rest."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def write_parquet(tables: Tables) -> Iterator[bytes]:
    """Yields a Parquet file."""
    import pyarrow.parquet as pq

    file = Collected()
    with pq.ParquetWriter(pa.PythonFile(file, mode="w"), tables.schema, compression="zstd") as writer:
        for group in _gathered(tables.batches()):
            writer.write_table(pa.Table.from_batches(group, schema=tables.schema))
            yield file.take()
    yield file.take()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        if rows >= DEFAULT.largest_piece_rows:
            yield group
            group, rows = [], 0
    if group:
        yield group


def write_stream(tables: Tables) -> Iterator[bytes]:
    """Yields an Arrow IPC stream."""
    file = Collected()
    with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), tables.schema) as writer:
        for batch in tables.batches():
            writer.write_batch(batch)
            yield file.take()
    yield file.take()


def write_lines(tables: Tables) -> Iterator[str]:
    """Yields newline-delimited JSON: an object per row, without unbound variables."""
    names = [json.dumps(name, ensure_ascii=False) for name in tables.schema.names]
    encoders = [_members(name, type_.json) for name, type_ in zip(names, tables.types, strict=False)]
    weighted = len(names) > len(encoders)
    for block in tables.rows():
        cells = [tables.cells(ids, encode) for ids, encode in zip(block.columns, encoders, strict=True)]
        if weighted:
            cells.append([f"{names[-1]}:{weight}" for weight in block.weights.tolist()])
        rows = zip(*cells, strict=True) if cells else [()] * len(block.weights)
        yield "".join([f"{{{','.join(filter(None, row))}}}\n" for row in rows])


def _members(name: str, encode: Callable[[Sequence[str]], list[str]]) -> Callable[[Sequence[str]], list[str]]:
    return lambda texts: [f"{name}:{cell}" for cell in encode(texts)]


WRITERS: Mapping[str, Callable[[Tables], Iterator[str] | Iterator[bytes]]] = {
    "ndjson": write_lines,
    "arrow": write_stream,
    "parquet": write_parquet,
}
