"""Maps: files of sorted columns that are mapped into memory instead of being loaded.

Owns the format: a header, then sections of integers. A map is derived from other files of a store, which its
`sources` identify; it may be deleted at any time and is created again. Each block has a checksum, and so does
the header. Invariants: a map was complete and synced when it got its name; the checksum of a block is
compared before the first number of the block is returned.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import stat
import struct
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64, xxh3_64_intdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.private import open_private
from sparqlive.zset.run import FEWEST_FOR_DIRECTORY, Column, Run

Array = npt.NDArray[Any]
Sections = Mapping[str, tuple[str, int]]
"""The name of each section, the NumPy type of its numbers, and their count."""

# The first lookup in a block reads all of it: 0.2 ms from the page cache; with blocks of 1 MiB, 2 ms.
# Checking a whole file takes as long with either size, and a third longer with blocks of 64 KiB.
BLOCK = 1 << 18
UNFINISHED = ".unfinished"
"""Suffix of files that are being written, or whose writer was killed."""
_MAGIC, _VERSION = b"sprqlmap", 1
# Magic, version, length of the description, number of blocks, length of the file, checksum of the header.
_PREFIX = struct.Struct("<8sIIQQQ")
_ALIGNMENT = 64
_TYPES = {np.dtype(kind).str for kind in (np.int64, np.uint64, np.uint32, np.uint8)}
_COLUMN_BYTES = 8
# Number of buckets checked at a time: they lead to about one block of each column.
_BUCKET_BITS = 13


class UnusableMap(StoreFailed):
    """A map is missing, damaged, or derived from other sources. The remedy is to create it again."""

    def __init__(self, path: Path, reason: str, source: Map | None = None) -> None:
        """`source`: the map that was open when it turned out to be damaged."""
        super().__init__(f"The map {path} cannot be used: {reason}. Delete it; it will be created again.")
        self.source = source


@dataclass(frozen=True)
class _Section:
    type: str
    item: int
    """The size of a number, in bytes."""
    length: int
    offset: int
    """The offset of its first byte in the file."""
    first_block: int

    @property
    def nbytes(self) -> int:
        return self.length * self.item


def _blocks(nbytes: int) -> int:
    return -(-nbytes // BLOCK)


@dataclass(frozen=True)
class _Layout:
    """The description at the start of a file, and the layout derived from it."""

    description: bytes
    sections: Mapping[str, _Section]
    blocks: int
    file_bytes: int

    @classmethod
    def of(cls, sources: Sequence[str], sections: Sections) -> _Layout:
        description = json.dumps({"sources": [*sources], "sections": sections}).encode()
        items = {name: np.dtype(kind).itemsize for name, (kind, _) in sections.items()}
        blocks = sum(_blocks(length * items[name]) for name, (_, length) in sections.items())
        placed, end, block = {}, _PREFIX.size + len(description) + 8 * blocks, 0
        for name, (kind, length) in sections.items():
            section = _Section(kind, items[name], length, end + -end % _ALIGNMENT, block)
            placed[name] = section
            end, block = section.offset + section.nbytes, block + _blocks(section.nbytes)
        return cls(description, placed, blocks, end)

    def header(self, checksums: Array) -> bytes:
        rest = self.description + checksums.astype("<u8").tobytes()
        fields = _MAGIC, _VERSION, len(self.description), self.blocks, self.file_bytes
        return _PREFIX.pack(*fields, _header_checksum(fields, rest)) + rest


def _header_checksum(fields: tuple[Any, ...], rest: bytes) -> int:
    return xxh3_64_intdigest(_PREFIX.pack(*fields, 0) + rest)


class MapWriter:
    """Fills the sections of a map, in any order and in pieces, up to the lengths they were created with."""

    def __init__(self, descriptor: int, layout: _Layout) -> None:
        self._descriptor = descriptor
        self._layout = layout
        self._checksums = np.zeros(layout.blocks, dtype=np.uint64)
        self._written = dict.fromkeys(layout.sections, 0)
        self._digests = {name: xxh3_64() for name in layout.sections}

    def append(self, name: str, numbers: Array) -> None:
        """Appends numbers to a section."""
        section, digest = self._layout.sections[name], self._digests[name]
        assert numbers.dtype.str == section.type, f"{name} has {section.type}, not {numbers.dtype}"
        rest = np.ascontiguousarray(numbers).view(np.uint8).data
        assert self._written[name] + len(rest) <= section.nbytes, f"too many numbers for {name}"
        while rest:
            written = self._written[name]
            piece = rest[: BLOCK - written % BLOCK]
            write_at(self._descriptor, piece, section.offset + written)
            digest.update(piece)
            written += len(piece)
            if written % BLOCK == 0 or written == section.nbytes:
                self._checksums[section.first_block + (written - 1) // BLOCK] = digest.intdigest()
                digest.reset()
            self._written[name], rest = written, rest[len(piece) :]

    def finish(self) -> None:
        """Writes the header, without which the file is not a map."""
        for name, section in self._layout.sections.items():
            assert self._written[name] == section.nbytes, f"too few numbers for {name}"
        write_at(self._descriptor, memoryview(self._layout.header(self._checksums)), 0)
        os.fsync(self._descriptor)


def allocate(descriptor: int, size: int) -> None:
    """Reserves the space of a file, so that a full disk is noticed before anything is written."""
    if sys.platform == "darwin":  # has no such call; writing then fails instead
        os.ftruncate(descriptor, size)
    elif size:
        os.posix_fallocate(descriptor, 0, size)


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Writes all bytes of `data` at an offset of a file."""
    while data:
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


@contextmanager
def writing(path: Path, sources: Sequence[str], sections: Sections) -> Iterator[MapWriter]:
    """Creates a map, which gets its name when it is complete and synced.

    Allocates the space first, so that a full disk is noticed before anything is written. A map must be
    complete: reading a missing page would kill the process.
    """
    layout = _Layout.of(sources, sections)
    unfinished = path.with_name(f"{path.name}-{uuid4().hex}{UNFINISHED}")
    try:
        descriptor = open_private(unfinished, os.O_RDWR | os.O_EXCL, path.parent)
        try:
            # The lock ends with the process: an unlocked file shows that its writer was killed.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            allocate(descriptor, layout.file_bytes)
            writer = MapWriter(descriptor, layout)
            yield writer
            writer.finish()
            unfinished.rename(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreFailed(f"The map {path} could not be written: {error}.") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Map:
    """An open map, readable as long as something refers to it, even after its file was deleted."""

    def __init__(self, path: Path, sources: Sequence[str]) -> None:
        """Raises UnusableMap if the file is missing, incomplete, or not derived from these sources."""
        self.path = path
        try:
            # Does not follow a link, and does not wait for a pipe.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UnusableMap(path, error.strerror or str(error)) from error
        weakref.finalize(self, os.close, self._descriptor)
        self._layout, self._checksums = self._read_header(sources)
        self._is_checked = bytearray(self._layout.blocks)
        # Lookups read single pages all over the file.
        self._for_lookups = self._mapped(mmap.MADV_RANDOM)
        self._views: dict[str, memoryview] = {}

    def _read_header(self, sources: Sequence[str]) -> tuple[_Layout, list[int]]:
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableMap(self.path, "it is not a file")
        *fields, checksum = _PREFIX.unpack(self._read(_PREFIX.size, 0))
        magic, version, described, blocks, file_bytes = fields
        if (magic, version) != (_MAGIC, _VERSION):
            raise UnusableMap(self.path, "it is not a map of this version")
        # Reading a map beyond the end of its file would kill the process.
        if file_bytes != status.st_size or described + 8 * blocks > file_bytes:
            raise UnusableMap(self.path, f"it has {status.st_size} bytes instead of {file_bytes}")
        rest = self._read(described + 8 * blocks, _PREFIX.size)
        if _header_checksum(tuple(fields), rest) != checksum:
            raise UnusableMap(self.path, "its header is damaged")
        try:
            about = json.loads(rest[:described])
            layout = _Layout.of(about["sources"], about["sections"])
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise UnusableMap(self.path, "its header is invalid") from error
        if layout.blocks != blocks:
            raise UnusableMap(self.path, "its blocks have a different size")
        if (
            about["sources"] != [*sources]
            or not {section.type for section in layout.sections.values()} <= _TYPES
        ):
            raise UnusableMap(self.path, "it was derived from something else")
        return layout, np.frombuffer(rest, "<u8", blocks, described).tolist()

    def _read(self, size: int, offset: int) -> bytes:
        """Reads from the file, not from the map, so that other threads run meanwhile."""
        try:
            data = os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise UnusableMap(self.path, error.strerror or str(error), self) from error
        if len(data) != size:
            raise UnusableMap(self.path, "it is too short", self)
        return data

    def _mapped(self, advice: int) -> mmap.mmap:
        try:
            mapped = mmap.mmap(self._descriptor, self._layout.file_bytes, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UnusableMap(self.path, str(error)) from error
        mapped.madvise(advice)
        return mapped

    @cached_property
    def _for_scans(self) -> mmap.mmap:
        return self._mapped(mmap.MADV_SEQUENTIAL)

    def __contains__(self, name: str) -> bool:
        return name in self._layout.sections

    def length(self, name: str) -> int:
        """The count of numbers in a section."""
        return self._section(name).length

    def _section(self, name: str) -> _Section:
        section = self._layout.sections.get(name)
        if section is None:
            raise UnusableMap(self.path, f"it has no section {name}")
        return section

    def check(self, name: str, start: int, stop: int) -> None:
        """Checks the blocks that contain these numbers of a section, unless they have been checked."""
        if start >= stop:
            return
        section = self._section(name)
        for place in range(start * section.item // BLOCK, (stop * section.item - 1) // BLOCK + 1):
            block = section.first_block + place
            if not self._is_checked[block]:
                offset = place * BLOCK
                data = self._read(min(BLOCK, section.nbytes - offset), section.offset + offset)
                if xxh3_64_intdigest(data) != self._checksums[block]:
                    reason = f"block {place} of its section {name} is damaged"
                    raise UnusableMap(self.path, reason, self)
                self._is_checked[block] = 1

    def check_ranges(self, name: str, starts: Array, stops: Array) -> None:
        """Like `check`, for many ranges of numbers; also raises if a range exceeds the section."""
        section = self._section(name)
        if not ((starts >= 0) & (starts <= stops) & (stops <= section.length)).all():
            raise UnusableMap(self.path, f"its section {name} is shorter than its other sections require")
        end = section.first_block + _blocks(section.nbytes)
        if self._is_checked.find(0, section.first_block, end) < 0:
            return
        filled = starts < stops
        first = starts[filled] * section.item // BLOCK
        last = (stops[filled] * section.item - 1) // BLOCK
        is_read = np.zeros(end - section.first_block, dtype=bool)
        is_read[first] = is_read[last] = True
        for place in np.flatnonzero(last - first > 1).tolist():
            is_read[first[place] : last[place]] = True
        for block in np.flatnonzero(is_read).tolist():
            start = block * BLOCK // section.item
            self.check(name, start, start + 1)

    def unchecked(self, name: str) -> Array:
        """A section for single lookups; the caller checks each part before reading it."""
        return self._unchecked(self._for_lookups, name)

    def array(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """A section or a slice of it, checked in full."""
        stop = self.length(name) if stop is None else stop
        self.check(name, start, stop)
        return self._unchecked(self._for_scans, name)[start:stop]

    def _unchecked(self, mapped: mmap.mmap, name: str) -> Array:
        section = self._section(name)
        whole = np.frombuffer(mapped, dtype=np.uint8)
        return whole[section.offset : section.offset + section.nbytes].view(section.type)

    def _view(self, name: str) -> memoryview:
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._unchecked(self._for_lookups, name).data
        return view

    def run(
        self,
        columns: Sequence[str],
        weights: str | None = None,
        directory: str | None = None,
        start: int = 0,
        stop: int | None = None,
        *,
        directory_range: tuple[int, int] | None = None,
    ) -> Run:
        """The rows of some sections as a run: all of them, or a slice.

        `directory` names the section with the directory of these rows, and the range if the section contains
        others too. With it, a large run is checked as it is read. Without it, a run of about one block per
        column is checked here, and a larger one in full at its first lookup.
        """
        stop = self.length(columns[0]) if stop is None else stop
        views = [self._view(name)[start:stop] for name in columns]
        numbers = None if weights is None else self._unchecked(self._for_lookups, weights)[start:stop]
        is_small = stop - start < FEWEST_FOR_DIRECTORY
        if is_small or (directory is None and stop - start <= BLOCK // _COLUMN_BYTES):
            for name in columns if weights is None else (*columns, weights):
                self.check(name, start, stop)
            return Run.over(views, numbers, is_mapped=True)
        rows = _Rows(self, columns, weights, start, stop)
        if directory is None:
            return Run.over(views, numbers, source=rows)
        first, last = directory_range or (0, self.length(directory))
        checked = _CheckedDirectory(self, rows, directory, first, self._view(directory)[first:last])
        run = Run.over(views, numbers, directory=checked, source=rows)
        checked.run = weakref.ref(run)
        return run


class _Rows:
    """The source of a run: some rows of a map."""

    __slots__ = ("_columns", "_map", "_names", "_start", "_stop")

    def __init__(
        self, source: Map, columns: Sequence[str], weights: str | None, start: int, stop: int
    ) -> None:
        self._map = source
        self._columns = columns
        self._names = [*columns] if weights is None else [*columns, weights]
        self._start, self._stop = start, stop

    def check(self, start: int, stop: int) -> None:
        for name in self._names:
            self._map.check(name, self._start + start, self._start + stop)

    def columns(self) -> Sequence[Column]:
        self.check(0, self._stop - self._start)  # the weights too
        return [self._map.array(name, self._start, self._stop) for name in self._columns]


class _CheckedDirectory:
    """A directory that checks itself and the rows that it leads to, until all have been checked.

    So lookups need no checks, and are as fast as in memory once the whole run has been read.
    """

    __slots__ = ("_before", "_is_checked", "_map", "_name", "_rows", "_starts", "run")

    def __init__(self, source: Map, rows: _Rows, name: str, before: int, starts: memoryview) -> None:
        """`before`: the count of numbers in the section before this directory."""
        self._map, self._rows, self._name, self._starts = source, rows, name, starts
        self._before = before
        self._is_checked = bytearray((len(starts) >> _BUCKET_BITS) + 1)
        self.run: weakref.ref[Run] | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, bucket: int) -> int:
        if not self._is_checked[bucket >> _BUCKET_BITS]:
            self._check(bucket >> _BUCKET_BITS)
        start: int = self._starts[bucket]
        return start

    def _check(self, group: int) -> None:
        first = group << _BUCKET_BITS
        last = min(first + (1 << _BUCKET_BITS), len(self._starts) - 1)
        self._map.check(self._name, self._before + first, self._before + last + 1)
        self._rows.check(self._starts[first], self._starts[last])
        self._is_checked[group] = 1
        run = None if self.run is None else self.run()
        if run is not None and all(self._is_checked):
            run.use_directory(self._starts)
