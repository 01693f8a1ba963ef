"""Compaction: folds the log and the deltas into new runs.

Folds one relation at a time: rewrites the files that contain changed rows, one by one; other files stay. A
large relation is rewritten by ranges (`store/ranges.py`), possibly by workers. Compaction reads a snapshot of
the catalog and immutable files, so it needs no lock. Invariant: nothing here changes the catalog.
`store/compactor.py` does, in one transaction, and only for relations that have not changed since the folding
started.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.store.deltas import read_changes, read_deltas
from sparqlive.store.place import Place
from sparqlive.store.quad_runs import Segment, segments_of
from sparqlive.store.ranges import RangeTask, changed_tasks, range_tasks, rows_before, rows_in_range
from sparqlive.store.runs import (
    QUADS,
    TERMS,
    RunFile,
    is_read_whole,
    names_of,
    read_columns,
    write_rows,
)
from sparqlive.store.tables import Base, Tables
from sparqlive.store.term_runs import MergeTerms
from sparqlive.zset.run import Column, Run

_STEM_LENGTH = 60

Rows = dict[tuple[int, ...], int]
Each = Callable[[Sequence[Any], Callable[[Any], Any], str], list[Any]]
"""Runs a function on each task, possibly on workers; the text describes the tasks."""


@dataclass(frozen=True)
class Target:
    """The folder of an attempt, where files are written. `epoch`: of deltas; None for bases."""

    place: Place
    folder: str
    epoch: int | None = None
    tuning: Tuning = DEFAULT


@dataclass(frozen=True)
class Folded:
    """A relation's content as of an epoch, ready to replace an older one."""

    relation: str
    width: int
    epoch: int
    base: int
    inputs: list[str]
    """The epoch and the files that were folded: if these have changed meanwhile, the result is discarded."""
    replaced: list[RunFile] = field(default_factory=list)
    runs: list[RunFile] = field(default_factory=list)
    rows: Rows | None = None


@dataclass(frozen=True)
class FoldedTerms:
    """Terms of the catalog up to the position `last`, and those of the `replaced` files, in new files."""

    runs: list[RunFile]
    replaced: list[RunFile]
    last: int


class Writer:
    """Collects sorted rows and writes them as files of a relation."""

    def __init__(self, target: Target, relation: str, width: int, ending: str = "") -> None:
        """`ending` keeps file names apart when several writers write a relation into one folder."""
        self._target = target
        self._ending = ending
        self._relation = relation
        self._names = names_of(relation, width, is_delta=target.epoch is not None)
        self._waiting: list[Sequence[Column]] = []
        self._size = 0
        self.runs: list[RunFile] = []

    def add(self, columns: Sequence[Column]) -> None:
        """Adds rows in the order of the relation."""
        most = self._target.tuning.file_rows
        for start in range(0, len(columns[0]), most):
            piece = [column[start : start + most] for column in columns]
            if self._size + len(piece[0]) > most:
                self.flush()
            self._waiting.append(piece)
            self._size += len(piece[0])

    def flush(self) -> None:
        """Writes the rows added so far to a file."""
        if not self._size:
            return
        columns = [np.ascontiguousarray(np.concatenate(parts)) for parts in zip(*self._waiting, strict=True)]
        named = dict(zip(self._names, columns, strict=True))
        first = tuple(int(column[0]) for name, column in named.items() if name != "w")
        target, place = self._target, self._target.place
        stem = file_stem(self._relation) + ("" if target.epoch is None else "-delta")
        path = f"{target.folder}/{stem}-{len(self.runs):05d}{self._ending}.parquet"
        in_order = {name: named[name] for name in _file_order(self._names)}
        size, digests = write_rows(place, path, in_order, is_searched=not is_read_whole(self._relation))
        self.runs.append(RunFile(path, self._relation, self._size, size, first, digests, target.epoch))
        self._waiting, self._size = [], 0


def file_stem(relation: str) -> str:
    """The stem of a relation's file names, unique for each relation.

    Names of relations can be long, differ only in case or normalisation, and contain any character, so a
    digest distinguishes them. The readable end is for people.
    """
    if relation == QUADS:
        return QUADS
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", relation)[-_STEM_LENGTH:].strip("-")
    return f"{hashlib.sha256(relation.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}-{readable}"


def _file_order(names: Sequence[str]) -> Sequence[str]:
    return ("s", "p", "o", "g", *names[4:]) if names[0] == "p" else names


def fold(
    target: Target, catalog: Tables, relation: str, epoch: int, each: Each | None = None
) -> Folded | None:
    """Folds the changes of a relation up to an epoch into its content; None if it does not exist.

    `each` runs the tasks of a relation that is not small. Without it, the tasks of a large one run one by
    one.
    """
    base = catalog.base(relation)
    if base is None:
        return None
    place, tuning = target.place, target.tuning
    runs = catalog.runs(relation)
    rows = catalog.base_rows(relation) + unfolded_rows(catalog, relation, base.epoch)
    if rows > (tuning.range_rows if each is None else tuning.fold_here_rows) and base.width:
        return _fold_large(target, catalog, relation, base, epoch, each)
    changes, last = _changes(place, catalog, relation, base.epoch, epoch, base.width)
    folded = Folded(relation, base.width, last, base.epoch, [run.path for run in runs])
    writer = Writer(target, relation, base.width)
    if base.rows is not None:
        changes = summed([base.rows, changes], base.width)
    if not runs:
        if base.width == 0 or (relation != QUADS and len(changes) <= tuning.catalog_rows):
            return replace(folded, rows={tuple(row): weight for *row, weight in changes.tolist()})
        _write(writer, relation, changes)
        writer.flush()
        return replace(folded, runs=writer.runs)
    replaced = _fold_files(place, relation, base.width, runs, changes, writer)
    return replace(folded, runs=writer.runs, replaced=replaced)


def unfolded_rows(catalog: Tables, relation: str, since: int) -> int:
    """The number of changed rows of a relation after an epoch."""
    return catalog.change_rows(since) if relation == QUADS else catalog.delta_rows(relation, since)


def _fold_large(
    target: Target,
    catalog: Tables,
    relation: str,
    base: Base,
    epoch: int,
    each: Each | None,
) -> Folded:
    """Rewrites the changed ranges of a relation; each task reads its own range from the files."""
    deltas = catalog.changes if relation == QUADS else partial(catalog.deltas, relation)
    rows = [np.empty((0, base.width + 1), dtype=np.int64) if base.rows is None else base.rows]
    files, last = list[RunFile](), epoch if relation == QUADS else base.epoch
    for number, stored in deltas(base.epoch, epoch):
        last = number if relation != QUADS else last
        if isinstance(stored, np.ndarray):
            rows.append(stored[:, [1, 3, 0, 2, 4]] if relation == QUADS else stored)
        else:
            files += stored
    old = catalog.runs(relation)
    cut = range_tasks([*old, *files], summed(rows, base.width), target.tuning.range_rows)
    tasks, rewritten = changed_tasks(cut, old)
    work = FoldRange(target, relation, base.width)
    results = [work(task) for task in tasks] if each is None else each(tasks, work, f"compact {relation}")
    paths = [run.path for run in old]
    new = [run for runs in results for run in runs]
    return Folded(relation, base.width, last, base.epoch, paths, rewritten, new)


@dataclass(frozen=True)
class FoldRange:
    """Folds the rows of a range into new files of a relation's base."""

    target: Target
    relation: str
    width: int

    def __call__(self, task: RangeTask) -> list[RunFile]:
        columns = rows_in_range(self.target.place, task, self.relation, self.width)
        run = Run.sort(columns[:-1], columns[-1])
        assert run.weights is not None
        assert self.relation != QUADS or (run.weights == 1).all(), "each quad is stored once"
        # If a task runs twice, it writes two sets of files; only one is listed.
        writer = Writer(self.target, self.relation, self.width, ending=f"-{os.urandom(6).hex()}")
        if run.length:
            writer.add(run.columns if self.relation == QUADS else (*run.columns, run.weights))
            writer.flush()
        return writer.runs


def _changes(
    place: Place, catalog: Tables, relation: str, since: int, until: int, width: int
) -> tuple[Column, int]:
    """The sum of the changes after an epoch, as sorted rows with weights; and the epoch of the last change.

    Not the current epoch, because a deferred view may still get a delta of it.
    """
    if relation == QUADS:
        log = [rows[:, [1, 3, 0, 2, 4]] for _, rows in read_changes(place, catalog, since, until)]
        return summed(log, width), until
    deltas = list(read_deltas(place, catalog, relation, since, until))
    return summed([rows for _, rows in deltas], width), deltas[-1][0] if deltas else since


def summed(parts: Sequence[Column], width: int) -> Column:
    rows = np.concatenate(parts) if parts else np.empty((0, width + 1), dtype=np.int64)
    if width == 0:
        total = int(rows[:, 0].sum())
        return np.array([[total]] if total else [], dtype=np.int64).reshape(-1, 1)
    if not len(rows):
        return rows
    run = Run.sort([np.ascontiguousarray(rows[:, number]) for number in range(width)], rows[:, width].copy())
    assert run.weights is not None
    return np.column_stack([*run.columns, run.weights])


def _write(writer: Writer, relation: str, rows: Column) -> None:
    columns = [np.ascontiguousarray(rows[:, number]) for number in range(rows.shape[1])]
    writer.add(columns[:-1] if relation == QUADS else columns)


def _fold_files(
    place: Place,
    relation: str,
    width: int,
    runs: Sequence[RunFile],
    changes: Column,
    writer: Writer,
) -> list[RunFile]:
    """Goes through the segments in order; rewrites each file that contains a change, and returns it."""
    if relation == QUADS:
        segments: Sequence[Segment] = segments_of(place, runs)
    else:
        segments = [Segment(run, 0, run.rows, run.first) for run in runs]  # type: ignore[arg-type]
    bounds = [0, *(rows_before(changes, segment.first) for segment in segments[1:]), len(changes)]
    parts = [(segment, *bound) for segment, bound in zip(segments, pairwise(bounds), strict=True)]
    touched = {segment.path for segment, start, stop in parts if start != stop}
    last: list[int] = []
    for segment, start, stop in _joined(parts):
        if segment.path not in touched:
            if last and (relation != QUADS or last[:2] == [*segment.first[:2]]):
                writer.flush()  # a new file must not span rows that stay in another file
            continue
        columns = read_columns(place, segment.run, names_of(relation, width), segment.start, segment.stop)
        rows = merged(relation, width, columns, changes[start:stop])
        writer.add(rows)
        last = [int(column[-1]) for column in rows] if len(rows[0]) else last
    writer.flush()
    return [run for run in runs if run.path in touched]


def _joined(parts: Iterable[tuple[Segment, int, int]]) -> Iterator[tuple[Segment, int, int]]:
    """Segments with their ranges of changes; joins adjacent segments, so that one read gets them."""
    waiting: tuple[Segment, int, int] | None = None
    for segment, start, stop in parts:
        if waiting is not None:
            before, begin, _ = waiting
            if before.path == segment.path and before.stop == segment.start:
                waiting = replace(before, stop=segment.stop), begin, stop
                continue
            yield waiting
        waiting = segment, start, stop
    if waiting is not None:
        yield waiting


def merged(relation: str, width: int, columns: list[Column], changes: Column) -> Sequence[Column]:
    if not len(changes):
        return columns
    keys, weights = (
        (columns, np.ones(len(columns[0]), dtype=np.int64))
        if relation == QUADS
        else (
            columns[:-1],
            columns[-1],
        )
    )
    run = Run.sort(
        [np.concatenate([key, changes[:, number]]) for number, key in enumerate(keys)],
        np.concatenate([weights, changes[:, width]]),
    )
    assert run.weights is not None
    assert relation != QUADS or (run.weights == 1).all(), "each quad is stored once"
    return run.columns if relation == QUADS else (*run.columns, run.weights)


def fold_terms(target: Target, catalog: Tables, each: Each | None) -> FoldedTerms:
    """Writes the terms of the catalog as a run, merged with small runs if there are many.

    Merges the smallest runs, up to the rows of a file, because the merge holds them in memory. If there are
    small runs, `each` runs the merge.
    """
    last, pairs = catalog.last_term(), catalog.terms()
    runs_by_size = sorted(catalog.runs(TERMS), key=lambda run: run.rows)
    sums = accumulate(run.rows for run in runs_by_size)
    small = [
        run for run, rows in zip(runs_by_size, sums, strict=True) if rows <= target.tuning.file_rows // 2
    ]
    if len(runs_by_size) < target.tuning.term_files:
        small = []
    if not pairs and len(small) < 2:
        return FoldedTerms([], [], last)
    work = MergeTerms(target.place, target.folder)
    task = pairs, small
    runs = [work(task)] if each is None or not small else each([task], work, "compact terms")
    return FoldedTerms(runs, small, last)


def write_sorted_quads(
    target: Target, parts: Iterator[tuple[Column, Column, Column, Column]]
) -> list[RunFile]:
    """Writes quads, given as columns s, p, o, g in the order of p, g, s, o, to files."""
    writer = Writer(target, QUADS, 4)
    for s, p, o, g in parts:
        writer.add((p, g, s, o))
    writer.flush()
    return writer.runs
