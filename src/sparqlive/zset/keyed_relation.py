"""Sets of rows with lookup by key: a sorted run, a small mutable overlay, and in an epoch a pending layer.

Owns the states: *before* an epoch is run + overlay, *after* is run + overlay + pending. Nothing is merged
until `commit`; `rollback` discards the pending layer. Contains rows of integers, independent of RDF. A mapped
run is never copied: its changes go to a second, small run (`late`), below the overlay.
Invariants: the overlay and the pending layer hold no zero weight; each row's total weight is zero or one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.columns import columns_of
from sparqlive.zset.order import distinct
from sparqlive.zset.relation import Row, merge_is_due
from sparqlive.zset.run import Column, Run, RunRows, growing
from sparqlive.zset.zset import add_into

Layer = dict[Any, dict[Any, int]]
_NO_COLUMN = np.empty(0, np.int64)


class KeyedRelation:
    """A set of rows with lookup by their first `key_length` columns (one or more).

    A key is an integer, or a tuple of integers for several columns; so is a value, the rest of a row.
    `before(key)` and `after(key)` return the values of a key as an iterable, or None if it has none. They are
    plain attributes, so that reading a relation without a run is one dict lookup. A large batch of changes is
    staged as columns: `next` is then the relation after them.
    """

    __slots__ = (
        "after",
        "arity",
        "before",
        "key_length",
        "last_snapshot",
        "late",
        "merged",
        "next",
        "overlay",
        "overlay_rows",
        "pending",
        "run",
        "tuning",
    )

    before: Callable[[Any], Iterable[Any] | None]
    after: Callable[[Any], Iterable[Any] | None]

    def __init__(
        self,
        arity: int,
        key_length: int,
        run: Run | None = None,
        late: Run | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        """`late`: changes after the run, with weights 1 and -1."""
        assert 1 <= key_length <= arity
        self.tuning = tuning
        self.arity = arity
        self.key_length = key_length
        self.run = run if run is not None and run.length else None
        self.late = late if late is not None and late.length else None
        self.overlay: Layer = {}
        self.overlay_rows = 0
        self.pending: Layer = {}
        self.next: KeyedRelation | None = None
        self.last_snapshot: Callable[[], RelationSnapshot | None] | None = None
        self.merged: list[Run | None] = []
        """The run with the overlay folded in, once a reader of the current state has merged them."""
        self._choose_readers()

    @classmethod
    def of_parts(
        cls,
        arity: int,
        key_length: int,
        run: Run | None,
        overlay: Layer,
        late: Run | None = None,
        tuning: Tuning = DEFAULT,
    ) -> KeyedRelation:
        """A relation that shares runs and an overlay."""
        relation = KeyedRelation(arity, key_length, run, late, tuning)
        relation.overlay, relation.overlay_rows = overlay, sum(map(len, overlay.values()))
        relation._choose_readers()
        return relation

    def _choose_readers(self) -> None:
        """Sets the readers, which do not refer to the relation: a cycle would keep its runs in memory."""
        if self.run is None and self.late is None:
            self.before = self.overlay.get
        elif self.run is not None and self.late is None and self.arity == 2 and self.key_length == 1:
            self.before = _pair_reader(self.run, self.overlay)
        else:
            self.before = _reader(self.run, self.late, self.overlay, self.key_length)
        if self.next is not None:
            self.after = self.next.before
        else:
            self.after = self._read_after if self.pending else self.before

    # Rows and their parts

    def key_of(self, row: Sequence[int]) -> Any:
        return row[0] if self.key_length == 1 else tuple(row[: self.key_length])

    def value_of(self, row: Sequence[int]) -> Any:
        return row[-1] if self.arity - self.key_length == 1 else tuple(row[self.key_length :])

    def _row(self, key: Any, value: Any) -> Row:
        keys = (key,) if self.key_length == 1 else key
        values = (value,) if self.arity - self.key_length == 1 else value
        return (*keys, *values)

    # Reading

    def _read_after(self, key: Any) -> Iterable[Any] | None:
        changed = self.pending.get(key)
        if changed is None:
            return self.before(key)
        return _with_layer(self.before(key), changed)

    def has_before(self, key: Any, value: Any) -> bool:
        changed = self.overlay.get(key)
        if changed is not None and value in changed:
            return changed[value] > 0
        run = self.run
        if self.late is not None and (weight := self._late_weight(key, value)):
            return weight > 0
        if run is None:
            return False
        if self.arity == 2 and self.key_length == 1:
            return run.has_pair(key, value)
        return run.position(self._row(key, value))[1]

    def _late_weight(self, key: Any, value: Any) -> int:
        assert self.late is not None and self.late.weights is not None
        place, found = self.late.position(self._row(key, value))
        return int(self.late.weights[place]) if found else 0

    def prefixed(self, prefix: Row, after: bool = False) -> Iterator[Row]:
        """The rest of the rows that start with a prefix, which may be longer or shorter than a key.

        A shorter prefix scans the whole overlay.
        """
        if after and self.next is not None:
            yield from self.next.prefixed(prefix)
            return
        changed = self._changed(prefix, after)
        if self.run is not None:
            low, high = self.run.range(prefix)
            columns = self.run.views[len(prefix) :]
            for piece in growing(low, high):
                rows: Iterable[Row] = zip(*(column[piece].tolist() for column in columns), strict=True)
                if not columns:
                    rows = [()] * (piece.stop - piece.start)
                yield from (row for row in rows if row not in changed) if changed else rows
        yield from (row for row, weight in changed.items() if weight > 0)

    def _changed(self, prefix: Row, after: bool) -> dict[Row, int]:
        """The changes after the run to rows that start with a prefix, by the rest of the row."""
        length, changes = len(prefix), dict[Row, int]()
        if self.late is not None:
            assert self.late.weights is not None
            low, high = self.late.range(prefix)
            rest = zip(*(column[low:high].tolist() for column in self.late.views[length:]), strict=True)
            rows = rest if length < self.arity else iter([()] * (high - low))
            changes.update(zip(rows, self.late.weights[low:high].tolist(), strict=True))
        key = None
        if length >= self.key_length:
            key = prefix[0] if self.key_length == 1 else prefix[: self.key_length]
        for layer in (self.overlay, self.pending) if after else (self.overlay,):
            for own in layer if key is None else (key,):
                for value, weight in layer.get(own, _NOTHING).items():
                    row = self._row(own, value)
                    if row[:length] == prefix:
                        changes[row[length:]] = weight
        return changes

    def run_of(self, prefix: Row, after: bool = False) -> Run:
        """The rest of the rows that start with a prefix. Copied only if some of them changed."""
        if after and self.next is not None:
            return self.next.run_of(prefix)
        changed = self._changed(prefix, after)
        if self.run is not None:
            run = self.run.cut(*self.run.range(prefix), first=len(prefix))
        else:
            run = Run([np.empty(0, np.int64)] * (self.arity - len(prefix)))
        # Drops inserts of rows that the run has, and deletes of rows that it does not have.
        net = {row: weight for row, weight in changed.items() if run.position(row)[1] == (weight < 0)}
        return run.with_changes([*net], [*net.values()]) if net else run

    def has_rows_before(self, rows: Sequence[Column]) -> npt.NDArray[np.bool_]:
        """Which of many rows exist; faster if they are sorted. Merges nothing."""
        exists = np.zeros(len(rows[0]), dtype=bool)
        if self.run is not None:
            exists = self.run.places(rows)[1]
        if self.late is not None:
            assert self.late.weights is not None
            places, changed = self.late.places(rows)
            exists[changed] = self.late.weights[places[changed]] > 0
        overlay = self.overlay
        if overlay:
            keys = rows[0].tolist() if self.key_length == 1 else None
            every = zip(*(column.tolist() for column in rows), strict=True)
            for place, row in enumerate(every):
                layer = overlay.get(row[: self.key_length] if keys is None else row[0])
                if layer is not None and (weight := layer.get(self.value_of(row))) is not None:
                    exists[place] = weight > 0
        return exists

    def has_after(self, key: Any, value: Any) -> bool:
        if self.next is not None:
            return self.next.has_before(key, value)
        changed = self.pending.get(key)
        if changed is not None and value in changed:
            return changed[value] > 0
        return self.has_before(key, value)

    def count_before(self, key: Any) -> int:
        """The number of values of a key, without listing them."""
        changed = self.overlay.get(key)
        count = 0 if changed is None else sum(changed.values())
        if self.run is not None:
            low, high = _range_of(self.run, key, self.key_length)
            count += high - low
        if self.late is not None and self.late.weights is not None:
            low, high = _range_of(self.late, key, self.key_length)
            count += int(self.late.weights[low:high].sum())
        return count

    def count_after(self, key: Any) -> int:
        if self.next is not None:
            return self.next.count_before(key)
        changed = self.pending.get(key)
        return self.count_before(key) + (0 if changed is None else sum(changed.values()))

    def keys_before(self) -> Iterator[Any]:
        """The keys that have rows, for keys of one column; each takes a search in the run."""
        return self._keys([self.overlay], self.count_before)

    def keys_after(self) -> Iterator[Any]:
        if self.next is not None:
            return self.next.keys_before()
        return self._keys([self.overlay, self.pending], self.count_after)

    def _keys(self, layers: Sequence[Layer], count: Callable[[int], int]) -> Iterator[int]:
        assert self.key_length == 1
        changed = set(chain.from_iterable(layers))
        if self.late is not None:
            changed.update(distinct(self.late.columns[0]).tolist())
        if self.run is not None:
            place, first = 0, self.run.views[0]
            while place < self.run.length:
                key = first[place]
                place = self.run.range_one(key)[1]
                if key not in changed:
                    yield key
        yield from (key for key in changed if count(key))

    def rows_before(self) -> Iterator[Row]:
        """All rows, in no particular order."""
        rows = iter(()) if self.run is None else self.run.rows()
        if self.late is not None:
            rows = self._with_late(rows)
        return self._with_changes(rows, self.overlay) if self.overlay else rows

    def _with_late(self, rows: Iterator[Row]) -> Iterator[Row]:
        assert self.late is not None
        changed = dict(RunRows(self.late).items())
        yield from (row for row in rows if row not in changed)
        yield from (row for row, weight in changed.items() if weight > 0)

    def rows_after(self) -> Iterator[Row]:
        if self.next is not None:
            return self.next.rows_before()
        rows = self.rows_before()
        return self._with_changes(rows, self.pending) if self.pending else rows

    def _with_changes(self, rows: Iterator[Row], layer: Layer) -> Iterator[Row]:
        if self.arity == 2 and self.key_length == 1:
            for row in rows:
                changed = layer.get(row[0])
                if changed is None or changed.get(row[1], 1) > 0:
                    yield row
        else:
            for row in rows:
                changed = layer.get(self.key_of(row))
                if changed is None or changed.get(self.value_of(row), 1) > 0:
                    yield row
        for key, values in layer.items():
            for value, weight in values.items():
                if weight > 0:
                    yield self._row(key, value)

    def size_before(self) -> int:
        changed = sum(sum(values.values()) for values in self.overlay.values())
        late = 0 if self.late is None else self.late.total()
        return changed + late + (self.run.length if self.run is not None else 0)

    def size_about(self) -> int:
        """An upper bound on the number of rows, without visiting the overlay."""
        late = 0 if self.late is None else self.late.length
        return self.overlay_rows + late + (self.run.length if self.run is not None else 0)

    def size_after(self) -> int:
        if self.next is not None:
            return self.next.size_before()
        return self.size_before() + sum(sum(values.values()) for values in self.pending.values())

    # Writing

    def stage(self, row: Sequence[int], weight: int) -> None:
        """Adds a change to the pending layer: +1 for a missing row, -1 for an existing one."""
        self.stage_value(self.key_of(row), self.value_of(row), weight)

    def stage_value(self, key: Any, value: Any, weight: int) -> None:
        changes = self.pending.get(key)
        if changes is None:
            self.pending[key] = {value: weight}
            self.after = self._read_after
        else:
            changes[value] = weight

    def stage_all(self, changes: Iterable[tuple[Any, Any, int]]) -> None:
        """Adds changes of key, value and weight to the pending layer."""
        pending = self.pending
        for key, value, weight in changes:
            values = pending.get(key)
            if values is None:
                pending[key] = {value: weight}
            else:
                values[value] = weight
        if pending:
            self.after = self._read_after

    def stage_columns(self, columns: Sequence[Column], weights: Column) -> None:
        """Stages a large batch of distinct rows: +1 for missing rows, -1 for existing ones.

        It must be the only batch of its epoch, and costs a copy of the run.
        """
        assert not self.pending and self.next is None
        self.merge()
        runs = self._runs_with(columns, weights)
        self.stage_next(KeyedRelation(self.arity, self.key_length, *runs, self.tuning))

    def _runs_with(self, columns: Sequence[Column], weights: Column) -> tuple[Run | None, Run | None]:
        """The run and the later changes after a batch of changes."""
        if self.run is None:
            assert (weights == 1).all(), "only existing rows can be deleted"
            return Run.sort(columns), None
        if not self.run.is_mapped:
            return self.run.with_columns(columns, weights), None
        if self.late is None:
            return self.run, Run.sort(columns, weights)
        return self.run, self.late.with_columns(columns, weights)

    def stage_next(self, relation: KeyedRelation) -> None:
        """Stages the relation after all changes, which replaces this one at the commit."""
        self.merge()
        self.next = relation
        self.after = relation.before

    def apply_all(self, changes: Iterable[tuple[Any, Any, int]]) -> None:
        """Stages and commits changes of key, value and weight in one step."""
        self._begin_change()
        overlay, added = self.overlay, 0
        for key, value, weight in changes:
            values = overlay.get(key)
            if values is None:
                overlay[key] = {value: weight}
                added += 1
            elif value not in values:
                values[value] = weight
                added += 1
            else:  # in a set, a second change undoes the first, back to the run's content
                del values[value]
                added -= 1
                if not values:
                    del overlay[key]
        self.overlay_rows += added
        self._merge_if_due()

    def _merge_if_due(self) -> None:
        if self.overlay_rows > self.tuning.smallest_merge_rows:
            run = self.run
            growing = self.late if run is not None and run.is_mapped else run
            if merge_is_due(self.overlay_rows, growing, self.tuning):
                self.merge()

    def commit(self) -> None:
        self._begin_change()
        if self.next is not None:
            self.run, self.late, self.next = self.next.run, self.next.late, None
            self._choose_readers()
            return
        overlay, added = self.overlay, 0
        for key, changes in self.pending.items():
            values = overlay.setdefault(key, changes)
            if values is changes:
                added += len(changes)
                continue
            added -= len(values)
            add_into(values, changes)
            if values:
                added += len(values)
            else:
                del overlay[key]
        self.overlay_rows += added
        self.pending = {}
        self.after = self.before
        self._merge_if_due()

    def rollback(self) -> None:
        self.pending = {}
        self.next = None
        self.after = self.before

    def fill(self, run: Run) -> None:
        """Sets the rows of an empty relation."""
        assert not self.overlay and not self.pending and self.run is None
        self.run = run
        self._choose_readers()

    def rebase(self, run: Run | None) -> None:
        """Replaces the run and drops the changes after it, between epochs."""
        self.last_snapshot, self.merged = None, []
        self.run = run if run is not None and run.length else None
        self.late, self.overlay, self.overlay_rows = None, {}, 0
        self._choose_readers()

    def copy(self) -> KeyedRelation:
        """A copy of the rows before the current epoch; the run is immutable and shared."""
        copy = KeyedRelation(self.arity, self.key_length, self.run, self.late, self.tuning)
        copy.overlay = {key: dict(values) for key, values in self.overlay.items()}
        copy.overlay_rows = self.overlay_rows
        copy._choose_readers()
        return copy

    def with_key(self, key_length: int) -> KeyedRelation:
        """The rows before the current epoch with another key; the run is shared until either merges."""
        relation = KeyedRelation(self.arity, key_length, self.run, self.late, self.tuning)
        rows = (
            (self._row(k, v), weight) for k, values in self.overlay.items() for v, weight in values.items()
        )
        relation.apply_all((relation.key_of(row), relation.value_of(row), weight) for row, weight in rows)
        return relation

    def snapshot(self) -> RelationSnapshot:
        """The rows before the current epoch, for a reader; nothing is copied unless they change meanwhile."""
        snapshot = None if self.last_snapshot is None else self.last_snapshot()
        is_same = snapshot is not None and snapshot.run is self.run and snapshot.late is self.late
        if snapshot is None or not is_same or snapshot.overlay is not self.overlay:
            snapshot = new_snapshot = RelationSnapshot(self)
            # A snapshot kept only for the next reader must not make a change copy the overlay.
            self.last_snapshot = ref(new_snapshot) if self.overlay else lambda: new_snapshot
        return snapshot

    def _begin_change(self) -> None:
        """Prepares a change: adopts what a reader merged, and copies the overlay if a snapshot shares it."""
        if self.last_snapshot is None:
            return
        merged, self.merged = self.merged, []  # a reader of the old state may still add to the old list
        if merged:
            self.run, self.overlay, self.overlay_rows = merged[0], {}, 0
            self._choose_readers()
        self._take_back()

    def _take_back(self) -> None:
        assert self.last_snapshot is not None
        snapshot = self.last_snapshot()
        self.last_snapshot = None
        if snapshot is not None and snapshot.overlay is self.overlay:
            self.overlay = {key: dict(values) for key, values in self.overlay.items()}
            self._choose_readers()

    def merge(self) -> None:
        """Folds the overlay into the run, or into the changes after it."""
        if not self.overlay:
            return
        self.merged = []
        run, late = self._runs_with(*self._overlay_columns(self.overlay))
        self.run = run if run is not None and run.length else None
        self.late = late if late is not None and late.length else None
        self.overlay = {}
        self.overlay_rows = 0
        self._choose_readers()

    def _overlay_columns(self, overlay: Layer) -> tuple[list[Column], Column]:
        """The rows of a layer as columns, and their weights."""
        layers = overlay.values()
        count = sum(map(len, layers))
        weights = np.fromiter(chain.from_iterable(map(dict.values, layers)), np.int64, count)
        if self.arity == 2 and self.key_length == 1:
            sizes = np.fromiter(map(len, layers), np.int64, len(layers))
            keys = np.repeat(np.fromiter(overlay, np.int64, len(layers)), sizes)
            return [keys, np.fromiter(chain.from_iterable(layers), np.int64, count)], weights
        rows = [self._row(key, value) for key, values in overlay.items() for value in values]
        return columns_of(rows, self.arity), weights

    def run_before(self) -> Run | None:
        """All rows as a run; None if there are none. Copies a mapped run that has later changes."""
        self.merge()
        return self.run if self.late is None else self._copied_run()

    def _copied_run(self) -> Run | None:
        assert self.run is not None and self.late is not None and self.late.weights is not None
        run = self.run.with_columns(self.late.columns, self.late.weights)
        return run if run.length else None

    def run_after(self) -> Run | None:
        """All rows after the current epoch as a run; copies the run if single rows are staged."""
        if self.next is not None:
            return self.next.run_before()
        run = self.run_before()
        changed = [(self._row(k, v), w) for k, values in self.pending.items() for v, w in values.items()]
        if not changed:
            return run
        rows, weights = zip(*changed, strict=True)
        if run is None:
            return Run.sort([np.fromiter(column, np.int64, len(rows)) for column in zip(*rows, strict=True)])
        run = run.with_changes(rows, weights)
        return run if run.length else None

    def changes_after_run(self, after: bool = False) -> tuple[list[Column], Column]:
        """The net changes after the run, with or without the pending ones: columns of rows, and weights."""
        if after and self.next is not None:
            return self.next.changes_after_run()
        if not self.overlay and self.late is None and not (after and self.pending):
            return [_NO_COLUMN] * self.arity, _NO_COLUMN
        parts = [self._overlay_columns(self.overlay)]
        if after:
            parts.append(self._overlay_columns(self.pending))
        if self.late is not None:
            assert self.late.weights is not None
            parts.append(([*self.late.columns], self.late.weights))
        columns = [np.concatenate(pieces) for pieces in zip(*(rows for rows, _ in parts), strict=True)]
        run = Run.sort(columns, np.concatenate([weights for _, weights in parts]))
        assert run.weights is not None
        return [*run.columns], run.weights

    def ids(self) -> Iterator[Column]:
        """All ids in the rows before the epoch, as columns; may include ids of deleted rows."""
        for run in (self.run, self.late):
            if run is not None:
                yield from run.columns
        if self.overlay:
            yield from self._overlay_columns(self.overlay)[0]

    @property
    def nbytes(self) -> int:
        """Memory in bytes: exact for the run, about 200 per row of the overlay."""
        own = self.run.nbytes if self.run is not None and not self.run.is_mapped else 0
        merged = sum(run.nbytes for run in self.merged if run is not None)
        return own + merged + (self.late.nbytes if self.late is not None else 0) + 200 * self.overlay_rows

    @property
    def fan_out(self) -> float:
        """The mean number of values per key, estimated from a sample of the run or from the overlay."""
        if self.run is not None and self.run.length:
            stop = min(self.run.length, 10_000)
            sample = self.run.first_rows(stop)[: self.key_length]
            changes = np.zeros(stop, dtype=bool)
            for column in sample:
                changes[1:] |= column[1:stop] != column[: stop - 1]
            return stop / (1 + int(changes.sum()))
        return self.overlay_rows / len(self.overlay) if self.overlay else 1.0


class RelationSnapshot(KeyedRelation):
    """A read-only view of a relation before an epoch; shares its rows until the relation changes."""

    __slots__ = ("__weakref__", "_fan_out", "_size")

    def __init__(self, owner: KeyedRelation) -> None:
        super().__init__(owner.arity, owner.key_length, owner.run, owner.late, owner.tuning)
        self.overlay = owner.overlay
        self.overlay_rows = owner.overlay_rows
        self._size = -1
        self._fan_out = -1.0
        is_mapped = self.run is not None and self.run.is_mapped
        self.merged = [] if is_mapped else owner.merged
        self._choose_readers()
        if self.run is not None and self.late is None and self.key_length == 1:
            self.before = _reader_in_pieces(self.run, self.overlay, self.before)

    def size_before(self) -> int:
        if self._size < 0:
            self._size = super().size_before()
        return self._size

    @property
    def fan_out(self) -> float:
        if self._fan_out < 0:
            self._fan_out = super().fan_out
        return self._fan_out

    def run_before(self) -> Run | None:
        """All rows as a run. Does not change the relation, because several threads may read it."""
        if not self.overlay and self.late is None:
            return self.run
        if not self.merged:
            self.merged.append(self.copy().run_before())
        return self.merged[0]


_NOTHING: Mapping[Any, int] = {}


def _pair_reader(run: Run, overlay: Layer) -> Callable[[Any], Iterable[Any] | None]:
    """The values of a key of pairs, by far the most common lookup."""
    seconds, changes = run.seconds, overlay.get

    def read(key: int) -> Iterable[Any] | None:
        values, changed = seconds(key), changes(key)
        return values if changed is None else _with_layer(values, changed)

    return read


def _reader(
    run: Run | None, late: Run | None, overlay: Layer, key_length: int
) -> Callable[[Any], Iterable[Any] | None]:
    """The values of a key."""
    changes = overlay.get

    def read(key: Any) -> Iterable[Any] | None:
        values: Iterable[Any] | None = None
        if run is not None:
            low, high = _range_of(run, key, key_length)
            values = _values_of(run, low, high, key_length) if low != high else None
        if late is not None:
            low, high = _range_of(late, key, key_length)
            if low != high:
                assert late.weights is not None
                weights = late.weights[low:high].tolist()
                layer = dict(zip(_values_of(late, low, high, key_length), weights, strict=True))
                values = list(_with_layer(values, layer))
        changed = changes(key)
        return values if changed is None else _with_layer(values, changed)

    return read


def _reader_in_pieces(
    run: Run, overlay: Layer, read: Callable[[Any], Iterable[Any] | None]
) -> Callable[[Any], Iterable[Any] | None]:
    """Wraps a reader: many values come in growing pieces, because the first may be enough."""

    def read_in_pieces(key: int) -> Iterable[Any] | None:
        if key in overlay:
            return read(key)
        low, high = run.range_one(key)
        if high - low <= DEFAULT.first_piece_rows:
            return _values_of(run, low, high, 1) if low != high else None
        pieces = (_values_of(run, piece.start, piece.stop, 1) for piece in growing(low, high))
        return chain.from_iterable(pieces)

    return read_in_pieces


def _range_of(run: Run, key: Any, key_length: int) -> tuple[int, int]:
    return run.range_one(key) if key_length == 1 else run.range(key)


def _values_of(run: Run, low: int, high: int, key_length: int) -> list[Any]:
    columns = run.views[key_length:]
    if len(columns) == 1:
        return columns[0][low:high].tolist()
    if not columns:
        return [()] * (high - low)
    return list(zip(*(column[low:high].tolist() for column in columns), strict=True))


def _with_layer(values: Iterable[Any] | None, changed: Mapping[Any, int]) -> Iterable[Any]:
    """The values of a set after a layer of changes: +1 adds, -1 removes."""
    added = [value for value, weight in changed.items() if weight > 0]
    if values is None:
        return added
    if len(added) == len(changed):
        return [*values, *added]
    return [value for value in values if value not in changed] + added
