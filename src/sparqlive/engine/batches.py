"""The batches of streams that a session in memory has committed.

Invariant: batches that are numbered one after the other, as streams number them, take no more space than one.
"""

from __future__ import annotations

from typing import TypeAlias

Batch: TypeAlias = tuple[str, int]
"""A batch of a stream: its source and number."""


class Batches:
    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        """Of each source, a range of numbers."""
        self._others: set[Batch] = set()

    def add(self, batch: Batch) -> None:
        source, number = batch
        first, last = self._last.setdefault(source, (number, number))
        if first <= number <= last:
            return
        if number != last + 1:
            self._others.add(batch)
            return
        while (source, number + 1) in self._others:
            number += 1
            self._others.remove((source, number))
        self._last[source] = first, number

    def __contains__(self, batch: Batch) -> bool:
        first, last = self._last.get(batch[0], (0, -1))
        return first <= batch[1] <= last or batch in self._others

    def __len__(self) -> int:
        """How much is kept, not how many batches there were."""
        return len(self._last) + len(self._others)
