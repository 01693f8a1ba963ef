"""LIMIT and OFFSET: keeps the source's rows in order; a change moves rows across the edges of the window.

Rows are kept as the byte strings of `plan/places.py`, so that comparisons need no terms. Invariant: a row has
one entry per copy, up to the end of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.places import Cut, Places
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.deadline import paced
from sparqlive.zset.blocks import large_blocks
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Column
from sparqlive.zset.zset import without_zeros

_MANY_ROWS = 300
_SAMPLE = 1_000
_OBJECT_BYTES = 33 + 8  # of a byte string, and a reference to it


class OrderedRows:
    """The rows of a window's source, in order. A change costs a search, independent of the number of rows."""

    def __init__(self, operator: op.Window, terms: Terms) -> None:
        self._window = Cut(operator, terms.order)
        self._orders_of = terms.orders
        self._places, self._end = self._window.places, self._window.end
        # The window is the rows before its end, minus the rows before its offset.
        self._edges = [(operator.offset, -1)] if operator.offset else []
        if self._end is not None:
            self._edges.append((self._end, 1))
        self._most = max(edge for edge, _ in self._edges)
        self._entries = SortedList()
        self._weights: dict[bytes, int] = {}  # of the rows that have another weight than one
        self._rows = 0
        self.pending: Mapping[Row, int] = {}
        self._carried = False

    def load(self, rows: Mapping[Row, int]) -> None:
        entries = []
        for entry, weight in paced(self._entries_of(rows)):
            entries.append(entry)
            if weight != 1:
                self._weights[entry] = weight
                entries += [entry] * (min(weight, self._most) - 1)
        self._rows = len(rows)
        entries.sort()
        self._entries = SortedList(entries)

    def _entries_of(self, rows: Mapping[Row, int]) -> Iterator[tuple[bytes, int]]:
        """The entries of rows with their weights; those of many rows are made by columns."""
        if len(rows) < _MANY_ROWS:
            return ((self._places.entry(row), weight) for row, weight in rows.items())
        return chain.from_iterable(
            zip(self._places.entries(columns, self._orders_of), weights.tolist(), strict=True)
            for columns, weights in large_blocks(rows)
        )

    # Changes

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        self.stage(delta)
        self._carried = True
        return self._take(delta)

    def commit(self) -> None:
        if not self._carried:
            self._take(self.pending)
        self.pending, self._carried = {}, False

    def rollback(self) -> None:
        if self._carried:
            self._take({row: -weight for row, weight in self.pending.items()})
        self.pending, self._carried = {}, False

    def _take(self, delta: Mapping[Row, int]) -> dict[Row, int]:
        """Applies a change; returns the change of the window."""
        if self._end is not None and not self._places.key_width and len(delta) > max(_MANY_ROWS, self._most):
            return self._take_many(delta)
        change = dict(delta) if self._end is None else {}
        for row, weight in delta.items():
            entry = self._places.entry(row)
            copies = self._weigh(entry, weight)
            for _ in range(copies):
                self._add(entry, row, change)
            for _ in range(-copies):
                self._remove(entry, row, change)
        return without_zeros(change)

    def _take_many(self, delta: Mapping[Row, int]) -> dict[Row, int]:
        """Applies a change of more rows than the window has, which is read before and after."""
        change = {row: -weight for row, weight in self._window.cut(self._weighted())}
        entries = self._entries
        for entry, weight in self._entries_of(delta):
            copies = self._weigh(entry, weight)
            for _ in range(copies):
                entries.add(entry)
            for _ in range(-copies):
                entries.remove(entry)
        for row, weight in self._window.cut(self._weighted()):
            change[row] = change.get(row, 0) + weight
        return without_zeros(change)

    def _weigh(self, entry: bytes, weight: int) -> int:
        """Changes the weight of an entry; returns how many of it are to be added to the list, or removed."""
        old = self._weights.get(entry) or int(entry in self._entries)
        new = old + weight
        assert new >= 0, "a row is removed more often than it occurs"
        self._rows += (new > 0) - (old > 0)
        if new > 1:
            self._weights[entry] = new
        else:
            self._weights.pop(entry, None)
        return min(new, self._most) - min(old, self._most)

    def _add(self, entry: bytes, row: Row, change: dict[Row, int]) -> None:
        """Adds an entry; before an edge, it pushes the last row across the edge."""
        entries = self._entries
        start, stop = self._range(entry)
        place = entries.bisect_right(entry) - start
        for edge, sign in self._edges:
            if place < edge:
                change[row] = change.get(row, 0) + sign
                if stop - start >= edge:
                    other = self._places.row(entries[start + edge - 1])
                    change[other] = change.get(other, 0) - sign
        entries.add(entry)

    def _remove(self, entry: bytes, row: Row, change: dict[Row, int]) -> None:
        """Removes an entry; before an edge, the next row moves in across the edge."""
        entries = self._entries
        start, stop = self._range(entry)
        place = entries.bisect_left(entry) - start
        for edge, sign in self._edges:
            if place < edge:
                change[row] = change.get(row, 0) - sign
                if stop - start > edge:
                    other = self._places.row(entries[start + edge])
                    change[other] = change.get(other, 0) + sign
        entries.remove(entry)

    def _range(self, entry: bytes) -> tuple[int, int]:
        """The range of the rows with the same key."""
        width = self._places.key_width
        if not width:
            return 0, len(self._entries)
        key = entry[:width]
        return self._entries.bisect_left(key), self._entries.bisect_left(key + b"\xff")

    # Reading

    def items(self) -> Iterator[tuple[Row, int]]:
        with self._before():
            yield from [(self._places.row(entry), weight) for entry, weight in self._weighted()]

    def content(self) -> Iterator[tuple[Row, int]]:
        with self._before():
            yield from list(self._window.cut(self._weighted()))

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        return self._window.of(rows)

    def _weighted(self) -> Iterator[tuple[bytes, int]]:
        if not self._weights:
            return ((entry, 1) for entry in self._entries)
        return ((entry, self._weights.get(entry, 1)) for entry, _ in groupby(self._entries))

    @contextmanager
    def _before(self) -> Iterator[None]:
        """Context in which the state is that before the current epoch."""
        if not self._carried:
            yield
            return
        pending = self.pending
        self.rollback()
        try:
            yield
        finally:
            self.carry(pending)

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        """Memory in bytes, estimated from a sample of the rows."""
        sample = list(islice(self._entries, _SAMPLE))
        size = sum(map(len, sample)) / len(sample) if sample else 0
        return int(self._rows * (_OBJECT_BYTES + size))


def in_order(
    rows: Iterable[tuple[Row, int]], variables: Sequence[Var], order: op.Order, terms: Terms
) -> list[tuple[Row, int]]:
    """Rows in the order of ORDER BY; ties are broken as in a window."""
    place: Callable[[Row], bytes] = Places(variables, order, terms.order).entry
    return sorted(rows, key=lambda item: place(item[0]))


def order_of(columns: Sequence[Column], variables: Sequence[Var], order: op.Order, terms: Terms) -> Column:
    """The positions of rows, given as columns, in the order of `in_order`."""
    keys = []
    for variable, descending in order:
        rank = _codes(
            columns[variables.index(variable)], lambda ids: [rank for rank, _ in terms.order_keys(ids)]
        )
        keys.append(-rank if descending else rank)
    found = np.lexsort(keys[::-1])
    ranked = np.stack([key[found] for key in keys])
    starts = np.append(True, (ranked[:, 1:] != ranked[:, :-1]).any(axis=0))
    if starts.all():
        return found
    # Among rows of equal rank the whole terms decide; distinct terms have distinct keys.
    tied = ~(starts & np.append(starts[1:], True))
    rows = found[tied]
    ties = [_codes(column[rows], terms.order_keys) for column in columns]
    found[tied] = rows[np.lexsort([*ties[::-1], np.cumsum(starts)[tied]])]
    return found


def _codes(ids: Column, keys_of: Callable[[Column], Sequence[Any]]) -> Column:
    """Numbers that compare like the keys of ids."""
    distinct, places = np.unique(ids, return_inverse=True)
    keys = keys_of(distinct)
    codes, code, before = np.zeros(len(keys), dtype=np.int64), 0, None
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        code += before is not None and keys[place] != before
        codes[place], before = code, keys[place]
    return codes[places]
