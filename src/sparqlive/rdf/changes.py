"""Reads and writes changes as text: the `.changes` format and RDF Patch.

`.changes`: a line is `+` or `-`, a space, and one N-Quads statement; a line that starts with `@`, optionally
with a time, starts the next batch; empty lines and lines that start with `#` are ignored. RDF Patch: `A` and
`D` rows; a transaction (`TX` … `TC`) is a batch; an aborted one (`TA`) and headers and prefixes are ignored.

Rejects everything else with file and line, and a transaction without an end, because the file is truncated.
Invariants: blank nodes keep their labels; a quad is in a batch once, with its last change; one batch at a
time is in memory.
"""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from sparqlive.errors import Error, InvalidChange
from sparqlive.errors import SyntaxError as ChangesSyntaxError
from sparqlive.rdf.guard import has_too_many_triple_terms
from sparqlive.rdf.read import check_quad

ENDINGS = (".changes", ".rdfp")
_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_PARSED_AT_ONCE = 10_000
_PLACE = re.compile(r"^Parser error(?: at line .*?| between .*?)?: |^Parser error ")
_PATCH_ROW = re.compile(r"([A-Z]+)(?:\s+|(?=\.|$))")
# An unclosed string extends to the end; otherwise the search would restart at each quote in it.
_QUOTED_OR_LABEL = re.compile(r'("(?:[^"\\]++|\\.)*+"?)|<_:([^<>\s]+)>')


@dataclass(frozen=True)
class Batch:
    """The changes of one epoch: quads to insert and to delete, the time, and the first line of the batch."""

    insert: tuple[Quad, ...]
    delete: tuple[Quad, ...]
    time: str | None = None
    line: int = 0

    def __len__(self) -> int:
        return len(self.insert) + len(self.delete)


def _batch(words: Mapping[Quad, int], time: str | None = None, line: int = 0) -> Batch:
    """A batch from the last change of each quad."""
    insert = tuple(quad for quad, weight in words.items() if weight > 0)
    delete = tuple(quad for quad, weight in words.items() if weight < 0)
    return Batch(insert, delete, time, line)


def is_changes_name(name: str) -> bool:
    """Whether a file name has the ending of a syntax of changes."""
    return plain_name(name).endswith(ENDINGS)


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file, decompressed by its name. An error while the block reads it says so."""
    opener = _COMPRESSED.get(file.suffix, open)
    try:
        with cast("BinaryIO", opener(file, "rb")) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise Error(f"{file}: cannot be read: {error}.") from error


def parse_changes(lines: Iterable[bytes], name: str, graph: NamedNode | None = None) -> Iterator[Batch]:
    """Yields the batches in lines of text; the name determines the syntax, and is used in errors."""
    plain = plain_name(name)
    if not plain.endswith(ENDINGS):
        raise Error(
            f"{name}: the file name does not show the syntax of the changes. "
            f"Use the ending {' or '.join(ENDINGS)}, optionally followed by .gz or .bz2."
        )
    return _batches(lines, Reader(name, graph, "patch" if plain.endswith(".rdfp") else "changes"))


def parse_batch(text: bytes, name: str) -> Batch:
    """Reads a whole text as one batch; its first line determines the syntax."""
    words: dict[Quad, int] = {}
    for batch in _batches(text.split(b"\n"), Reader(name)):
        words.update(dict.fromkeys(batch.delete, -1))
        words.update(dict.fromkeys(batch.insert, 1))
    return _batch(words)


def _batches(lines: Iterable[bytes], reader: Reader) -> Iterator[Batch]:
    for line in lines:
        batch = reader.take(line)
        if batch is not None:
            yield batch
    if reader.transaction:
        raise ChangesSyntaxError(
            f"{reader.name}, line {reader.transaction}: the transaction that starts here has no end (TC); "
            f"the file is truncated."
        )
    if reader.started:
        yield reader.finish()


def write_patch(batches: Iterable[Batch]) -> Iterator[str]:
    """Yields the lines of an RDF Patch, one transaction per batch."""
    for batch in batches:
        yield "TX .\n"
        for sign, quads in (("D", batch.delete), ("A", batch.insert)):
            for quad in quads:
                yield f"{sign} {statement(quad)}\n"
        yield "TC .\n"


def statement(quad: Quad) -> str:
    """A quad as a statement of N-Quads."""
    subject, predicate, object_, graph = quad
    name = "" if isinstance(graph, DefaultGraph) else f"{graph} "
    return f"{subject} {predicate} {object_} {name}."


def plain_name(name: str) -> str:
    """The name of a file without the ending of a compression."""
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name


class Reader:
    """Groups lines into batches as they arrive. Without `syntax`, the first line determines it."""

    def __init__(
        self,
        name: str,
        graph: NamedNode | None = None,
        syntax: Literal["changes", "patch"] | None = None,
        line: int = 0,
    ) -> None:
        self.name = name
        self.line = line
        """The number of the last line."""
        self.transaction = 0
        """The line of the current transaction's TX; 0 outside of a transaction."""
        self.marked = False
        """Whether a line, `@` or TX, started the current batch."""
        self._row = {"changes": self._changes_row, "patch": self._patch_row, None: self._first_row}[syntax]
        self._gathering = _Gathering(name, graph)

    @property
    def started(self) -> bool:
        """Whether there is a current batch."""
        return self._gathering.started

    def take(self, line: bytes) -> Batch | None:
        """Reads a line; returns the batch that ends with this line or before it, if any."""
        self.line += 1
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise self._error(f"the line is not UTF-8: {error.reason}.") from error
        return self._row(text) if text and not text.startswith("#") else None

    def finish(self) -> Batch:
        """Ends and returns the current batch."""
        self.marked = False
        return self._gathering.finish()

    def _start(self, time: str | None) -> Batch | None:
        """Starts a batch; returns the one before it if that has not ended yet."""
        batch = self.finish() if self.started else None
        self._gathering.start(self.line, time)
        self.marked = True
        return batch

    def _first_row(self, text: str) -> Batch | None:
        if text[0] not in "+-@" and not _PATCH_ROW.match(text):
            raise self._error(
                f"expected a line of changes, which starts with '+ ', '- ' or '@', or a row of an RDF Patch, "
                f"which starts with letters such as A, D or TX: {_excerpt(text)}"
            )
        self._row = self._changes_row if text[0] in "+-@" else self._patch_row
        return self._row(text)

    def _changes_row(self, text: str) -> Batch | None:
        sign, rest = text[0], text[1:]
        if sign == "@":
            return self._start(time_of(rest, self.name, self.line))
        if sign not in "+-" or not rest[:1].isspace():
            raise self._error(
                f"a line of changes must start with '+ ' or '- ' and an N-Quads statement, or with '@': "
                f"{_excerpt(text)}"
            )
        self._gathering.add(self.line, 1 if sign == "+" else -1, rest)
        return None

    def _patch_row(self, text: str) -> Batch | None:
        match = _PATCH_ROW.match(text)
        code = match[1] if match else ""
        batch = None
        if code in ("A", "D") and match is not None:
            statement = _QUOTED_OR_LABEL.sub(_label, text[match.end() :])
            self._gathering.add(self.line, 1 if code == "A" else -1, statement)
        elif code == "TX" and not self.transaction:
            batch = self._start(None)
            self.transaction = self.line
        elif code in ("TC", "TA") and self.transaction:
            self.transaction = 0
            batch = self.finish()
        elif code not in ("H", "PA", "PD"):
            rule = (
                "TX must alternate with TC or TA"
                if code in ("TX", "TC", "TA")
                else "rows start with H TX TC TA PA PD A or D"
            )
            raise self._error(f"not a valid RDF Patch, in which {rule}: {_excerpt(text)}")
        return None if code == "TA" else batch

    def _error(self, sentence: str) -> ChangesSyntaxError:
        return ChangesSyntaxError(f"{self.name}, line {self.line}: {sentence}")


def time_of(rest: str, name: str, number: int) -> str | None:
    """The time of a batch, from what follows `@`."""
    text = rest.strip()
    if not text:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        text = ""
    if not text or not rest[0].isspace():
        raise ChangesSyntaxError(
            f"{name}, line {number}: after '@', expected nothing, or a space and a time such as "
            f"2026-01-01T00:00:00Z, not {_excerpt(rest.strip())}"
        )
    return text


def _label(match: re.Match[str]) -> str:
    """Rewrites a blank node in the form `<_:label>`, which patches may use."""
    return match[1] or f"_:{match[2]}"


@dataclass
class _Gathering:
    """The current batch: statements that are not parsed yet, and the last change of each quad."""

    name: str
    graph: NamedNode | None
    started: bool = False
    _line: int = 0
    _time: str | None = None
    _words: dict[Quad, int] = field(default_factory=dict)
    _waiting: list[tuple[int, int, str]] = field(default_factory=list)

    def start(self, line: int, time: str | None) -> None:
        self.started, self._line, self._time = True, line, time

    def add(self, line: int, weight: int, statement: str) -> None:
        if not self.started:
            self.start(line, None)
        self._waiting.append((line, weight, statement))
        if len(self._waiting) >= _PARSED_AT_ONCE:
            self._parse()

    def finish(self) -> Batch:
        self._parse()
        words, self._words, self.started = self._words, {}, False
        return _batch(words, self._time, self._line)

    def _parse(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        statements = "\n".join(statement for _, _, statement in waiting)
        try:
            quads = (
                [] if has_too_many_triple_terms(statements) else list(parse(statements, RdfFormat.N_QUADS))
            )
        except SyntaxError:
            quads = []
        if len(quads) != len(waiting):  # one of them is malformed: find it
            quads = [self._statement(line, statement) for line, _, statement in waiting]
        for quad, (line, weight, _) in zip(quads, waiting, strict=True):
            self._words[self._checked(quad, line)] = weight

    def _statement(self, line: int, statement: str) -> Quad:
        if has_too_many_triple_terms(statement):
            raise InvalidChange(
                f"{self.name}, line {line}: {_excerpt(statement)} has triple terms; RDF 1.2 triple terms are "
                f"not supported yet."
            )
        try:
            quads: list[Quad] = list(parse(statement, RdfFormat.N_QUADS))
        except SyntaxError as error:
            reason = _PLACE.sub("", str(error.msg))
            raise ChangesSyntaxError(f"{self.name}, line {line}: {reason}: {_excerpt(statement)}") from error
        if len(quads) != 1:
            raise ChangesSyntaxError(
                f"{self.name}, line {line}: expected one statement, not {len(quads)}: {_excerpt(statement)}"
            )
        return quads[0]

    def _checked(self, quad: Quad, line: int) -> Quad:
        try:
            return check_quad(quad, self.graph)
        except InvalidChange as error:
            raise InvalidChange(f"{self.name}, line {line}: {error}") from error


def _excerpt(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 120 else text[:117] + "…"
