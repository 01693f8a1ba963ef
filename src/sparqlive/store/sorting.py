"""Sorts rows of 64-bit integers in bounded memory.

If the rows do not fit in memory, they are first distributed to parts of a scratch file. Each part has a range
of values of the sort column, and its size is counted beforehand. A part that is still too large is divided
again, unless all its values are equal: then it is sorted by this column already. Invariants: the order is
stable; the scratch file has no name, so that nothing remains of it after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sparqlive.store.map_folder import MapFolder
from sparqlive.store.maps import allocate, write_at
from sparqlive.zset.order import lexicographic
from sparqlive.zset.run import Column

Columns = Sequence[Column]
_BUCKET_BITS = 14
"""Bits of the number of ranges in which values are counted; there are at most as many parts."""
_ITEM = 8
# Bytes per row for keys, order and values while rows are sorted.
_SORTING_BYTES = 64


class Rows(Protocol):
    """Rows that can be read several times, in pieces."""

    @property
    def length(self) -> int:
        """The number of rows."""

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        """The columns with these numbers, at most `most` rows at a time."""


@dataclass(frozen=True)
class Sorter:
    """Sorts rows with about `memory` bytes, and a scratch file in a folder."""

    folder: MapFolder
    memory: int

    def most_rows(self, width: int) -> int:
        """The number of rows of `width` columns that fit in memory."""
        return max(1, self.memory // (2 * _ITEM * width + _SORTING_BYTES))

    def in_order(self, rows: Rows, width: int, keys: Sequence[int]) -> Generator[Columns]:
        """Sorts rows by the columns `keys`, and yields them in pieces.

        Rows that are equal in these columns keep their order.
        """
        most, everything = self.most_rows(width), range(width)
        if rows.length <= most:
            columns = gathered(rows.pieces(everything, most))
            yield reordered(columns, [columns[number] for number in keys])
            return
        low = high = 0
        while keys:
            low, high = _extremes(rows, keys[0], most)
            if low != high:
                break
            keys = keys[1:]
        if not keys:
            yield from rows.pieces(everything, most)
            return
        with self.folder.scratch() as descriptor:
            for part in _scattered(rows, width, _Ranges(rows, keys[0], low, high, most), most, descriptor):
                yield from self.in_order(part, width, keys)


def gathered(pieces: Iterator[Columns]) -> list[Column]:
    """Concatenates pieces of rows."""
    first, *others = pieces
    if not others:
        return [*first]
    return [np.concatenate(parts) for parts in zip(first, *others, strict=True)]


def reordered(columns: list[Column], keys: Columns) -> list[Column]:
    """Sorts rows by some columns. Replaces the columns in the list, so that only one copy is in memory."""
    order, _ = lexicographic(keys)
    for number, column in enumerate(columns):
        columns[number] = column[order]
    return columns


def _extremes(rows: Rows, number: int, most: int) -> tuple[int, int]:
    extremes = [(int(column.min()), int(column.max())) for (column,) in rows.pieces((number,), most)]
    lows, highs = zip(*extremes, strict=True)
    return min(lows), max(highs)


class _Ranges:
    """Ranges of the values of a column, each with at most `most` rows where possible."""

    def __init__(self, rows: Rows, column: int, low: int, high: int, most: int) -> None:
        self.column = column
        self._low = np.uint64(low % (1 << 64))
        self._shift = np.uint64(max(0, (high - low).bit_length() - _BUCKET_BITS))
        counts = np.zeros(1 << _BUCKET_BITS, dtype=np.int64)
        for (values,) in rows.pieces((column,), most):
            counts += np.bincount(self._numbers(values), minlength=len(counts))
        before = np.append(0, np.cumsum(counts))
        edges = [0]
        while edges[-1] < len(counts):
            stop = int(np.searchsorted(before, before[edges[-1]] + most, "right")) - 1
            edges.append(max(stop, edges[-1] + 1))
        self.starts: list[int] = before[edges].tolist()
        """The first row of each range, and the end of the last."""
        self._range_of = np.repeat(np.arange(len(edges) - 1, dtype=np.uint16), np.diff(edges))

    def _numbers(self, values: Column) -> Column:
        distances = np.ascontiguousarray(values).view(np.uint64) - self._low
        return (distances >> self._shift).view(np.int64)

    def of(self, values: Column) -> npt.NDArray[np.uint16]:
        """The number of the range of each value."""
        return self._range_of[self._numbers(values)]


def _scattered(rows: Rows, width: int, ranges: _Ranges, most: int, descriptor: int) -> Iterator[_Part]:
    """Distributes rows to a file by ranges of a column. Rows keep their order within each part."""
    bounds = ranges.starts
    allocate(descriptor, rows.length * width * _ITEM)
    ends = bounds[:-1]
    for columns in rows.pieces(range(width), most):
        parts = ranges.of(columns[ranges.column])
        order = np.argsort(parts, kind="stable")
        counts = np.bincount(parts, minlength=len(ends))
        edges = np.append(0, np.cumsum(counts)).tolist()
        for number, column in enumerate(columns):
            moved = column[order].view(np.uint8).data
            for part in np.flatnonzero(counts).tolist():
                piece = moved[edges[part] * _ITEM : edges[part + 1] * _ITEM]
                write_at(descriptor, piece, (number * rows.length + ends[part]) * _ITEM)
        ends = [end + count for end, count in zip(ends, counts.tolist(), strict=True)]
    assert ends == bounds[1:], "all rows are in their parts"
    for start, stop in pairwise(bounds):
        if start < stop:
            yield _Part(descriptor, rows.length, start, stop)


@dataclass(frozen=True)
class _Part:
    """Some rows in a scratch file, stored column by column."""

    descriptor: int
    rows: int
    """The number of rows in the whole file."""
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        for start in range(self.start, self.stop, most):
            stop = min(start + most, self.stop)
            yield [self._read(number * self.rows + start, stop - start) for number in numbers]

    def _read(self, start: int, length: int) -> Column:
        column = np.empty(length, dtype=np.int64)
        rest, offset = column.view(np.uint8).data, start * _ITEM
        while rest:
            count = os.preadv(self.descriptor, [rest], offset)
            assert count, "the file has all its rows"
            rest, offset = rest[count:], offset + count
        return column
