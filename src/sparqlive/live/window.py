"""Evaluates LIMIT and OFFSET: keeps the first source rows in order; a change moves rows across the edges.

A relation stores all rows by ids. The *head* is the window and some spare rows after it, in order, as the
byte strings of `plan/sort_keys.py`, so that comparisons need no terms. When deletions have used up the spare
rows, the next head is selected from all rows by columns. A window per key keeps all of its rows in the head.
Invariants: a row of the head has one entry per copy, up to the end of the window; if there are rows after the
head, it reaches beyond the window's end; `relation` keeps the state before the epoch until `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from sparqlive.live.terms import Terms
from sparqlive.live.window_columns import first_of
from sparqlive.plan import operators as op
from sparqlive.plan.sort_keys import Cut, Places
from sparqlive.runtime.deadline import paced
from sparqlive.sparql.algebra import Var
from sparqlive.zset.blocks import Block, joined, large_blocks
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Column, Run
from sparqlive.zset.zset import without_zeros

_MOST_SPARE = 3
"""A head is cut when it has grown beyond this multiple of its initial rows."""
_SAMPLE = 1_000
_OBJECT_BYTES = 33 + 8  # a byte string and a reference to it


class OrderedRows:
    """The rows of a window's source. A change costs a binary search in the head."""

    def __init__(self, operator: op.Window, terms: Terms) -> None:
        self._operator, self._terms, self._tuning = operator, terms, terms.tuning
        self._window = Cut(operator, terms.order, terms.tuning.spare_rows)
        self._places, self._end = self._window.places, self._window.end
        # The window is the rows before its end, minus the rows before its offset.
        self._edges = [(operator.offset, -1)] if operator.offset else []
        if self._end is not None:
            self._edges.append((self._end, 1))
        self._most = max(edge for edge, _ in self._edges)
        self.relation = Relation(len(operator.source.variables), tuning=terms.tuning)
        self._head = _Head()
        self._before: _Head | None = None
        """The head before the epoch, if the epoch has replaced it."""
        self.pending: Mapping[Row, int] = {}
        self._carried = False

    def load(self, rows: Mapping[Row, int] | Run) -> None:
        self.take(Relation(self.relation.arity, rows, self._tuning))

    def take(self, relation: Relation) -> None:
        """Replaces the stored rows."""
        self.relation = relation
        self._head = self._head_of(relation)

    # The head

    def _size_of(self, rows: int) -> int:
        """Returns the initial number of rows in a head."""
        return self._most + max(self._tuning.spare_rows, rows // self._tuning.rows_to_spare)

    def _head_of(self, relation: Relation) -> _Head:
        rows = relation.size()[0]
        size, head = self._size_of(rows), _Head()
        if self._places.key_width or rows <= 2 * size:
            entries = list(paced(self._entries_of(dict(relation.items()))))
        else:
            entries = self._first(relation, size)
            head.last = entries[-1][0] if len(entries) == size else None
        single = []
        for entry, weight in entries:
            single += [entry] * min(weight, self._most)
            if weight != 1:
                head.weights[entry] = weight
        head.entries = SortedList(single)
        return head

    def _first(self, relation: Relation, size: int) -> list[tuple[bytes, int]]:
        """Returns the entries of the first rows of the relation, with their weights."""
        width = relation.arity
        waiting: list[Block] = []
        count = 0
        for block in paced(relation.blocks()):
            waiting.append(block)
            count += len(block.weights)
            if count >= self._tuning.sorting_rows + size:
                waiting = [self._among_first(joined(waiting, width), size)]
                count = len(waiting[0].weights)
        rows = self._among_first(joined(waiting, width), size)
        entries = zip(self._places.entries(rows.columns, self._orders_of), rows.weights.tolist(), strict=True)
        return sorted(entries)[:size]

    def _among_first(self, rows: Block, size: int) -> Block:
        """Returns a block with the first rows, and at most as many others."""
        rows = first_of(self._operator, self._terms, rows, size)
        if len(rows.weights) <= 2 * size:
            return rows
        entries = list(self._places.entries(rows.columns, self._orders_of))
        return rows.take(np.array(sorted(range(len(entries)), key=entries.__getitem__)[:size]))

    def _orders_of(self, ids: Column) -> tuple[Sequence[bytes], Sequence[bytes]]:
        return self._terms.orders(ids)

    def _entries_of(self, rows: Mapping[Row, int]) -> Iterator[tuple[bytes, int]]:
        """Yields the entries of rows with their weights; those of many rows are computed by columns."""
        if len(rows) < self._tuning.column_rows:
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
        self.relation.add(self.pending)
        self.pending, self._carried, self._before = {}, False, None
        head = self._head
        if not self._places.key_width and len(head.entries) > _MOST_SPARE * self._size_of(0):
            size = self._size_of(self.relation.size()[0])
            if len(head.entries) > _MOST_SPARE * size:
                head.cut(size)

    def rollback(self) -> None:
        if self._before is not None:
            self._head = self._before
        elif self._carried:
            undone = {row: -weight for row, weight in self.pending.items()}
            self._head.add(self._entries_of(undone), self._most)
        self.pending, self._carried, self._before = {}, False, None

    def _take(self, delta: Mapping[Row, int]) -> dict[Row, int]:
        """Applies a change, and returns the change of the window."""
        is_used_up = self._is_used_up_by(delta)
        most = max(self._tuning.column_rows, self._most)
        if is_used_up or (not self._places.key_width and len(delta) > most):
            return self._take_many(delta, is_used_up)
        change = dict(delta) if self._end is None else {}
        last = self._head.last
        for row, weight in delta.items():
            entry = self._places.entry(row)
            if last is not None and entry > last:
                continue
            copies = self._head.weigh(entry, weight, self._most)
            for _ in range(copies):
                self._add(entry, row, change)
            for _ in range(-copies):
                self._remove(entry, row, change)
        return without_zeros(change)

    def _is_used_up_by(self, delta: Mapping[Row, int]) -> bool:
        """Returns whether a change may leave too little of the head, while there are rows after it."""
        head = self._head
        if head.last is None:
            return False
        left = len(head.entries) - self._most
        if left >= -sum(weight for weight in delta.values() if weight < 0):
            return False
        gone = {row: weight for row, weight in delta.items() if weight < 0}
        return left < -sum(weight for entry, weight in self._entries_of(gone) if entry <= head.last)

    def _take_many(self, delta: Mapping[Row, int], is_used_up: bool) -> dict[Row, int]:
        """Applies a large change: compares the rows before the edges before and after it."""
        change = dict(delta) if self._end is None else {}
        self._count_edges(change, -1)
        if is_used_up:
            after = self.relation.copy()
            after.add(delta)
            self._before, self._head = self._head, self._head_of(after)
        else:
            self._head.add(self._entries_of(delta), self._most)
        self._count_edges(change, 1)
        return without_zeros(change)

    def _count_edges(self, change: dict[Row, int], factor: int) -> None:
        """Adds the rows before the edges to a change."""
        for edge, sign in self._edges:
            left = edge
            for entry, weight in self._head.weighted():
                if not left:
                    break
                row, weight = self._places.row(entry), min(weight, left)
                change[row] = change.get(row, 0) + factor * sign * weight
                left -= weight

    def _add(self, entry: bytes, row: Row, change: dict[Row, int]) -> None:
        """Adds an entry; before an edge, it pushes the last row across the edge."""
        entries = self._head.entries
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
        entries = self._head.entries
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
        """Returns the range of entries with the same key."""
        width, entries = self._places.key_width, self._head.entries
        if not width:
            return 0, len(entries)
        key = entry[:width]
        return entries.bisect_left(key), entries.bisect_left(key + b"\xff")

    # Reading

    def items(self) -> Iterator[tuple[Row, int]]:
        return self.relation.items()

    def content(self) -> Iterator[tuple[Row, int]]:
        with self._as_before():
            if self._end is not None:
                yield from list(self._window.cut(self._head.weighted()))
                return
            skipped: dict[Row, int] = {}
            self._count_edges(skipped, 1)
        for row, weight in self.relation.items():
            weight += skipped.get(row, 0)
            if weight:
                yield row, weight

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        return self._window.of(rows)

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """Context in which the head is the one before the current epoch."""
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
        return len(self.relation)

    @property
    def nbytes(self) -> int:
        """Estimates the memory in bytes from a sample of the rows."""
        entries = self._head.entries
        sample = list(islice(entries, _SAMPLE))
        size = sum(map(len, sample)) / len(sample) if sample else 0
        return self.relation.nbytes + int(len(entries) * (_OBJECT_BYTES + size))


class _Head:
    """The first rows in order: entries, and the weights other than one.

    `last`: rows after this entry are not in the head; None if it holds all rows.
    """

    def __init__(self) -> None:
        self.entries = SortedList()
        self.weights: dict[bytes, int] = {}
        self.last: bytes | None = None

    def weigh(self, entry: bytes, weight: int, most: int) -> int:
        """Changes the weight of an entry; returns the copies to add, or to remove if negative."""
        old = self.weights.get(entry) or int(entry in self.entries)
        new = old + weight
        assert new >= 0, "a row is removed more often than it occurs"
        if new > 1:
            self.weights[entry] = new
        else:
            self.weights.pop(entry, None)
        return min(new, most) - min(old, most)

    def add(self, rows: Iterable[tuple[bytes, int]], most: int) -> None:
        """Applies a change."""
        for entry, weight in rows:
            if self.last is not None and entry > self.last:
                continue
            copies = self.weigh(entry, weight, most)
            for _ in range(copies):
                self.entries.add(entry)
            for _ in range(-copies):
                self.entries.remove(entry)

    def cut(self, size: int) -> None:
        """Keeps this many entries, and further copies of the last one."""
        self.last = self.entries[size - 1]
        end = self.entries.bisect_right(self.last)
        self.entries = SortedList(self.entries[:end])
        self.weights = {entry: weight for entry, weight in self.weights.items() if entry <= self.last}

    def weighted(self) -> Iterator[tuple[bytes, int]]:
        if not self.weights:
            return ((entry, 1) for entry in self.entries)
        return ((entry, self.weights.get(entry, 1)) for entry, _ in groupby(self.entries))


def in_order(
    rows: Iterable[tuple[Row, int]], variables: Sequence[Var], order: op.Order, terms: Terms
) -> list[tuple[Row, int]]:
    """Sorts rows as ORDER BY says; ties are broken as in a window."""
    place: Callable[[Row], bytes] = Places(variables, order, terms.order).entry
    return sorted(rows, key=lambda item: place(item[0]))


def order_of(columns: Sequence[Column], variables: Sequence[Var], order: op.Order, terms: Terms) -> Column:
    """Returns the positions of rows, given as columns, in the order of `in_order`."""
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
    """Returns numbers that compare like the keys of ids."""
    distinct, places = np.unique(ids, return_inverse=True)
    keys = keys_of(distinct)
    codes, code, before = np.zeros(len(keys), dtype=np.int64), 0, None
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        code += before is not None and keys[place] != before
        codes[place], before = code, keys[place]
    return codes[places]
