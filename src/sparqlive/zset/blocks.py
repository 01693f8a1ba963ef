"""Rows in blocks of columns, for reading large results a bounded number of rows at a time.

A block has columns of ids and one weight per row. The first block of a result is small, so that its first
rows are sent at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.run import Column, RunRows

# Maximum time that computed rows wait for the rest of their block.
_BLOCK_SECONDS = 0.02
_ROWS_PER_LOOK = 16


class Block(NamedTuple):
    """Rows as columns of ids, with their weights."""

    columns: tuple[Column, ...]
    weights: Column

    def take(self, part: slice | Column) -> Block:
        """Selects rows by range or position."""
        return Block(tuple([column[part] for column in self.columns]), self.weights[part])

    def rows(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """The rows as tuples, with their weights."""
        if not self.columns:
            return (((), weight) for weight in self.weights.tolist())
        rows = zip(*(column.tolist() for column in self.columns), strict=True)
        return zip(rows, self.weights.tolist(), strict=True)

    def narrowed(self, width: int) -> Block:
        """Keeps only the first `width` columns; rows may then repeat."""
        return Block(self.columns[:width], self.weights)


Blocks: TypeAlias = Callable[[], Iterator[Block]]
"""A captured content: each call returns its rows from the beginning, unaffected by later changes."""


def sizes() -> Iterator[int]:
    """The row counts of consecutive blocks."""
    size = DEFAULT.first_piece_rows
    while True:
        yield size
        size = min(4 * size, DEFAULT.block_rows)


def blocks_of(items: Iterable[tuple[Sequence[int], int]], width: int) -> Iterator[Block]:
    """Groups rows of `width` columns into blocks; rows that are slow to compute come in smaller ones."""
    remaining = iter(items)
    for size in sizes():
        rows, until = list(islice(remaining, _ROWS_PER_LOOK)), time.monotonic() + _BLOCK_SECONDS
        if not rows:
            return
        while len(rows) < size and time.monotonic() < until:
            more = list(islice(remaining, _ROWS_PER_LOOK))
            rows += more
            if len(more) < _ROWS_PER_LOOK:
                break
        yield block_of(rows, width)


def block_of(rows: Sequence[tuple[Sequence[int], int]], width: int) -> Block:
    """Puts rows of `width` columns into one block."""
    ids = np.array([row for row, _ in rows], dtype=np.int64).reshape(len(rows), width)
    weights = np.array([weight for _, weight in rows], dtype=np.int64)
    return Block(tuple([np.ascontiguousarray(ids[:, place]) for place in range(width)]), weights)


def large_blocks(rows: Mapping[tuple[int, ...], int]) -> Iterator[Block]:
    """Rows in large blocks, for column operations. Requires at least one row and one column."""
    size = DEFAULT.largest_piece_rows
    if type(rows) is RunRows and rows.run.weights is not None:
        whole = Block(tuple(rows.run.columns), rows.run.weights)
        return (whole.take(slice(at, at + size)) for at in range(0, len(rows), size))
    items, width = iter(rows.items()), len(next(iter(rows)))
    return (block_of(part, width) for part in iter(lambda: list(islice(items, size)), []))


def joined(blocks: Iterable[Block], width: int) -> Block:
    """Concatenates blocks of `width` columns."""
    parts = [Block((np.empty(0, np.int64),) * width, np.empty(0, np.int64)), *blocks]
    columns = zip(*(part.columns for part in parts), strict=True)
    return Block(tuple(map(np.concatenate, columns)), np.concatenate([part.weights for part in parts]))


def cut(columns: Sequence[Column], weights: Column) -> Iterator[Block]:
    """Splits columns into blocks that share their memory."""
    start = 0
    for size in sizes():
        if start >= len(weights):
            return
        part = slice(start, start + size)
        yield Block(tuple([column[part] for column in columns]), weights[part])
        start += size


def rows_in(blocks: Iterable[Block]) -> Iterator[tuple[tuple[int, ...], int]]:
    """All rows with their weights."""
    for block in blocks:
        yield from block.rows()
