"""How the columns of a run are laid out in its file, so that single values can be read.

A column of ids has one page per row group, with plain, uncompressed values. The values are the last bytes of
the column's part of a row group, so a sorted column is searched in place. Columns with few distinct values
are compressed. Invariant: every file is Parquet that any reader understands; a file with this layout says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GROUP = 131_072
"""The unit of reading a part of a file in full."""
TERMS_PER_GROUP = 4096
"""Rows per group of a terms file; to read one term, its whole group is read."""
ID_BYTES = 8
_KEY = b"sparqlive.layout"
_VERSION = b"1"
_MOST_HEADER_BYTES = 1 << 10


def write_run(
    table: pa.Table, where: str, plain: Sequence[str], repeating: Sequence[str], rows: int, **more: Any
) -> None:
    """Writes a table in row groups of `rows` rows.

    `plain`: columns whose single values are read. `repeating`: columns that a dictionary makes smaller.
    `more`: further options.
    """
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: _VERSION}),
        where,
        row_group_size=rows,
        max_rows_per_page=rows,
        data_page_size=max(1 << 20, 2 * rows * ID_BYTES),
        use_dictionary=[*repeating] or False,
        compression={name: "none" if name in plain else "zstd" for name in table.column_names},
        **more,
    )


def has_layout(metadata: Any) -> bool:
    """Whether a file, given by its metadata, has this layout."""
    return (metadata.metadata or {}).get(_KEY) == _VERSION


def end_of_values(chunk: Any) -> int | None:
    """Where the plain values of a column end in a file with this layout; None if they are not plain.

    `chunk`: the metadata of the column in a row group.
    """
    if chunk.compression != "UNCOMPRESSED" or chunk.has_dictionary_page:
        return None
    header = chunk.total_compressed_size - chunk.num_values * ID_BYTES
    assert 0 < header < _MOST_HEADER_BYTES, "a column of plain values has one page"
    return int(chunk.data_page_offset + chunk.total_compressed_size)


def only_value(chunk: Any) -> int | None:
    """The single value of a column in a row group, if its statistics show that there is only one."""
    statistics = chunk.statistics
    if (
        statistics is None
        or not statistics.has_min_max
        or statistics.null_count
        or statistics.min != statistics.max
    ):
        return None
    return int(statistics.min)
