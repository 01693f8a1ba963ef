"""The terms on disk: files that are sorted by id. What was read stays in memory, up to a bound."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparqlive.rdf.term_columns import UNKNOWN, Gathered, Ids, Marks, TermColumns, is_in
from sparqlive.store import bounds
from sparqlive.store.place import Place
from sparqlive.store.runs import (
    ALL_GROUPS,
    TERMS,
    RunFile,
    group_bounds,
    read_columns,
    read_terms,
    terms_in,
    verified,
    write_terms,
)
from sparqlive.store.seeking import ROWS_PER_SEARCH, Readers

MOST_BYTES = 1 << 40
"""Without a limit on memory."""
_EXPANSION = 3
"""A byte of a file stands for about so many in memory."""


class _Group(NamedTuple):
    """A row group of a file, and its first and last id. Hashed at every lookup of a term."""

    path: str
    number: int
    first: int
    last: int


_Groups: TypeAlias = tuple[list[_Group], list[int]]
"""Row groups in the order of their ids, and their first ids."""


class TermRuns:
    """Terms on disk; a row group is read at the first lookup, and then searched in memory.

    Up to `most_bytes` of them stay there; beyond that, what was read first goes first. If there is room for
    all terms, and lookups have read half of a file, its row groups are joined to one, to be searched at once.
    """

    def __init__(
        self, readers: Readers, files: Iterable[RunFile], *known: TermRuns, most_bytes: int = MOST_BYTES
    ) -> None:
        """`known` have already read some of the files."""
        self._readers = readers
        self._place = readers.place
        self._files = {run.path: run for run in files}
        self._most_bytes = most_bytes
        self._groups: dict[str, _Groups] = {}
        self._layers: tuple[Mapping[str, RunFile], list[_Groups]] = {}, []
        """Some files, and their row groups."""
        footers = (footer for one in known for footer in list(one._metadata.items()))
        self._metadata: dict[str, Any] = dict(
            islice((footer for footer in footers if footer[0] in self._files), bounds.FOOTERS)
        )
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
        for path in self._files:
            for _ in self._load(path, self._groups_of(path)[0]):
                if self._bytes >= self._most_bytes:
                    return

    def add(self, run: RunFile, columns: TermColumns) -> None:
        """Adds a file whose terms are in memory, also while queries read the others."""
        group = _Group(run.path, ALL_GROUPS, int(columns.ids[0]), int(columns.ids[-1]))
        self._groups = {**self._groups, run.path: ([group], [group.first])}
        self._keep(group, columns)
        self._files = {**self._files, run.path: run}

    def text_of(self, number: int) -> str | None:
        """The text of an id, or None."""
        files, layers = self._layers
        for groups, firsts in layers if files is self._files else self._layered():
            place = bisect_right(firsts, number) - 1
            if place >= 0 and number <= (group := groups[place]).last:
                columns = self._read.get(group) or next(self._load(group.path, [group]))
                if (known := columns.text(number)) is not None:
                    return known
        return None

    def _layered(self) -> list[_Groups]:
        """The row groups of all files in layers, each in the order of their ids: most stores have one."""
        files, layers = self._files, list[_Groups]()
        for groups, firsts in sorted(map(self._groups_of, files), key=lambda found: found[1]):
            below = (layer for layer in layers if firsts and layer[0][-1].last < firsts[0])
            layer = next(below, None)
            if layer is not None:
                layer[0].extend(groups)
                layer[1].extend(firsts)
            elif groups:
                layers.append((list(groups), list(firsts)))
        self._layers = files, layers
        return layers

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
        """Marks those of the sorted ids, given with texts, that are in the files and not marked yet."""
        for path in self._files:
            places = np.flatnonzero(marks == UNKNOWN)
            if not len(places):
                return
            for columns in self._having(path, numbers[places]):
                columns.match(numbers, texts, marks)

    def gather(self, wanted: Gathered) -> None:
        """Adds the texts of ids that are in the files and not gathered yet."""
        for path in self._files:
            groups, firsts = self._groups_of(path)
            if groups and len(missing := wanted.missing(firsts[0], groups[-1].last)):
                for columns in self._having(path, wanted.numbers[missing]):
                    wanted.add(columns)

    def texts_of(self, numbers: Ids) -> dict[int, str]:
        """The texts of those of the sorted ids that are in the files."""
        found: dict[int, str] = {}
        for path in self._files:
            for columns in self._having(path, numbers):
                known = is_in(numbers, columns.ids)
                found |= {number: columns.text(number) or "" for number in numbers[known].tolist()}
        return found

    def _having(self, path: str, numbers: Ids) -> Iterator[TermColumns]:
        """Row groups of a file that have some of the sorted ids; of those that are read, only such."""
        groups, firsts = self._groups_of(path)
        wanted = numbers[(numbers >= firsts[0]) & (numbers <= groups[-1].last)] if groups else numbers[:0]

        def chosen() -> list[_Group]:
            places = np.unique(np.searchsorted(firsts, wanted, side="right") - 1)
            return [groups[place] for place in places.tolist()]

        if self.is_limited and not all(group in self._read for group in chosen()):
            wanted = wanted[self._has(self._files[path], wanted)]
        yield from self._load(path, chosen())

    def _has(self, run: RunFile, numbers: Ids) -> npt.NDArray[np.bool_]:
        """Which of the sorted ids a file has; reads ids alone."""
        if len(numbers) < run.rows // ROWS_PER_SEARCH:
            low, high = self._readers.of(run).find("id", numbers)
            return low < high
        (ids,) = read_columns(self._place, run, ("id",))
        return is_in(numbers, ids)

    def _groups_of(self, path: str) -> _Groups:
        """The row groups of a file, and their first ids."""
        known = self._groups.get(path)
        if known is None:
            groups = [_Group(path, *bounds) for bounds in group_bounds(self._place, self._files[path])]
            known = groups, [group.first for group in groups]
            self._groups = {**self._groups, path: known}
        return known

    def _load(self, path: str, groups: Sequence[_Group]) -> Iterator[TermColumns]:
        """Row groups of a file, which is opened if some of them are not in memory; or all of them, joined."""
        known = {group: self._read.get(group) for group in groups}
        unread = [group for group, columns in known.items() if columns is None]
        if unread and self._is_mostly_read(path, len(unread)):
            yield self._joined(path)
            return
        yield from (columns for columns in known.values() if columns is not None)
        for group, columns in zip(unread, self._read_groups(path, unread), strict=True):
            self._keep(group, columns)
            yield columns

    def _is_mostly_read(self, path: str, others: int) -> bool:
        """Whether most row groups of a file are in memory, with some others, which has room for the rest."""
        groups, _ = self._groups_of(path)
        count = sum(group in self._read for group in groups) + others
        return len(groups) > 1 and 2 * count > len(groups) and not self.is_limited

    def _joined(self, path: str) -> TermColumns:
        """All terms of a file, as one row group from now on."""
        groups, firsts = self._groups_of(path)
        known = {group: self._read.get(group) for group in groups}
        unread = [group for group, columns in known.items() if columns is None]
        known.update(zip(unread, self._read_groups(path, unread), strict=True))
        joined = TermColumns.together([columns for columns in known.values() if columns is not None])
        whole = _Group(path, ALL_GROUPS, firsts[0], groups[-1].last)
        self._keep(whole, joined)
        self._groups = {**self._groups, path: ([whole], [whole.first])}
        self._layers = {}, []
        with self._guard:
            for group in groups:
                if (columns := self._read.pop(group, None)) is not None:
                    self._bytes -= columns.nbytes
        return joined

    def _read_groups(self, path: str, groups: Sequence[_Group]) -> Iterator[TermColumns]:
        if groups:
            with verified(self._place, self._files[path], self._metadata.get(path)) as file:
                if len(self._metadata) < bounds.FOOTERS:
                    self._metadata[path] = file.metadata
                yield from terms_in(file, [group.number for group in groups])

    def _keep(self, group: _Group, columns: TermColumns) -> None:
        """Keeps terms in memory. Queries read in threads of their own."""
        with self._guard:
            if group not in self._read:
                self._read[group] = columns
                self._bytes += columns.nbytes
            while len(self._read) > 1 and self._bytes > self._most_bytes:
                self._bytes -= self._read.popitem(last=False)[1].nbytes


@dataclass(frozen=True)
class MergeTerms:
    """Writes some terms, and those of some files, as one file."""

    place: Place
    folder: str

    def __call__(self, task: tuple[Sequence[tuple[int, str]], Sequence[RunFile]]) -> RunFile:
        pairs, runs = task
        parts = [TermColumns.of(pairs), *(read_terms(self.place, run) for run in runs)]
        # A task that is run twice writes two files, of which one is listed.
        ending = f"-{os.urandom(6).hex()}"
        return write_term_run(self.place, self.folder, TermColumns.together(parts), ending)


def write_term_run(place: Place, folder: str, terms: TermColumns, ending: str = "") -> RunFile:
    """Writes a file of terms; `ending`: of its name, where several write into a folder."""
    path = f"{folder}/terms-00000{ending}.parquet"
    size, digests = write_terms(place, path, terms)
    return RunFile(path, TERMS, len(terms), size, (int(terms.ids[0]),), digests)
