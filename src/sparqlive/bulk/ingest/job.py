"""Ingests RDF documents: writes sorted files of quads and a dictionary, on all available cores.

Writes `quads/` and `terms/` under `target`, as sorted Parquet files, and the list of them. There are two
steps, each a list of tasks for `Workers`: *parse* turns a piece of a document into ids and terms
(`rdf/columns.py`); *merge* collects each file of the result from all parts, sorted and deduplicated
(`parts.py`). The steps exchange files next to the result (on a cluster, a path that all workers can access).

On Spark, rows never pass through the JVM: cutting, comparing and sorting whole columns in its Python workers
is several times faster than splitting lines and shuffling strings there.

Rejects malformed documents (or writes the omitted lines to a file of rejects), and a target that is not
empty. Invariants: each quad is written once; an id stands for one term, and the terms are those of the quads;
after a failure nothing is left under `target`.

Layout. A file of `quads/` has the columns s, p, o, g (64-bit integers, never null), sorted by (p, g, s, o). A
predicate and graph with many rows has its own files, one per value of the top `bucket_bits` bits of s + 2⁶³:
in bucket order they form one array sorted by (s, o), and a key determines its bucket. Small ones share a
file, each of them complete. A file of `terms/` has id (64-bit integer) and term (canonical N-Triples text),
sorted by id; the id ranges of the files do not overlap.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NoReturn

from pyarrow import fs
from pyoxigraph import NamedNode, Quad

from sparqlive.bulk.ingest.documents import Document, Piece, absolute, find_documents, tasks_of
from sparqlive.bulk.ingest.parts import (
    Part,
    PartWriter,
    QuadFile,
    QuadTask,
    TermFile,
    TermTask,
    holds_ids,
    merge_quads,
    merge_terms,
    plan_quads,
    plan_terms,
)
from sparqlive.bulk.ingest.workers import Workers
from sparqlive.errors import Error, InvalidChange
from sparqlive.errors import SyntaxError as RdfSyntaxError
from sparqlive.rdf.columns import (
    TRIPLE_TERM,
    Encoded,
    Encoder,
    Fault,
    batches,
    is_plain,
    numbered_labels,
)
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, hash_of, other_id
from sparqlive.rdf.guard import parse_guarded, reason_of
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.store.place import file_system

OnError = Literal["fail", "skip"]

_REJECTS = "rejects.jsonl"
_PARTS = "parts"


@dataclass(frozen=True)
class IngestResult:
    """The result of an ingest. Paths of files are relative to `target`."""

    target: str
    quad_files: tuple[QuadFile, ...]
    term_files: tuple[TermFile, ...]
    quads: int
    terms: int
    rejected: int
    """Number of omitted malformed lines, and malformed documents in syntaxes without lines."""
    rejects_path: str | None
    """Path of the rejects: JSON lines with file, line, text and reason."""
    exceptions: Mapping[str, int]
    """Terms whose id is not the hash of their text because of a collision, with their ids."""
    seconds: Mapping[str, float]
    """By phase: find, parse, merge, and total."""


def ingest(
    workers: Workers,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Document],
    graph: str | None,
    target: str | os.PathLike[str],
    *,
    on_error: OnError = "fail",
    exceptions: Mapping[str, int] | None = None,
    hash_function: Callable[[str], int] = hash_of,
    tuning: Tuning = DEFAULT,
) -> IngestResult:
    """Reads files, folders and globs into `target`, a folder that is empty or missing.

    Quads of the unnamed graph go into `graph` (an IRI) if it is given. `exceptions` are terms whose id is
    already known to differ from the hash of their text. Tests that force collisions replace `hash_function`.
    """
    started = time.perf_counter()
    folder = absolute(os.fspath(target)).rstrip("/")
    documents = find_documents([paths] if isinstance(paths, str | os.PathLike) else paths)
    seconds = {"find": time.perf_counter() - started, "parse": 0.0, "merge": 0.0}
    known = dict(exceptions or {})
    name = None if graph is None else graph_text(graph)
    with _folder(folder):
        while True:
            encoder = Encoder(name, hash_function, known)
            job = _Job(workers, folder, encoder, on_error, seconds, tuning.file_rows)
            made = job.run(documents)
            clashes = _clashes(made)
            if not clashes:
                break
            # About once in many billions of terms: colliding terms get another id, and everything is encoded
            # again, so that no quad keeps the old id.
            files = [file for file, _ in made.terms]
            known |= other_ids(clashes, known, partial(holds_ids, folder, files))
            _clear(folder)
        drop_folder(f"{folder}/{_PARTS}")
        _drop_unlisted(folder, made)
    seconds["total"] = time.perf_counter() - started
    new = {text: number for text, number in known.items() if text not in (exceptions or {})}
    return _result(folder, made, new, seconds)


def graph_text(graph: str) -> str:
    try:
        return str(NamedNode(graph))
    except ValueError as error:
        raise Error(f"{graph!r} is not a valid graph name: {error}.") from error


# The folder


@contextmanager
def _folder(target: str) -> Iterator[None]:
    """Context with an empty folder, which is restored to its former state if anything fails."""
    files, place = file_system(target)
    info = files.get_file_info(place)
    was_there = info.type == fs.FileType.Directory
    if info.type == fs.FileType.File or (was_there and files.get_file_info(fs.FileSelector(place))):
        raise Error(
            f"{target} is not an empty folder. Ingest writes only to a folder that is empty or missing."
        )
    try:
        _clear(target)
        yield
    except BaseException:
        if was_there:
            files.delete_dir_contents(place, missing_dir_ok=True)
        else:
            drop_folder(target)
        raise


def _clear(target: str) -> None:
    files, place = file_system(target)
    files.create_dir(place, recursive=True)
    files.delete_dir_contents(place)
    for below in ("quads", "terms", _PARTS):
        files.create_dir(f"{place}/{below}")


def drop_folder(path: str) -> None:
    files, place = file_system(path)
    if files.get_file_info(place).type == fs.FileType.Directory:
        files.delete_dir(place)


def _drop_unlisted(target: str, made: _MergeResult) -> None:
    """Deletes files of tasks that ran twice."""
    listed = {file.path for file in made.quads} | {file.path for file, _ in made.terms}
    files, place = file_system(target)
    for below in ("quads", "terms"):
        for info in files.get_file_info(fs.FileSelector(f"{place}/{below}")):
            if f"{below}/{info.base_name}" not in listed:
                files.delete_file(info.path)


def read(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Document],
    graph: str | None,
    exceptions: Mapping[str, int],
) -> list[Encoded]:
    """Reads the quads of files, folders and globs in this process; writes nothing."""
    documents = find_documents([paths] if isinstance(paths, str | os.PathLike) else paths)
    encoder = Encoder(None if graph is None else graph_text(graph), exceptions=exceptions)
    pieces = [piece for task in tasks_of(list(documents), 1) for piece in task]
    parsed = _ParseTask(_InMemory, "", encoder, "fail")(pieces)
    _raise_first(documents, [parsed], _lines_before([parsed]))
    return parsed.parts  # type: ignore[return-value]


def parsed_pieces(pieces: Sequence[Piece]) -> list[Encoded]:
    """Reads the quads of some pieces of documents, in this process."""
    parsed = _ParseTask(_InMemory, "", Encoder(), "fail")(list(pieces))
    if parsed.faults:
        number, start, fault = parsed.faults[0]
        name = next(piece.document.name for piece in pieces if piece.number == number)
        _raise(f"{name}, after byte {start}" if start else name, fault.line, fault)
    return parsed.parts  # type: ignore[return-value]


class _InMemory:
    """Collects encoded quads in memory, where `PartWriter` writes files."""

    def __init__(self, folder: str) -> None:
        self.parts: list[Encoded] = []

    def add(self, encoded: Encoded) -> None:
        self.parts.append(encoded)

    def take_over(self, other: _InMemory) -> None:
        self.parts += other.parts

    def flush(self) -> None:
        pass


# The two jobs


@dataclass(frozen=True)
class _ParseResult:
    """The result of a parse task: its parts, and per piece the number of lines and the first faults."""

    parts: list[Part] = field(default_factory=list)
    lines: list[tuple[int, int, int]] = field(default_factory=list)
    """Document, first byte of the piece, number of its lines."""
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    rejects_path: str | None = None


@dataclass(frozen=True)
class _MergeResult:
    quads: list[QuadFile]
    terms: list[tuple[TermFile, dict[int, list[str]]]]
    rejected: int


@dataclass(frozen=True)
class _Job:
    workers: Workers
    target: str
    encoder: Encoder
    on_error: OnError
    seconds: dict[str, float]
    file_rows: int

    def run(self, documents: Sequence[Document]) -> _MergeResult:
        started = time.perf_counter()
        folder, rejects = f"{self.target}/{_PARTS}", f"{self.target}/{_REJECTS}"
        parts, rejected = parse_documents(
            self.workers, documents, folder, self.encoder, self.on_error, rejects
        )
        parsed_at = time.perf_counter()
        files: list[QuadFile | tuple[TermFile, dict[int, list[str]]]] = []
        if parts:
            tasks: list[QuadTask | TermTask] = [
                *plan_terms(parts, self.file_rows),
                *plan_quads(parts, self.file_rows),
            ]
            files = self.workers.each(list(enumerate(tasks)), _MergeTask(self.target), "merge")
        self.seconds["parse"] += parsed_at - started
        self.seconds["merge"] += time.perf_counter() - parsed_at
        quads = [file for file in files if isinstance(file, QuadFile)]
        return _MergeResult(quads, [file for file in files if not isinstance(file, QuadFile)], rejected)


def parse_documents(
    workers: Workers,
    documents: Sequence[Document],
    folder: str,
    encoder: Encoder,
    on_error: OnError,
    rejects_path: str,
) -> tuple[list[Part], int]:
    """Lets workers read documents into parts in a folder; returns the parts and the number of rejects."""
    task = _ParseTask(PartWriter, folder, encoder, on_error)
    parsed = workers.each(tasks_of(list(documents), workers.cores), task, "parse")
    lines_before = _lines_before(parsed)
    _raise_first(documents, parsed, lines_before)
    rejected = _write_rejects(rejects_path, documents, parsed, lines_before)
    return [part for result in parsed for part in result.parts], rejected


@dataclass(frozen=True)
class _MergeTask:
    target: str

    def __call__(
        self, numbered: tuple[int, QuadTask | TermTask]
    ) -> QuadFile | tuple[TermFile, dict[int, list[str]]]:
        number, task = numbered
        # A task that ran twice wrote two files, of which one is listed.
        name = f"{number:06d}-{os.urandom(4).hex()}"
        if isinstance(task, QuadTask):
            return merge_quads(task, self.target, name)
        return merge_terms(task, self.target, name)


@dataclass(frozen=True)
class _ParseTask:
    """Encodes pieces of documents and writes them as parts."""

    writer: type[Any]
    folder: str
    encoder: Encoder
    on_error: OnError

    def __call__(self, pieces: list[Piece]) -> _ParseResult:
        writer = self.writer(self.folder)
        result = _ParseResult(writer.parts)
        for piece in pieces:
            parse_piece = self._lines if piece.document.has_lines else self._document
            try:
                faults, lines = parse_piece(piece, writer)
            except OSError as error:
                faults, lines = [Fault(0, "", f"cannot be read: {error}", "unreadable")], 0
            result.lines.append((piece.number, piece.start, lines))
            result.faults.extend((piece.number, piece.start, fault) for fault in faults)
            if faults and self.on_error == "fail":
                return result
            if any(fault.kind == "unreadable" for fault in faults):  # not a fault of a line: never skipped
                return _ParseResult(lines=result.lines, faults=[(piece.number, piece.start, faults[-1])])
        writer.flush()
        return self._with_rejects(result) if result.faults else result

    def _lines(self, piece: Piece, writer: PartWriter) -> tuple[list[Fault], int]:
        faults: list[Fault] = []
        before = 0
        document = piece.document
        for block in piece.blocks():
            encoded = self.encoder.lines(block, document.format, document.scope)
            faults += [Fault(before + f.line, f.text, f.reason, f.kind) for f in encoded.faults]
            before += encoded.lines
            if faults and self.on_error == "fail":
                break
            writer.add(encoded)
        return faults, before

    def _document(self, piece: Piece, writer: PartWriter) -> tuple[list[Fault], int]:
        """Encodes all of a document or, if it has a fault, nothing of it."""
        own = self.writer(self.folder)
        document = piece.document
        label = numbered_labels(document.scope or "")
        try:
            with document.open() as stream:
                quads = parse_guarded(stream, document.format, document.base)
                for batch in batches(map(_plain, quads)):
                    own.add(self.encoder.quads(batch, label))
        except SyntaxError as error:
            return [Fault(error.lineno or 1, "", reason_of(error))], 0
        except InvalidChange as error:
            return [Fault(0, "", str(error).removesuffix("."), "unsupported")], 0
        writer.take_over(own)
        return [], 0

    def _with_rejects(self, result: _ParseResult) -> _ParseResult:
        """Writes the rejects to a file too, because there may be many."""
        path = f"{self.folder}/{os.urandom(16).hex()}.rejects"
        files, place = file_system(path)
        with files.open_output_stream(place) as stream:
            for number, start, fault in result.faults:
                record = [number, start, fault.line, fault.text, fault.reason]
                stream.write(json.dumps(record).encode() + b"\n")
        return _ParseResult(result.parts, result.lines, [], path)


def _plain(quad: Quad) -> Quad:
    if not is_plain(quad):
        raise InvalidChange(f"{quad} has a triple term or a literal as subject: {TRIPLE_TERM}")
    return quad


# Faults


def _lines_before(parsed: Sequence[_ParseResult]) -> dict[tuple[int, int], int]:
    """Returns the number of lines before each piece, by document and first byte."""
    before: dict[tuple[int, int], int] = {}
    document, lines = -1, 0
    for number, start, count in sorted(piece for result in parsed for piece in result.lines):
        lines = lines if number == document else 0
        before[number, start] = lines
        document, lines = number, lines + count
    return before


def _raise_first(
    documents: Sequence[Document], parsed: Sequence[_ParseResult], before: Mapping[tuple[int, int], int]
) -> None:
    faults = [found for result in parsed for found in result.faults]
    if not faults:
        return
    number, start, fault = min(faults, key=lambda found: (found[0], found[1], found[2].line))
    _raise(documents[number].name, before[number, start] + fault.line, fault)


def _raise(name: str, line: int, fault: Fault) -> NoReturn:
    match fault.kind:
        case "unreadable":
            raise Error(f"{name}: {fault.reason}.")
        case "unsupported":
            raise InvalidChange(f"{name}{f', line {line}' if line else ''}: {fault.reason}.")
        case "syntax":
            raise RdfSyntaxError(f"{name}, line {line}: {fault.reason}")


def _write_rejects(
    path: str,
    documents: Sequence[Document],
    parsed: Sequence[_ParseResult],
    before: Mapping[tuple[int, int], int],
) -> int:
    """Writes the rejects of all tasks to one file, with absolute line numbers; returns their number."""
    found = [result.rejects_path for result in parsed if result.rejects_path is not None]
    if not found:
        return 0
    count = 0
    files, place = file_system(path)
    with files.open_output_stream(place) as out:
        for rejects in found:
            system, source = file_system(rejects)
            with system.open_input_stream(source) as stream:
                for record in stream.read().splitlines():
                    number, start, line, text, reason = json.loads(record)
                    reject = {
                        "file": documents[number].name,
                        "line": before[number, start] + line,
                        "text": text,
                        "reason": reason,
                    }
                    out.write(json.dumps(reject, ensure_ascii=False).encode() + b"\n")
                    count += 1
    return count


# Collisions


def _clashes(made: _MergeResult) -> dict[int, list[str]]:
    return {number: texts for _, clashes in made.terms for number, texts in clashes.items()}


def other_ids(
    clashes: Mapping[int, Sequence[str]],
    known: Mapping[str, int],
    taken: Callable[[Sequence[int]], set[int]],
) -> dict[str, int]:
    """Assigns new ids to all but the first term of each id (to all, if the id is reserved), in text order.

    The rule is the dictionary's (`rdf/dictionary.py`), but one call checks for all terms which ids are taken.
    A term that already is an exception keeps its id.
    """
    left = []
    for number, texts in clashes.items():
        stays = next((text for text in texts if text in known), texts[0])
        left += [text for text in texts if text != stays or number in (UNDEF, DEFAULT_GRAPH)]
    given: dict[str, int] = {}
    used = {UNDEF, DEFAULT_GRAPH, *known.values()}
    attempt = 0
    while left:
        attempt += 1
        wanted = {text: other_id(text, attempt) for text in sorted(left)}
        used |= taken(list(wanted.values()))
        left = []
        for text, number in wanted.items():
            if number in used:
                left.append(text)
            else:
                given[text] = number
                used.add(number)
    return given


def _result(
    target: str, made: _MergeResult, exceptions: Mapping[str, int], seconds: Mapping[str, float]
) -> IngestResult:
    terms = [file for file, _ in made.terms]
    return IngestResult(
        target,
        tuple(made.quads),
        tuple(terms),
        sum(file.rows for file in made.quads),
        sum(file.rows for file in terms),
        made.rejected,
        f"{target}/{_REJECTS}" if made.rejected else None,
        exceptions,
        seconds,
    )
