"""The typed columns of a file of terms, as an Arrow stream in a map that DuckDB reads in place.

A map is written when a plan first needs all terms in this process; most stores have none. Invariant: it has
the rows of the file, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparqlive.sparql.columns import NAMES, SCHEMA, VERSION, typed
from sparqlive.store.map_folder import MapFolder
from sparqlive.store.maps import Map, MapWriter
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, has_typed_terms, verified

TYPED = f"typed {VERSION}"
"""One of the sources of such a map, so that another version writes it again."""
_SECTION = "stream"
_GROUPS_AT_ONCE = 32


def typed_pieces(place: Place, run: RunFile) -> Iterator[pa.Table]:
    """The typed columns of a file of terms; computed if the file has none, or another version's."""
    names = NAMES if has_typed_terms(place, run) else ("term",)
    with verified(place, run) as file:
        count = file.metadata.num_row_groups
        for start in range(0, count, _GROUPS_AT_ONCE):
            table = file.read_groups(range(start, min(start + _GROUPS_AT_ONCE, count)), names)
            if names is not NAMES:
                texts = table.column("term").cast(pa.large_string()).combine_chunks()
                table = pa.Table.from_struct_array(typed(texts))
            yield table.cast(SCHEMA)


def write_typed(
    folder: MapFolder, name: str, sources: Sequence[str], pieces: Callable[[], Iterator[pa.Table]]
) -> Map:
    """Writes a map. Reads the pieces twice, because a map starts with its length."""
    counted = pa.MockOutputStream()
    _stream(counted, pieces())
    with folder.writing(name, sources, {_SECTION: ("|u1", counted.size())}) as writer:
        _stream(pa.PythonFile(_Appended(writer), "w"), pieces())
    return folder.open(name, sources)


def _stream(sink: Any, pieces: Iterator[pa.Table]) -> None:
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        for piece in pieces:
            stream.write_table(piece)


class _Appended:
    """A file whose bytes are appended to a section."""

    closed = False

    def __init__(self, writer: MapWriter) -> None:
        self._writer = writer

    def write(self, data: Any) -> int:
        numbers = np.frombuffer(data, np.uint8)
        self._writer.append(_SECTION, numbers)
        return len(numbers)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def read_typed(typed_map: Map) -> pa.Table:
    """The columns, in mapped memory."""
    table = pa.ipc.open_stream(pa.py_buffer(typed_map.array(_SECTION).data)).read_all()
    table.validate(full=True)  # a store may come from an untrusted source
    return table
