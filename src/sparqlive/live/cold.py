"""Pairs that stay on disk, because no view reads their graph and predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparqlive.zset.columns import COLUMN_ROWS, Mask
from sparqlive.zset.relation import KeyedRelation
from sparqlive.zset.run import Column, Run, RunRows

if TYPE_CHECKING:
    from sparqlive.store.quad_runs import QuadRuns


class Cold:
    """The pairs of a graph and predicate in a store's runs, and the changes since the runs were written.

    Changes have the weight 1 or -1. Those of large batches are a sorted run, relative to the runs on disk;
    the others, in a dict, are relative to both.
    """

    __slots__ = ("_changes", "_is_lent", "_key", "_late", "disk")

    def __init__(self, disk: QuadRuns, key: tuple[int, int]) -> None:
        self.disk = disk
        self._key = key
        self._changes: dict[int, dict[int, int]] = {}
        self._is_lent = False
        self._late: Run | None = None

    def has_before(self, subject: int, object_: int) -> bool:
        weight = self._change_of(subject, object_)
        return weight > 0 if weight else self.disk.has_pair(self._key, subject, object_)

    def _change_of(self, subject: int, object_: int) -> int:
        weight = self._changes.get(subject, _NO_CHANGES).get(object_, 0)
        if not weight and self._late is not None:
            weight = self._late_changes(subject).get(object_, 0)
        return weight

    def has_many(self, subjects: Column, objects: Column) -> Mask:
        """Which of many pairs, sorted, existed before the current epoch; reads each segment at most once."""
        found = self.disk.has_pairs(self._key, subjects, objects)
        if len(subjects) < COLUMN_ROWS:
            for place, pair in enumerate(zip(subjects.tolist(), objects.tolist(), strict=True)):
                if weight := self._change_of(*pair):
                    found[place] = weight > 0
            return found
        self._merge()
        if self._late is not None:
            assert self._late.weights is not None
            places, is_changed = self._late.places((subjects, objects))
            found[is_changed] = self._late.weights[places[is_changed]] > 0
        return found

    def _late_changes(self, subject: int) -> dict[int, int]:
        """The changes of a subject in large batches, by object."""
        if self._late is None or self._late.weights is None:
            return _NO_CHANGES
        low, high = self._late.range_one(subject)
        weights = self._late.weights[low:high].tolist()
        return dict(zip(self._late.views[1][low:high].tolist(), weights, strict=True))

    def apply_all(self, pairs: Iterable[tuple[int, int, int]]) -> None:
        """Applies changes of subject, object and weight."""
        if self._is_lent:
            self._changes = {key: dict(values) for key, values in self._changes.items()}
            self._is_lent = False
        for subject, object_, weight in pairs:
            values = self._changes.setdefault(subject, {})
            if values.pop(object_, 0) == 0:
                values[object_] = weight
            elif not values:  # back to the state on disk
                del self._changes[subject]

    def apply_columns(self, subjects: Column, objects: Column, weights: Column) -> None:
        """Applies many changes, which are distinct."""
        self._merge(subjects, objects, weights)

    def _merge(self, *batch: Column) -> None:
        """Adds the changes in the dict, and those of a batch, to the run."""
        parts: list[Sequence[Column]] = [batch] if batch else []
        if self._changes:
            rows = [(s, o, weight) for s, values in self._changes.items() for o, weight in values.items()]
            parts.append(list(np.array(rows, dtype=np.int64).T))
            self._changes, self._is_lent = {}, False
        if not parts:
            return
        if self._late is not None and self._late.weights is not None:
            parts.append((*self._late.columns, self._late.weights))
        *columns, weights = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        late = Run.sort(columns, weights)
        self._late = late if late.length else None

    def size_before(self) -> int:
        changed = sum(sum(values.values()) for values in self._changes.values())
        if self._late is not None and self._late.weights is not None:
            changed += int(self._late.weights.sum())
        return changed + self.disk.size(self._key)

    def copy(self) -> Cold:
        copied = Cold(self.disk, self._key)
        copied._changes = {subject: dict(values) for subject, values in self._changes.items()}
        copied._late = self._late
        return copied

    def lend(self) -> Cold:
        """The pairs as they are now, for a reader; the changes are copied only if there are more of them."""
        lent = Cold(self.disk, self._key)
        lent._changes, self._is_lent = self._changes, True
        lent._late = self._late
        return lent

    def values_before(self, subject: int) -> list[int]:
        """The objects of a subject."""
        found = self.disk.values(self._key, subject)
        for changed in (self._late_changes(subject), self._changes.get(subject)):
            if changed:
                added = [object_ for object_, weight in changed.items() if weight > 0]
                found = [object_ for object_ in found if object_ not in changed] + added
        return found

    def around(self, subject: int) -> tuple[int, int, Run] | None:
        """A run with all pairs of a subject, and of all subjects between two; None if there is none."""
        return None if self.is_changed else self.disk.around(self._key, subject)

    def rows_before(self) -> Iterator[tuple[int, int]]:
        """All pairs; those on disk are read in pieces."""
        changes = self._changes
        for subject, object_ in self._rows_without_changes():
            if subject not in changes or changes[subject].get(object_, 1) > 0:
                yield subject, object_
        for subject, values in changes.items():
            yield from ((subject, object_) for object_, weight in values.items() if weight > 0)

    def _rows_without_changes(self) -> Iterator[tuple[int, int]]:
        """The pairs on disk and in large batches."""
        if self._late is None or self._late.weights is None:
            yield from self.disk.rows(self._key)
            return
        late = RunRows(self._late)
        yield from (row for row in self.disk.rows(self._key) if row not in late)
        yield from (row for row, weight in late.items() if weight > 0)  # type: ignore[misc]

    @property
    def is_changed(self) -> bool:
        """Whether pairs were changed since the runs were written."""
        return bool(self._changes) or self._late is not None

    def whole_run(self) -> Run | None:
        """All pairs, if none were changed since the runs were written."""
        return None if self.is_changed else self.disk.read(self._key)

    def runs(self) -> Iterator[Run]:
        """All pairs, if none were changed, in runs that are read one after the other."""
        return self.disk.runs(self._key)

    def relation(self) -> KeyedRelation:
        """A copy in memory."""
        run = self.disk.read(self._key)
        if self._late is not None and self._late.weights is not None:
            run = run.with_columns(self._late.columns, self._late.weights)
        relation = KeyedRelation(2, 1, run)
        relation.apply_all(
            (s, o, weight) for s, values in self._changes.items() for o, weight in values.items()
        )
        return relation


_NO_CHANGES: dict[int, int] = {}
