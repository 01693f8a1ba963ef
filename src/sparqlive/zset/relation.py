"""Bags of rows with weights: a sorted run with a small mutable overlay, and a pending layer during an epoch.

Nothing is merged until `commit`; `rollback` discards the pending layer. Contains rows of integers,
independent of RDF. A mapped run is never copied: its changes go to a second, small run (`late`), below the
overlay. Invariant: the overlay and the pending layer hold no zero weight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.blocks import Block, blocks_of, cut, rows_in
from sparqlive.zset.columns import columns_of
from sparqlive.zset.run import Column, Run, RunRows
from sparqlive.zset.zset import add_into, difference

Row = tuple[int, ...]


def merge_is_due(overlay_rows: int, run: Run | None, tuning: Tuning) -> bool:
    """Whether to merge. Merging copies the run; amortised, this costs a few microseconds per change."""
    rows = 0 if run is None else run.length
    return overlay_rows > max(tuning.smallest_merge_rows, rows // tuning.run_to_overlay)


class Elsewhere:
    """Rows that are kept up to date elsewhere: `fetch` returns them as a relation.

    `read` is preferable when all of them become Python objects.
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

    __slots__ = ("_added", "_elsewhere", "_exchange", "_tuning", "arity", "late", "overlay", "pending", "run")

    def __init__(
        self,
        arity: int,
        weights: Mapping[Row, int] | Run | Elsewhere | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self.arity = arity
        self._tuning = tuning
        self.run: Run | None = None
        self.late: Run | None = None
        """Weight changes since a mapped run."""
        self.overlay: dict[Row, int] = {}
        self.pending: Mapping[Row, int] = {}
        self._added: tuple[Run, int] | None = None
        """A `late` run, and the net number of rows that it adds to `run`."""
        self._elsewhere: Elsewhere | None = None
        self._exchange = threading.Lock()
        """Held while the runs and the overlay are replaced, or read together."""
        if weights is not None:
            self.load(weights)

    @classmethod
    def of_parts(
        cls,
        arity: int,
        run: Run | None,
        overlay: dict[Row, int],
        late: Run | None = None,
        tuning: Tuning = DEFAULT,
    ) -> Relation:
        """A relation that shares runs and an overlay."""
        relation = cls(arity, tuning=tuning)
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
        if merge_is_due(len(self.overlay), None, self._tuning):
            self.merge()

    def copy(self) -> Relation:
        """A copy of the rows before the current epoch; the runs are immutable and shared."""
        if self._elsewhere is not None:
            self._fetch()
        with self._exchange:
            return Relation.of_parts(self.arity, self.run, dict(self.overlay), self.late, self._tuning)

    def _fetch(self) -> None:
        assert self._elsewhere is not None
        self._take(self._elsewhere.fetch())
        self._elsewhere = None

    def rebase(self, rows: Relation) -> None:
        """Replaces all parts by others with the same rows, between epochs."""
        if self._elsewhere is None:
            self._take(rows)

    def _take(self, rows: Relation) -> None:
        with self._exchange:
            self.run, self.late, self.overlay, self._added = rows.run, rows.late, rows.overlay, None

    def whole(self) -> Run | None:
        """All rows as one run; None if the relation is empty or has no columns.

        Copies a mapped run that has later changes.
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

        The parts are a run and the changes after it. The weights of a row in both add up.
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

        The weights of equal rows add up. The overlay is not included.
        """
        for run in (self.run, self.late):
            if run is not None:
                low, high = run.range(prefix)
                size = DEFAULT.largest_piece_rows
                if high - low > size:
                    assert run.columns, "all rows are checked"
                for start in range(low, high, size):
                    rows = slice(start, min(start + size, high))
                    assert run.weights is not None
                    yield [view[rows].tolist() for view in run.views], run.weights[rows].tolist()

    def size(self) -> tuple[int, int]:
        """The approximate number of rows, and the sum of their weights; does not read a mapped run.

        Counts every row of a mapped run with weight one.
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
        """The number of rows in the runs."""
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
        rows = len(self.overlay)
        if rows > self._tuning.smallest_merge_rows and merge_is_due(rows, self._growing, self._tuning):
            self.merge()

    @property
    def _growing(self) -> Run | None:
        """The run that the overlay is merged into."""
        return self.late if self.run is not None and self.run.is_mapped else self.run

    def _is_large(self, delta: RunRows) -> bool:
        """Whether merging columns is cheaper than adding rows to the overlay one by one."""
        run = self._growing
        return run is None or len(delta) * self._tuning.run_to_overlay > run.length

    def rollback(self) -> None:
        self.pending = {}

    def merge(self) -> None:
        """Folds the overlay into the run, or into the changes after it; rows without columns stay."""
        if self.arity == 0 or not self.overlay:
            return
        self._replace(*self._runs_with(self._overlay_run()), {})

    def merge_into_run(self) -> None:
        """Merges if there is a run; otherwise, a few rows stay in the overlay."""
        if self.run is not None:
            self.merge()

    def _overlay_run(self) -> Run:
        rows = list(self.overlay)
        weights = np.fromiter(self.overlay.values(), np.int64, len(rows))
        return Run.sort(columns_of(rows, self.arity), weights)

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
        """The net number of rows that the overlay adds to the runs."""
        columns = columns_of(list(self.overlay), self.arity)
        before = np.zeros(len(self.overlay), np.int64)
        for run in (self.run, self.late):
            if run is not None and run.weights is not None:
                places, known = run.places(columns)
                before[known] += run.weights[places[known]]
        after = before + np.fromiter(self.overlay.values(), np.int64, len(before))
        return int(np.count_nonzero(after)) - int(np.count_nonzero(before))

    def ids(self) -> Iterator[Column]:
        """All ids in the rows before the epoch, as columns; may include ids of deleted rows."""
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
    """The net number of rows that weight changes add to a run."""
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
