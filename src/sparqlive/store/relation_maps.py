"""The bases of a store's relations (rows of views, state of operators), mapped from files derived from them.

A map is created when its relation is first read, and created again if its file is missing or derived from
something else. Its rows are in the order of the base, which is checked as they are copied. Invariants: a
piece of the rows is in memory at a time; readers create files, and only the writer of a store removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from threading import RLock
from weakref import WeakValueDictionary

import numpy as np
from xxhash import xxh3_128_hexdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.map_directory import DirectoryEntries, directory_length, number_type
from sparqlive.store.map_folder import MapFolder, MapFolders
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, names_of, read_groups
from sparqlive.zset.order import is_sorted
from sparqlive.zset.run import Column, Run

_VERSION = 1
_PREFIX = "rows-"
_PIECE_ROWS = 1 << 17


class RelationMaps:
    """The mapped bases of relations, by name."""

    def __init__(self, directory: Path, place: Place) -> None:
        """`directory`: of the store."""
        self._folders = MapFolders(directory)
        self._place = place
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        """By the name of the file."""
        self._guard = RLock()
        self.used: set[str] = set()
        """The relations that were read."""

    def run(self, relation: str, width: int, files: Sequence[RunFile]) -> Run:
        """The rows of a base, given by its files in order."""
        name, sources = _named(relation, files)
        with self._guard:
            self.used.add(relation)
            run = self._runs.get(name)
            if run is None:
                columns = names_of(relation, width)
                found = self._opened(name, sources, columns, files)
                run = found.run(columns[:-1], columns[-1], "directory")
                self._runs[name] = run
            return run

    def _opened(
        self, name: str, sources: Sequence[str], columns: Sequence[str], files: Sequence[RunFile]
    ) -> Map:
        try:
            return self._folders.open(name, sources)
        except UnusableMap:
            folder = self._folders.for_writing()
        for _ in range(2):  # the writer of the store, where this base is not the last one, may remove it
            self._build(folder, name, sources, columns, files)
            try:
                return folder.open(name, sources)
            except UnusableMap as error:
                failure = error
        raise failure

    def _build(
        self,
        folder: MapFolder,
        name: str,
        sources: Sequence[str],
        columns: Sequence[str],
        files: Sequence[RunFile],
    ) -> None:
        count = sum(file.rows for file in files)
        kind = number_type(count)
        sections = dict.fromkeys(columns, ("<i8", count))
        sections["directory"] = np.dtype(kind).str, directory_length(count)
        with folder.writing(name, sources, sections) as writer:
            entries = DirectoryEntries(count)
            for piece in self._pieces(columns, files):
                for column, values in zip(columns, piece, strict=True):
                    writer.append(column, values)
                for numbers in entries.add(piece[0]):
                    writer.append("directory", numbers.astype(kind))
            for numbers in entries.rest():
                writer.append("directory", numbers.astype(kind))

    def _pieces(self, names: Sequence[str], files: Sequence[RunFile]) -> Iterator[list[Column]]:
        last: list[Column] | None = None
        for file in files:
            for columns in read_groups(self._place, file, names):
                for low, high in pairwise([*range(0, len(columns[0]), _PIECE_ROWS), len(columns[0])]):
                    piece = [np.ascontiguousarray(column[low:high]) for column in columns]
                    edge = (
                        [] if last is None else [np.append(*pair) for pair in zip(last, piece, strict=True)]
                    )
                    if not is_sorted(piece[:-1]) or (
                        edge and not is_sorted([pair[:2] for pair in edge[:-1]])
                    ):
                        raise StoreFailed(
                            f"The rows of {self._place.text(file.path)} are not in order. Restore the store "
                            f"from a backup."
                        )
                    last = [column[-1:] for column in piece]
                    yield piece

    def remove_others(self, bases: Mapping[str, Sequence[RunFile]]) -> None:
        """Removes the maps of other bases than these; only the writer may do so."""
        names = {_named(relation, files)[0] for relation, files in bases.items() if files}
        self._folders.remove_others(_PREFIX, names, is_writer=True)
        self.used &= bases.keys()


def _named(relation: str, files: Sequence[RunFile]) -> tuple[str, list[str]]:
    """The name of the map of a base, and what it is derived from."""
    inputs = [f"{file.path} {file.digests[:8].hex()}" for file in files]
    sources = [f"relation {relation} {_VERSION}", *inputs]
    digest = xxh3_128_hexdigest("\n".join(sources).encode("utf-8", "surrogatepass"))
    return f"{_PREFIX}{digest}.map", sources
