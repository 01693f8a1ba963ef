"""Reads large files of changes by columns: the quads of a batch as ids, without a Python object per quad.

Cuts `.changes` text at the lines that start a batch. A large batch is encoded by
columns. Everything else goes to the reader by rows (`rdf/changes.py`): smaller batches, RDF Patch, and whole
batches in which a line has a fault or an unusual form, so that there is one definition of faults. Invariant:
both ways produce the same batches in the same order, and the same errors.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from pyoxigraph import NamedNode

from sparqlive.errors import SyntaxError as ChangesSyntaxError
from sparqlive.rdf.changes import Batch, Reader, opened, parse_changes, plain_name, time_of
from sparqlive.rdf.columns import Encoded, Encoder, Ids
from sparqlive.runtime.tuning import DEFAULT, Tuning

_BLOCK_BYTES = 16 << 20
_PLUS, _MINUS, _AT, _HASH, _NEWLINE, _SPACE = b"+-@#\n "


@dataclass(frozen=True)
class EncodedBatch:
    """The changes of one epoch in the order of their lines: quads, and +1 or -1 for each.

    The last change of a quad counts. `time` and `line` are those of a `Batch`.
    """

    parts: Sequence[tuple[Encoded, Ids]]
    time: str | None = None
    line: int = 0


@dataclass(frozen=True)
class TextBatch:
    """The lines of one large batch, for other processes to read. `read` reads it here."""

    name: str
    graph: NamedNode | None
    segment: _Segment
    time: str | None
    line: int

    @property
    def pieces(self) -> Iterator[tuple[bytes, bool]]:
        """Whole lines, and whether the first of them starts the batch."""
        is_marked = _head(self.segment).startswith("@")
        for number, piece in enumerate(self.segment.pieces):
            if piece:
                yield piece, is_marked and number == 0

    def read(self, exceptions: Mapping[str, int]) -> Batch | EncodedBatch | None:
        """The changes, or None if there are none; raises where a line has a fault."""
        encoder = Encoder(None if self.graph is None else str(self.graph), exceptions=exceptions)
        return next(iter(_read(self.segment, encoder, self.name, self.graph, 0)), None)


def read_batches(
    path: str | os.PathLike[str],
    exceptions: Mapping[str, int],
    graph: NamedNode | None = None,
    text_bytes: int | None = None,
    tuning: Tuning = DEFAULT,
) -> Iterator[Batch | EncodedBatch | TextBatch]:
    """Yields the batches of a file; quads of the unnamed graph go into `graph`. Large batches are columns.

    `exceptions`: the ids of terms whose id is not their hash. `text_bytes`: larger batches stay text.
    """
    file = Path(path)
    with opened(file) as stream:
        # The size of a pipe is 0: its batches are passed on as they arrive.
        if file.stat().st_size > tuning.column_bytes:
            yield from parse_batches(stream, str(file), exceptions, graph, text_bytes, tuning)
        else:
            yield from parse_changes(stream, str(file), graph)


def parse_batches(
    stream: BinaryIO,
    name: str,
    exceptions: Mapping[str, int],
    graph: NamedNode | None = None,
    text_bytes: int | None = None,
    tuning: Tuning = DEFAULT,
) -> Iterator[Batch | EncodedBatch | TextBatch]:
    """Yields the batches of an open file like `parse_changes`, large ones by columns or as text."""
    if not plain_name(name).endswith(".changes"):
        yield from parse_changes(stream, name, graph)
        return
    encoder = Encoder(None if graph is None else str(graph), exceptions=exceptions)
    for segment in _segments(stream):
        if text_bytes is not None and segment.size > text_bytes and _is_start(segment.end, name):
            yield TextBatch(name, graph, segment, _time(segment, name), segment.line)
        else:
            yield from _read(segment, encoder, name, graph, tuning.column_bytes)


def _read(
    segment: _Segment, encoder: Encoder, name: str, graph: NamedNode | None, column_bytes: int
) -> Iterator[Batch | EncodedBatch]:
    encoded = _encoded(segment, encoder, name) if segment.size > column_bytes else None
    if encoded is not None:
        yield encoded
    else:
        yield from _by_rows(segment, Reader(name, graph, "changes", segment.line - 1))


# Batches as text


@dataclass
class _Segment:
    """The lines of one batch, in pieces of whole lines. `end` is the line that starts the next batch."""

    line: int
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    end: bytes | None = None

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.size += len(piece)

    def next_line(self) -> int:
        return self.line + sum(piece.count(b"\n") for piece in self.pieces)


def _segments(stream: BinaryIO) -> Iterator[_Segment]:
    segment = _Segment(1)
    for block in _blocks(stream):
        begin = 0
        for mark in _marks(block):
            segment.add(block[begin:mark])
            line_end = block.find(b"\n", mark)
            segment.end = block[mark : line_end if line_end >= 0 else len(block)]
            yield segment
            segment = _Segment(segment.next_line())
            begin = mark
        segment.add(block[begin:])
    yield segment


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The text in blocks of whole lines; the last line may have no line end."""
    rest: list[bytes] = []
    while data := stream.read(_BLOCK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest = []
        rest.append(data[cut:])
    if any(rest):
        yield b"".join(rest)


def _lines(block: bytes) -> tuple[npt.NDArray[np.uint8], Ids, Ids]:
    """The bytes of a block, and where its lines start and end."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if len(data) and data[-1] != _NEWLINE:
        ends = np.append(ends, len(data))
    return data, np.append(0, ends[:-1] + 1), ends


def _marks(block: bytes) -> list[int]:
    """Where the lines begin that start a batch. A line may begin with spaces of any kind."""
    data, starts, ends = _lines(block)
    first = data[starts]
    places = np.flatnonzero(~np.isin(first, (_PLUS, _MINUS, _HASH, _NEWLINE)))
    return [
        int(starts[place])
        for place in places.tolist()
        if first[place] == _AT or _stripped(block[starts[place] : ends[place]]).startswith("@")
    ]


def _stripped(line: bytes) -> str:
    return line.decode(errors="replace").strip()


# By rows


def _by_rows(segment: _Segment, reader: Reader) -> Iterator[Batch]:
    for piece in segment.pieces:
        for line in io.BytesIO(piece):
            batch = reader.take(line)
            assert batch is None, "a line within a batch ends it"
    if segment.end is not None:
        batch = reader.take(segment.end)
        if batch is not None:
            yield batch
    elif reader.started:
        yield reader.finish()


# By columns


def _encoded(segment: _Segment, encoder: Encoder, name: str) -> EncodedBatch | None:
    """The batch of a segment; None if the reader by rows has to decide what a line means."""
    if not _is_start(segment.end, name):
        return None
    is_marked, time = _head(segment).startswith("@"), _time(segment, name)
    parts: list[tuple[Encoded, Ids]] = []
    first_change, line = 0, segment.line
    for number, piece in enumerate(segment.pieces):
        part = _part(piece, encoder, is_marked and number == 0)
        if part is None:
            return None
        encoded, weights, first = part
        if len(weights):
            first_change = first_change or line + first
            parts.append((encoded, weights))
        line += piece.count(b"\n")
    if not parts:
        return None
    return EncodedBatch(parts, time, segment.line if is_marked else first_change)


def _head(segment: _Segment) -> str:
    return _stripped(segment.pieces[0].partition(b"\n")[0])


def _time(segment: _Segment, name: str) -> str | None:
    """The time of a batch, from its first line."""
    head = _head(segment)
    return time_of(head[1:], name, segment.line) if head.startswith("@") else None


def _is_start(line: bytes | None, name: str) -> bool:
    """Whether the line can start a batch, or the file ends (None)."""
    try:
        if line is not None:
            time_of(line.decode().strip()[1:], name, 0)
    except (ChangesSyntaxError, UnicodeDecodeError):
        return False
    return True


def changes_in(piece: bytes, encoder: Encoder, is_marked: bool) -> tuple[Encoded, Ids] | None:
    """The quads of some lines of a batch with their weights; None if a line has a fault or an unusual form.

    `is_marked`: the first line starts the batch.
    """
    found = _part(piece, encoder, is_marked)
    return None if found is None else found[:2]


def _part(piece: bytes, encoder: Encoder, is_marked: bool) -> tuple[Encoded, Ids, int] | None:
    """The quads of some lines with their weights, and the place of the first line with a change."""
    if not _is_utf8(piece):
        return None
    block = piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece
    if not block.endswith(b"\n"):
        block += b"\n"
    data, starts, ends = _lines(block)
    first, second = data[starts], data[np.minimum(starts + 1, len(data) - 1)]
    is_change = ((first == _PLUS) | (first == _MINUS)) & (second == _SPACE)
    others = np.flatnonzero(~is_change & (first != _HASH) & (first != _NEWLINE))
    for place in others[1 if is_marked else 0 :].tolist():
        text = _stripped(block[starts[place] : ends[place]])
        if text and not text.startswith("#"):
            return None
    changed = np.flatnonzero(is_change)
    kept = np.repeat(is_change, ends - starts + 1)
    kept[starts[changed]] = kept[starts[changed] + 1] = False
    encoded = encoder.statements(data[kept].tobytes())
    if encoded is None:
        return None
    weights = np.where(first[changed] == _PLUS, 1, -1).astype(np.int64)
    return encoded, weights, int(changed[0]) if len(changed) else 0


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
