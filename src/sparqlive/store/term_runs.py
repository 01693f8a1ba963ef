"""The terms on disk: files that are sorted by id. What was read stays in memory, up to a bound."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa

from sparqlive.rdf.term_columns import UNKNOWN, Gathered, Ids, Marks, TermColumns, is_in
from sparqlive.store.place import Place
from sparqlive.store.runs import TERMS, RunFile, group_bounds, read_columns, read_terms, write_terms

MOST_BYTES = 1 << 40
"""Without a limit on memory."""
_EXPANSION = 3
"""A byte of a file stands for about so many in memory."""


@dataclass(frozen=True)
class _Group:
    """A row group of a file: its rows, and the first and the last id."""

    path: str
    start: int
    stop: int
    first: int
    last: int


class TermRuns:
    """Terms on disk; a row group is read at the first lookup, and then searched in memory.

    Up to `most_bytes` of them stay there; beyond that, what was read first goes first.
    """

    def __init__(
        self, place: Place, files: Iterable[RunFile], *known: TermRuns, most_bytes: int = MOST_BYTES
    ) -> None:
        """`known` have already read some of the files."""
        self._place = place
        self._files = {run.path: run for run in files}
        self._most_bytes = most_bytes
        self._groups: dict[str, tuple[list[_Group], list[int]]] = {}
        self._read: OrderedDict[_Group, TermColumns] = OrderedDict()
        self._bytes = 0
        self._guard = Lock()
        for one in known:
            self._groups |= {path: found for path, found in one._groups.items() if path in self._files}
            for group, columns in list(one._read.items()):
                if group.path in self._files and group not in self._read:
                    self._keep(group, columns)

    @property
    def is_read(self) -> bool:
        """Whether some terms have been read into memory."""
        return bool(self._read)

    @property
    def is_limited(self) -> bool:
        """Whether memory has no room for all terms, so that looking for one after the other is slow."""
        return sum(run.bytes for run in self._files.values()) * _EXPANSION > self._most_bytes

    def read(self) -> None:
        """Reads the terms that memory has room for."""
        for group in (group for path in self._files for group in self._groups_of(path)[0]):
            if self._bytes >= self._most_bytes:
                return
            self._columns(group)

    def add(self, run: RunFile, columns: TermColumns) -> None:
        """Adds a file whose terms are in memory, also while queries read the others."""
        group = _Group(run.path, 0, len(columns), int(columns.ids[0]), int(columns.ids[-1]))
        self._groups = {**self._groups, run.path: ([group], [group.first])}
        self._keep(group, columns)
        self._files = {**self._files, run.path: run}

    def text_of(self, number: int) -> str | None:
        """The text of an id, or None."""
        for path in self._files:
            groups, firsts = self._groups_of(path)
            place = bisect_right(firsts, number) - 1
            if place >= 0 and number <= groups[place].last:
                known = self._columns(groups[place]).text(number)
                if known is not None:
                    return known
        return None

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
        """Marks those of the sorted ids, given with texts, that are in the files and not marked yet."""
        for path in self._files:
            if not (marks == UNKNOWN).any():
                return
            for group in self._groups_of(path)[0]:
                start, stop = np.searchsorted(numbers, [group.first, group.last])
                part = slice(int(start), int(stop) + 1)
                wanted = numbers[part][marks[part] == UNKNOWN]
                if len(wanted) and (columns := self._having(group, wanted)) is not None:
                    columns.match(numbers, texts, marks)

    def gather(self, wanted: Gathered) -> None:
        """Adds the texts of ids that are in the files and not gathered yet."""
        for path in self._files:
            for group in self._groups_of(path)[0]:
                if len(wanted.missing(group.first, group.last)):
                    wanted.add(self._columns(group))

    def _having(self, group: _Group, numbers: Ids) -> TermColumns | None:
        """The terms of a group; None if none of the ids is there, which the ids alone tell."""
        known = self._read.get(group)
        if known is not None or not self.is_limited:
            return known or self._columns(group)
        run = self._files[group.path]
        (ids,) = read_columns(self._place, run, ("id",), group.start, group.stop)
        return read_terms(self._place, run, group.start, group.stop) if is_in(numbers, ids).any() else None

    def _groups_of(self, path: str) -> tuple[list[_Group], list[int]]:
        """The row groups of a file, and their first ids."""
        known = self._groups.get(path)
        if known is None:
            groups = [_Group(path, *bounds) for bounds in group_bounds(self._place, self._files[path])]
            known = groups, [group.first for group in groups]
            self._groups = {**self._groups, path: known}
        return known

    def _columns(self, group: _Group) -> TermColumns:
        known = self._read.get(group)
        if known is None:
            known = read_terms(self._place, self._files[group.path], group.start, group.stop)
            self._keep(group, known)
        return known

    def _keep(self, group: _Group, columns: TermColumns) -> None:
        """Keeps terms in memory. Queries read in threads of their own."""
        with self._guard:
            if group not in self._read:
                self._read[group] = columns
                self._bytes += _size(columns)
            while len(self._read) > 1 and self._bytes > self._most_bytes:
                self._bytes -= _size(self._read.popitem(last=False)[1])


def _size(columns: TermColumns) -> int:
    return int(columns.ids.nbytes + columns.texts.nbytes)


def write_term_run(place: Place, folder: str, terms: TermColumns, ending: str = "") -> RunFile:
    """Writes a file of terms; `ending`: of its name, where several write into a folder."""
    path = f"{folder}/terms-00000{ending}.parquet"
    size, digests = write_terms(place, path, terms)
    return RunFile(path, TERMS, len(terms), size, (int(terms.ids[0]),), digests)
