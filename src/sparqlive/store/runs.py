"""Runs on disk: immutable sorted Parquet files, which Spark, DuckDB, pandas or Polars read as they are.

Owns the files. A quads file has columns s, p, o, g, sorted by p, g, s, o; a terms file id, term; any other
relation c0 … and w. Refuses to change a file. Invariant: a file is complete and synced before its name is
given to anybody; pages carry checksums, so that damage is an error and never other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparqlive.errors import StoreFailed
from sparqlive.store.place import Place
from sparqlive.zset.run import Column

ROWS_A_FILE = 1_000_000
# What is read at once when a part of a file is wanted.
ROWS_A_GROUP = 131_072


def write_rows(place: Place, name: str, columns: dict[str, Column]) -> int:
    """Writes a sorted relation of integers; the bytes it takes."""
    table = pa.table({title: pa.array(column, pa.int64()) for title, column in columns.items()})
    return _write(place, name, table)


def write_terms(place: Place, name: str, ids: Column, texts: Any) -> int:
    """Writes terms sorted by id."""
    order = np.argsort(ids, kind="stable")
    table = pa.table({"id": pa.array(ids[order], pa.int64()), "term": texts.take(pa.array(order))})
    return _write(place, name, table)


def _write(place: Place, name: str, table: pa.Table) -> int:
    pq.write_table(
        table,
        place.path(name),
        filesystem=place.files,
        compression="zstd",
        row_group_size=ROWS_A_GROUP,
        write_page_checksum=True,
    )
    place.sync(name)
    return place.size(name)


def read_columns(
    place: Place, name: str, names: Sequence[str], start: int = 0, stop: int | None = None
) -> list[Column]:
    """The columns of a file as arrays, or a part of their rows."""
    with _Told(place, name):
        file = pq.ParquetFile(place.path(name), filesystem=place.files, page_checksum_verification=True)
        try:
            if stop is None:
                table = file.read(columns=list(names))
                return [table.column(title).to_numpy() for title in names]
            groups, skipped = _groups(file, start, stop)
            table = file.read_row_groups(groups, columns=list(names)).slice(start - skipped, stop - start)
            return [table.column(title).to_numpy() for title in names]
        finally:
            file.close()


def _groups(file: Any, start: int, stop: int) -> tuple[list[int], int]:
    """The row groups that hold a range of rows, and how many rows are before them."""
    groups, row, skipped = [], 0, 0
    for number in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if row + size <= start:
            skipped = row + size
        elif row < stop:
            groups.append(number)
        row += size
    return groups, skipped


def read_terms(place: Place, name: str) -> tuple[Column, Any]:
    """The ids of a terms file, sorted, and the texts as an Arrow array."""
    with _Told(place, name):
        table = pq.read_table(
            place.path(name),
            filesystem=place.files,
            columns=["id", "term"],
            page_checksum_verification=True,
        )
        return table.column("id").to_numpy(), _one(table.column("term"))


def found_terms(ids: Column, texts: Any, prefixes: Sequence[str]) -> dict[int, str]:
    """Of the content of a terms file, what begins in one of some ways."""
    begins = [pc.starts_with(texts, prefix).to_numpy(zero_copy_only=False) for prefix in prefixes]
    return {int(ids[place]): texts[place].as_py() for place in np.flatnonzero(np.logical_or.reduce(begins))}


def _one(column: Any) -> Any:
    """A column's pieces as one array; of texts, beyond two gigabytes too."""
    return (
        pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in column.chunks])
        if column.num_chunks != 1
        else column.chunk(0)
    )


def check_file(place: Place, name: str, rows: int, size: int) -> None:
    """Reads a file, and raises if it is not there, or has not the size or the rows it was written with."""
    with _Told(place, name):
        if size != (found := place.size(name)):
            raise OSError(f"it has {found} bytes and was written with {size}")
        table = pq.read_table(place.path(name), filesystem=place.files, page_checksum_verification=True)
        if rows != (found := len(table)):
            raise OSError(f"it has {found} rows and was written with {rows}")


class DamagedRun(StoreFailed):
    """A run is missing or damaged; `path` says which."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(
            f"The run {path} of the store is missing or damaged: {error}. `sparqlive check --repair` "
            f"computes views again from the quads; quads and terms must come from a copy of the store."
        )
        self.path = path


class _Told:
    """Errors of reading a file name it."""

    def __init__(self, place: Place, name: str) -> None:
        self._path = place.text(name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise DamagedRun(self._path, error) from error
