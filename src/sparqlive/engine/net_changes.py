"""Net changes of the quads, collected for work that started under the lock and continues without it.

Owns the changes that are collected now. Invariant: the quads at the start, with the net change, are the quads
of the current epoch; otherwise the changes are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparqlive.quads.current import Change, Quad
from sparqlive.zset.zset import add_into


class NetChanges:
    """All methods are called under the lock."""

    def __init__(self) -> None:
        self._collected: list[dict[Quad, int]] = []

    def start(self) -> dict[Quad, int]:
        """Collects the net change of the quads until `stop` is called with it."""
        changes: dict[Quad, int] = {}
        self._collected.append(changes)
        return changes

    def stop(self, changes: dict[Quad, int]) -> list[Change] | None:
        """Stops collecting and returns the changes, or None if they are unknown."""
        for number, one in enumerate(self._collected):
            if one is changes:
                del self._collected[number]
                return [(*quad, weight) for quad, weight in changes.items()]
        return None

    def add(self, changes: Sequence[Change]) -> None:
        """Adds the changes of a committed epoch; changes that cancel each other disappear."""
        for collected in self._collected:
            add_into(collected, {(s, p, o, g): weight for s, p, o, g, weight in changes})

    def forget(self) -> None:
        """Makes all changes that are collected now unknown: an epoch left its quads in files."""
        self._collected.clear()

    def __iter__(self) -> Iterator[Mapping[Quad, int]]:
        return iter(self._collected)

    def __len__(self) -> int:
        return len(self._collected)
