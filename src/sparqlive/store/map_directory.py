"""The directories of rows that come in pieces, for those who build maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparqlive.zset.run import Column, bucket_bits

_HALF = np.uint64(1 << 63)
_ENTRIES = 1 << 18
"""So many entries of a directory are made at a time."""


def number_type(rows: int) -> type[np.uint32] | type[np.uint64]:
    """The type of the entries of a directory."""
    return np.uint32 if rows < 1 << 32 else np.uint64


def directory_length(rows: int) -> int:
    """How many entries the directory of so many rows has."""
    return (1 << bucket_bits(rows)) + 1


class DirectoryEntries:
    """The directory of rows that come in pieces: see `directory_of`."""

    def __init__(self, rows: int) -> None:
        bits = bucket_bits(rows)
        self._shift = np.uint64(64 - bits)
        self._buckets = 1 << bits
        self._next = 0
        self._rows = 0

    def add(self, first: Column) -> Iterator[Column]:
        """The entries that are known after more rows, given by their first column."""
        numbers = (np.ascontiguousarray(first).view(np.uint64) ^ _HALF) >> self._shift
        for buckets in self._until(int(numbers[-1]) + 1):
            yield self._rows + np.searchsorted(numbers, buckets.view(np.uint64))
        self._rows += len(first)

    def rest(self) -> Iterator[Column]:
        """The entries of the buckets after the last row, and the end of the last."""
        for buckets in self._until(self._buckets + 1):
            yield np.full(len(buckets), self._rows)

    def _until(self, stop: int) -> Iterator[Column]:
        while self._next < stop:
            last = min(self._next + _ENTRIES, stop)
            yield np.arange(self._next, last)
            self._next = last
