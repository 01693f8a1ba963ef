"""Runs on disk: immutable sorted Parquet files, which Spark, DuckDB, pandas and Polars can read directly.

A file holds rows of a relation's base, or of its delta in one epoch. A quads file has the columns s, p, o, g,
sorted by p, g, s, o, and a weight w if it is a delta (the change log); a terms file has id, term and the
typed columns of `sparql/columns.py` (not if an older version or another program wrote it); any other
relation has c0 … and w. A file never changes. Invariants: a file is complete and synced before its name is
used. The catalog stores its digests, and every part is compared with its digest before it is read: a flipped
bit, or a different file under this name, is an error, and never returns wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from sparqlive.errors import StoreFailed
from sparqlive.rdf.term_columns import TermColumns, is_in, large
from sparqlive.sparql.columns import REPEATING, has_types, term_table
from sparqlive.store.layout import ROWS_PER_GROUP, TERMS_PER_GROUP, write_run
from sparqlive.store.place import Place, Readable
from sparqlive.zset.run import Column

QUADS = "quads"
TERMS = "terms"
# The end of a file: the length of the footer before it, and the name of the format.
_END_BYTES = 8
_DIGEST_BYTES = 8
_READ_BYTES = 1 << 22
# The sample that decides whether a column has one value.
_SAMPLE = 1 << 10
_NO_ROWS: Column = np.empty(0, np.int64)
Digests = bytes


@dataclass(frozen=True)
class RunFile:
    """A file of a relation: of its base, or of its delta in an epoch.

    `first` is its first row, in the order of `names_of`; it orders the files. `digests` are the digests of
    the whole file, of its footer, and of each column of each row group. A file that is not in the catalog yet
    has no digests, and is not compared.
    """

    path: str
    relation: str
    rows: int
    bytes: int
    first: tuple[int, ...]
    digests: Digests
    epoch: int | None = None
    """The epoch of a delta; None for a file of the base."""


def names_of(relation: str, width: int, *, is_delta: bool = False) -> tuple[str, ...]:
    """The columns of a relation's files in sort order, with the weight last."""
    if relation == TERMS:
        return ("id", "term")
    if relation == QUADS:
        return ("p", "g", "s", "o", "w") if is_delta else ("p", "g", "s", "o")
    return (*(f"c{number}" for number in range(width)), "w")


def described(place: Place, path: str, relation: str, epoch: int | None = None) -> RunFile:
    """Describes a complete file that a backend wrote below the folder of an attempt, and syncs it.

    A worker may call it where the file is: the committing process needs only the description. The rows must
    be distinct and sorted, and the files of one base or delta must not overlap.
    """
    place.sync(path)
    with _DamageReport(place, path):
        schema = pq.read_schema(place.path(path), filesystem=place.files)
        rows = pq.read_metadata(place.path(path), filesystem=place.files).num_rows
    names = names_of(relation, len(schema) - 1, is_delta=epoch is not None)
    numbers = [name for name in names if name != "term"]
    wrong = [name for name in numbers if name not in schema.names or schema.field(name).type != pa.int64()]
    if wrong or not rows:
        what = f"lacks the 64-bit column {wrong[0]}" if wrong else "has no rows"
        raise StoreFailed(f"The file {place.text(path)} cannot be a run of {relation}: it {what}.")
    run = RunFile(path, relation, rows, place.size(path), (), digests_of(place, path), epoch)
    ordered = [name for name in numbers if name != "w"]
    first = tuple(int(column[0]) for column in read_columns(place, run, ordered, 0, 1))
    return replace(run, first=first)


def is_read_whole(relation: str) -> bool:
    """Whether a relation is only read as a whole, as of the last epoch: the assertions of sources."""
    return relation.startswith("sources/")


def write_rows(
    place: Place, name: str, columns: dict[str, Column], *, is_searched: bool = True
) -> tuple[int, bytes]:
    """Writes a sorted relation of integers; returns its size in bytes and its digests.

    `is_searched`: single rows are looked up in the file, which makes it larger.
    """
    table = pa.table({title: pa.array(column, pa.int64()) for title, column in columns.items()})
    is_repeating = _repeats if is_searched else _recurs
    repeating = [title for title, column in columns.items() if is_repeating(column)]
    plain = [title for title in columns if title not in repeating]
    return _write(place, name, table, plain, repeating, ROWS_PER_GROUP)


def _repeats(column: Column) -> bool:
    """Whether a sample of a column has only one value, such as a weight or a graph."""
    sample = column[:: max(1, len(column) // _SAMPLE)]
    return bool((sample == sample[0]).all())


def _recurs(column: Column) -> bool:
    """Whether most values of the first rows occur several times."""
    first = column[:_SAMPLE]
    return 2 * len(np.unique(first)) <= len(first)


def write_terms(place: Place, name: str, terms: TermColumns) -> tuple[int, bytes]:
    """Writes terms with their typed columns; returns the size of the file in bytes and its digests."""
    table = term_table(pa.array(terms.ids), terms.texts)
    return _write(place, name, table, ["id"], REPEATING, TERMS_PER_GROUP)


def has_typed_terms(place: Place, run: RunFile) -> bool:
    """Whether a terms file has the typed columns of this version."""
    with _DamageReport(place, run.path):
        return has_types(pq.read_schema(place.path(run.path), filesystem=place.files))


def _write(
    place: Place, name: str, table: pa.Table, plain: Sequence[str], repeating: Sequence[str], rows: int
) -> tuple[int, bytes]:
    place.create(name)
    where = place.path(name)
    write_run(table, where, plain, repeating, rows, filesystem=place.files, write_page_checksum=True)
    place.sync(name)
    return place.size(name), digests_of(place, name)


# Digests


def digests_of(place: Place, name: str) -> bytes:
    """Computes the digests of a file."""
    with _DamageReport(place, name), place.opened(name) as stream:
        metadata = pq.read_metadata(place.path(name), filesystem=place.files)
        digests = [_whole(stream), _digest(_footer(stream))]
        for group, column in product(range(metadata.num_row_groups), range(metadata.num_columns)):
            digests.append(_digest(_read_chunk(stream, _chunk_of(metadata, group, column))))
        return b"".join(digests)


def _digest(content: bytes | memoryview) -> bytes:
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


class Chunk(NamedTuple):
    """The position of a row group's column in its file, and the number of its digest."""

    start: int
    size: int
    digest: int


def _chunk_of(metadata: Any, group: int, column: int) -> Chunk:
    about = metadata.row_group(group).column(column)
    start = about.data_page_offset
    if about.has_dictionary_page and about.dictionary_page_offset:
        start = min(start, about.dictionary_page_offset)
    return Chunk(start, about.total_compressed_size, 2 + group * metadata.num_columns + column)


def _read_chunk(stream: Readable, chunk: Chunk) -> bytes:
    stream.seek(chunk.start)
    return stream.read(chunk.size)


def _compare(digests: bytes, number: int, content: bytes | memoryview) -> None:
    start = number * _DIGEST_BYTES
    if digests[start : start + _DIGEST_BYTES] != _digest(content):
        raise OSError("its content has changed since it was written")


def compare_chunk(place: Place, run: RunFile, chunk: Chunk, content: memoryview) -> None:
    """Raises if the bytes of a chunk have changed since they were written."""
    if run.digests:
        with _DamageReport(place, run.path):
            _compare(run.digests, chunk.digest, content)


class Verified:
    """An open file; each part is compared with its digest before it is read."""

    def __init__(self, place: Place, run: RunFile, stream: Readable) -> None:
        self._stream = stream
        self._digests = run.digests
        if run.digests:
            _compare(run.digests, 1, _footer(stream))
        self._file = pq.ParquetFile(
            place.path(run.path), filesystem=place.files, page_checksum_verification=True
        )
        self.metadata = self._file.metadata
        # Not those of `metadata.schema`: schema and metadata refer to each other. Only the garbage collector
        # would free them, and it is paused during an epoch, which may open hundreds of files.
        self.names: Sequence[str] = self._file.schema_arrow.names

    def read(self, names: Sequence[str], start: int, stop: int | None) -> pa.Table:
        """Reads columns of the rows from `start` to `stop`, or of all rows without `stop`."""
        groups, skipped = _groups(self.metadata, start, self.metadata.num_rows if stop is None else stop)
        table = self.read_groups(groups, names)
        return table if stop is None else table.slice(start - skipped, stop - start)

    def read_groups(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Reads columns of some row groups, in this thread (see `bounds`)."""
        self.compare(groups, names)
        return self._file.read_row_groups(groups, columns=list(names), use_threads=False)

    def groups(self) -> Iterator[tuple[int, int]]:
        """The first row of each row group, and the row after its last."""
        sizes = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
        return pairwise(accumulate(sizes, initial=0))

    def compare(self, groups: Iterable[int], names: Sequence[str]) -> None:
        """Raises if a column of some row groups has changed since it was written."""
        if not self._digests:
            return
        metadata = self.metadata
        columns = [number for number, name in enumerate(self.names) if name in names]
        for group, column in product(groups, columns):
            chunk = _chunk_of(metadata, group, column)
            _compare(self._digests, chunk.digest, _read_chunk(self._stream, chunk))

    def chunks(self, name: str) -> list[Chunk]:
        """The chunk of a column in each row group."""
        column = self.names.index(name)
        return [_chunk_of(self.metadata, group, column) for group in range(self.metadata.num_row_groups)]

    def bounds(self, name: str) -> list[tuple[int, int, int]]:
        """The non-empty row groups: number, and the least and the greatest value of a column."""
        metadata, bounds = self.metadata, []
        place = self.names.index(name)
        for number, (start, stop) in enumerate(self.groups()):
            statistics = metadata.row_group(number).column(place).statistics
            if statistics is not None and statistics.has_min_max:
                bounds.append((number, statistics.min, statistics.max))
            elif start != stop:
                values = self.read([name], start, stop).column(name).to_numpy()
                bounds.append((number, int(values.min()), int(values.max())))
        return bounds

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


@contextmanager
def verified(place: Place, run: RunFile) -> Iterator[Verified]:
    """Opens a file; each part of it is compared with its digest before it is read."""
    with _DamageReport(place, run.path), place.opened(run.path) as stream:
        file = Verified(place, run, stream)
        try:
            yield file
        finally:
            file.close()


# Reading


def check_present(place: Place, runs: Iterable[RunFile]) -> None:
    """Raises DamagedRun if a file is missing or has the wrong size; reads no content."""
    for run in runs:
        with _DamageReport(place, run.path):
            size = place.size(run.path)
            if size != run.bytes:
                raise OSError(f"it has {size} bytes instead of {run.bytes}")


def read_columns(
    place: Place, run: RunFile, names: Sequence[str], start: int = 0, stop: int | None = None
) -> list[Column]:
    """Reads columns of a file as arrays, or a part of their rows.

    A part is copied: a slice would keep the row groups around it in memory.
    """
    with verified(place, run) as file:
        columns = _arrays(file.read(names, start, stop), names)
    return columns if stop is None else [column.copy() for column in columns]


def read_groups(
    place: Place, run: RunFile, names: Sequence[str], start: int = 0, stop: int | None = None
) -> Iterator[list[Column]]:
    """Reads columns of a file, or of a part of its rows, one row group at a time."""
    with verified(place, run) as file:
        for first, last in file.groups():
            low, high = max(first, start), last if stop is None else min(last, stop)
            if low < high:
                yield _arrays(file.read(names, low, high), names)


def _arrays(table: pa.Table, names: Sequence[str]) -> list[Column]:
    return [_array(table.column(title)) for title in names]


def _array(column: pa.ChunkedArray) -> Column:
    """A column of integers as an array; `to_numpy` would import pandas, which takes 0.3 s."""
    if column.type != pa.int64() or column.null_count:  # never in a file of a store
        numbers: Column = column.to_numpy()
        return numbers
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    parts = [np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), 8 * chunk.offset) for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([_NO_ROWS, *parts])


def read_between(
    place: Place,
    run: RunFile,
    names: Sequence[str],
    width: int,
    low: tuple[int, ...] | None,
    high: tuple[int, ...] | None,
) -> Iterator[list[Column]]:
    """Reads columns of the row groups of a sorted file that can have rows from `low` to before `high`.

    The first `width` names are the columns that it is sorted by; None means no bound.
    """
    with verified(place, run) as file:
        bounds = [file.bounds(name) for name in names[:width]]
        for found in zip(*bounds, strict=True):
            if _may_overlap([(least, most) for _, least, most in found], low, high):
                yield _arrays(file.read_groups([found[0][0]], names), names)


def _may_overlap(
    bounds: Sequence[tuple[int, int]], low: tuple[int, ...] | None, high: tuple[int, ...] | None
) -> bool:
    """Whether rows with these bounds on their columns can be between two rows."""
    is_after_low, is_before_high = low is None, high is None
    for number, (least, most) in enumerate(bounds):
        if not is_after_low and low is not None:
            if most < low[number]:
                return False
            is_after_low = not least == most == low[number]
        if not is_before_high and high is not None:
            if least > high[number]:
                return False
            is_before_high = not least == most == high[number]
    return True


def group_bounds(place: Place, run: RunFile) -> list[tuple[int, int, int]]:
    """The row groups of a terms file: number, first id and last id."""
    with verified(place, run) as file:
        return file.bounds("id")


def read_terms(place: Place, run: RunFile) -> TermColumns:
    """Reads a terms file."""
    with verified(place, run) as file:
        return _terms(file, range(file.metadata.num_row_groups))


def term_groups(place: Place, run: RunFile, wanted: Column | None = None) -> Iterator[TermColumns]:
    """The row groups of a terms file, one by one.

    `wanted`: sorted ids. Only row groups that contain some of them are returned; other texts are not read.
    """
    with verified(place, run) as file:
        for group, first, last in file.bounds("id"):
            if wanted is not None:
                low, high = np.searchsorted(wanted, first), np.searchsorted(wanted, last, "right")
                ids = _array(file.read_groups([group], ("id",)).column("id")) if low < high else wanted[:0]
                if not is_in(wanted[low:high], ids).any():
                    continue
            yield _terms(file, [group])


def _terms(file: Verified, groups: Sequence[int]) -> TermColumns:
    table = file.read_groups(groups, ("id", "term"))
    texts = pa.concat_arrays([large(chunk) for chunk in table.column("term").chunks])
    return TermColumns(_array(table.column("id")), texts)


def terms_with_prefix(terms: TermColumns, prefixes: Sequence[str]) -> dict[int, str]:
    """The terms that start with one of the prefixes."""
    begins = [pc.starts_with(terms.texts, prefix).to_numpy(zero_copy_only=False) for prefix in prefixes]
    places = np.flatnonzero(np.logical_or.reduce(begins))
    return {int(terms.ids[place]): terms.texts[place].as_py() for place in places}


def check_file(place: Place, run: RunFile) -> None:
    """Raises if a file is missing, or if any byte of it has changed."""
    with _DamageReport(place, run.path):
        if run.bytes != (size := place.size(run.path)):
            raise OSError(f"it has {size} bytes instead of {run.bytes}")
        with place.opened(run.path) as stream:
            if _whole(stream) != run.digests[:_DIGEST_BYTES]:
                raise OSError("its content has changed since it was written")


class DamagedRun(StoreFailed):
    """A run is missing or damaged."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(
            f"The run {path} of the store is missing or damaged: {error}. `sparqlive check --repair` "
            f"recomputes views from the quads; restore quads and terms from a backup of the store."
        )


class _DamageReport:
    """Turns errors of reading a file into a DamagedRun that names it."""

    def __init__(self, place: Place, name: str) -> None:
        self._path = place.text(name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise DamagedRun(self._path, error) from error
