"""Ranges of the rows of a large relation, so that no process reads all of it at once.

A relation consists of sorted files, of its base and of later deltas, which overlap; a few rows are in no
file. A range task names files, and the bounds between which it reads them. Invariant: every row belongs to
exactly one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparqlive.store.place import Place
from sparqlive.store.runs import QUADS, RunFile, names_of, read_between
from sparqlive.zset.run import Column

Bound = tuple[int, ...] | None


@dataclass(frozen=True)
class RangeTask:
    """Rows from `low` (None: the first) up to, but not including, `high` (None: to the end)."""

    files: Sequence[RunFile]
    rows: Column
    """Rows that are in no file, with their weights last."""
    low: Bound
    high: Bound


def range_tasks(files: Sequence[RunFile], rows: Column, size: int) -> list[RangeTask]:
    """Splits a relation at file boundaries into tasks of about `size` rows. `rows` are sorted."""
    cuts: list[Bound] = [None]
    waiting = 0
    for file in sorted(files, key=lambda file: file.first):
        if waiting >= size:
            cuts.append(file.first)
            waiting = 0
        waiting += file.rows
    places = [0, *(rows_before(rows, cut) for cut in cuts[1:] if cut is not None), len(rows)]
    tasks = []
    for (low, high), (start, stop) in zip(pairwise([*cuts, None]), pairwise(places), strict=True):
        chosen = [file for file in files if high is None or file.first < high]
        tasks.append(RangeTask(chosen, rows[start:stop], low, high))
    return tasks


def changed_tasks(
    tasks: Sequence[RangeTask], base: Sequence[RunFile]
) -> tuple[list[RangeTask], list[RunFile]]:
    """The tasks that change rows, and the files of the base that they replace; all other files stay.

    A file that reaches into a changed range is replaced whole, so the other ranges that it reaches into count
    as changed, too.
    """
    in_order = sorted(base, key=lambda file: file.first)
    ends: list[Bound] = [*(file.first for file in in_order[1:]), None]
    reaches = list(zip(in_order, ends, strict=False))
    changed = {
        number
        for number, task in enumerate(tasks)
        if len(task.rows) or any(file.epoch is not None for file in task.files)
    }
    while True:
        replaced = [
            (file, end) for file, end in reaches if any(_reaches(file, end, tasks[n]) for n in changed)
        ]
        reached = {
            number
            for number, task in enumerate(tasks)
            if any(_reaches(file, end, task) for file, end in replaced)
        }
        if reached <= changed:
            return [tasks[number] for number in sorted(changed)], [file for file, _ in replaced]
        changed |= reached


def _reaches(file: RunFile, end: Bound, task: RangeTask) -> bool:
    """Whether a file of the base, whose rows come before `end`, may have rows in the range of a task."""
    begins_before = task.high is None or file.first < task.high
    return begins_before and (end is None or task.low is None or end > task.low)


def rows_in_range(place: Place, task: RangeTask, relation: str, width: int) -> list[Column]:
    """The rows of a task as columns, the weights last; a row may occur several times."""
    parts: list[Sequence[Column]] = [list(task.rows.T)]
    for file in task.files:
        is_weighted = relation != QUADS or file.epoch is not None
        names = names_of(relation, width, is_delta=file.epoch is not None)
        for columns in read_between(place, file, names, width, task.low, task.high):
            rows = np.stack(columns, axis=1)
            start = 0 if task.low is None else rows_before(rows, task.low)
            stop = len(rows) if task.high is None else rows_before(rows, task.high)
            if start < stop:
                ones = () if is_weighted else (np.ones(stop - start, dtype=np.int64),)
                parts.append([*(column[start:stop] for column in columns), *ones])
    return [np.ascontiguousarray(np.concatenate(pieces)) for pieces in zip(*parts, strict=True)]


def rows_before(changes: Column, first: Sequence[int]) -> int:
    """How many of the sorted changes come before a row."""
    return _equal_rows(changes, first)[0]


def rows_until(changes: Column, last: Sequence[int]) -> int:
    """How many of the sorted changes come before a row or are equal to it."""
    return _equal_rows(changes, last)[1]


def _equal_rows(changes: Column, row: Sequence[int]) -> tuple[int, int]:
    """The range of the sorted changes that are equal to a row."""
    low, high = 0, len(changes)
    for number, value in enumerate(row):
        column = changes[low:high, number]
        low, high = (
            low + int(np.searchsorted(column, value, "left")),
            low + int(np.searchsorted(column, value, "right")),
        )
        if low == high:
            break
    return low, high
