"""Guarded parsing: rejects documents with more nesting, or longer terms, than pyoxigraph can read.

Its parsers of RDF/XML and JSON-LD take quadratic time in the nesting depth. Deep JSON-LD (from about 3,000
levels) and deep triple terms in any syntax (from about 15,000) crash the process. Owns the bounds. The guard
inspects the bytes as the parser reads them: a document is read once, and never held in memory completely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, cast
from xml.parsers import expat

from pyoxigraph import Quad, RdfFormat, parse

from sparqlive.errors import InvalidChange
from sparqlive.errors import SyntaxError as RdfSyntaxError

_DEEPEST = 1_000
MOST_TRIPLE_TERMS = 2_000  # in one statement, nested or not
_FULL_BUFFER = "buffer maximal size"  # what pyoxigraph says of a term that is too long for it
_TRIPLE_TERMS = "the document has triple terms; RDF 1.2 triple terms are not supported yet."
_JSON_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:(")|(\\?))|[\[\]{}]', re.DOTALL)


def parse_guarded(
    stream: IO[bytes],
    syntax: RdfFormat,
    base_iri: str,
    *,
    deepest: int = _DEEPEST,
    doctype: bool = True,
    **options: Any,
) -> Iterator[Quad]:
    """Yields the quads of a document; raises InvalidChange, without the document's name, if it is rejected.

    `doctype=False` also rejects RDF/XML with a DOCTYPE, and so with entities.
    """
    guarded = _Guarded(stream, syntax, deepest, doctype)
    try:
        for quad in parse(cast("IO[bytes]", guarded), syntax, base_iri=base_iri, **options):
            if guarded.triple_terms:
                guarded.triple_terms = 0
            yield quad
    except MemoryError as error:
        if _FULL_BUFFER not in str(error):
            raise
        raise InvalidChange("the document has a term of more than 16 MiB.") from error


def reason_of(error: SyntaxError) -> str:
    """The parser's message without the position."""
    return str(error.msg).partition(": ")[2] or str(error.msg)


def malformed(name: str, error: SyntaxError) -> RdfSyntaxError:
    """The error of a document that cannot be parsed, with its place if that is known."""
    if error.lineno is None:
        return RdfSyntaxError(f"{name}: {error.msg}")
    column = "" if error.offset is None else f", column {error.offset}"
    return RdfSyntaxError(f"{name}, line {error.lineno}{column}: {reason_of(error)}")


def has_too_many_triple_terms(statements: str) -> bool:
    """Whether one of the lines could crash the parser."""
    return statements.count("<<(") > MOST_TRIPLE_TERMS and any(
        line.count("<<(") > MOST_TRIPLE_TERMS for line in statements.split("\n")
    )


def check_json(body: bytes, deepest: int) -> None:
    """Rejects JSON that is nested too deeply."""
    _json_guard(deepest)(body)


class _Guarded:
    """A stream that inspects its bytes on their way to the parser."""

    def __init__(self, stream: IO[bytes], syntax: RdfFormat, deepest: int, doctype: bool) -> None:
        self.triple_terms = 0
        """The number of triple terms since the last quad, including text in literals that looks like one."""
        self._stream = stream
        if syntax == RdfFormat.RDF_XML:
            self._look = _xml_guard(deepest, doctype)
        elif syntax == RdfFormat.JSON_LD:
            self._look = _json_guard(deepest)
        else:
            self._look = self._count_triple_terms

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._look(data)
        return data

    def _count_triple_terms(self, data: bytes) -> None:
        self.triple_terms += data.count(b"<<(")  # misses one that is split between two reads
        if self.triple_terms > MOST_TRIPLE_TERMS:
            raise InvalidChange(_TRIPLE_TERMS)


def _xml_guard(deepest: int, doctype: bool) -> Callable[[bytes], None]:
    depth = 0

    def refuse(*_: Any) -> None:
        raise InvalidChange("documents with a DOCTYPE or entities are not accepted.")

    def start(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > deepest:
            raise _too_deep(deepest)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if not doctype:
        parser.StartDoctypeDeclHandler = refuse

    def look(data: bytes) -> None:
        try:
            parser.Parse(data, not data)
        except expat.ExpatError as error:
            raise SyntaxError(f"the XML is not well-formed: {error}") from error

    return look


def _json_guard(deepest: int) -> Callable[[bytes], None]:
    depth, begun = 0, b""  # the start of a string that continues in the next read

    def look(data: bytes) -> None:
        nonlocal depth, begun
        data, begun = begun + data, b""
        for token in _JSON_TOKENS.finditer(data):
            sign = data[token.start()]
            if sign in b"[{":
                depth += 1
                if depth > deepest:
                    raise _too_deep(deepest)
            elif sign in b"]}":
                depth -= 1
            elif token[1] is None:
                begun = b'"' + token[2]

    return look


def _too_deep(deepest: int) -> InvalidChange:
    return InvalidChange(f"the document is nested more than {deepest:,} levels deep.")
