"""Runs on disk: immutable sorted Parquet files, which Spark, DuckDB, pandas and Polars can read directly.

A quads file has the columns s, p, o, g, sorted by p, g, s, o; a terms file has id, term; any other relation
has c0 … and w. A file never changes. Invariants: a file is complete and synced before its name is used. The
catalog stores its digests, and every part is compared with its digest before it is read: a flipped bit, or
another file under this name, is an error and never returns wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from sparqlive.errors import StoreFailed
from sparqlive.store.place import Place, Readable
from sparqlive.zset.run import Column

ROWS_A_FILE = 1_000_000
# The unit of reading a part of a file.
ROWS_PER_GROUP = 131_072
# The end of a file: the length of the footer before it, and the name of the format.
_END_BYTES = 8
_DIGEST_BYTES = 8
_READ_BYTES = 1 << 22
Digests = bytes


@dataclass(frozen=True)
class RunFile:
    """A file of a relation. `first` is its first row; it orders the files of a relation.

    `digests` are the digests of the whole file, of its footer, and of each column of each row group. A file
    that is not in the catalog yet has none, and is not compared.
    """

    path: str
    relation: str
    rows: int
    bytes: int
    first: tuple[int, ...]
    digests: Digests


def write_rows(place: Place, name: str, columns: dict[str, Column]) -> tuple[int, bytes]:
    """Writes a sorted relation of integers; returns its size in bytes and its digests."""
    table = pa.table({title: pa.array(column, pa.int64()) for title, column in columns.items()})
    return _write(place, name, table)


def write_terms(place: Place, name: str, ids: Column, texts: Any) -> tuple[int, bytes]:
    """Writes terms sorted by id."""
    order = np.argsort(ids, kind="stable")
    table = pa.table({"id": pa.array(ids[order], pa.int64()), "term": texts.take(pa.array(order))})
    return _write(place, name, table)


def _write(place: Place, name: str, table: pa.Table) -> tuple[int, bytes]:
    place.create(name)
    pq.write_table(
        table,
        place.path(name),
        filesystem=place.files,
        compression="zstd",
        row_group_size=ROWS_PER_GROUP,
        write_page_checksum=True,
    )
    place.sync(name)
    return place.size(name), digests_of(place, name)


# Digests


def digests_of(place: Place, name: str) -> bytes:
    """The digests of a file as it is now."""
    with _DamageReport(place, name), place.opened(name) as stream:
        metadata = pq.read_metadata(place.path(name), filesystem=place.files)
        found = [_whole(stream), _digest(_footer(stream))]
        for group, column in product(range(metadata.num_row_groups), range(metadata.num_columns)):
            found.append(_digest(_chunk(stream, metadata, group, column)))
        return b"".join(found)


def _digest(content: bytes) -> bytes:
    return xxhash.xxh3_64_digest(content)


def _whole(stream: Readable) -> bytes:
    state = xxhash.xxh3_64()
    stream.seek(0)
    while content := stream.read(_READ_BYTES):
        state.update(content)
    return state.digest()


def _footer(stream: Readable) -> bytes:
    """The footer of a file, which locates all other parts."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END_BYTES))
    length = int.from_bytes(stream.read(4), "little") + _END_BYTES
    if length > size:
        raise OSError("it ends too early")
    stream.seek(size - length)
    return stream.read(length)


def _chunk(stream: Readable, metadata: Any, group: int, column: int) -> bytes:
    """The bytes of a column in a row group."""
    about = metadata.row_group(group).column(column)
    start = about.data_page_offset
    if about.has_dictionary_page and about.dictionary_page_offset:
        start = min(start, about.dictionary_page_offset)
    stream.seek(start)
    return stream.read(about.total_compressed_size)


class _Verified:
    """An open file; each part is compared with its digest before it is read."""

    def __init__(self, place: Place, run: RunFile, stream: Readable) -> None:
        self._stream = stream
        self._digests = run.digests
        if run.digests:
            self._compare(1, _footer(stream))
        self._file = pq.ParquetFile(
            place.path(run.path), filesystem=place.files, page_checksum_verification=True
        )

    def _compare(self, number: int, content: bytes) -> None:
        start = number * _DIGEST_BYTES
        if self._digests[start : start + _DIGEST_BYTES] != _digest(content):
            raise OSError("its content has changed since it was written")

    def read(self, names: Sequence[str], start: int, stop: int | None) -> pa.Table:
        """Reads columns of the rows from `start` to `stop`, or of all rows without `stop`."""
        metadata = self._file.metadata
        groups, skipped = _groups(metadata, start, metadata.num_rows if stop is None else stop)
        if self._digests:
            self._compare_columns(groups, names)
        table = self._file.read_row_groups(groups, columns=list(names))
        return table if stop is None else table.slice(start - skipped, stop - start)

    def _compare_columns(self, groups: Iterable[int], names: Sequence[str]) -> None:
        metadata = self._file.metadata
        width = metadata.num_columns
        columns = [n for n in range(width) if metadata.schema.column(n).name in names]
        for group, column in product(groups, columns):
            self._compare(2 + group * width + column, _chunk(self._stream, metadata, group, column))

    def close(self) -> None:
        self._file.close()


def _groups(metadata: Any, start: int, stop: int) -> tuple[list[int], int]:
    """The row groups that hold a range of rows, and the number of rows before them."""
    groups, row, skipped = [], 0, 0
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).num_rows
        if row + size <= start:
            skipped = row + size
        elif row < stop:
            groups.append(number)
        row += size
    return groups, skipped


def _read(place: Place, run: RunFile, names: Sequence[str], start: int = 0, stop: int | None = None) -> Any:
    with _DamageReport(place, run.path), place.opened(run.path) as stream:
        file = _Verified(place, run, stream)
        try:
            return file.read(names, start, stop)
        finally:
            file.close()


# Reading


def read_columns(
    place: Place, run: RunFile, names: Sequence[str], start: int = 0, stop: int | None = None
) -> list[Column]:
    """Reads columns of a file as arrays, or a part of their rows."""
    table = _read(place, run, names, start, stop)
    return [table.column(title).to_numpy() for title in names]


def read_terms(place: Place, run: RunFile) -> tuple[Column, Any]:
    """Reads the sorted ids of a terms file, and the texts as an Arrow array."""
    table = _read(place, run, ("id", "term"))
    return table.column("id").to_numpy(), _one(table.column("term"))


def terms_with_prefix(ids: Column, texts: Any, prefixes: Sequence[str]) -> dict[int, str]:
    """The terms of a terms file that start with one of the prefixes."""
    begins = [pc.starts_with(texts, prefix).to_numpy(zero_copy_only=False) for prefix in prefixes]
    return {int(ids[place]): texts[place].as_py() for place in np.flatnonzero(np.logical_or.reduce(begins))}


def _one(column: Any) -> Any:
    """The chunks of a text column as one array, which may exceed two gigabytes."""
    return (
        pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in column.chunks])
        if column.num_chunks != 1
        else column.chunk(0)
    )


def check_file(place: Place, run: RunFile) -> None:
    """Raises if a file is missing, or if any byte of it has changed."""
    with _DamageReport(place, run.path):
        if run.bytes != (found := place.size(run.path)):
            raise OSError(f"it has {found} bytes instead of {run.bytes}")
        with place.opened(run.path) as stream:
            if _whole(stream) != run.digests[:_DIGEST_BYTES]:
                raise OSError("its content has changed since it was written")


class DamagedRun(StoreFailed):
    """A run, named by `path`, is missing or damaged."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(
            f"The run {path} of the store is missing or damaged: {error}. `sparqlive check --repair` "
            f"recomputes views from the quads; restore quads and terms from a backup of the store."
        )
        self.path = path


class _DamageReport:
    """Turns errors of reading a file into a DamagedRun that names it."""

    def __init__(self, place: Place, name: str) -> None:
        self._path = place.text(name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise DamagedRun(self._path, error) from error
