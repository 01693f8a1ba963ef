"""Rows of data frames as changes: Arrow tables, pandas and Polars frames, and the batches of Spark's workers.

Owns what the columns of a frame mean: `s p o [g]` with terms in N-Triples syntax, or the columns of a plain
table with a `TableMapping`; and which column says whether a row is inserted or deleted. Rejects a row with a
malformed term, a missing value or an unknown operation, by its number and column. Invariant: a cell is
exactly one term; no text in a cell can become a second statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

from sparqlive.errors import Error, InvalidChange
from sparqlive.numbers import short_repr
from sparqlive.rdf.columns import LITERAL, NODE_BLANK, NOT_CANONICAL, Encoded, Encoder, Ids, kinds_of
from sparqlive.rdf.read import half_a_character, named_graph
from sparqlive.rdf.table_mapping import TableMapping

_NAMES = {"s": "subject", "p": "predicate", "o": "object", "g": "graph"}
"""The columns of statements, by either name; those of a CONSTRUCT view have the long ones."""
_OPERATIONS = ("op", "_change_type", "_weight")
"""Columns with these names say what happens to a row: our own and Debezium's, Delta's, a view's."""
_ORDERS = {"_change_type": "_commit_version", "_weight": "_epoch"}
"""The column that orders the changes, where the column of operations comes with one."""
_WEIGHTS = {
    "+": 1, "insert": 1, "c": 1, "r": 1, "update_postimage": 1,
    "-": -1, "delete": -1, "d": -1, "update_preimage": -1,
}  # fmt: skip
_BEFORE = frozenset({"u", "d"})
"""Debezium's operations that take `before` away."""
_AFTER = frozenset({"c", "r", "u"})
"""Debezium's operations that bring `after`."""
_PROBE = f"urn:uuid:{uuid4()}"
"""A graph that no text from outside can name: a term is followed by it, and by nothing else."""


@dataclass(frozen=True)
class FrameColumns:
    """What the columns of a frame mean."""

    mapping: TableMapping | None = None
    graph: str | None = None
    """The graph (an IRI) of statements that have none."""
    weight: int | None = 1
    """1: all rows are inserted. -1: all are deleted. None: the operation column says it."""
    operation: str | None = None
    order: str | None = None
    """The column that orders several changes of one statement; without it, deletes come first."""
    is_envelope: bool = False
    """Whether a row has Debezium's `before` and `after`."""
    columns: tuple[str, ...] = ()
    """The columns that are read."""

    def says_when(self, name: str) -> bool:
        """Whether a column says what happens to a row, or when."""
        return name in (self.operation, self.order)


@dataclass(frozen=True)
class StatementFiles:
    """Files of statements to insert and to delete: N-Quads whose blank nodes have the labels of the store."""

    inserts: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()

    def files(self, weight: int) -> tuple[str, ...]:
        return self.inserts if weight > 0 else self.deletes


def operation_column(names: Sequence[str], mapping: TableMapping | None = None) -> str | None:
    """The column that says by its name that it has operations, unless a mapping reads it."""
    data = mapping.columns() if isinstance(mapping, TableMapping) else ()
    return next((name for name in _OPERATIONS if name in names and name not in data), None)


def frame_columns(
    names: Sequence[str],
    *,
    weight: int | None = 1,
    op: str | None = None,
    order: str | None = None,
    mapping: TableMapping | None = None,
    graph: str | NamedNode | None = None,
) -> FrameColumns:
    """Finds out what columns mean by their names; rejects a frame that lacks one, or has it twice."""
    if mapping is not None and not isinstance(mapping, TableMapping):
        raise Error(f"mapping must be a sparqlive.TableMapping, not {short_repr(mapping)}.")
    operation = op or operation_column(names, mapping)
    if weight is not None:
        if operation is not None:
            raise Error(
                f"The frame has the column {operation!r}, which says what happens to each row. Pass the "
                f"frame to apply as changes=…, or drop the column."
            )
    else:
        if operation is None:
            raise Error(
                f"The frame has no column that says what happens to a row. Name it op, _change_type or "
                f"_weight, or pass op='…'. Its columns: {', '.join(names)}."
            )
        if order is None and _ORDERS.get(operation) in names:
            order = _ORDERS[operation]
    is_envelope = operation is not None and {"before", "after"} <= {*names}
    needed = [name for name in (operation, order) if name is not None]
    if is_envelope:
        needed += ["before", "after"]
    else:
        needed += statement_names(names) if mapping is None else mapping.columns()
    for name in needed:
        if name not in names:
            raise missing(name, names, mapping is None)
        if names.count(name) > 1:
            raise Error(f"The frame has {names.count(name)} columns named {name!r}. Rename or drop some.")
    node = named_graph(graph)
    iri = None if node is None else node.value
    columns = tuple(dict.fromkeys(needed))
    return FrameColumns(mapping, iri, weight, operation, order, is_envelope, columns)


def statement_names(names: Sequence[str]) -> list[str]:
    """The columns of subject, predicate, object and, if there is one, graph."""
    short = "s" in names or "subject" not in names
    wanted = list(_NAMES if short else _NAMES.values())
    return wanted if wanted[3] in names else wanted[:3]


def wanted_names(mapping: object, op: str | None, order: str | None) -> list[str]:
    """The names by which columns are looked up: those that are given; without a mapping, those of terms."""
    data = mapping.columns() if isinstance(mapping, TableMapping) else [*_NAMES, *_NAMES.values()]
    return [*data, *(name for name in (op, order) if name is not None)]


def missing(name: str, names: Sequence[str], has_statements: bool) -> Error:
    """Says that a frame lacks a column."""
    hint = (
        " Statements have the columns s, p, o and, optionally, g, with terms in N-Triples syntax. For "
        "another table, pass mapping=sparqlive.TableMapping(…)."
        if has_statements
        else ""
    )
    return Error(f"The frame has no column {name!r}. Its columns: {', '.join(names)}.{hint}")


def is_frame(given: object) -> bool:
    """Whether something is a data frame of Arrow, pandas, Polars or Spark."""
    return _library(given) is not None


def is_spark_frame(given: object) -> bool:
    return _library(given) == "pyspark"


_FRAMES = {
    "pyarrow": ("Table", "RecordBatch", "RecordBatchReader"),
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyspark": ("DataFrame",),
}


def _library(given: object) -> str | None:
    """Looks at names only: the libraries may not be installed, and are slow to import."""
    for kind in type(given).__mro__:
        root = kind.__module__.partition(".")[0]
        if kind.__name__ in _FRAMES.get(root, ()):
            return root
    return None


def names_of(frame: Any) -> list[str]:
    """The names of a frame's columns."""
    if _library(frame) == "pyarrow":
        return list(frame.schema.names)
    if type(frame).__name__ == "LazyFrame":  # its columns are known once it is resolved
        return list(frame.collect_schema().names())
    return [str(name) for name in frame.columns]


def as_arrow(frame: Any, meaning: FrameColumns) -> pa.Table:
    """The columns of a frame in this process that are read, as an Arrow table."""
    columns = list(meaning.columns)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame.select(columns)])
    if isinstance(frame, pa.Table | pa.RecordBatchReader):
        return (frame if isinstance(frame, pa.Table) else frame.read_all()).select(columns)
    try:
        if _library(frame) == "pandas":
            read = frame.loc[:, [str(name) in columns for name in frame.columns]]
            return pa.Table.from_pandas(read, preserve_index=False)
        read = frame.select(columns)
        return (read.collect() if type(read).__name__ == "LazyFrame" else read).to_arrow()
    except pa.ArrowException as error:
        raise InvalidChange(
            f"The {_library(frame)} frame has a column of mixed types, or one that Arrow has no type for: "
            f"{error}."
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidChange(f"The {_library(frame)} frame has {half_a_character(error)}.") from error


# Statements


@dataclass
class Statements:
    """The statements of some rows: canonical texts of four columns (graph null: unnamed) and weights."""

    columns: Sequence[pa.Array]
    weights: Ids
    rows: Ids
    """The row that each statement comes from."""

    def __len__(self) -> int:
        return len(self.weights)

    def lines(self) -> pa.Array:
        """N-Quads lines, without line ends."""
        *nodes, graph = self.columns
        end = pc.if_else(pc.is_null(graph), ".", pc.binary_join_element_wise(graph, ".", " "))
        return pc.binary_join_element_wise(*nodes, end, " ")

    def encoded(self, encoder: Encoder) -> Encoded:
        """The statements as places of distinct terms."""
        merged = pa.chunked_array([column.cast(pa.string()) for column in self.columns]).combine_chunks()
        coded = pc.dictionary_encode(merged)
        places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = coded.dictionary
        subject, predicate, object_, graph = places.reshape(4, -1)
        return Encoded((subject, predicate, object_, graph), encoder.ids(texts), texts)


def statements(
    batch: pa.RecordBatch | pa.Table, meaning: FrameColumns, first_row: int = 0, where: str = ""
) -> Statements:
    """The statements of rows. `where` says in errors which rows they are; rows count from `first_row`."""
    reader = _Rows(batch, meaning, first_row, where)
    return reader.envelope() if meaning.is_envelope else reader.plain()


def changes(table: pa.Table, meaning: FrameColumns, encoder: Encoder) -> list[tuple[Encoded, Ids]]:
    """The changes of a table, such that the last change of a statement counts."""
    found = statements(table, meaning)
    encoded, weights = found.encoded(encoder), found.weights
    if meaning.weight is not None or not len(found):
        return [(encoded, weights)] if len(found) else []
    ranks = np.zeros(len(found), dtype=np.int64)
    if meaning.order is not None:
        ranks = _ranks(table.column(meaning.order), meaning.order)[found.rows]
    if meaning.is_envelope:
        _check_contradictions(found, ranks, meaning.order)
    places = np.lexsort((weights, ranks))
    subject, predicate, object_, graph = (column[places] for column in encoded.places)
    ordered = Encoded((subject, predicate, object_, graph), encoded.ids, encoded.texts)
    return [(ordered, weights[places])]


def _ranks(column: pa.ChunkedArray, name: str) -> Ids:
    try:
        ranks: Ids = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    except pa.ArrowException as error:
        raise Error(
            f"The column {name!r} cannot order the changes: values of type {column.type} have no order here. "
            f"Use numbers, strings, dates or times."
        ) from error
    return ranks


def contradiction(line: str, order: str | None) -> str:
    """What is wrong if rows of Debezium say different things about a statement, and none is the last."""
    both = f"One row inserts the statement {line} and another one deletes it, and "
    if order is None:
        return (
            f"{both}nothing says which comes last. Pass order='…': a column that grows with each change, "
            f"such as the offset of its record."
        )
    return (
        f"{both}both have the same value in {order!r}. Order the changes by a column that tells them apart."
    )


def _check_contradictions(found: Statements, ranks: Ids, order: str | None) -> None:
    lines = pc.dictionary_encode(found.lines())
    codes = lines.indices.to_numpy()
    last = np.full(len(lines.dictionary), -1)
    np.maximum.at(last, codes, ranks)
    at_end = ranks == last[codes]
    both = np.intersect1d(codes[at_end & (found.weights > 0)], codes[at_end & (found.weights < 0)])
    if len(both):
        raise InvalidChange(contradiction(lines.dictionary[int(both[0])].as_py(), order))


@dataclass
class _Rows:
    """Reads rows of a batch."""

    batch: Any
    meaning: FrameColumns
    first_row: int
    where: str

    def plain(self) -> Statements:
        self._check_order()
        weights = self._weights()
        return self._read(self.batch, np.arange(self.batch.num_rows), weights)

    def envelope(self) -> Statements:
        """Debezium's rows: `before` is taken away, `after` is brought. What both have stays."""
        self._check_order()
        operations = self._operations()
        parts = [
            self._side(name, np.flatnonzero([operation in chosen for operation in operations]), weight)
            for name, chosen, weight in (("before", _BEFORE, -1), ("after", _AFTER, 1))
        ]
        columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
        weights, rows = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("weights", "rows")
        )
        found = Statements(columns, weights, rows)
        codes = pc.dictionary_encode(found.lines()).indices.to_numpy().astype(np.int64)
        keys = codes * self.batch.num_rows + rows
        kept = np.flatnonzero((weights > 0) | ~np.isin(keys, keys[weights > 0]))
        return Statements([column.take(pa.array(kept)) for column in columns], weights[kept], rows[kept])

    def _side(self, name: str, rows: Ids, weight: int) -> Statements:
        """The statements of `before` or `after`, of some rows."""
        column = _flat(self.batch.column(name)).take(pa.array(rows, pa.int64()))
        for place in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist():
            row = int(rows[place])
            operation = self.batch.column(self.meaning.operation)[row].as_py()
            raise self.fault(row, name, f"is null, and the operation is {operation!r}")
        if not len(rows):
            return Statements([pa.array([], pa.string())] * 4, rows, rows)
        if not pa.types.is_struct(column.type):
            raise self.fault(
                int(rows[0]), name, f"has the type {column.type}, and must be a struct of the row's columns"
            )
        table = pa.table(column.flatten(), names=[inner.name for inner in column.type])
        names, mapping = table.column_names, self.meaning.mapping
        for wanted in statement_names(names) if mapping is None else mapping.columns():
            if wanted not in names:
                raise missing(f"{name}.{wanted}", names, mapping is None)
        return self._read(table, rows, np.full(len(rows), weight), f"{name}.")

    def _check_order(self) -> None:
        """A change that could come at any time would make the result a matter of chance."""
        if self.meaning.order is None:
            return
        column = _flat(self.batch.column(self.meaning.order))
        if column.null_count:
            row = int(np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False))[0])
            raise self.fault(row, self.meaning.order, "is null, and orders the changes")

    def fault(self, row: int, column: str, reason: str) -> InvalidChange:
        return InvalidChange(
            f"Row {self.first_row + row}{self.where} (counted from 0), column {column!r}: {reason}."
        )

    def _weights(self) -> Ids:
        if self.meaning.weight is not None:
            return np.full(self.batch.num_rows, self.meaning.weight, dtype=np.int64)
        assert self.meaning.operation is not None
        column = _flat(self.batch.column(self.meaning.operation))
        if pa.types.is_integer(column.type) and not column.null_count:
            signs: Ids = np.sign(column.to_numpy()).astype(np.int64)
            for row in np.flatnonzero(signs == 0).tolist():
                raise self.fault(row, self.meaning.operation, "a weight of 0 is no change")
            return signs
        operations = self._operations()
        for row, operation in enumerate(operations):
            if operation not in _WEIGHTS:
                known = ", ".join(map(repr, _WEIGHTS))
                reason = f"{operation!r} is not an operation. Operations: {known}"
                if operation == "u":
                    reason = "'u' needs the columns 'before' and 'after', which say what was replaced"
                raise self.fault(row, self.meaning.operation, reason)
        return np.array([_WEIGHTS[operation] for operation in operations], dtype=np.int64)

    def _operations(self) -> list[str]:
        assert self.meaning.operation is not None
        values = _flat(self.batch.column(self.meaning.operation)).to_pylist()
        for row, value in enumerate(values):
            if not isinstance(value, str):
                raise self.fault(row, self.meaning.operation, f"{value!r} is not an operation")
            if self.meaning.is_envelope and value.lower() not in _BEFORE | _AFTER:
                known = ", ".join(map(repr, sorted(_BEFORE | _AFTER)))
                raise self.fault(
                    row, self.meaning.operation, f"{value!r} is not an operation. Operations: {known}"
                )
        return [value.lower() for value in values]

    def _read(self, table: Any, rows: Ids, weights: Ids, prefix: str = "") -> Statements:
        def fault(place: int, column: str, reason: str) -> InvalidChange:
            return self.fault(int(rows[place]), prefix + column, reason)

        graph = None if self.meaning.graph is None else str(NamedNode(self.meaning.graph))
        if self.meaning.mapping is None:
            columns = _statement_columns(table, fault)
            places = np.arange(len(rows))
        else:
            columns, places = self.meaning.mapping.terms(table, fault)
        if graph is not None:
            columns[3] = columns[3].fill_null(graph)
        return Statements(columns, weights[places], rows[places])


Refuse = Callable[[int, str, str], InvalidChange]


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _statement_columns(table: Any, fault: Refuse) -> list[pa.Array]:
    names = statement_names(table.column_names)
    columns = [_terms(_flat(table.column(name)), name, place, fault) for place, name in enumerate(names)]
    return columns if len(columns) == 4 else [*columns, pa.nulls(table.num_rows, pa.string())]


def _terms(column: pa.Array, name: str, place: int, fault: Refuse) -> pa.Array:
    """The canonical texts of a column of terms; an empty or null graph is the unnamed graph."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    try:
        texts = column.cast(pa.string())
    except pa.ArrowException as error:
        raise fault(0, name, f"has the type {column.type}, and terms are strings: {error}") from None
    if place == 3:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    elif texts.null_count:
        row = int(np.flatnonzero(pc.is_null(texts).to_numpy(zero_copy_only=False))[0])
        raise fault(row, name, "is null")
    coded = pc.dictionary_encode(texts)
    indices = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    distinct = coded.dictionary
    known = kinds_of(distinct)
    canonical: list[str] | None = None
    for number in np.flatnonzero((known <= NOT_CANONICAL) | _misplaced(known, place)).tolist():
        text = distinct[number].as_py()
        term = _term(text)
        if not _fits(term, place):
            row = int(np.flatnonzero(indices == number)[0])
            raise fault(row, name, _reason(text, term, place))
        canonical = canonical or distinct.to_pylist()
        canonical[number] = str(term)
    if canonical is None:
        return texts
    return pa.array(canonical, pa.string()).take(coded.indices)


def _misplaced(kinds: npt.NDArray[np.int8], place: int) -> npt.NDArray[np.bool_]:
    """Whether terms cannot be at a place: a literal only as object, a blank node not as predicate."""
    if place == 2:
        return np.zeros(len(kinds), dtype=bool)
    literal: npt.NDArray[np.bool_] = kinds == LITERAL
    return literal | (kinds == NODE_BLANK) if place == 1 else literal


def _term(text: str) -> Any:
    """The term that a text consists of; None if it is not exactly one term."""
    if "\n" in text or "\r" in text:
        return None
    try:
        quads = list(parse(f"<urn:s> <urn:p> {text} <{_PROBE}> .", RdfFormat.N_QUADS))
    except (SyntaxError, ValueError):
        return None
    if len(quads) != 1 or quads[0].graph_name != NamedNode(_PROBE):
        return None
    return quads[0].object


def _fits(term: Any, place: int) -> bool:
    allowed = [NamedNode | BlankNode, NamedNode, NamedNode | BlankNode | Literal, NamedNode | BlankNode][
        place
    ]
    return isinstance(term, allowed)


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"]*")


def _reason(text: str, term: Any, place: int) -> str:
    shown = short_repr(text)
    if term is None:
        hint = ". IRIs are written in angle brackets" if _ADDRESS.fullmatch(text) else ""
        hint = hint or ". Strings are written in double quotes" * (not re.match(r'[<"_]', text))
        return f"{shown} is not a term in N-Triples syntax{hint}"
    if not isinstance(term, NamedNode | BlankNode | Literal):
        return f"{shown} is a triple term; RDF 1.2 triple terms are not supported yet"
    role = ("subject", "predicate", "object", "graph")[place]
    kind = "literal" if isinstance(term, Literal) else "blank node"
    return f"{shown} is a {kind}, which cannot be a {role}"
