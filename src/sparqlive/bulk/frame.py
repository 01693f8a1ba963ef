"""A query on Spark while it is put together: text that Spark analyses once, when it is whole.

Owns the SQL that the executor writes. A DataFrame would be analysed anew by every operation on it, which for
the hundreds of operations of a delta costs seconds; a frame costs nothing until `data_frame` is called.
Invariants: a frame's columns have different names; what it reads are views that `Views` has named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

_NUMBERS = count()
_LONGEST = 4000
"""Characters of a frame that is repeated as it is: about as long to analyse once more as to run it."""


@dataclass(frozen=True)
class Frame:
    """`FROM source WHERE conditions`, with these columns.

    small: to be broadcast where it is joined. joined: the source is a join. is_empty: known to have no rows.
    """

    source: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    small: bool = False
    joined: bool = False
    is_empty: bool = False

    def select(self, *expressions: str) -> Frame:
        """Expressions, each `expression AS name` or a column; `*` stands for all columns."""
        wanted = [e for item in expressions for e in (self.columns if item == "*" else (item,))]
        names = tuple(expression.rpartition(" AS ")[2] for expression in wanted)
        assert len(set(names)) == len(names), names
        return Frame(f"({self._query(', '.join(wanted) or '1L AS nothing')})", names)

    def stacked(self, rows: Sequence[Sequence[str]], names: Sequence[str], *kept: str) -> Frame:
        """For each row of expressions a row with these names, beside the columns that are kept."""
        cells = ", ".join(cell for row in rows for cell in row)
        wanted = ", ".join([*kept, f"stack({len(rows)}, {cells}) AS ({', '.join(names)})"])
        return Frame(f"({self._query(wanted)})", (*kept, *names))

    def where(self, condition: str) -> Frame:
        return replace(self, conditions=(*self.conditions, condition), small=False, is_empty=False)

    def distinct(self) -> Frame:
        wanted = ", ".join(self.columns) or "1L AS nothing"
        return Frame(f"({self._query(f'DISTINCT {wanted}')})", self.columns)

    def first_row(self) -> Frame:
        return Frame(f"({self.text} LIMIT 1)", self.columns)

    def grouped(self, by: Sequence[str], *aggregates: str) -> Frame:
        """A row for each value of the columns `by`; without any, always exactly one."""
        wanted = [*by, *aggregates]
        names = tuple(expression.rpartition(" AS ")[2] for expression in wanted)
        groups = f" GROUP BY {', '.join(by)}" if by else ""
        return Frame(f"({self._query(', '.join(wanted))}{groups})", names)

    def listed(self, name: str, columns: Sequence[str]) -> Frame:
        """A row for each element of the arrays in a column, structs with these fields."""
        return Frame(f"({self._query(f'inline({name})')})", tuple(columns))

    def union(self, *others: Frame) -> Frame:
        """All rows of frames with the same columns in the same order."""
        assert all(other.columns == self.columns for other in others), [f.columns for f in (self, *others)]
        return Frame(f"({' UNION ALL '.join(f.text for f in (self, *others))})", self.columns)

    def join(self, other: Frame, on: Sequence[str], how: str = "INNER") -> Frame:
        """By equal columns; without any, every pair. SEMI and ANTI keep the columns of this frame."""
        condition = f"USING ({', '.join(on)})" if on else "ON true"
        keyword = {"INNER": "JOIN", "LEFT": "LEFT JOIN"}.get(how, f"LEFT {how} JOIN")
        hints = tuple(name for name, side in (("l", self), ("r", other)) if side.small)
        columns = self.columns
        if how in ("INNER", "LEFT"):
            columns += tuple(name for name in other.columns if name not in on)
            assert len(set(columns)) == len(columns), columns
        source = f"{self._operand()} AS l {keyword} {other._operand()} AS r {condition}"
        return Frame(source, columns, hints=hints, joined=True)

    def distributed(self, by: str) -> Frame:
        """The same rows, those with one value of a column in one partition."""
        wanted = f"/*+ REPARTITION({by}) */ {', '.join(self.columns)}"
        return Frame(f"({self._query(wanted)})", self.columns)

    def broadcast(self, small: bool = True) -> Frame:
        return replace(self, small=small)

    def data_frame(self, session: SparkSession) -> DataFrame:
        return session.sql(self.text)

    def _query(self, wanted: str) -> str:
        hint = f"/*+ BROADCAST({', '.join(self.hints)}) */ " if self.hints else ""
        # Not `WHERE (false)`: Spark would take WHERE for a name of the source, and the rest for its columns.
        first, *others = self.conditions or ("",)
        condition = f"({first}) AND {' AND '.join(f'({other})' for other in others)}" if others else first
        where = f" WHERE {condition}" if condition else ""
        return f"SELECT {hint}{wanted} FROM {self.source}{where}"

    @property
    def text(self) -> str:
        return self._query(", ".join(self.columns) or "1L AS nothing")

    def _operand(self) -> str:
        """As one side of a join: in brackets, unless it stands in some already or is a view."""
        return f"({self.text})" if self.joined or self.conditions else self.source


class Views:
    """DataFrames and functions under names that frames can use, until the query is analysed."""

    def __init__(self, session: SparkSession, longest: int = _LONGEST) -> None:
        self.session = session
        self._longest = longest
        self._views: list[str] = []
        self._functions: list[str] = []

    def frame(self, data: DataFrame, columns: Sequence[str]) -> Frame:
        name = f"sparqlive_view_{next(_NUMBERS)}"
        data.createOrReplaceTempView(name)
        self._views.append(name)
        return Frame(name, tuple(columns))

    def shared(self, frame: Frame) -> Frame:
        """The same rows, for several uses in one query. A long frame is run now, and its rows are held.

        Only for what is to be broadcast, which the driver holds anyway. Repeated uses of uses would make a
        query's text grow exponentially with the depth of its plan.
        """
        if len(frame.text) <= self._longest:
            return frame
        rows = frame.data_frame(self.session).toArrow()
        local = self.frame(self.session.createDataFrame(rows), frame.columns)
        return replace(local, is_empty=rows.num_rows == 0)

    def function(self, function: Any) -> str:
        """The name under which a Python function can be called."""
        name = f"sparqlive_function_{next(_NUMBERS)}"
        self.session.udf.register(name, function)
        self._functions.append(name)
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._views:
            self.session.catalog.dropTempView(name)
        for name in self._functions:
            self.session.sql(f"DROP TEMPORARY FUNCTION {name}")
