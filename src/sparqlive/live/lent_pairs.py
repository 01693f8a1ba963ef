"""Pairs that a query reads without making an index first: turned, merged, or on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np

from sparqlive.live.cold import Cold
from sparqlive.live.filtered import Tests, as_columns, growing, kept_rows
from sparqlive.live.turned import TurnedRuns
from sparqlive.rdf.term_columns import is_in
from sparqlive.zset.relation import KeyedRelation, Layer, LentRelation
from sparqlive.zset.run import Column, Run

_MANY_VALUES = 128
_FEW_PARTS = 4
_FIRST_PIECE = 64
_SCANNED_FIRST = 1 << 14
_LARGEST_PIECE = 1 << 18


class ColdPairs:
    """Pairs on disk: a lookup reads the segments that can contain it."""

    __slots__ = ("_cold", "_known_size", "_loaded", "_near", "fan_out", "has_before", "rows_before")

    def __init__(self, cold: Cold) -> None:
        self._cold = cold
        self.has_before = cold.has_before
        self.rows_before = cold.rows_before
        self.fan_out = 2.0
        self._near: tuple[int, int, Run | None] = (0, 0, None)
        self._known_size = -1
        self._loaded: LentRelation | None = None

    def before(self, subject: int) -> list[int] | None:
        low, high, run = self._near
        if run is None or not low < subject < high:
            found = self._cold.around(subject)
            if found is None:
                return self._cold.values_before(subject) or None
            self._near = found
            run = found[2]
        return run.seconds(subject)

    def count_before(self, subject: int) -> int:
        return len(self._cold.values_before(subject))

    def size_before(self) -> int:
        if self._known_size < 0:
            self._known_size = self._cold.size_before()
        return self._known_size

    def size_about(self) -> int:
        return self.size_before()

    def loaded(self) -> LentRelation:
        """All pairs in memory."""
        if self._loaded is None:
            self._loaded = self._cold.relation().lend()
        return self._loaded

    def run_before(self) -> Run | None:
        return self.loaded().run_before()

    def whole_run(self) -> Run | None:
        """The run of all pairs, which is read from files; None if there are changes beside it."""
        return self._cold.whole_run()

    def runs(self) -> Iterable[Run]:
        """All pairs, in runs that are read one after the other."""
        if self._cold.is_changed:
            run = self.run_before()
            return () if run is None else (run,)
        return self._cold.runs()


class MergedPairs:
    """The union of pairs of several graphs, as a set."""

    def __init__(self, parts: list[LentRelation | ColdPairs]) -> None:
        self._parts = parts
        self.fan_out = max(part.fan_out for part in parts)

    def before(self, key: int) -> Iterable[int] | None:
        if len(self._parts) > _FEW_PARTS:
            return self._whole.before(key)
        found = [values for part in self._parts if (values := part.before(key)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return dict.fromkeys(chain.from_iterable(found))

    def has_before(self, key: int, value: int) -> bool:
        return any(part.has_before(key, value) for part in self._parts)

    def count_before(self, key: int) -> int:
        found = self.before(key)
        return 0 if found is None else sum(1 for _ in found)

    def rows_before(self) -> Iterator[tuple[int, int]]:
        earlier: list[LentRelation | ColdPairs] = []
        seen: set[tuple[int, int]] = set()
        many = len(self._parts) > _FEW_PARTS
        for part in self._parts:
            for row in part.rows_before():
                if many:
                    if row in seen:
                        continue
                    seen.add(row)  # type: ignore[arg-type]
                elif any(other.has_before(*row) for other in earlier):
                    continue
                yield row  # type: ignore[misc]
            earlier.append(part)

    def size_before(self) -> int:
        return self._whole.size_before()

    def size_about(self) -> int:
        return sum(part.size_about() for part in self._parts)

    @cached_property
    def _whole(self) -> LentRelation:
        """All pairs as one run, for many lookups and exact sizes."""
        runs = [run for part in self._parts if (run := part.run_before()) is not None]
        columns = [np.concatenate(columns) for columns in zip(*(run.columns for run in runs), strict=True)]
        return KeyedRelation(2, 1, Run.sort(columns) if columns else None).lend()

    def loaded(self) -> LentRelation:
        """All pairs in memory."""
        return self._whole

    def run_before(self) -> Run | None:
        return self._whole.run_before()


Forward: TypeAlias = LentRelation | ColdPairs | MergedPairs


class TurnedPairs:
    """Object → subjects of pairs without an inverse: a scan of the objects at first, then a turned run."""

    def __init__(self, forward: Forward, turned: TurnedRuns) -> None:
        self._forward = forward
        self._turned = turned
        self._found: KeyedRelation | None = None
        self.size_before = forward.size_before
        self.size_about = forward.size_about

    @cached_property
    def _pairs(self) -> LentRelation:
        return self._forward if isinstance(self._forward, LentRelation) else self._forward.loaded()

    @cached_property
    def _overlay(self) -> Layer:
        """The changes of the pairs, turned."""
        made: Layer = {}
        for subject, objects in self._pairs.overlay.items():
            for object_, weight in objects.items():
                made.setdefault(object_, {})[subject] = weight
        return made

    def _relation(self) -> KeyedRelation | None:
        """The turned pairs as a relation, as soon as it pays."""
        if self._found is None:
            run = self._pairs.run
            known = None if run is None else self._turned.find(run)
            if run is not None and known is None:
                if not self._turned.is_wanted(run):
                    return None
                known = self._turned.of(run)
            self._found = KeyedRelation.of_parts(2, 1, known, self._overlay)
        return self._found

    def before(self, object_: int) -> Iterable[int] | None:
        found = self._relation()
        if found is not None:
            return _values_of(found, object_)
        values: Iterator[int] = chain.from_iterable(self._scan(object_))
        changed = self._overlay.get(object_)
        if changed is not None:
            added = [value for value, weight in changed.items() if weight > 0]
            values = chain((value for value in values if value not in changed), added)
        first = next(values, None)
        return None if first is None else chain((first,), values)

    def _scan(self, object_: int) -> Iterator[list[int]]:
        """The subjects of an object in the run, in growing pieces, because the first may be enough."""
        run = self._pairs.run
        assert run is not None
        if self._turned.lacks(run, object_):
            return
        subjects, objects = run.columns
        start, size, unnoted, is_there = 0, _SCANNED_FIRST, 0, False
        while start < run.length:
            part = slice(start, start + size)
            found = subjects[part][objects[part] == object_].tolist()
            is_there = is_there or bool(found)
            unnoted += size
            if is_there:
                self._turned.note_scan(run, unnoted)
                unnoted = 0
            yield found
            start, size = start + size, min(4 * size, _LARGEST_PIECE)
        if not is_there:
            self._turned.note_absence(run, object_)

    def has_before(self, object_: int, subject: int) -> bool:
        return self._forward.has_before(subject, object_)

    def count_before(self, object_: int) -> int:
        found = self._relation()
        if found is not None:
            return found.count_before(object_)
        run = self._pairs.run
        if run is None or object_ in self._overlay:
            return sum(1 for _ in self.before(object_) or ())
        return self._turned.count(run, object_)

    def run_before(self) -> Run | None:
        """All pairs as a run of subjects and objects."""
        return self._forward.run_before()

    def rows_before(self) -> Iterator[tuple[int, int]]:
        return ((object_, subject) for subject, object_ in self._forward.rows_before())

    @cached_property
    def fan_out(self) -> float:
        """The mean number of subjects per object, estimated."""
        run = self._pairs.run
        return 1.0 if run is None else self._turned.fan_out(run)


def pieces_of(pairs: Forward) -> Iterator[Sequence[Column]]:
    """All pairs as columns of subjects and objects, in growing pieces."""
    if isinstance(pairs, MergedPairs):
        return as_columns(pairs.rows_before())
    if isinstance(pairs, ColdPairs):
        return _cut(pairs.runs())
    return _with_changes(pairs) if pairs.overlay else _cut([] if pairs.run is None else [pairs.run])


def _cut(runs: Iterable[Run]) -> Iterator[Sequence[Column]]:
    for run in runs:
        for part in growing(run.length):
            yield [column[part] for column in run.columns]


def _with_changes(pairs: LentRelation) -> Iterator[Sequence[Column]]:
    """The pairs of a run and an overlay; those of changed subjects come last."""
    changed = np.sort(np.array(list(pairs.overlay), dtype=np.int64))
    for subjects, objects in _cut([] if pairs.run is None else [pairs.run]):
        is_same = ~is_in(subjects, changed)
        yield subjects[is_same], objects[is_same]
    rows = ((subject, object_) for subject in pairs.overlay for object_ in pairs.before(subject) or ())
    yield from as_columns(rows)


def _values_of(relation: KeyedRelation, key: int) -> Iterable[int] | None:
    """The values of a key; many of them in pieces, because the first may be enough."""
    run = relation.run
    if run is None or key in relation.overlay:
        return relation.before(key)
    low, high = run.range_one(key)
    values = run.views[1][low:high]
    if high - low < _MANY_VALUES:
        return values.tolist() if low != high else None
    return chain.from_iterable(values[part].tolist() for part in growing(high - low))


def counts_of(pairs: Forward | TurnedPairs, tests: Tests = ()) -> Iterator[tuple[int, int]]:
    """The keys of pairs, with numbers of values that add up to all; counted in growing pieces.

    With tests: the keys that pass.
    """
    run, place = pairs.run_before(), 1 if isinstance(pairs, TurnedPairs) else 0
    if run is None:
        return
    column = run.columns[place]
    start, size = 0, _FIRST_PIECE
    while start < run.length:
        yield from kept_rows([np.unique(column[start : start + size], return_counts=True)], tests)  # type: ignore[misc]
        start, size = start + size, min(4 * size, _LARGEST_PIECE)
