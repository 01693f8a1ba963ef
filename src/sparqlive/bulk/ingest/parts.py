"""Exchanges data between the two jobs of an ingest: parts that parsing writes, and files merged from them.

Defines both layouts. A part is two plain files of columns: quads, by predicate, graph and the top bits of the
subject's id; and terms, by the top bits of their id. It comes with a list of its cells, which tells where the
rows of each result file are. Invariants: all rows of one cell go to the same file; a file is sorted and
contains each row once; two terms with the same id are never merged silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparqlive.bulk.ingest.documents import PIECE_BYTES
from sparqlive.rdf.columns import Encoded, Ids, together
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF
from sparqlive.rdf.reserved import PREFIXES
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.sparql.columns import REPEATING, term_table
from sparqlive.store.layout import ROWS_PER_GROUP, TERMS_PER_GROUP, write_run
from sparqlive.store.place import file_system
from sparqlive.store.runs import terms_with_prefix

_FILE_TO_SMALL_GROUP = 8
"""A graph and predicate with less than this part of a file share a file with others."""
_TERM_BYTES_A_FILE = 128 << 20
_BITS = 8
_CELLS = 1 << _BITS
_ID_BYTES = 8

_ORDER = ("p", "g", "s", "o")
_QUAD_SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in "spog"])


@dataclass(frozen=True)
class QuadFile:
    """A file of quads. `predicate` and `graph` are None if it holds several."""

    path: str
    """Relative to the target."""
    rows: int
    predicate: int | None
    graph: int | None
    bucket: int
    bucket_bits: int
    """The subjects in the file have these top bits of id + 2⁶³."""


@dataclass(frozen=True)
class TermFile:
    """A file of the dictionary."""

    path: str
    rows: int
    min_id: int
    max_id: int
    reserved: Mapping[int, str]
    """The terms under a reserved name, by id."""


@dataclass(frozen=True)
class Part:
    """The output of a task. The columns of `cells`: predicate, graph, bucket, first row, number of rows.

    Rows of a cell keep their original order.
    """

    quads_path: str
    quads: int
    cells: tuple[Ids, Ids, Ids, Ids, Ids]
    terms_path: str
    terms: int
    term_starts: Ids
    """The first row of each bucket, and the end."""
    text_starts: Ids
    """The same in bytes of text."""
    has_weights: bool
    """Whether its rows have weights, because they are changes."""


def buckets_of(ids: Ids) -> npt.NDArray[np.uint8]:
    """Returns the top bits of ids, so that buckets have the order of ids."""
    return ((ids.view(np.uint64) >> np.uint64(64 - _BITS)) ^ np.uint64(_CELLS >> 1)).astype(np.uint8)


# Writing parts


class PartWriter:
    """Buffers encoded quads, and writes a part whenever there are enough of them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pending: list[tuple[Encoded, Ids | None]] = []
        self._bytes = 0
        self.parts: list[Part] = []

    def add(self, encoded: Encoded, weights: Ids | None = None) -> None:
        """Adds quads; or changes, with a weight of 1 or -1 each."""
        self._pending.append((encoded, weights))
        self._bytes += encoded.texts.nbytes + 40 * len(encoded)
        if self._bytes >= PIECE_BYTES:
            self.flush()

    def take_over(self, other: PartWriter) -> None:
        """Takes over what another writer has written or buffered."""
        self.parts += other.parts
        for encoded, weights in other._pending:
            self.add(encoded, weights)

    def flush(self) -> None:
        if any(len(encoded) for encoded, _ in self._pending):
            encoded = together([encoded for encoded, _ in self._pending])
            weights = [given for _, given in self._pending if given is not None]
            columns = (*encoded.quads, np.concatenate(weights)) if weights else encoded.quads
            self.parts.append(_write_part(encoded, columns, f"{self._folder}/{uuid4().hex}"))
        self._pending, self._bytes = [], 0


def _write_part(encoded: Encoded, columns: Sequence[Ids], path: str) -> Part:
    quads_path, terms_path = f"{path}.quads", f"{path}.terms"
    cells = _write_quads(columns, quads_path)
    order = np.argsort(buckets_of(encoded.ids), kind="stable")
    ids = encoded.ids[order]
    texts = encoded.texts.cast(pa.large_string()).take(pa.array(order))
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(ids) + 1]
    starts = np.searchsorted(buckets_of(ids), np.arange(_CELLS + 1)).astype(np.int64)
    files, place = file_system(terms_path)
    with files.open_output_stream(place) as stream:
        stream.write(ids)
        stream.write(ends)
        stream.write(data.slice(0, int(ends[-1])))
    return Part(quads_path, len(encoded), cells, terms_path, len(ids), starts, ends[starts], len(columns) > 4)


def _write_quads(quads: Sequence[Ids], path: str) -> tuple[Ids, Ids, Ids, Ids, Ids]:
    subject, predicate, _, graph = quads[:4]
    groups, predicates, graphs = _groups(predicate, graph)
    key = groups * _CELLS + buckets_of(subject)
    if len(predicates) * _CELLS <= 1 << 16:
        key = key.astype(np.uint16)  # sorted by radix
    order = np.argsort(key, kind="stable")
    files, place = file_system(path)
    with files.open_output_stream(place) as stream:
        for column in quads:
            stream.write(column[order])
    key = key[order].astype(np.int64)
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    found = key[starts] // _CELLS
    counts = np.diff(np.append(starts, len(key)))
    return predicates[found], graphs[found], key[starts] % _CELLS, starts, counts


def _groups(predicate: Ids, graph: Ids) -> tuple[Ids, Ids, Ids]:
    """Numbers the predicate and graph of each row; returns the numbers, and the two by number."""
    predicates, graphs = pa.array(predicate).dictionary_encode(), pa.array(graph).dictionary_encode()
    first = predicates.indices.to_numpy().astype(np.int64)
    both = first * len(graphs.dictionary) + graphs.indices.to_numpy()
    pairs = pa.array(both).dictionary_encode()
    numbers = pairs.dictionary.to_numpy()
    return (
        pairs.indices.to_numpy().astype(np.int64),
        predicates.dictionary.to_numpy()[numbers // len(graphs.dictionary)],
        graphs.dictionary.to_numpy()[numbers % len(graphs.dictionary)],
    )


# Planning


@dataclass(frozen=True)
class Ranges:
    """Ranges of rows in parts: the part, the first row, and the number of rows."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    def read(self, columns: Sequence[int]) -> list[Ids]:
        """Reads the columns with these numbers, concatenated over all ranges."""
        wanted = [np.empty(sum(self.counts), dtype=np.int64) for _ in columns]
        done = 0
        for path, size, start, count in zip(self.paths, self.sizes, self.starts, self.counts, strict=True):
            files, place = file_system(path)
            with files.open_input_file(place) as stream:
                for column, array in zip(columns, wanted, strict=True):
                    found = stream.read_at(count * _ID_BYTES, (column * size + start) * _ID_BYTES)
                    array[done : done + count] = np.frombuffer(found, np.int64)
            done += count
        return wanted


@dataclass(frozen=True)
class QuadTask:
    """A file of quads to write, for some graphs and predicates (`keys`)."""

    rows: Ranges
    keys: tuple[tuple[int, int], ...]
    predicate: int | None
    graph: int | None
    bucket: int
    bucket_bits: int

    @property
    def subjects(self) -> tuple[int, int]:
        """Returns the least and the greatest id that a subject can have."""
        width = 64 - self.bucket_bits
        low = (self.bucket << width) - (1 << 63)
        return low, low + (1 << width) - 1


@dataclass(frozen=True)
class TermTask:
    """A file of terms to write: the buckets from `first` to before `last` of all parts."""

    parts: tuple[tuple[str, int, int, int, int, int], ...]
    """Path, number of terms, first row and number of rows, first byte and number of bytes."""

    @property
    def size(self) -> int:
        return sum(part[3] for part in self.parts)


def plan_terms(parts: Sequence[Part], file_rows: int) -> Iterator[TermTask]:
    """Groups neighbouring buckets, up to the size of a file."""
    rows = sum((np.diff(part.term_starts) for part in parts), np.zeros(_CELLS, np.int64))
    texts = sum((np.diff(part.text_starts) for part in parts), np.zeros(_CELLS, np.int64))
    first = 0
    for last in range(1, _CELLS + 1):
        chosen = slice(first, last + 1)
        is_full = rows[chosen].sum() > file_rows or texts[chosen].sum() > _TERM_BYTES_A_FILE
        if is_full or last == _CELLS:
            task = TermTask(tuple(found for part in parts if (found := _terms_of(part, first, last))[3]))
            if task.size:
                yield task
            first = last


def _terms_of(part: Part, first: int, last: int) -> tuple[str, int, int, int, int, int]:
    row, text = int(part.term_starts[first]), int(part.text_starts[first])
    rows, texts = int(part.term_starts[last]) - row, int(part.text_starts[last]) - text
    return part.terms_path, part.terms, row, rows, text, texts


def plan_quads(parts: Sequence[Part], file_rows: int) -> Iterator[QuadTask]:
    """Assigns each cell to a file: that of its predicate and graph if it is large, else a shared one."""
    number = np.repeat(np.arange(len(parts)), [len(part.cells[0]) for part in parts])
    columns = [np.concatenate([part.cells[place] for part in parts]) for place in range(5)]
    order = np.lexsort((number, columns[2], columns[1], columns[0]))
    number = number[order]
    predicate, graph, bucket, start, count = (column[order] for column in columns)
    is_first = np.append(True, (predicate[1:] != predicate[:-1]) | (graph[1:] != graph[:-1]))
    group = np.cumsum(is_first) - 1
    totals = np.add.reduceat(count, np.flatnonzero(is_first))
    bits = np.clip(np.ceil(np.log2(np.maximum(totals / file_rows, 1))), 0, _BITS).astype(np.int64)
    is_small = totals < file_rows // _FILE_TO_SMALL_GROUP
    before = np.cumsum(np.where(is_small, totals, 0)) - np.where(is_small, totals, 0)
    # Small groups are numbered by the file they share, the others continue from there.
    shared = before // file_rows
    own = shared[-1] + 1 + np.arange(len(totals))
    file = np.where(is_small, shared, own)[group] * _CELLS
    file += np.where(is_small[group], 0, bucket >> (_BITS - bits[group]))
    order = np.argsort(file, kind="stable")
    edges = np.flatnonzero(np.append(True, np.diff(file[order]) != 0))
    for begin, end in zip(edges, [*edges[1:], len(order)], strict=True):
        cells = order[begin:end]
        cell = cells[0]
        is_one = group[cells[-1]] == group[cell]
        depth = 0 if is_small[group[cell]] else int(bits[group[cell]])
        groups = cells[np.unique(group[cells], return_index=True)[1]]
        yield QuadTask(
            _ranges(parts, number[cells], start[cells], count[cells]),
            tuple(zip(graph[groups].tolist(), predicate[groups].tolist(), strict=True)),
            int(predicate[cell]) if is_one or (predicate[cells] == predicate[cell]).all() else None,
            int(graph[cell]) if is_one or (graph[cells] == graph[cell]).all() else None,
            int(bucket[cell]) >> (_BITS - depth),
            depth,
        )


def _ranges(parts: Sequence[Part], number: Ids, start: Ids, count: Ids) -> Ranges:
    """Reads cells that are adjacent in a part as one range."""
    order = np.lexsort((start, number))
    number, start, count = number[order], start[order], count[order]
    follows = (number[1:] == number[:-1]) & (start[1:] == start[:-1] + count[:-1])
    firsts = np.flatnonzero(np.append(True, ~follows))
    return Ranges(
        tuple(parts[place].quads_path for place in number[firsts]),
        tuple(parts[place].quads for place in number[firsts]),
        tuple(start[firsts].tolist()),
        tuple(np.add.reduceat(count, firsts).tolist()),
    )


# Merging


def merge_quads(task: QuadTask, target: str, name: str) -> QuadFile:
    """Writes a file of quads."""
    if task.predicate is not None and task.graph is not None:
        subject, object_ = _sorted_pairs(*task.rows.read((0, 2)))
        predicate = np.full(len(subject), task.predicate)
        graph = np.full(len(subject), task.graph)
    else:
        subject, predicate, object_, graph = task.rows.read((0, 1, 2, 3))
        order = np.lexsort((object_, subject, graph, predicate))
        rows = [column[order] for column in (subject, predicate, object_, graph)]
        subject, predicate, object_, graph = _distinct(rows)
    path = f"quads/{name}.parquet"
    table = pa.Table.from_arrays(
        [pa.array(column) for column in (subject, predicate, object_, graph)], schema=_QUAD_SCHEMA
    )
    _write(table, f"{target}/{path}", ("s", "o"), ("p", "g"), list("spog"), _ORDER, ROWS_PER_GROUP)
    return QuadFile(
        path,
        len(subject),
        task.predicate,
        task.graph,
        task.bucket,
        task.bucket_bits,
    )


def _sorted_pairs(subject: Ids, object_: Ids) -> list[Ids]:
    """Returns distinct pairs in order. The order of objects matters only where a subject repeats."""
    order = np.argsort(subject)
    subject, object_ = subject[order], object_[order]
    same = subject[1:] == subject[:-1]
    if same.any():
        places = np.flatnonzero(np.append(same, False) | np.append(False, same))
        object_[places] = object_[places][np.lexsort((object_[places], subject[places]))]
    return _distinct([subject, object_])


def _distinct(columns: list[Ids]) -> list[Ids]:
    """Removes duplicates from sorted rows."""
    fresh = np.zeros(len(columns[0]), dtype=bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return columns if fresh.all() else [column[fresh] for column in columns]


def merge_terms(task: TermTask, target: str, name: str) -> tuple[TermFile, dict[int, list[str]]]:
    """Writes a file of terms; returns also the ids with several terms, or reserved ids, with their terms."""
    ids, texts, clashes = distinct_terms(task)
    path = f"terms/{name}.parquet"
    table = term_table(pa.array(ids), texts)
    _write(table, f"{target}/{path}", ("id",), REPEATING, ["id"], ("id",), TERMS_PER_GROUP)
    reserved = terms_with_prefix(TermColumns(ids, texts), PREFIXES)
    return TermFile(path, len(ids), int(ids[0]), int(ids[-1]), reserved), clashes


def distinct_terms(task: TermTask) -> tuple[Ids, pa.LargeStringArray, dict[int, list[str]]]:
    """Returns the terms of a task, sorted, one per id; and all terms of ids with several, or reserved."""
    ids, texts = _read_terms(task)
    order = np.argsort(ids)
    ids = ids[order]
    again = ids[1:] == ids[:-1]
    places = np.flatnonzero(again)
    left, right = (texts.take(pa.array(order[places + shift])) for shift in (0, 1))
    is_other = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
    doubtful = set(ids[places[is_other]].tolist())
    doubtful |= {number for number in (UNDEF, DEFAULT_GRAPH) if _holds(ids, number)}
    clashes = {number: _texts_of(number, ids, order, texts) for number in doubtful}
    fresh = np.append(True, ~again)
    return ids[fresh], texts.take(pa.array(order[fresh])), clashes


def _texts_of(number: int, ids: Ids, order: Ids, texts: pa.LargeStringArray) -> list[str]:
    """Returns the distinct terms of one of the sorted ids; `order` locates them."""
    first, last = np.searchsorted(ids, number), np.searchsorted(ids, number, side="right")
    return sorted(set(texts.take(pa.array(order[first:last])).to_pylist()))


def _holds(ids: Ids, number: int) -> bool:
    place = int(np.searchsorted(ids, number))
    return place < len(ids) and int(ids[place]) == number


def _read_terms(task: TermTask) -> tuple[Ids, pa.LargeStringArray]:
    ids: list[Ids] = []
    texts: list[pa.LargeStringArray] = []
    for path, size, row, rows, text, length in task.parts:
        files, place = file_system(path)
        with files.open_input_file(place) as stream:
            numbers = stream.read_at(rows * _ID_BYTES, row * _ID_BYTES)
            ends = np.frombuffer(stream.read_at((rows + 1) * _ID_BYTES, (size + row) * _ID_BYTES), np.int64)
            data = stream.read_at(length, (2 * size + 1) * _ID_BYTES + text)
        ids.append(np.frombuffer(numbers, np.int64))
        buffers = [None, pa.py_buffer(ends - text), pa.py_buffer(data)]
        texts.append(pa.Array.from_buffers(pa.large_string(), rows, buffers))
    return np.concatenate(ids), pa.concat_arrays(texts)


def _write(
    table: pa.Table,
    path: str,
    plain: Sequence[str],
    repeating: Sequence[str],
    statistics: Sequence[str],
    order: Sequence[str],
    rows: int,
) -> None:
    files, place = file_system(path)
    sorting = pq.SortingColumn.from_ordering(table.schema, [(name, "ascending") for name in order])
    write_run(
        table,
        place,
        plain,
        repeating,
        rows,
        filesystem=files,
        write_statistics=list(statistics),
        sorting_columns=sorting,
    )


def holds_ids(target: str, files: Sequence[TermFile], numbers: Sequence[int]) -> set[int]:
    """Returns which of these ids are in the dictionary."""
    wanted = np.array(sorted(numbers), dtype=np.int64)
    found: set[int] = set()
    for file in files:
        inside = wanted[(wanted >= file.min_id) & (wanted <= file.max_id)]
        if len(inside):
            system, place = file_system(f"{target}/{file.path}")
            ids = pq.read_table(place, filesystem=system, columns=["id"])["id"].to_numpy()
            found.update(cast("list[int]", inside[np.isin(inside, ids)].tolist()))
    return found
