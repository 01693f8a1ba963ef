"""Rows as columns: a large batch stays in arrays, and rows become tuples only when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, final, overload

import numpy as np
import numpy.typing as npt

from sparqlive.zset.order import lexicographic
from sparqlive.zset.run import Column

Mask = npt.NDArray[np.bool_]


@final
class ColumnRows(Sequence[Any]):
    """Rows of integers in any order: a sequence of tuples of equal length.

    Code that runs per change tests for this type with `type(…) is`: for an abstract class, `isinstance` takes
    0.3 µs.
    """

    __slots__ = ("columns",)

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*(column.tolist() for column in self.columns), strict=True)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ColumnRows: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | ColumnRows:
        if isinstance(index, slice):
            return ColumnRows([column[index] for column in self.columns])
        return tuple(int(column[index]) for column in self.columns)

    def take(self, chosen: Mask | Column) -> ColumnRows:
        """Selects rows by a mask, or by positions in their order."""
        return ColumnRows([column[chosen] for column in self.columns])

    def packed(self) -> bytes:
        """Packs the rows as consecutive 64-bit numbers."""
        return np.column_stack(self.columns).tobytes()


def group_starts(*columns: Column) -> Column:
    """The start of each group of equal rows in sorted columns, and the end of the last group."""
    length = len(columns[0])
    if not length:
        return np.zeros(1, dtype=np.int64)
    fresh = np.zeros(length, dtype=bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(fresh), length)


def last_rows(rows: ColumnRows, by: Sequence[int]) -> ColumnRows:
    """Keeps the last of the rows that agree in the columns `by`; sorts by these columns."""
    if not len(rows):
        return rows
    order, is_first = lexicographic([rows.columns[number] for number in by])
    return rows.take(np.maximum.reduceat(order, np.flatnonzero(is_first)))


def columns_of(rows: Sequence[tuple[int, ...]], arity: int) -> list[Column]:
    """Rows as columns."""
    table = np.fromiter(chain.from_iterable(rows), np.int64, arity * len(rows))
    return [np.ascontiguousarray(column) for column in table.reshape(-1, arity).T]
