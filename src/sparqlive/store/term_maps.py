"""Terms by id: each file of terms has a map with its sorted ids and the characters of its texts.

Owns the content of such a map, and when it is written: together with its file, or at the first lookup in a
file without a usable map. A lookup is a binary search in mapped memory; nothing that it reads stays in the
memory of the process. Invariant: the name of a map identifies the content of its file, so a map never serves
another file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TypeVar

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from sparqlive.rdf.term_columns import Ids, TermColumns
from sparqlive.sparql.columns import TERM_SCHEMA
from sparqlive.store.map_directory import directory_length
from sparqlive.store.map_folder import MapFolder, MapFolders
from sparqlive.store.maps import Array, Map, UnusableMap
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, group_bounds, term_groups
from sparqlive.store.typed_maps import TYPED, read_typed, typed_pieces, write_typed
from sparqlive.zset.run import Column, directory_of, search

T = TypeVar("T")

PREFIX = "terms-"
"""Prefix of the names of these maps."""
_TYPED = "-typed"
_VERSION = "terms 1"
_HALF = 1 << 63
# Number of texts that are checked together, unless they are longer than this.
_CHECKED_BITS = 12
_MOST_CHECKED = 1 << 20
# Errors of a lookup in a damaged map, and in one whose numbers lead outside of it.
_UNUSABLE = (UnusableMap, IndexError, UnicodeDecodeError)
_IDS, _DIRECTORY, _ENDS, _CHARACTERS, _BOUNDS = "ids", "directory", "ends", "characters", "bounds"


class TermMap:
    """An open map of terms."""

    def __init__(self, found: Map) -> None:
        self._map = found
        terms = found.length(_IDS)
        lengths = [found.length(name) for name in (_BOUNDS, _DIRECTORY, _ENDS)]
        if terms < 1 or lengths != [2, directory_length(terms), terms + 1]:
            raise UnusableMap(found.path, "its sections do not belong together")
        found.check(_BOUNDS, 0, 2)
        bounds: tuple[int, int] = found.unchecked(_BOUNDS).tolist()
        self.first, self.last = bounds
        self._run = found.run((_IDS,), directory=_DIRECTORY)
        self._ids = found.unchecked(_IDS)
        self._starts = found.unchecked(_DIRECTORY)
        self._shift = np.uint64(65 - len(self._starts).bit_length())
        # The ends of the texts, after a zero. Indexing memoryviews is several times faster than arrays.
        self._ends = found.unchecked(_ENDS)
        self._view = self._ends.data
        self._characters = found.unchecked(_CHARACTERS).data
        self._is_checked = bytearray((len(self._ids) >> _CHECKED_BITS) + 1)
        buffers = [None, pa.py_buffer(self._view), pa.py_buffer(self._characters)]
        try:
            self._texts = pa.Array.from_buffers(pa.large_string(), len(self._ids), buffers)
        except pa.ArrowInvalid as error:
            raise UnusableMap(found.path, str(error)) from error

    def text(self, number: int) -> str | None:
        """The text of an id."""
        place, end = self._run.range_one(number)
        if place == end:
            return None
        if not self._is_checked[place >> _CHECKED_BITS]:
            self._check(place)
        return str(self._characters[self._view[place] : self._view[place + 1]], "utf-8")

    def _check(self, place: int) -> None:
        """Checks a text, together with its neighbours unless they are long."""
        group = place >> _CHECKED_BITS
        first = group << _CHECKED_BITS
        last = min(first + (1 << _CHECKED_BITS), len(self._ids))
        self._map.check(_ENDS, first, last + 1)
        ends = self._ends[first : last + 1]
        are_short = bool(ends[-1] - ends[0] <= _MOST_CHECKED)
        if not are_short:
            ends = self._ends[place : place + 2]
        self._map.check_ranges(_CHARACTERS, ends[:-1], ends[1:])
        self._is_checked[group] = are_short

    def found(self, numbers: Ids) -> tuple[Ids, pa.LargeStringArray]:
        """The positions of those sorted ids that the file has, and their texts."""
        places, stops = self._places(numbers)
        positions = np.flatnonzero(places < stops)
        positions = positions[self._ids[places[positions]] == numbers[positions]]
        places = places[positions]
        self._map.check_ranges(_ENDS, places, places + 2)
        self._map.check_ranges(_CHARACTERS, self._ends[places], self._ends[places + 1])
        return positions, self._texts.take(pa.array(places))

    def columns(self) -> tuple[pa.Array, pa.LargeStringArray]:
        """All ids and texts, in mapped memory."""
        whole = np.array([0]), np.array([len(self._ids)])
        self._map.check_ranges(_IDS, *whole)
        self._map.check_ranges(_ENDS, whole[0], whole[1] + 1)
        self._map.check_ranges(_CHARACTERS, self._ends[:-1], self._ends[1:])
        return pa.array(self._ids), self._texts

    def _places(self, numbers: Ids) -> tuple[Column, Column]:
        """The positions where ids are or would be inserted, and the ends of the ranges searched."""
        buckets = ((numbers.view(np.uint64) ^ np.uint64(_HALF)) >> self._shift).view(np.int64)
        self._map.check_ranges(_DIRECTORY, buckets, buckets + 2)
        low, high = (self._starts[buckets + one].astype(np.int64) for one in (0, 1))
        self._map.check_ranges(_IDS, low, high)
        return search(self._ids, numbers, low, high, before=True), high


def _written(folder: MapFolder, name: str, parts: Callable[[], Iterable[TermColumns]]) -> Map:
    """Writes the map of terms that come in ordered parts.

    Reads the parts twice, because a map starts with its length, and texts can be too long to keep.
    """
    ids, sizes = list[Ids](), list[Column]()
    for part in parts():
        ids.append(part.ids)
        sizes.append(part.sizes)
    numbers = np.concatenate(ids)
    sections: dict[str, Array] = {
        _BOUNDS: numbers[[0, -1]],
        _DIRECTORY: directory_of(numbers),
        _IDS: numbers,
        _ENDS: np.concatenate([[0], np.cumsum(np.concatenate(sizes))]),
    }
    described = {key: (section.dtype.str, len(section)) for key, section in sections.items()}
    described[_CHARACTERS] = np.dtype(np.uint8).str, int(sections[_ENDS][-1])
    with folder.writing(name, [_VERSION, name], described) as writer:
        for key, section in sections.items():
            writer.append(key, section)
        for part in parts():
            writer.append(_CHARACTERS, part.characters)
    return folder.open(name, [_VERSION, name])


class TermFile:
    """The terms of a file, read from its map; writes the map if it is missing or damaged."""

    def __init__(self, run: RunFile, maps: TermMaps, opened: TermMap | None) -> None:
        self._run = run
        self._maps = maps
        self._opened = opened
        bounds: tuple[int, int] = maps.bounds(run) if opened is None else (opened.first, opened.last)
        self.first, self.last = bounds

    def text(self, number: int) -> str | None:
        """The text of an id. Inlines `_read`, because this is by far the most common lookup."""
        opened = self._opened or self.open()
        try:
            return opened.text(number)
        except _UNUSABLE:
            return self.open(damaged=opened).text(number)

    def found(self, numbers: Ids) -> tuple[Ids, pa.LargeStringArray]:
        """The positions of those sorted ids that the file has, and their texts."""
        return self._read(lambda opened: opened.found(numbers))

    def table(self) -> pa.Table:
        """All terms with their typed columns, in mapped memory."""
        ids, texts = self._read(lambda opened: opened.columns())
        return pa.Table.from_arrays([ids, texts, *self._maps.typed(self._run).columns], schema=TERM_SCHEMA)

    def _read(self, read: Callable[[TermMap], T]) -> T:
        opened = self._opened or self.open()
        try:
            return read(opened)
        except _UNUSABLE:
            return read(self.open(damaged=opened))

    def open(self, damaged: TermMap | None = None) -> TermMap:
        """Opens the map; writes it first if it is missing or damaged."""
        with self._maps.guard:
            if self._opened is None or self._opened is damaged:
                opened = self._maps.opened(self._run) if damaged is None else None
                self._opened = opened or self._maps.written(self._run)
            return self._opened


class TermMaps:
    """The maps of a store's files of terms."""

    def __init__(self, place: Place, directory: Path) -> None:
        self._place = place
        self._folders = MapFolders(directory)
        self._files: dict[str, TermFile] = {}
        self.guard = RLock()
        """Held while maps are opened and written, so that each is written once."""

    def file(self, run: RunFile) -> TermFile:
        """A file of terms. Its map stays open until `keep` leaves the file out."""
        with self.guard:
            file = self._files.get(run.path)
            if file is None:
                file = self._files[run.path] = TermFile(run, self, self.opened(run))
            return file

    def bounds(self, run: RunFile) -> tuple[int, int]:
        """The first and the last id of a file without a map."""
        groups = group_bounds(self._place, run)
        return groups[0][1], groups[-1][2]

    def opened(self, run: RunFile) -> TermMap | None:
        """Opens the map of a file; None if it has to be written."""
        name = name_of(run)
        try:
            return TermMap(self._folders.open(name, [_VERSION, name]))
        except UnusableMap:
            return None

    def written(self, run: RunFile, terms: TermColumns | None = None) -> TermMap:
        """Writes and opens the map of a file; `terms` is its content, if in memory."""

        def parts() -> Iterable[TermColumns]:
            return term_groups(self._place, run) if terms is None else [terms]

        return TermMap(_written(self._folders.for_writing(), name_of(run), parts))

    def typed(self, run: RunFile) -> pa.Table:
        """The typed columns of a file, in a map of their own."""
        name = name_of(run, _TYPED)
        sources = [TYPED, name]
        with self.guard:
            with suppress(UnusableMap, pa.ArrowException):
                return read_typed(self._folders.open(name, sources))
            pieces = partial(typed_pieces, self._place, run)
            return read_typed(write_typed(self._folders.for_writing(), name, sources, pieces))

    def keep(self, runs: Iterable[RunFile], *, is_writer: bool) -> None:
        """Closes and removes the maps of all other files. Maps in use stay readable."""
        kept = {run.path: run for run in runs}
        with self.guard:
            self._files = {path: found for path, found in self._files.items() if path in kept}
        names = {name_of(run, kind) for run in kept.values() for kind in ("", _TYPED)}
        self._folders.remove_others(PREFIX, names, is_writer=is_writer)


def name_of(run: RunFile, kind: str = "") -> str:
    """The name of a file's map, which identifies the file's path and content."""
    return f"{PREFIX}{xxh3_128_hexdigest(f'{run.path} '.encode() + run.digests)}{kind}.map"
