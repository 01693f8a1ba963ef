"""Pairs that stay on disk, because no view reads their graph and predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.zset.relation import KeyedRelation

if TYPE_CHECKING:
    from sparqlive.store.quad_runs import QuadRuns


class Cold:
    """The pairs of a graph and predicate in a store's runs, and the changes since the runs were written."""

    __slots__ = ("_changes", "_key", "disk")

    def __init__(self, disk: QuadRuns, key: tuple[int, int]) -> None:
        self.disk = disk
        self._key = key
        self._changes: dict[int, dict[int, int]] = {}

    def has_before(self, subject: int, object_: int) -> bool:
        weight = self._changes.get(subject, _NO_CHANGES).get(object_, 0)
        return weight > 0 if weight else self.disk.has_pair(self._key, subject, object_)

    def apply(self, subject: int, object_: int, weight: int) -> None:
        values = self._changes.setdefault(subject, {})
        if values.pop(object_, 0) == 0:
            values[object_] = weight
        elif not values:  # back to the state on disk
            del self._changes[subject]

    def size_before(self) -> int:
        changed = sum(sum(values.values()) for values in self._changes.values())
        return changed + self.disk.size(self._key)

    def copy(self) -> Cold:
        copied = Cold(self.disk, self._key)
        copied._changes = {subject: dict(values) for subject, values in self._changes.items()}
        return copied

    def relation(self) -> KeyedRelation:
        """A copy in memory."""
        relation = KeyedRelation(2, 1, self.disk.read(self._key))
        for subject, values in self._changes.items():
            for object_, weight in values.items():
                relation.apply(subject, object_, weight)
        return relation


_NO_CHANGES: dict[int, int] = {}
