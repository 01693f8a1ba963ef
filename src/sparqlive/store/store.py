"""The store of a session: what is read when it opens, and what an epoch writes.

Owns the order of a commit: files first, synced, then the one transaction that names them. Relations are
named `quads`, `terms`, and for each kept plan `<key>/rows` and `<key>/state/<operator>`. A relation is its
runs plus the deltas after them. Invariant: what `commit` returned from is there when the store is opened
again; what it did not return from is there whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparqlive.store.catalog import Catalog, RunFile
from sparqlive.store.runs import ROWS_A_FILE, read_columns, read_terms, sync, write_rows, write_terms
from sparqlive.zset.run import Column

QUADS, TERMS = "quads", "terms"
_QUAD_COLUMNS = ("s", "p", "o", "g")
# A relation's first content of up to so many rows goes into the catalog, a larger one into a file.
_SMALL = 10_000

Rows = Mapping[tuple[int, ...], int]


@dataclass
class Commit:
    """What one transaction adds."""

    epoch: int
    counts: tuple[int, int] = (0, 0)
    strategy: str = "live"
    note: Mapping[str, Any] = field(default_factory=dict)
    changes: Sequence[tuple[int, int, int, int, int]] | None = None
    deltas: Mapping[str, tuple[int, Rows]] = field(default_factory=dict)
    terms: Sequence[tuple[int, str]] = ()
    exceptions: Sequence[tuple[str, int]] = ()
    runs: Sequence[RunFile] = ()
    batch: tuple[str, int] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """Where the quads and terms are: files, and what is not in them yet."""

    quad_files: Sequence[str]
    log: Column
    term_files: Sequence[str]
    terms: Sequence[tuple[int, str]]


class TermRuns:
    """Terms on disk, mapped into memory and found by binary search."""

    def __init__(self, runs: Sequence[tuple[Column, Any]]) -> None:
        self._runs = [run for run in runs if len(run[0])]

    def __call__(self, number: int) -> str | None:
        """The text of an id, if it is there."""
        for ids, texts in self._runs:
            place = int(np.searchsorted(ids, number))
            if place < len(ids) and ids[place] == number:
                text: str = texts[place].as_py()
                return text
        return None


class Store:
    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.catalog = Catalog(self.directory)
        self._attempts = 0
        self._remove_orphans()

    def close(self) -> None:
        self.catalog.close()

    def _remove_orphans(self) -> None:
        """Files that no transaction came to name: of attempts that ended before their commit."""
        named = {run.path for run in self.catalog.runs()}
        for attempt in (self.directory / "runs").glob("*"):
            files = [file for file in attempt.rglob("*") if file.is_file()]
            for file in files:
                if str(file.relative_to(self.directory)) not in named:
                    file.unlink()
            if not any(file.exists() for file in files):
                shutil.rmtree(attempt)

    def attempt(self) -> Path:
        """A new directory for the files of one attempt at a commit."""
        self._attempts += 1
        path = self.directory / "runs" / f"{time.time_ns():x}-{os.getpid()}-{self._attempts}"
        path.mkdir(parents=True)
        sync(path.parent)
        return path

    # Reading

    def quads(self) -> tuple[list[list[Column]], list[Column]]:
        """The columns of the runs of quads, and the changes after them."""
        runs = self.catalog.runs(QUADS)
        columns = [read_columns(self.directory / run.path, _QUAD_COLUMNS) for run in runs]
        since = max((run.epoch for run in runs), default=0)
        return columns, [rows for _, rows in self.catalog.changes(since)]

    def terms(self) -> TermRuns:
        """The runs of terms. The terms after them are in the catalog."""
        return TermRuns([read_terms(self.directory / run.path) for run in self.catalog.runs(TERMS)])

    def sources(self, more_terms: Iterable[tuple[int, str]]) -> Sources:
        """The files of quads and terms, and what is not in them yet; for readers outside this process."""
        runs = self.catalog.runs(QUADS)
        since = max((run.epoch for run in runs), default=0)
        log = [rows for _, rows in self.catalog.changes(since)]
        return Sources(
            [(self.directory / run.path).absolute().as_uri() for run in runs],
            np.concatenate(log) if log else np.empty((0, 5), dtype=np.int64),
            [(self.directory / run.path).absolute().as_uri() for run in self.catalog.runs(TERMS)],
            [*self.catalog.terms(), *more_terms],
        )

    def relation(self, name: str, width: int) -> dict[tuple[int, ...], int] | None:
        """The content of a relation; None if the store does not have it."""
        runs = self.catalog.runs(name)
        deltas = list(self.catalog.deltas(name, max((run.epoch for run in runs), default=-1)))
        if not runs and not deltas:
            return None
        content: dict[tuple[int, ...], int] = {}
        names = [*(f"c{number}" for number in range(width)), "w"]
        for run in runs:
            columns = [column.tolist() for column in read_columns(self.directory / run.path, names)]
            content.update(zip(zip(*columns[:-1], strict=True) if width else [()], columns[-1], strict=True))
        for _, rows in deltas:
            for *row, weight in rows.tolist():
                total = content.get(tuple(row), 0) + weight
                if total:
                    content[tuple(row)] = total
                else:
                    content.pop(tuple(row), None)
        return content

    # Writing

    def commit(self, commit: Commit) -> None:
        """Makes an epoch durable."""
        changes = None if commit.changes is None else np.array(commit.changes, dtype=np.int64)
        with self.catalog.transaction():
            self.catalog.add_epoch(commit.epoch, commit.counts, commit.strategy, commit.note, changes)
            self._name(commit)

    def keep(self, name: str, text: str, base: str | None, refresh: str, commit: Commit) -> None:
        """Registers a view, with the first content of its relations and the terms they need."""
        with self.catalog.transaction():
            self.catalog.add_view(name, text, base, commit.epoch, refresh)
            self._refreshed(name, commit.epoch)
            self._name(commit)

    def refresh(self, name: str, gathered: str, commit: Commit) -> None:
        """Brings a view to an epoch that is there already; what was gathered for it is done with."""
        with self.catalog.transaction():
            self._forget([gathered])
            self._refreshed(name, commit.epoch)
            self._name(commit)

    def _refreshed(self, name: str, epoch: int) -> None:
        self.catalog.set_meta(f"refreshed/{name}", str(epoch))

    def refreshed(self, name: str) -> int:
        """The epoch to which a view that is refreshed later was last brought."""
        return int(self.catalog.meta(f"refreshed/{name}") or 0)

    def _name(self, commit: Commit) -> None:
        for run in commit.runs:
            self.catalog.add_run(run)
        self.catalog.add_terms(commit.terms, commit.exceptions)
        for relation, (width, rows) in commit.deltas.items():
            self.catalog.add_delta(relation, commit.epoch, width, _packed(rows, width))
        for key, note in commit.notes.items():
            self.catalog.set_meta(key, note)
        if commit.batch is not None:
            self.catalog.add_batch(*commit.batch, commit.epoch)

    def drop(self, name: str, relations: Iterable[str]) -> None:
        """Forgets a view and the relations that no other view uses."""
        with self.catalog.transaction():
            self.catalog.forget_view(name)
            self._forget(relations)
        self._remove_orphans()

    def forget(self, relations: Iterable[str]) -> None:
        with self.catalog.transaction():
            self._forget(relations)
        self._remove_orphans()

    def _forget(self, relations: Iterable[str]) -> None:
        for relation in relations:
            self.catalog.forget_runs(relation)
            self.catalog.forget_deltas(relation)

    def content_runs(
        self, contents: Mapping[str, tuple[int, Rows]], epoch: int
    ) -> tuple[list[RunFile], dict[str, tuple[int, Rows]]]:
        """First contents: large ones written as files, small ones left as deltas for the catalog."""
        runs, small = [], {}
        directory: Path | None = None
        for name, (width, rows) in contents.items():
            if len(rows) <= _SMALL or not width:
                small[name] = (width, rows)
                continue
            directory = directory or self.attempt()
            runs.append(self._write_relation(directory, name, width, rows, epoch))
        return runs, small

    def _write_relation(self, directory: Path, name: str, width: int, rows: Rows, epoch: int) -> RunFile:
        packed = _packed(rows, width)
        packed = packed[np.lexsort(packed[:, :width].T[::-1])]
        path = directory / f"{name.replace('/', '-')}.parquet"
        columns = {f"c{number}": packed[:, number] for number in range(width)} | {"w": packed[:, width]}
        write_rows(path, {column: np.ascontiguousarray(values) for column, values in columns.items()})
        return RunFile(str(path.relative_to(self.directory)), name, epoch, len(rows), {})

    def written(
        self, directory: Path, quad_files: Iterable[Any], term_files: Iterable[Any], epoch: int
    ) -> list[RunFile]:
        """Files that others wrote below a directory of an attempt, synced and ready to be named."""
        runs = []
        for relation, files in ((QUADS, quad_files), (TERMS, term_files)):
            for file in files:
                path = directory / file.path
                sync(path)
                runs.append(RunFile(str(path.relative_to(self.directory)), relation, epoch, file.rows, {}))
        return runs

    def compact(
        self, epoch: int, quads: Iterable[Sequence[Column]], relations: Mapping[str, tuple[int, int, Rows]]
    ) -> None:
        """Writes quads and relations anew as runs, and forgets the log and their old runs.

        A relation comes with the epoch that it stands for, and its width. Terms are only ever added: those of
        the catalog become one more run.
        """
        directory = self.attempt()
        runs = [*_quad_files(directory, self.directory, quads, epoch)]
        pairs = sorted(self.catalog.terms())
        for number, start in enumerate(range(0, len(pairs), ROWS_A_FILE)):
            part = pairs[start : start + ROWS_A_FILE]
            path = directory / f"terms-{number:05d}.parquet"
            ids = np.fromiter((pair[0] for pair in part), np.int64, len(part))
            write_terms(path, ids, [pair[1] for pair in part])
            runs.append(RunFile(str(path.relative_to(self.directory)), TERMS, epoch, len(part), {}))
        small: dict[int, dict[str, tuple[int, Rows]]] = {}
        for name, (stands_for, width, rows) in relations.items():
            if width and len(rows) > _SMALL:
                runs.append(self._write_relation(directory, name, width, rows, stands_for))
            else:
                small.setdefault(stands_for, {})[name] = (width, rows)
        with self.catalog.transaction():
            for relation in {run.relation for run in self.catalog.runs()} - {TERMS}:
                self.catalog.forget_runs(relation)
            for name in relations:
                self.catalog.forget_deltas(name)
            self.catalog.forget_changes(epoch)
            self.catalog.forget_terms()
            self._name(Commit(epoch, runs=runs))
            for stands_for, deltas in small.items():
                self._name(Commit(stands_for, deltas=deltas))
        self._remove_orphans()


def _quad_files(
    directory: Path, root: Path, parts: Iterable[Sequence[Column]], epoch: int
) -> Iterator[RunFile]:
    """Pieces sorted by predicate, graph, subject and object, in files of about a million rows."""
    number = 0
    for columns in _gathered(parts):
        for start in range(0, len(columns[0]), ROWS_A_FILE):
            piece = [np.ascontiguousarray(column[start : start + ROWS_A_FILE]) for column in columns]
            path = directory / f"quads-{number:05d}.parquet"
            write_rows(path, dict(zip(_QUAD_COLUMNS, piece, strict=True)))
            yield RunFile(str(path.relative_to(root)), QUADS, epoch, len(piece[0]), {})
            number += 1


def _gathered(parts: Iterable[Sequence[Column]]) -> Iterator[list[Column]]:
    """Small pieces put together until they fill a file."""
    waiting: list[Sequence[Column]] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part[0])
        if size >= ROWS_A_FILE:
            yield [np.concatenate(columns) for columns in zip(*waiting, strict=True)]
            waiting, size = [], 0
    if waiting:
        yield [np.concatenate(columns) for columns in zip(*waiting, strict=True)]


def _packed(rows: Rows, width: int) -> Column:
    """Rows and weights as one array."""
    packed = np.empty((len(rows), width + 1), dtype=np.int64)
    for number, (row, weight) in enumerate(rows.items()):
        packed[number, :width] = row
        packed[number, width] = weight
    return packed
