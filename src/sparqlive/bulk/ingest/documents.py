"""Finds the documents of an ingest, splits them into pieces, and reads their bytes.

Handles names, file systems and decompression. Rejects names without a known RDF extension, and paths with
nothing to load. Invariants: every line of a document belongs to exactly one of its pieces; a document whose
lines cannot be found without reading all of it is one piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, cast

from pyarrow import fs
from pyoxigraph import RdfFormat

from sparqlive.errors import Error
from sparqlive.rdf.files import (
    check_beginning,
    has_syntax,
    is_address,
    matching_files,
    nothing_at,
    syntax_of,
)
from sparqlive.store.place import file_system

PIECE_BYTES = 64 << 20
_BLOCK_BYTES = 8 << 20
"""Size of the text encoded at once: large enough to repeat terms, small enough to stay in the cache."""
_LINE_BYTES = 1 << 12
_LONGEST_LINE_BYTES = 64 << 20
"""Reading a line takes about ten times its length in memory."""
_SMALLEST_PIECE_BYTES = 1 << 20
_PIECES_A_CORE = 4
_EXPANSION = 6
"""Estimated bytes of N-Triples per compressed byte, and relative cost of a byte in other syntaxes."""

_LINE_FORMATS = frozenset({RdfFormat.N_TRIPLES, RdfFormat.N_QUADS})


@dataclass(frozen=True)
class Document:
    """A file. `name` is an absolute path or a URI; `syntax` a file name extension that names the RDF syntax.

    `version` changes when the file is written again: blank nodes belong to one version.
    """

    name: str
    size: int
    syntax: str
    compression: str | None
    version: str
    keeps_labels: bool = False
    """Whether its blank nodes have the labels of the store."""

    @property
    def format(self) -> RdfFormat:
        return cast("RdfFormat", RdfFormat.from_extension(self.syntax))

    @property
    def has_lines(self) -> bool:
        """Whether each line stands for itself, as in N-Triples and N-Quads."""
        return self.format in _LINE_FORMATS

    @property
    def base(self) -> str:
        return self.name if is_address(self.name) else Path(self.name).as_uri()

    @property
    def scope(self) -> str | None:
        """The scope of a blank node label; None if labels are global."""
        return None if self.keeps_labels else f"{self.name} {self.version}"

    def open(self) -> BinaryIO:
        """Opens the decompressed bytes at the beginning."""
        files, path = file_system(self.name)
        return cast("BinaryIO", files.open_input_stream(path, compression=self.compression))


@dataclass(frozen=True)
class Piece:
    """The lines of a document that begin at the bytes from `start` to before `end`, or all of it."""

    document: Document
    number: int
    """Index of the document in the list of all documents."""
    start: int
    end: int | None

    @property
    def cost(self) -> int:
        """Approximate size in bytes of N-Triples."""
        document = self.document
        size = (document.size if self.end is None else self.end) - self.start
        return size if document.has_lines and document.compression is None else size * _EXPANSION

    def blocks(self) -> Iterator[bytes]:
        """Yields blocks of whole lines, each line with its end."""
        if self.end is None:
            with self.document.open() as stream:
                yield from _blocks_until(stream, b"", None)
            return
        files, path = file_system(self.document.name)
        with files.open_input_file(path) as stream:
            if self.start == 0:
                yield from _blocks_until(stream, b"", self.end)
                return
            # A line begins here only if the previous byte ends one.
            stream.seek(self.start - 1)
            skipped, rest = _after_line_end(stream)
            left = self.end - (self.start - 1 + skipped)
            if left > 0:
                yield from _blocks_until(stream, rest, left)


def _after_line_end(stream: Any) -> tuple[int, bytes]:
    """Returns how many bytes remain of a line, and what was read beyond it."""
    skipped = 0
    while data := stream.read(_LINE_BYTES):
        place = data.find(b"\n")
        if place >= 0:
            return skipped + place + 1, data[place + 1 :]
        skipped += len(data)
        _check_length(skipped)
    return skipped, b""


def _check_length(line: int) -> None:
    if line > _LONGEST_LINE_BYTES:
        raise OSError(f"a line is longer than {_LONGEST_LINE_BYTES >> 20} MiB")


def _blocks_until(stream: Any, pending: bytes, limit: int | None) -> Iterator[bytes]:
    """Yields blocks of the lines that begin before `limit` bytes from here."""
    while True:
        # Doubles what was read of a long line, and reads little beyond the limit.
        size = max(_BLOCK_BYTES - len(pending), len(pending))
        if limit is not None:
            size = min(size, max(limit - len(pending), len(pending)) + _LINE_BYTES)
        data = stream.read(size)
        pending = pending + data if pending else data
        _check_length(len(pending))
        if limit is not None and len(pending) >= limit:
            place = pending.find(b"\n", max(limit - 1, 0))
            if place >= 0:
                yield pending[: place + 1]
                return
        if not data:
            if pending:
                yield pending + b"\n"
            return
        place = pending.rfind(b"\n") if len(pending) >= _BLOCK_BYTES else -1
        if place >= 0 and (limit is None or place + 1 < limit):
            yield pending[: place + 1]
            pending = pending[place + 1 :]
            limit = limit - place - 1 if limit is not None else None


# Finding documents


def absolute(path: str) -> str:
    """Returns a path that means the same place for every worker."""
    return path if is_address(path) else os.path.abspath(path)


def find_documents(paths: Iterable[str | os.PathLike[str] | Document]) -> list[Document]:
    """Finds the documents of files, folders (not below them) and globs, in order, each once."""
    documents: dict[str, Document] = {}
    for path in paths:
        for document in [path] if isinstance(path, Document) else _documents(os.fspath(path)):
            documents.setdefault(document.name, document)
    return list(documents.values())


def _documents(path: str) -> list[Document]:
    if path.startswith("file://"):
        path = file_system(path)[1]
    if path.startswith(("http://", "https://")):
        raise Error(
            f"{path} is an address on the Web, not a file. Download it, run the update LOAD <{path}>, or add "
            f"a source of kind 'web', which follows its changes."
        )
    infos = _files_at_uri(path) if is_address(path) else _local_files(path)
    if not infos:
        raise nothing_at(path)
    return [_document(name, info) for name, info in infos]


def _local_files(path: str) -> list[tuple[str, fs.FileInfo]]:
    files = [file.resolve() for file in matching_files(path)]
    for file in files:
        check_beginning(file)
    names = [str(file) for file in files]
    return list(zip(names, fs.LocalFileSystem().get_file_info(names), strict=True)) if names else []


def _files_at_uri(uri: str) -> list[tuple[str, fs.FileInfo]]:
    folder, _, pattern = uri.rpartition("/")
    if not any(sign in uri for sign in "*?["):
        files, path = file_system(uri)
        info = files.get_file_info(path)
        if info.type == fs.FileType.File:
            return [(uri, info)]
        if info.type != fs.FileType.Directory:
            return []
        folder, pattern = uri.rstrip("/"), "*"
    files, path = file_system(folder)
    infos = [
        info
        for info in files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        if info.is_file and has_syntax(info.base_name) and fnmatchcase(info.base_name, pattern)
    ]
    return [(f"{folder}/{info.base_name}", info) for info in sorted(infos, key=lambda info: info.path)]


def _document(name: str, info: fs.FileInfo) -> Document:
    return Document(name, info.size or 0, *syntax_of(name), version=f"{info.size} {info.mtime_ns}")


# Splitting documents


def tasks_of(documents: list[Document], cores: int) -> list[list[Piece]]:
    """Groups the pieces of all documents into tasks of roughly equal cost."""
    total = sum(Piece(document, 0, 0, None).cost for document in documents)
    size = min(PIECE_BYTES, max(_SMALLEST_PIECE_BYTES, total // (_PIECES_A_CORE * cores)))
    tasks: list[list[Piece]] = []
    room = 0
    for number, document in enumerate(documents):
        for piece in _pieces(document, number, size):
            if not tasks or piece.cost > room:
                tasks.append([])
                room = size
            tasks[-1].append(piece)
            room -= piece.cost
    return tasks


def _pieces(document: Document, number: int, size: int) -> Iterator[Piece]:
    if not document.has_lines or document.compression is not None or document.size <= size:
        yield Piece(document, number, 0, None)
        return
    count = -(-document.size // size)
    ends = [document.size * (place + 1) // count for place in range(count)]
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        yield Piece(document, number, start, end)
