"""Builds run directories from rows that come in pieces, for maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparqlive.zset.run import Column, bucket_bits

_HALF = np.uint64(1 << 63)
_ENTRIES = 1 << 18
"""Number of directory entries computed at a time."""


def number_type(rows: int) -> type[np.uint32] | type[np.uint64]:
    """The type of the entries of a directory."""
    return np.uint32 if rows < 1 << 32 else np.uint64


def directory_length(rows: int) -> int:
    """The number of entries in the directory of `rows` rows."""
    return (1 << bucket_bits(rows)) + 1


class DirectoryEntries:
    """Computes the directory of rows that come in pieces; see `directory_of`."""

    def __init__(self, rows: int) -> None:
        bits = bucket_bits(rows)
        self._shift = np.uint64(64 - bits)
        self._buckets = 1 << bits
        self._next = 0
        self._rows = 0

    def add(self, first: Column) -> Iterator[Column]:
        """Takes the first column of the next rows; yields the entries that are now known."""
        numbers = (np.ascontiguousarray(first).view(np.uint64) ^ _HALF) >> self._shift
        for buckets in self._until(int(numbers[-1]) + 1):
            yield self._rows + np.searchsorted(numbers, buckets.view(np.uint64))
        self._rows += len(first)

    def rest(self) -> Iterator[Column]:
        """Yields the entries of the buckets after the last row, and the end of the last bucket."""
        for buckets in self._until(self._buckets + 1):
            yield np.full(len(buckets), self._rows)

    def _until(self, stop: int) -> Iterator[Column]:
        while self._next < stop:
            last = min(self._next + _ENTRIES, stop)
            yield np.arange(self._next, last)
            self._next = last
