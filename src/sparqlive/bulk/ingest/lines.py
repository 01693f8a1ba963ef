"""Reads large batches of changes as text, in workers (`Parse` of `effective.py`).

The text is written to files in pieces of whole lines, and a task reads one piece: N-Quads that are all
inserted or all deleted, or lines of a `.changes` batch. Blank nodes keep their labels. Rejects text with a
fault or an unusual line with `UnusualTextError`: the readers of this process then decide what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyoxigraph import RdfFormat

from sparqlive.bulk.ingest.parts import Part, PartWriter
from sparqlive.bulk.ingest.workers import Workers
from sparqlive.rdf.change_columns import changes_in
from sparqlive.rdf.columns import Encoder
from sparqlive.rdf.read import utf8
from sparqlive.store.place import file_system

_PIECE_CHARACTERS = 8 << 20


class UnusualTextError(Exception):
    """Text that the workers cannot read."""


@dataclass(frozen=True)
class TextPiece:
    """Whole lines: N-Quads with one weight or, without a weight, lines of a batch.

    `is_marked`: the first line is the header of the batch.
    """

    text: bytes
    weight: int | None = None
    is_marked: bool = False


def pieces_of(text: str, weight: int) -> Iterator[TextPiece]:
    """Splits N-Quads text into pieces."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start + _PIECE_CHARACTERS)
        stop = len(text) if stop < 0 else stop + 1
        yield TextPiece(utf8(text[start:stop]) + b"\n", weight)
        start = stop


class Lines:
    """Lets workers read pieces of text, or files of N-Quads with one weight each, in order."""

    def __init__(
        self,
        workers: Workers,
        pieces: Iterable[TextPiece] | None = None,
        files: Iterable[tuple[str, int]] = (),
    ) -> None:
        self._workers = workers
        self._pieces = pieces
        self._tasks = [_PieceTask(path, weight, is_marked=False) for path, weight in files]

    def __call__(self, folder: str, encoder: Encoder) -> Sequence[Part]:
        if self._pieces is not None:
            self._put_down(folder, self._pieces)
            self._pieces = None
        found = self._workers.each(self._tasks, _Reader(folder, encoder), "read changes")
        if any(parts is None for parts in found):
            raise UnusualTextError
        return [part for parts in found for part in parts or ()]

    def _put_down(self, folder: str, pieces: Iterable[TextPiece]) -> None:
        # Not into the folder of the parts, which is removed if everything is read again.
        folder = f"{folder.rpartition('/')[0]}/text"
        files, place = file_system(folder)
        files.create_dir(place)
        for number, piece in enumerate(pieces):
            with files.open_output_stream(f"{place}/{number}") as stream:
                stream.write(piece.text)
            self._tasks.append(_PieceTask(f"{folder}/{number}", piece.weight, piece.is_marked))


# In the workers


@dataclass(frozen=True)
class _PieceTask:
    path: str
    weight: int | None
    is_marked: bool


@dataclass(frozen=True)
class _Reader:
    folder: str
    encoder: Encoder

    def __call__(self, task: _PieceTask) -> list[Part] | None:
        files, place = file_system(task.path)
        with files.open_input_stream(place) as stream:
            text = stream.read()
        writer = PartWriter(self.folder)
        if task.weight is None:
            found = changes_in(text, self.encoder, task.is_marked)
            if found is None:
                return None
            encoded, weights = found
        else:
            encoded = self.encoder.lines(text, RdfFormat.N_QUADS, None)
            if encoded.faults:
                return None
            weights = np.full(len(encoded), task.weight)
        writer.add(encoded, weights)
        writer.flush()
        return writer.parts
