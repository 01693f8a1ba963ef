"""Builds a query as a tree, which a dialect writes as SQL text once it is complete.

Writes all SQL of the executor. Every operation on a DataFrame analyses it again, which takes seconds for the
hundreds of operations of a delta; a frame costs nothing until it is written. A frame with several readers
becomes a common table expression, so the size of the text is linear in the plan. Invariants: the columns of a
frame have different names; its leaves are tables that a `Backend` has registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sparqlive.bulk.dialect import Dialect, number


@dataclass(frozen=True, eq=False)
class Table:
    """A table or view by its name, or text in brackets in its place."""

    text: str


@dataclass(frozen=True, eq=False)
class Select:
    """SELECT columns FROM source, followed by an ending after the conditions."""

    source: Frame
    columns: str
    ending: str = ""


@dataclass(frozen=True, eq=False)
class Stack:
    """One row per list of cells for each row of the source, beside the kept columns."""

    source: Frame
    rows: Sequence[Sequence[str]]
    names: Sequence[str]
    kept: Sequence[str]


@dataclass(frozen=True, eq=False)
class Explode:
    """One row per value of a list for each row of the source, in a new column."""

    source: Frame
    values: Sequence[str]
    """The values; for a range, the first and the last."""
    name: str
    is_range: bool = False


@dataclass(frozen=True, eq=False)
class Collect:
    """One row per value of some columns, with the list of its rows as structs."""

    source: Frame
    by: Sequence[str]
    fields: Sequence[str]
    name: str


@dataclass(frozen=True, eq=False)
class Inline:
    """One row per struct of the lists in a column."""

    source: Frame
    name: str


@dataclass(frozen=True, eq=False)
class Where:
    source: Frame
    condition: str


@dataclass(frozen=True, eq=False)
class Join:
    left: Frame
    right: Frame
    keyword: str
    condition: str


@dataclass(frozen=True, eq=False)
class Union:
    parts: tuple[Frame, ...]


Node: TypeAlias = Table | Select | Stack | Explode | Collect | Inline | Where | Join | Union


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows with these columns. small: broadcast it in joins. is_empty: known to have no rows."""

    node: Node
    columns: tuple[str, ...]
    small: bool = False
    is_empty: bool = False

    @classmethod
    def table(cls, name: str, columns: Sequence[str]) -> Frame:
        return cls(Table(name), tuple(columns))

    def select(self, *expressions: str) -> Frame:
        """Selects expressions: each is `expression AS name` or a column; `*` stands for all columns."""
        columns = [e for item in expressions for e in (self.columns if item == "*" else (item,))]
        names = tuple(expression.rpartition(" AS ")[2] for expression in columns)
        assert len(set(names)) == len(names), names
        return Frame(Select(self, ", ".join(columns) or _NOTHING), names)

    def stacked(self, rows: Sequence[Sequence[str]], names: Sequence[str], *kept: str) -> Frame:
        """Turns each row into one row per list of expressions, under these names, beside the kept columns."""
        return Frame(Stack(self, rows, names, kept), (*kept, *names))

    def exploded(self, name: str, *values: str) -> Frame:
        """Repeats each row once per value, with the value in a new column."""
        return Frame(Explode(self, values, name), (*self.columns, name))

    def counted_up(self, name: str, start: str, end: str) -> Frame:
        """Repeats each row once per number from start to end, with the number in a new column."""
        return Frame(Explode(self, (start, end), name, is_range=True), (*self.columns, name))

    def where(self, condition: str) -> Frame:
        return Frame(Where(self, condition), self.columns)

    def distinct(self) -> Frame:
        return Frame(Select(self, f"DISTINCT {', '.join(self.columns) or _NOTHING}"), self.columns)

    def first_row(self) -> Frame:
        return self.limited(1)

    def limited(self, count: int) -> Frame:
        """Keeps at most this many rows."""
        return Frame(Select(self, ", ".join(self.columns) or _NOTHING, f" LIMIT {count}"), self.columns)

    def first_rows(self, order: str, count: int) -> Frame:
        """Keeps the first rows of an order."""
        ending = f" ORDER BY {order} LIMIT {count}"
        return Frame(Select(self, ", ".join(self.columns), ending), self.columns)

    def sorted(self, order: Sequence[str]) -> Frame:
        """Sorts the rows by some columns, where the frame is the whole query."""
        ending = f" ORDER BY {', '.join(order)}" if order else ""
        return Frame(Select(self, ", ".join(self.columns), ending), self.columns)

    def grouped(self, by: Sequence[str], *aggregates: str) -> Frame:
        """Makes one row per value of the columns `by`; without any, always exactly one row."""
        columns = [*by, *aggregates]
        names = tuple(expression.rpartition(" AS ")[2] for expression in columns)
        groups = f" GROUP BY {', '.join(by)}" if by else ""
        return Frame(Select(self, ", ".join(columns), groups), names)

    def collected(self, by: Sequence[str], fields: Sequence[str], name: str) -> Frame:
        """Makes one row per value of the columns `by`, with the list of its rows; `fields` as in `select`."""
        return Frame(Collect(self, by, fields, name), (*by, name))

    def listed(self, name: str, columns: Sequence[str]) -> Frame:
        """Makes one row per element of the lists in a column, structs with these fields."""
        return Frame(Inline(self, name), tuple(columns))

    def union(self, *others: Frame) -> Frame:
        """Appends the rows of frames with the same columns in the same order."""
        assert all(other.columns == self.columns for other in others), [f.columns for f in (self, *others)]
        return Frame(Union((self, *others)), self.columns)

    def join(self, other: Frame, on: Sequence[str], how: str = "INNER") -> Frame:
        """Joins on equal columns; without any, pairs every row. SEMI and ANTI keep this frame's columns."""
        condition = f"USING ({', '.join(on)})" if on else "ON true"
        keyword = "JOIN" if how == "INNER" else f"{how} JOIN"
        columns = self.columns
        if how in ("INNER", "LEFT"):
            columns += tuple(name for name in other.columns if name not in on)
            assert len(set(columns)) == len(columns), columns
        return Frame(Join(self, other, keyword, condition), columns)

    def distributed(self, *by: str) -> Frame:
        """Puts rows with the same value of some columns, if there are any, into one partition."""
        hint = f"/*+ REPARTITION({', '.join(by)}) */"
        return Frame(Select(self, f"{hint} {', '.join(self.columns)}"), self.columns)

    def broadcast(self, small: bool = True) -> Frame:
        return replace(self, small=small)

    def reads(self) -> int:
        """Counts the tables that a query reads if nothing is shared, each as often as it is read."""
        counted: dict[int, int] = {}
        for frame in _bottom_up(self):
            sources = _sources(frame.node)
            counted[id(frame.node)] = sum(counted[id(source.node)] for source in sources) if sources else 1
        return counted[id(self.node)]

    def sql(self, dialect: Dialect) -> str:
        """Writes the text of the whole query."""
        return _Writer(dialect).whole(self)


_NOTHING = f"{number(1)} AS nothing"


_DEEPEST = 40
"""Maximum nesting of queries, each of which takes several calls to write."""


class _Writer:
    """Writes one query. A frame with several readers gets a name, unless it is a table already.

    A deeply nested frame gets a name too: neither this class nor a parser of SQL can nest queries without
    limit.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._readers: dict[int, int] = {}
        self._named: dict[int, str] = {}
        self._definitions: list[str] = []

    def whole(self, frame: Frame) -> str:
        self._count(frame)
        self._name_deep(frame)
        text = self._query(frame)
        return f"WITH {', '.join(self._definitions)} {text}" if self._definitions else text

    def _count(self, root: Frame) -> None:
        waiting = [root]
        while waiting:
            frame = waiting.pop()
            for source in _sources(frame.node):
                readers = self._readers[id(source.node)] = self._readers.get(id(source.node), 0) + 1
                if readers == 1:
                    waiting.append(source)

    def _name_deep(self, root: Frame) -> None:
        depths: dict[int, int] = {}
        for frame in _bottom_up(root):
            node = frame.node
            depths[id(node)] = 1 + max((depths[id(source.node)] for source in _sources(node)), default=0)
            if depths[id(node)] > _DEEPEST and frame is not root:
                depths[id(node)] = 0
                self._readers[id(node)] = max(2, self._readers[id(node)])
                self._operand(frame)

    def _operand(self, frame: Frame) -> str:
        """Writes a frame as a source: a name, or a query in brackets."""
        node = frame.node
        if isinstance(node, Table):
            return node.text
        if self._readers[id(node)] == 1:
            return f"({self._query(frame)})"
        if id(node) not in self._named:
            text = self._query(frame)
            self._named[id(node)] = f"part_{len(self._named)}"
            self._definitions.append(f"{self._named[id(node)]} AS ({text})")
        return self._named[id(node)]

    def _body(self, frame: Frame) -> tuple[str, list[str], list[str]]:
        """Returns the text after FROM, the conditions, and the aliases of the broadcast sources."""
        node = frame.node
        if isinstance(node, Where | Join) and self._readers[id(node)] == 1:
            return self._open_body(node)
        return self._operand(frame), [], []

    def _open_body(self, node: Where | Join) -> tuple[str, list[str], list[str]]:
        if isinstance(node, Where):
            source, conditions, hints = self._body(node.source)
            return source, [*conditions, node.condition], hints
        left, right = self._operand(node.left), self._operand(node.right)
        hints = [name for name, side in (("l", node.left), ("r", node.right)) if side.small]
        return f"{left} AS l {node.keyword} {right} AS r {node.condition}", [], hints

    def _query(self, frame: Frame) -> str:
        dialect, node = self._dialect, frame.node
        everything = ", ".join(frame.columns) or _NOTHING
        match node:
            case Table(text):
                return f"SELECT {everything} FROM {text}"
            case Union(parts):
                return " UNION ALL ".join(self._part(part) for part in parts)
            case Where() | Join():
                return self._from(everything, *self._open_body(node))
            case Select(source, columns, ending):
                return self._from(columns, *self._body(source)) + ending
            case Stack(source, rows, names, kept):
                return self._from(dialect.stack(rows, names, kept), *self._body(source))
            case Explode(source, values, name, is_range):
                expression = dialect.explode_range(*values) if is_range else dialect.explode(values)
                columns = ", ".join([*source.columns, f"{expression} AS {name}"])
                return self._from(columns, *self._body(source))
            case Collect(source, by, fields, name):
                columns = ", ".join([*by, f"{dialect.collect(fields)} AS {name}"])
                groups = f" GROUP BY {', '.join(by)}" if by else ""
                return self._from(columns, *self._body(source)) + groups
            case Inline(source, name):
                return self._from(dialect.inline(name), *self._body(source))

    def _part(self, frame: Frame) -> str:
        """Writes a frame as a part of a union: inline if it has no other reader."""
        if not isinstance(frame.node, Table) and self._readers[id(frame.node)] > 1:
            return f"SELECT {', '.join(frame.columns) or _NOTHING} FROM {self._operand(frame)}"
        text = self._query(frame)
        return f"({text})" if isinstance(frame.node, Select) and frame.node.ending else text

    def _from(self, columns: str, source: str, conditions: Sequence[str], hints: Sequence[str]) -> str:
        hint = f"/*+ BROADCAST({', '.join(hints)}) */ " if hints else ""
        # Not `WHERE (false)`: Spark would take WHERE for a name of the source, and the rest for its columns.
        first, *others = conditions or ("",)
        condition = f"({first}) AND {' AND '.join(f'({other})' for other in others)}" if others else first
        where = f" WHERE {condition}" if condition else ""
        return f"SELECT {hint}{columns} FROM {source}{where}"


def _bottom_up(root: Frame) -> Iterator[Frame]:
    """Yields every frame that a query reads, once, after the frames that it reads itself."""
    seen: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        frame, is_ready = waiting.pop()
        if is_ready:
            yield frame
        elif id(frame.node) not in seen:
            seen.add(id(frame.node))
            waiting.append((frame, True))
            waiting += [(source, False) for source in _sources(frame.node)]


def _sources(node: Node) -> tuple[Frame, ...]:
    match node:
        case Table():
            return ()
        case Join(left, right):
            return (left, right)
        case Union(parts):
            return parts
        case _:
            return (node.source,)
