"""Relations: a sorted run with a small mutable overlay, and during an epoch a pending layer.

Owns the states: *before* an epoch is run + overlay, *after* is run + overlay + pending. Nothing is merged
until `commit`; `rollback` discards the pending layer. Contains rows of integers, independent of RDF. The run
of a mapped file is never copied: between it and the overlay there is a second, small run of changes (`late`).
Invariants: the overlay and the pending layer hold no zero weight; in a `KeyedRelation` (a set) each
row's total weight is zero or one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from sparqlive.zset.blocks import Block, blocks_of, cut, rows_in
from sparqlive.zset.run import Column, Run, RunRows
from sparqlive.zset.zset import add_into, difference

Row = tuple[int, ...]
Layer = dict[Any, dict[Any, int]]

_SMALLEST_MERGE = 16_384
_RUN_TO_OVERLAY = 64
# A bag whose run is not large merges less often: its overlay is one dict, which is cheap to copy.
_RUN_TO_BAG_OVERLAY = 16
_MOST_BAG_OVERLAY = 65_536
# How many rows become Python integers at a time.
_FIRST_ROWS = 16
_MOST_ROWS = 1 << 16
_MANY_VALUES = 128
# More rows than this are looked up in a run by columns.
_MANY_ROWS = 100
# Of a long range, so many rows become Python integers at a time.
_PIECE_ROWS = 1 << 14


def _merge_is_due(overlay_rows: int, run: Run | None) -> bool:
    """Whether to merge. Merging copies the run; amortised, this costs a few microseconds per change."""
    return overlay_rows > max(_SMALLEST_MERGE, (run.length if run else 0) // _RUN_TO_OVERLAY)


def _bag_merge_is_due(overlay_rows: int, run: Run | None) -> bool:
    """Whether to merge the overlay of a bag."""
    rows = 0 if run is None else run.length
    return _merge_is_due(overlay_rows, run) and overlay_rows > min(
        rows // _RUN_TO_BAG_OVERLAY, _MOST_BAG_OVERLAY
    )


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
        "late",
        "lent",
        "merged",
        "next",
        "overlay",
        "overlay_rows",
        "pending",
        "run",
    )

    before: Callable[[Any], Iterable[Any] | None]
    after: Callable[[Any], Iterable[Any] | None]

    def __init__(self, arity: int, key_length: int, run: Run | None = None, late: Run | None = None) -> None:
        """`late`: changes after the run, with the weight 1 or -1."""
        assert 1 <= key_length <= arity
        self.arity = arity
        self.key_length = key_length
        self.run = run if run is not None and run.length else None
        self.late = late if late is not None and late.length else None
        self.overlay: Layer = {}
        self.overlay_rows = 0
        self.pending: Layer = {}
        self.next: KeyedRelation | None = None
        self.lent: Callable[[], LentRelation | None] | None = None
        self.merged: list[Run | None] = []
        """The run and the overlay together, once a reader of the present state has merged them."""
        self._choose_readers()

    @classmethod
    def of_parts(
        cls, arity: int, key_length: int, run: Run | None, overlay: Layer, late: Run | None = None
    ) -> KeyedRelation:
        """A relation that shares runs and an overlay."""
        relation = KeyedRelation(arity, key_length, run, late)
        relation.overlay, relation.overlay_rows = overlay, sum(map(len, overlay.values()))
        relation._choose_readers()
        return relation

    def _choose_readers(self) -> None:
        """Readers do not refer to the relation: in a cycle, it would keep its runs until a collection."""
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
        """The rest of the rows that start with a prefix, which is longer or shorter than a key.

        A shorter one visits the whole overlay.
        """
        if after and self.next is not None:
            yield from self.next.prefixed(prefix)
            return
        changed = self._changed(prefix, after)
        if self.run is not None:
            low, high = self.run.range(prefix)
            columns = self.run.views[len(prefix) :]
            start, size = low, _FIRST_ROWS
            while start < high:
                stop = min(start + size, high)
                rows: Iterable[Row] = zip(*(column[start:stop].tolist() for column in columns), strict=True)
                if not columns:
                    rows = [()] * (stop - start)
                yield from (row for row in rows if row not in changed) if changed else rows
                start, size = stop, min(4 * size, _MOST_ROWS)
        yield from (row for row, weight in changed.items() if weight > 0)

    def _changed(self, prefix: Row, after: bool) -> dict[Row, int]:
        """The changes after the run of the rows that start with a prefix, by the rest of the row."""
        length, found = len(prefix), dict[Row, int]()
        if self.late is not None:
            assert self.late.weights is not None
            low, high = self.late.range(prefix)
            rest = zip(*(column[low:high].tolist() for column in self.late.views[length:]), strict=True)
            rows = rest if length < self.arity else iter([()] * (high - low))
            found.update(zip(rows, self.late.weights[low:high].tolist(), strict=True))
        key = None
        if length >= self.key_length:
            key = prefix[0] if self.key_length == 1 else prefix[: self.key_length]
        for layer in (self.overlay, self.pending) if after else (self.overlay,):
            for own in layer if key is None else (key,):
                for value, weight in layer.get(own, _NOTHING).items():
                    row = self._row(own, value)
                    if row[:length] == prefix:
                        found[row[length:]] = weight
        return found

    def run_of(self, prefix: Row, after: bool = False) -> Run:
        """The rest of the rows that start with a prefix. Only if some of them changed, they are copied."""
        if after and self.next is not None:
            return self.next.run_of(prefix)
        changed = self._changed(prefix, after)
        if self.run is not None:
            run = self.run.cut(*self.run.range(prefix), first=len(prefix))
        else:
            run = Run([np.empty(0, np.int64)] * (self.arity - len(prefix)))
        # What came and went after the run, or the other way round, is no change of it.
        net = {row: weight for row, weight in changed.items() if run.position(row)[1] == (weight < 0)}
        return run.with_changes([*net], [*net.values()]) if net else run

    def has_many_before(self, keys: Column, values: Column) -> npt.NDArray[np.bool_]:
        """Which of many pairs, ideally sorted, exist; nothing is merged."""
        return self.has_rows_before((keys, values))

    def has_rows_before(self, rows: Sequence[Column]) -> npt.NDArray[np.bool_]:
        """Which of many rows, ideally sorted, exist; nothing is merged."""
        found = np.zeros(len(rows[0]), dtype=bool)
        if self.run is not None:
            found = self.run.places(rows)[1]
        if self.late is not None:
            assert self.late.weights is not None
            places, changed = self.late.places(rows)
            found[changed] = self.late.weights[places[changed]] > 0
        overlay = self.overlay
        if overlay:
            keys = rows[0].tolist() if self.key_length == 1 else None
            every = zip(*(column.tolist() for column in rows), strict=True)
            for place, row in enumerate(every):
                layer = overlay.get(row[: self.key_length] if keys is None else row[0])
                if layer is not None and (weight := layer.get(self.value_of(row))) is not None:
                    found[place] = weight > 0
        return found

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
        """The keys of one column that have rows; each costs a search in the run."""
        return self._keys([self.overlay], self.count_before)

    def keys_after(self) -> Iterator[Any]:
        if self.next is not None:
            return self.next.keys_before()
        return self._keys([self.overlay, self.pending], self.count_after)

    def _keys(self, layers: Sequence[Layer], count: Callable[[int], int]) -> Iterator[int]:
        assert self.key_length == 1
        changed = set(chain.from_iterable(layers))
        if self.late is not None:
            changed.update(np.unique(self.late.columns[0]).tolist())
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
        """The number of rows, with deleted ones; without visiting the overlay."""
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
        self.stage_next(KeyedRelation(self.arity, self.key_length, *self._runs_with(columns, weights)))

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
        """Stages all changes at once, as the relation after them, which takes over at the commit."""
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
        if self.overlay_rows > _SMALLEST_MERGE:
            run = self.run
            if _merge_is_due(self.overlay_rows, self.late if run is not None and run.is_mapped else run):
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
        """Exchanges the run, and forgets the changes after it; between epochs."""
        self.lent, self.merged = None, []
        self.run = run if run is not None and run.length else None
        self.late, self.overlay, self.overlay_rows = None, {}, 0
        self._choose_readers()

    def copy(self) -> KeyedRelation:
        """A copy of the rows before the current epoch; the run is immutable and shared."""
        copy = KeyedRelation(self.arity, self.key_length, self.run, self.late)
        copy.overlay = {key: dict(values) for key, values in self.overlay.items()}
        copy.overlay_rows = self.overlay_rows
        copy._choose_readers()
        return copy

    def with_key(self, key_length: int) -> KeyedRelation:
        """The rows before the current epoch with another key; the run is shared until either merges."""
        relation = KeyedRelation(self.arity, key_length, self.run, self.late)
        rows = (
            (self._row(k, v), weight) for k, values in self.overlay.items() for v, weight in values.items()
        )
        relation.apply_all((relation.key_of(row), relation.value_of(row), weight) for row, weight in rows)
        return relation

    def lend(self) -> LentRelation:
        """The rows before the current epoch, for a reader; nothing is copied unless they change meanwhile."""
        lent = None if self.lent is None else self.lent()
        is_same = lent is not None and lent.run is self.run and lent.late is self.late
        if lent is None or not is_same or lent.overlay is not self.overlay:
            lent = made = LentRelation(self)
            # What is kept for the next reader must not cost a change the copy of an overlay.
            self.lent = ref(made) if self.overlay else lambda: made
        return lent

    def _begin_change(self) -> None:
        """Before a change: takes over what a reader merged, and copies the overlay if one still has it."""
        if self.lent is None:
            return
        merged, self.merged = self.merged, []  # who reads the old state may still add to the old list
        if merged:
            self.run, self.overlay, self.overlay_rows = merged[0], {}, 0
            self._choose_readers()
        self._take_back()

    def _take_back(self) -> None:
        assert self.lent is not None
        lent = self.lent()
        self.lent = None
        if lent is not None and lent.overlay is self.overlay:
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
        return _columns(rows, self.arity), weights

    def run_before(self) -> Run | None:
        """All rows as a run; None if there are none. Changes after a mapped run cost a copy of it."""
        self.merge()
        return self.run if self.late is None else self._copied_run()

    def _copied_run(self) -> Run | None:
        assert self.run is not None and self.late is not None and self.late.weights is not None
        run = self.run.with_columns(self.late.columns, self.late.weights)
        return run if run.length else None

    def run_after(self) -> Run | None:
        """All rows after the current epoch as a run; staged single rows cost a copy of the run."""
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
        """The numbers in all rows before the epoch, as columns; also in some that are there no more."""
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


class LentRelation(KeyedRelation):
    """The rows of a relation before an epoch, shared with it until it changes; only for reading."""

    __slots__ = ("__weakref__", "_fan_out", "_size")

    def __init__(self, owner: KeyedRelation) -> None:
        super().__init__(owner.arity, owner.key_length, owner.run, owner.late)
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
        """All rows as a run. This relation stays as it is, because several threads may read it."""
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
    """Like another reader; many values come in growing pieces, because the first may be enough."""

    def pieces(low: int, high: int) -> Iterator[list[Any]]:
        size = _FIRST_ROWS
        while low < high:
            yield _values_of(run, low, min(low + size, high), 1)
            low, size = low + size, min(4 * size, _MOST_ROWS)

    def read_in_pieces(key: int) -> Iterable[Any] | None:
        if key in overlay:
            return read(key)
        low, high = run.range_one(key)
        if high - low < _MANY_VALUES:
            return _values_of(run, low, high, 1) if low != high else None
        return chain.from_iterable(pieces(low, high))

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


class Elsewhere:
    """Rows that are kept up to date elsewhere: `fetch` returns them as a relation.

    `read` is better if all of them become Python objects.
    """

    def __init__(self, fetch: Callable[[], Relation], read: Callable[[], Relation] | None = None) -> None:
        self.fetch = fetch
        self.read = read or fetch

    def rows(self) -> dict[Row, int]:
        return dict(self.read().items())


class Relation:
    """A bag of rows with weights: a view's rows, or the counts of a DISTINCT.

    `commit` adds a delta to the overlay without reading the run, so its cost depends only on the delta. Rows
    that are elsewhere are fetched when they are read; until then, deltas are applied only elsewhere. Another
    thread may copy and count the rows while changes are pending.
    """

    __slots__ = ("_added", "_elsewhere", "_exchange", "arity", "late", "overlay", "pending", "run")

    def __init__(self, arity: int, weights: Mapping[Row, int] | Run | Elsewhere | None = None) -> None:
        self.arity = arity
        self.run: Run | None = None
        self.late: Run | None = None
        """Changes of weights after a mapped run."""
        self.overlay: dict[Row, int] = {}
        self.pending: Mapping[Row, int] = {}
        self._added: tuple[Run, int] | None = None
        """How many rows `late`, which is given, adds to those of the run, without those that it removes."""
        self._elsewhere: Elsewhere | None = None
        self._exchange = threading.Lock()
        """Held while the runs and the overlay are exchanged, or read together."""
        if weights is not None:
            self.load(weights)

    @classmethod
    def of_parts(
        cls, arity: int, run: Run | None, overlay: dict[Row, int], late: Run | None = None
    ) -> Relation:
        """A relation that shares runs and an overlay."""
        relation = cls(arity)
        relation.run, relation.late, relation.overlay = run, late, overlay
        return relation

    def load(self, weights: Mapping[Row, int] | Run | Elsewhere) -> None:
        """Fills an empty relation."""
        if isinstance(weights, Elsewhere):
            self._elsewhere = weights
            return
        if isinstance(weights, Run):
            self.run = weights if weights.length else None
            return
        self.overlay = dict(weights)
        if _merge_is_due(len(self.overlay), None):
            self.merge()

    def copy(self) -> Relation:
        """A copy of the rows before the current epoch; the runs are immutable and shared."""
        if self._elsewhere is not None:
            self._fetch()
        with self._exchange:
            return Relation.of_parts(self.arity, self.run, dict(self.overlay), self.late)

    def _fetch(self) -> None:
        assert self._elsewhere is not None
        self._take(self._elsewhere.fetch())
        self._elsewhere = None

    def rebase(self, rows: Relation) -> None:
        """Exchanges all parts for others that have the same rows; between epochs."""
        if self._elsewhere is None:
            self._take(rows)

    def _take(self, rows: Relation) -> None:
        with self._exchange:
            self.run, self.late, self.overlay, self._added = rows.run, rows.late, rows.overlay, None

    def whole(self) -> Run | None:
        """All rows as one run; None if the relation is empty or has no columns.

        Changes after a mapped run cost a copy of it.
        """
        if self._elsewhere is not None:
            self._fetch()
        self.merge()
        if self.run is None or self.late is None:
            return self.run
        run = self.run.with_run(self.late)
        return run if run.length else None

    def parts(self) -> list[list[Column]]:
        """All rows before the epoch in one or two parts, as columns with the weights last; not copied.

        The parts are a run and the changes after it: the weights of a row that is in both add up.
        """
        if self._elsewhere is not None:
            self._fetch()
        self.merge()
        if self.run is None:
            weights = np.fromiter(self.overlay.values(), np.int64, len(self.overlay))
            return [[*(np.empty(0, np.int64) for _ in range(self.arity)), weights]]
        return [[*run.columns, _weights(run)] for run in (self.run, self.late) if run is not None]

    @property
    def is_here(self) -> bool:
        """Whether the rows can be read without fetching them."""
        return self._elsewhere is None

    def weight_before(self, row: Row) -> int:
        if self._elsewhere is not None:
            self._fetch()
        return self.overlay.get(row, 0) + self._weight_in_runs(row)

    def _weight_in_runs(self, row: Row) -> int:
        weight = 0
        for run in (self.run, self.late):
            if run is not None and run.weights is not None:
                position, found = run.position(row)
                if found:
                    weight += int(run.weights[position])
        return weight

    def beginning(self, prefix: Row) -> Iterator[tuple[list[list[int]], list[int]]]:
        """The rows of the runs that begin with a prefix, as columns and weights, piece by piece.

        Weights of the same row add up. Rows of the overlay are not among them.
        """
        for run in (self.run, self.late):
            if run is not None:
                low, high = run.range(prefix)
                if high - low > _PIECE_ROWS:
                    assert run.columns, "all rows are checked"
                for start in range(low, high, _PIECE_ROWS):
                    rows = slice(start, min(start + _PIECE_ROWS, high))
                    assert run.weights is not None
                    yield [view[rows].tolist() for view in run.views], run.weights[rows].tolist()

    def size(self) -> tuple[int, int]:
        """The approximate number of rows, and the sum of their weights; visits no row of a mapped run.

        The weights of a mapped run are taken for one.
        """
        rows = weight = len(self.overlay)
        for run in (self.run, self.late):
            if run is not None:
                rows, weight = rows + run.length, weight + (run.length if run.is_mapped else run.total())
        return rows, weight

    def total(self) -> int:
        """The sum of all weights."""
        if self._elsewhere is not None:
            self._fetch()
        with self._exchange:
            runs, overlay = [run for run in (self.run, self.late) if run is not None], self.overlay
            return sum(run.total() for run in runs) + sum(overlay.values())

    def has_in_runs(self, prefix: Row) -> bool:
        """Whether a run has a row that begins with a prefix."""
        ranges = [run.range(prefix) for run in (self.run, self.late) if run is not None]
        return any(low < high for low, high in ranges)

    @property
    def rows_in_runs(self) -> int:
        """How many rows the runs have."""
        return sum(run.length for run in (self.run, self.late) if run is not None)

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta

    def commit(self) -> None:
        if self.pending:
            self.add(self.pending)
            self.pending = {}

    def add(self, delta: Mapping[Row, int]) -> None:
        """Adds a delta in one step."""
        if self._elsewhere is not None:
            return
        if type(delta) is RunRows and self._is_large(delta):
            self.merge()
            self._replace(*self._runs_with(delta.run), self.overlay)
            return
        add_into(self.overlay, delta)
        if len(self.overlay) > _SMALLEST_MERGE and _bag_merge_is_due(len(self.overlay), self._growing):
            self.merge()

    @property
    def _growing(self) -> Run | None:
        """What takes in the overlay."""
        return self.late if self.run is not None and self.run.is_mapped else self.run

    def _is_large(self, delta: RunRows) -> bool:
        """Whether merging columns is cheaper than adding rows to the overlay one by one."""
        run = self._growing
        return run is None or len(delta) * _RUN_TO_OVERLAY > run.length

    def rollback(self) -> None:
        self.pending = {}

    def merge(self) -> None:
        """Folds the overlay into the run, or into the changes after it; without columns there is no run."""
        if self.arity == 0 or not self.overlay:
            return
        self._replace(*self._runs_with(self._overlay_run()), {})

    def merge_into_run(self) -> None:
        """Like `merge`, if there is a run: a few rows without one stay in the overlay."""
        if self.run is not None:
            self.merge()

    def _overlay_run(self) -> Run:
        rows = list(self.overlay)
        weights = np.fromiter(self.overlay.values(), np.int64, len(rows))
        return Run.sort(_columns(rows, self.arity), weights)

    def _runs_with(self, delta: Run) -> tuple[Run | None, Run | None]:
        """The runs after a change."""
        if self.run is None:
            return delta, None
        if not self.run.is_mapped:
            return self.run.with_run(delta), None
        return self.run, delta if self.late is None else self.late.with_run(delta)

    def _replace(self, run: Run | None, late: Run | None, overlay: dict[Row, int]) -> None:
        with self._exchange:
            self.run = run if run is not None and run.length else None
            self.late = late if late is not None and late.length else None
            self.overlay, self._added = overlay, None

    def items(self) -> Iterator[tuple[Row, int]]:
        """All rows with their weights, in no particular order."""
        if self._elsewhere is not None:
            self._fetch()
        overlay = self.overlay
        if self.run is None:
            yield from overlay.items()
            return
        if self.run.is_mapped:  # only a block of it becomes Python objects at a time
            yield from rows_in(self.blocks())
            return
        assert self.run.weights is not None
        rows = self.run.rows()
        if not overlay:
            yield from zip(rows, self.run.weights.tolist(), strict=True)
            return
        rest = dict(overlay)
        for row, weight in zip(rows, self.run.weights.tolist(), strict=True):
            weight += rest.pop(row, 0)
            if weight:
                yield row, weight
        yield from rest.items()

    def blocks(self) -> Iterator[Block]:
        """All rows in blocks: first the rows of the run that have not changed since, then the others."""
        if self._elsewhere is not None:
            self._fetch()
        with self._exchange:
            run, late, overlay = self.run, self.late, self.overlay
        if run is None:
            yield from blocks_of(overlay.items(), self.arity)
            return
        columns, weights = run.columns, _weights(run)
        changes = late
        if overlay:
            new_rows = Relation.of_parts(self.arity, None, overlay)._overlay_run()
            changes = new_rows if late is None else late.with_run(new_rows)
        if changes is None:
            yield from cut(columns, weights)
            return
        places, found = run.places(changes.columns)
        changed, start = places[found], 0
        for block in cut(columns, weights):
            end = start + len(block.weights)
            inside = changed[np.searchsorted(changed, start) : np.searchsorted(changed, end)]
            if len(inside):
                kept = np.ones(len(block.weights), dtype=bool)
                kept[inside - start] = False
                block = Block(tuple([column[kept] for column in block.columns]), block.weights[kept])
            if len(block.weights):
                yield block
            start = end
        new = _weights(changes).copy()
        new[found] += weights[changed]
        left = new != 0
        yield from cut([column[left] for column in changes.columns], new[left])

    def __len__(self) -> int:
        """The number of distinct rows; takes one lookup per row of the overlay."""
        if self._elsewhere is not None:
            self._fetch()
        with self._exchange:
            rows = Relation.of_parts(self.arity, self.run, self.overlay, self.late)
            known = self._added
        if rows.run is None:
            return len(rows.overlay)
        added = 0
        if rows.late is not None:
            if known is None or known[0] is not rows.late:
                known = rows.late, _growth(rows.run, rows.late.columns, _weights(rows.late))
                self._added = known
            added = known[1]
        return rows.run.length + added + rows._growth_by_overlay()

    def _growth_by_overlay(self) -> int:
        """How many rows the overlay adds to those of the runs, without those that it removes."""
        overlay, run = self.overlay, self.run
        assert run is not None
        if len(overlay) > _MANY_ROWS and self.late is None:
            weights = np.fromiter(overlay.values(), np.int64, len(overlay))
            return _growth(run, _columns(list(overlay), self.arity), weights)
        count = 0
        for row, weight in overlay.items():
            before = self._weight_in_runs(row)
            count += (before == 0) - (before + weight == 0)
        return count

    def ids(self) -> Iterator[Column]:
        """The numbers in all rows before the epoch, as columns; also in some that are there no more."""
        for run in (self.run, self.late):
            if run is not None:
                yield from run.columns
        if self.overlay:
            yield np.fromiter(chain.from_iterable(self.overlay), np.int64)

    @property
    def nbytes(self) -> int:
        """Memory in bytes: exact for runs in memory, about 100 + 32 per column for a row of the overlay."""
        runs = sum(run.nbytes for run in (self.run, self.late) if run is not None and not run.is_mapped)
        return runs + (100 + 32 * self.arity) * len(self.overlay)


def _weights(run: Run) -> Column:
    """The weights of a run, after all of it was checked."""
    assert run.columns and run.weights is not None
    return run.weights


def _growth(run: Run, columns: Sequence[Column], weights: Column) -> int:
    """How many rows changes of weights add to a run, without those that they remove."""
    assert run.weights is not None
    places, known = run.places(columns)
    gone = run.weights[places[known]] == -weights[known]
    return int((~known).sum()) - int(gone.sum())


def rows_of(content: Mapping[Row, int] | Run) -> dict[Row, int]:
    """The rows of a content with their weights, as a dict."""
    return dict(Relation(0, content).items()) if isinstance(content, Run) else dict(content)


def change_between(old: Mapping[Row, int] | Run, new: Mapping[Row, int] | Run) -> Mapping[Row, int]:
    """The delta from one content to another, computed by columns for runs."""
    if not isinstance(new, Run) or not isinstance(old, Run):
        return difference(rows_of(new), rows_of(old))
    assert new.weights is not None and old.weights is not None
    columns = [np.concatenate(pair) for pair in zip(new.columns, old.columns, strict=True)]
    return RunRows(Run.sort(columns, np.concatenate((new.weights, -old.weights))))


def _columns(rows: Sequence[Row], arity: int) -> list[Column]:
    table = np.fromiter(chain.from_iterable(rows), np.int64, arity * len(rows))
    return [np.ascontiguousarray(column) for column in table.reshape(-1, arity).T]
