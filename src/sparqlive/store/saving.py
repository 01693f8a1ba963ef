"""Saves the sorted rows of a relation as they are computed: a few stay in memory, many go to files.

A backend adds rows, in this process or in a Spark worker. Invariant: at most the rows of one file are in
memory, whatever the size of the relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sparqlive.store.compaction import Target, Writer
from sparqlive.store.runs import RunFile
from sparqlive.zset.run import Column, Run, RunRows


@dataclass(frozen=True)
class Saved:
    """Distinct, sorted rows of a relation: a few in memory, or files."""

    width: int
    count: int
    rows: tuple[Column, ...] = ()
    """The columns and the weights; empty if the rows are in files."""
    files: tuple[RunFile, ...] = ()

    def few(self) -> RunRows | dict[tuple[int, ...], int]:
        """The rows in memory, as a mapping to their weights."""
        assert not self.files
        if not self.width:
            return {(): int(self.rows[-1][0])} if self.count else {}
        return RunRows(Run(self.rows[:-1], self.rows[-1]))


class Saving:
    """Collects sorted rows; `finish` returns them, in memory or in files."""

    def __init__(
        self, target: Target, relation: str, width: int, few: int | None = None, ending: str = ""
    ) -> None:
        """`ending` keeps file names apart when several processes save parts of one relation."""
        self._writer = Writer(target, relation, width, ending)
        self._width = width
        self._few = target.tuning.catalog_rows if few is None else few
        self._waiting: list[Sequence[Column]] = []
        self._count = 0

    def add(self, columns: Sequence[Column]) -> None:
        """Adds rows: the columns, and their weights last."""
        self._count += len(columns[-1])
        self._waiting.append(columns)
        if self._count > self._few and self._width:
            for waiting in self._waiting:
                self._writer.add(waiting)
            self._waiting = []

    def finish(self) -> Saved:
        if self._count > self._few and self._width:
            self._writer.flush()
            return Saved(self._width, self._count, files=tuple(self._writer.runs))
        empty = np.empty(0, dtype=np.int64)
        parts = self._waiting or [[empty] * (self._width + 1)]
        rows = tuple(np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return Saved(self._width, self._count, rows)


def save(
    target: Target, relation: str, width: int, rows: Iterable[Sequence[Column]], ending: str = ""
) -> Saved:
    """Saves sorted rows that come in pieces. `ending`: see `Saving`."""
    saving = Saving(target, relation, width, ending=ending)
    for piece in rows:
        saving.add(piece)
    return saving.finish()


def combined(parts: Sequence[Saved], width: int, target: Target, relation: str) -> Saved:
    """Combines the parts of a relation, in order. If some are in files, or all are many, all go to files."""
    parts = [part for part in parts if part.count]
    count = sum(part.count for part in parts)
    if not any(part.files for part in parts) and count <= target.tuning.catalog_rows:
        empty = [np.empty(0, dtype=np.int64)] * (width + 1)
        rows = zip(*(part.rows for part in parts), strict=True) if parts else zip(empty)
        return Saved(width, count, tuple(np.concatenate(pieces) for pieces in rows))
    files: list[RunFile] = []
    for number, part in enumerate(parts):
        if not part.files:
            part = _in_files(part, target, relation, f"-few-{number}")
        files += part.files
    return Saved(width, count, files=tuple(files))


def _in_files(part: Saved, target: Target, relation: str, ending: str) -> Saved:
    saving = Saving(target, relation, part.width, few=0, ending=ending)
    saving.add(part.rows)
    return saving.finish()


def sorted_rows(columns: Sequence[Column], weights: Column) -> Saved:
    """Sorts a few rows in memory."""
    if not columns:
        return Saved(0, len(weights), (weights,))
    run = Run.sort(columns, weights)
    assert run.weights is not None
    return Saved(len(columns), run.length, (*run.columns, run.weights))
