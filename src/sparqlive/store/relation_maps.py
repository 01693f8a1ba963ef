"""The bases of a store's relations (rows of views, state of operators), mapped from derived files.

A map is created when its relation is first read, and created again if its file is missing or derived from
something else. Its rows are in the order of the base, which is checked during the copy. Invariants: one
piece of the rows is in memory at a time; readers create files, and only the writer of a store removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from xxhash import xxh3_128_hexdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.bounds import SORT_BYTES
from sparqlive.store.map_directory import DirectoryEntries, directory_length, number_type
from sparqlive.store.map_folder import MapFolder, MapFolders
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, names_of, read_groups
from sparqlive.store.sorting import Columns, Sorter
from sparqlive.zset.order import is_sorted
from sparqlive.zset.run import Column, Run

Order: TypeAlias = tuple[int, ...]
"""The numbers of a relation's columns, in sort order."""
_VERSION = 1
_PREFIX = "rows-"
_PIECE_ROWS = 1 << 17


class RelationMaps:
    """The mapped bases of relations, by name."""

    def __init__(self, directory: Path, place: Place) -> None:
        """`directory`: the store's."""
        self._folders = MapFolders(directory)
        self._place = place
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        """The open maps by file name."""
        self._guard = RLock()
        self._used: dict[str, set[Order | None]] = {}
        """The orders in which each relation was read."""

    def run(
        self, relation: str, width: int, files: Sequence[RunFile], order: Order | None = None
    ) -> Run | None:
        """The rows of a base, from its files in order; None if it has no files.

        `order`: the sort order of the run, which then has no weights.
        """
        name, sources = _named(relation, files, order)
        with self._guard:
            self._used.setdefault(relation, set()).add(order)
            if not files:
                return None
            run = self._runs.get(name)
            if run is None:
                columns = names_of(relation, width)
                rows = _BaseRows(self._place, files, columns if order is None else columns[:-1])
                found = self._opened(name, sources, rows, order)
                weights = columns[-1] if order is None else None
                run = found.run(_in_order(columns[:-1], order), weights, "directory")
                self._runs[name] = run
            return run

    def renewed(self, relation: str, width: int, files: Sequence[RunFile]) -> list[Run]:
        """Maps a new base of a relation, in the orders in which the relation was read."""
        renewed_runs = [self.run(relation, width, files, order) for order in self._used.get(relation, ())]
        return [run for run in renewed_runs if run is not None]

    def _opened(self, name: str, sources: Sequence[str], rows: _BaseRows, order: Order | None) -> Map:
        try:
            return self._folders.open(name, sources)
        except UnusableMap:
            folder = self._folders.for_writing()
        for _ in range(2):  # the store's writer, which may have a newer base, may remove it
            self._build(folder, name, sources, rows, order)
            try:
                return folder.open(name, sources)
            except UnusableMap as error:
                failure = error
        raise failure

    def _build(
        self, folder: MapFolder, name: str, sources: Sequence[str], rows: _BaseRows, order: Order | None
    ) -> None:
        count = rows.length
        kind = number_type(count)
        names = _in_order(rows.names, order)
        sections = dict.fromkeys(names, ("<i8", count))
        sections["directory"] = np.dtype(kind).str, directory_length(count)
        everything = range(len(names))
        if order is None:
            pieces: Iterator[Columns] = rows.in_base_order()
        else:
            pieces = Sorter(folder, SORT_BYTES).in_order(rows, len(names), order)
        with folder.writing(name, sources, sections) as writer:
            entries = DirectoryEntries(count)
            for piece in pieces:
                columns = [piece[number] for number in order or everything]
                for column, values in zip(names, columns, strict=True):
                    writer.append(column, values)
                for numbers in entries.add(columns[0]):
                    writer.append("directory", numbers.astype(kind))
            for numbers in entries.rest():
                writer.append("directory", numbers.astype(kind))

    def remove_others(self, bases: Mapping[str, Sequence[RunFile]]) -> None:
        """Removes the maps of all other bases; only for the writer."""
        orders = {relation: {None, *self._used.get(relation, ())} for relation in bases}
        names = {
            _named(relation, files, order)[0]
            for relation, files in bases.items()
            for order in orders[relation]
            if files
        }
        self._folders.remove_others(_PREFIX, names, is_writer=True)
        self._used = {relation: used for relation, used in self._used.items() if relation in bases}


@dataclass(frozen=True)
class _BaseRows:
    """The rows of the files of a base."""

    place: Place
    files: Sequence[RunFile]
    names: Sequence[str]

    @property
    def length(self) -> int:
        return sum(file.rows for file in self.files)

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        names = [self.names[number] for number in numbers]
        for file in self.files:
            for columns in read_groups(self.place, file, names):
                for low in range(0, len(columns[0]), most):
                    yield [np.ascontiguousarray(column[low : low + most]) for column in columns]

    def in_base_order(self) -> Iterator[Columns]:
        """All rows, with the weights last; checks their order."""
        last: list[Column] = []
        for piece in self.pieces(range(len(self.names)), _PIECE_ROWS):
            edge = [np.append(*pair) for pair in zip(last, piece[:-1], strict=False)]
            if not is_sorted(piece[:-1]) or (edge and not is_sorted([pair[:2] for pair in edge])):
                raise StoreFailed(
                    f"The rows of the relation {self.files[0].relation} are not in order. Restore the store "
                    f"from a backup."
                )
            last = [column[-1:] for column in piece[:-1]]
            yield piece


def _in_order(names: Sequence[str], order: Order | None) -> Sequence[str]:
    return names if order is None else [names[number] for number in order]


def _named(relation: str, files: Sequence[RunFile], order: Order | None) -> tuple[str, list[str]]:
    """The file name of a base's map, and its sources."""
    inputs = [f"{file.path} {file.digests[:8].hex()}" for file in files]
    by = "" if order is None else f" by {','.join(map(str, order))}"
    sources = [f"relation {relation} {_VERSION}{by}", *inputs]
    digest = xxh3_128_hexdigest("\n".join(sources).encode("utf-8", "surrogatepass"))
    return f"{_PREFIX}{digest}.map", sources
