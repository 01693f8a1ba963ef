"""Encodes terms and quads as ids: N-Triples and N-Quads lines in blocks by columns, anything else by quad.

Splits all lines of a block at single spaces at once. Each distinct piece of text is checked once, and used
directly only if it matches a strict pattern of canonical terms. Lines with other pieces go to the parser, one
by one if necessary. Rejects triple terms. Invariant: both ways produce the same text, and so the same id, for
the same term; input that the parser rejects is rejected here too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Literal as Literal_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, parse

from sparqlive.rdf.dictionary import DEFAULT_GRAPH, hash_of
from sparqlive.rdf.guard import MOST_TRIPLE_TERMS, reason_of
from sparqlive.rdf.read import read_text, utf8

Ids = npt.NDArray[np.int64]
FaultKind = Literal_["syntax", "unsupported", "unreadable"]

_SPACE, _NEWLINE, _DOT, _QUOTE, _LESS, _UNDERSCORE = b' \n."<_'

# Canonical terms, as pyoxigraph writes them. Narrower than the grammar where that is intricate: hosts with
# unusual characters, long language tags and so on are left to the parser.
_BEYOND_ASCII = r"\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}"
_PATH = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@/{_BEYOND_ASCII}-]|%[0-9A-Fa-f]{{2}})*"
_QUERY = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?{_BEYOND_ASCII}-]|%[0-9A-Fa-f]{{2}})*"
_IRI = (
    r"<[A-Za-z][A-Za-z0-9+.-]*:"
    rf"(?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/{_PATH})?|(?:/?[A-Za-z0-9._~:-]{_PATH})?)"
    rf"(?:\?{_QUERY})?(?:#{_QUERY})?>"
)
_LABEL = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
_STRING = r'"(?:[^"\\\x00-\x1f\x7f\x{FFFE}\x{FFFF}]|\\[tbnrf"\\])*"'
_TAG = r"@[a-z]{2,3}(?:-(?:[a-z]{2}|[0-9]{3}))?"
_CANONICAL = rf"^(?:{_IRI}|{_LABEL}|{_STRING}(?:{_TAG}|\^\^{_IRI})?)$"
_NEVER_WRITTEN = tuple(
    f"^^<http://www.w3.org/{name}>"
    for name in (
        "2001/XMLSchema#string",
        "1999/02/22-rdf-syntax-ns#langString",
        "1999/02/22-rdf-syntax-ns#dirLangString",
    )
)

_SEED = 42
"""The seed of `hash_of`, which is inlined here: calling it once per term would be the slowest part."""
_BATCH_LENGTH = 16 << 20
_QUAD_LENGTH = 200

_NO_TERM, NOT_CANONICAL, _NODE_IRI, NODE_BLANK, LITERAL = range(5)
_UNNAMED = -1
"""The place of the unnamed graph, which is no term."""


@dataclass(frozen=True)
class Fault:
    """A rejected line. `line` counts from one within the input."""

    line: int
    text: str
    reason: str
    kind: FaultKind = "syntax"


@dataclass(frozen=True)
class Encoded:
    """Quads as columns (subject, predicate, object, graph) of places among their distinct terms.

    Two terms may have the same id, if their hashes collide; a dictionary then has others for `quads_with`.
    """

    places: tuple[Ids, Ids, Ids, Ids]
    """Places in `ids` and `texts`, or _UNNAMED."""
    ids: Ids
    texts: pa.StringArray
    faults: Sequence[Fault] = ()
    lines: int = 0

    def __len__(self) -> int:
        """The number of quads."""
        return len(self.places[0])

    @property
    def quads(self) -> tuple[Ids, Ids, Ids, Ids]:
        """The quads as columns of ids."""
        return self.quads_with(self.ids)

    def quads_with(self, ids: Ids) -> tuple[Ids, Ids, Ids, Ids]:
        """The quads as columns, with these ids for the terms."""
        numbers = np.append(ids, DEFAULT_GRAPH)  # found at the place _UNNAMED
        subject, predicate, object_, graph = (numbers[column] for column in self.places)
        return subject, predicate, object_, graph


@dataclass(frozen=True)
class Encoder:
    """Encodes terms as ids. `graph` is the canonical text of the graph for quads of the unnamed graph."""

    graph: str | None = None
    hash_function: Callable[[str], int] = hash_of
    exceptions: Mapping[str, int] = field(default_factory=dict)

    def ids(self, texts: pa.StringArray) -> Ids:
        if self.hash_function is hash_of:
            digest = xxhash.xxh64_intdigest
            unsigned = [digest(text, _SEED) for text in texts.cast(pa.binary()).to_pylist()]
            numbers = np.array(unsigned, dtype=np.uint64).view(np.int64)
        else:
            numbers = np.array([self.hash_function(text) for text in texts.to_pylist()], dtype=np.int64)
        if self.exceptions and len(texts):
            known = pc.is_in(texts, value_set=pa.array(list(self.exceptions), pa.string()))
            for place in np.flatnonzero(known.to_numpy(zero_copy_only=False)):
                numbers[place] = self.exceptions[texts[int(place)].as_py()]
        return numbers

    def lines(self, block: bytes, syntax: RdfFormat, scope: str | None) -> Encoded:
        """Encodes whole lines, in order if each has a quad; skips faulty lines and reports them."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        pieces = _cut(block, with_graph=syntax == RdfFormat.N_QUADS)
        by_columns = self._columns(pieces, scope)
        count = len(pieces.canonical)
        left = np.flatnonzero(~pieces.canonical)
        if not len(left):
            return replace(by_columns, lines=count)
        lines = [block[start:end] for start, end in zip(pieces.starts[left], pieces.ends[left], strict=True)]
        quads, faults = _parsed(lines, left, syntax)
        both = together([by_columns, self.quads(quads, labels(scope))])
        if len(both) == count:
            order = np.argsort(np.concatenate([np.flatnonzero(pieces.canonical), left]))
            subject, predicate, object_, graph = (column[order] for column in both.places)
            both = replace(both, places=(subject, predicate, object_, graph))
        return replace(both, faults=faults, lines=count)

    def statements(self, block: bytes) -> Encoded | None:
        """Encodes lines with one N-Quads statement each, in their order; None if a line has anything else.

        Blank nodes keep their labels.
        """
        if not block:
            return self.quads((), labels(None))
        if b"\r" in block:  # which may end a statement within a line
            return None
        encoded = self.lines(block, RdfFormat.N_QUADS, None)
        return encoded if len(encoded) == encoded.lines else None

    def quads(self, quads: Iterable[Quad], label: Callable[[str], str]) -> Encoded:
        """Encodes parsed quads; `label` renames blank nodes."""
        codes: dict[str, int] = {}
        known: dict[Any, int] = {DefaultGraph(): codes.setdefault(self.graph or "", 0)}
        find = known.get
        rows = array("q")
        for quad in quads:
            for term in quad:
                code = find(term)
                if code is None:
                    text = label(term.value) if type(term) is BlankNode else str(term)
                    code = known[term] = codes.setdefault(text, len(codes))
                rows.append(code)
        texts = pa.array(codes, pa.string())
        ids = self.ids(texts)
        return _encoded(np.frombuffer(rows, dtype=np.int64).reshape(-1, 4), ids, texts)

    def _columns(self, pieces: _Pieces, scope: str | None) -> Encoded:
        """Encodes the lines whose pieces are canonical terms in valid positions, and marks them."""
        kinds = kinds_of(pieces.texts)
        subject, predicate, object_, graph = pieces.codes
        node = (kinds == _NODE_IRI) | (kinds == NODE_BLANK)
        pieces.canonical &= node[subject] & (kinds == _NODE_IRI)[predicate]
        pieces.canonical &= (kinds > NOT_CANONICAL)[object_] & (node | (kinds == _NO_TERM))[graph]
        codes = np.stack([column[pieces.canonical] for column in pieces.codes], axis=1)
        used = np.zeros(len(kinds), dtype=bool)
        used[codes] = True
        places = np.flatnonzero(used)
        renumbered = np.cumsum(used) - 1
        texts = pieces.texts.take(pa.array(places))
        texts = self._renamed(texts, kinds[places], scope)
        return _encoded(renumbered[codes], self.ids(texts), texts)

    def _renamed(
        self, texts: pa.StringArray, kinds: npt.NDArray[np.int8], scope: str | None
    ) -> pa.StringArray:
        """Renames blank nodes by their document's scope, and the unnamed graph to `graph`."""
        blank = kinds == NODE_BLANK
        unnamed = kinds == _NO_TERM
        if blank.any() and scope is not None:
            label = labels(scope)
            found = texts.filter(pa.array(blank)).to_pylist()
            new = pa.array([label(text[2:]) for text in found], pa.string())
            texts = pc.replace_with_mask(texts, pa.array(blank), new)
        if unnamed.any() and self.graph is not None:
            new = pa.array([self.graph] * int(unnamed.sum()), pa.string())
            texts = pc.replace_with_mask(texts, pa.array(unnamed), new)
        return texts


def encoded_text(text: Any, exceptions: Mapping[str, int]) -> list[Encoded]:
    """Encodes N-Quads text, whose blank nodes keep their labels; returns nothing for empty text."""
    if not text:
        return []
    block = utf8(text if text[-1] == "\n" else f"{text}\n")  # an empty line would be parsed separately
    encoded = Encoder(exceptions=exceptions).lines(block, RdfFormat.N_QUADS, None)
    if encoded.faults:
        return [Encoder(exceptions=exceptions).quads(read_text(text), labels(None))]  # raises with the reason
    return [encoded]


def _encoded(codes: npt.NDArray[np.int64], ids: Ids, texts: pa.StringArray) -> Encoded:
    """Quads as rows of positions in `texts`. The empty text is the unnamed graph, and not a term."""
    empty = pc.equal(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    if empty.any():
        places = np.where(empty, _UNNAMED, np.cumsum(~empty) - 1)
        codes, ids, texts = places[codes], ids[~empty], texts.filter(pa.array(~empty))
    return Encoded((codes[:, 0], codes[:, 1], codes[:, 2], codes[:, 3]), ids, texts)


def together(parts: Sequence[Encoded]) -> Encoded:
    """Concatenates parts; a term of several parts occurs several times."""
    if len(parts) == 1:
        return parts[0]
    columns: list[list[Ids]] = [[], [], [], []]
    terms = 0
    for part in parts:
        *nodes, graphs = (places + terms for places in part.places)
        graphs[part.places[3] == _UNNAMED] = _UNNAMED
        for column, places in zip(columns, (*nodes, graphs), strict=True):
            column.append(places)
        terms += len(part.ids)
    subject, predicate, object_, graph = (np.concatenate(column) for column in columns)
    ids = np.concatenate([part.ids for part in parts])
    return Encoded((subject, predicate, object_, graph), ids, pa.concat_arrays([p.texts for p in parts]))


# Blank nodes


def labels(scope: str | None) -> Callable[[str], str]:
    """Returns a function that makes labels of a document globally unique; without a scope, labels stay."""
    if scope is None:
        return "_:{}".format
    begin = xxhash.xxh3_128(scope.encode() + b"\n")

    def label(name: str) -> str:
        digest = begin.copy()
        digest.update(name.encode())
        return f"_:b{digest.hexdigest()}"

    return label


def numbered_labels(scope: str) -> Callable[[str], str]:
    """Like `labels`, for labels that the parser generates randomly: counts their order, not their name."""
    numbers: dict[str, int] = {}
    label = labels(scope)
    return lambda name: label(str(numbers.setdefault(name, len(numbers))))


# Lines by columns


@dataclass
class _Pieces:
    """The lines of a block split into pieces of text: the distinct pieces, and the pieces of each line."""

    texts: pa.StringArray
    codes: tuple[Ids, Ids, Ids, Ids]
    canonical: npt.NDArray[np.bool_]
    """Marks lines that may be canonical."""
    starts: Ids
    ends: Ids


def _cut(block: bytes, with_graph: bool) -> _Pieces:
    """Splits at the first two spaces, the last one, and for quads at the one before if a node follows it.

    The cuts divide the bytes without gaps, each piece with the space (or line end) before it, and so are the
    offsets of an Arrow array over the block's own bytes. A line without these cuts is one piece.
    """
    data = np.empty(len(block) + 1, dtype=np.uint8)
    data[0] = _NEWLINE
    data[1:] = np.frombuffer(block, dtype=np.uint8)
    marks = np.flatnonzero(data <= _SPACE)
    signs = data[marks]
    if not ((signs == _SPACE) | (signs == _NEWLINE)).all():  # tabs and the like, which the parser handles
        marks = marks[(signs == _SPACE) | (signs == _NEWLINE)]
    line_marks = np.flatnonzero(data[marks] == _NEWLINE)
    data[marks] = _SPACE
    before, ends = marks[line_marks[:-1]], marks[line_marks[1:]]
    spaces = np.diff(line_marks) - 1
    canonical = (spaces >= 3) & (data[ends - 1] == _DOT) & (marks[line_marks[1:] - 1] == ends - 2)
    first = line_marks[:-1]
    last = len(marks) - 1
    cuts = [
        before,
        np.where(canonical, marks[np.minimum(first + 1, last)], before),
        np.where(canonical, marks[np.minimum(first + 2, last)], before),
        np.where(canonical, ends - 2, before),
    ]
    if with_graph:
        place = marks[np.maximum(line_marks[1:] - 2, 0)]
        follows = data[np.minimum(place + 1, len(data) - 1)]
        is_node = canonical & (spaces >= 4) & ((follows == _LESS) | (follows == _UNDERSCORE))
        cuts.insert(3, np.where(is_node, place, cuts[3]))
    offsets = np.append(np.stack(cuts, axis=1).ravel(), ends[-1]).astype(np.int32)
    encoded = _binary_array(offsets, data).dictionary_encode()
    codes = encoded.indices.to_numpy().reshape(-1, len(cuts))
    texts = _readable(_without_first_byte(encoded.dictionary))
    graph = codes[:, 3] if with_graph else np.full(len(codes), len(texts))
    texts = pa.concat_arrays([texts, pa.array([""], pa.string())])
    return _Pieces(texts, (codes[:, 0], codes[:, 1], codes[:, 2], graph), canonical, before, ends - 1)


def _binary_array(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _without_first_byte(pieces: pa.BinaryArray) -> pa.BinaryArray:
    offsets = np.frombuffer(pieces.buffers()[1], np.int32)[: len(pieces) + 1]
    data = np.frombuffer(pieces.buffers()[2], np.uint8)[: offsets[-1]]
    starts = offsets[:-1][np.diff(offsets) > 0]
    kept = np.ones(len(data), dtype=bool)
    kept[starts] = False
    dropped = np.zeros(len(offsets), dtype=np.int32)
    np.cumsum(np.diff(offsets) > 0, out=dropped[1:])
    return _binary_array(offsets - dropped, data[kept])


def _readable(texts: pa.BinaryArray) -> pa.StringArray:
    """Decodes UTF-8. Invalid bytes become a text that is not a term, so that the parser gets the line."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(text) for text in texts.to_pylist()], pa.string())


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "\n"


def kinds_of(texts: pa.StringArray) -> npt.NDArray[np.int8]:
    """The kind of each piece: a kind of canonical term, none, or not canonical."""
    canonical = pc.match_substring_regex(texts, _CANONICAL)
    for ending in _NEVER_WRITTEN:
        canonical = pc.and_not(canonical, pc.ends_with(texts, ending))
    found = np.flatnonzero(canonical.to_numpy(zero_copy_only=False))
    starts = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts)]
    first = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[starts[found]]
    kinds = np.full(len(texts), NOT_CANONICAL, dtype=np.int8)
    for sign, kind in ((_LESS, _NODE_IRI), (_UNDERSCORE, NODE_BLANK), (_QUOTE, LITERAL)):
        kinds[found[first == sign]] = kind
    kinds[pc.binary_length(texts).to_numpy() == 0] = _NO_TERM
    return kinds


# Lines by the parser


def _parsed(lines: Sequence[bytes], numbers: Ids, syntax: RdfFormat) -> tuple[list[Quad], list[Fault]]:
    """Parses the lines that need the parser; line by line if one has a fault."""
    text = b"\n".join(lines)
    if text.count(b"<<(") <= MOST_TRIPLE_TERMS:
        try:
            quads = list(parse(text, syntax))
            if all(map(is_plain, quads)):
                return quads, []
        except SyntaxError:
            pass
    quads, faults = [], []
    for line, number in zip(lines, numbers, strict=True):
        found, fault = _parsed_line(line, int(number) + 1, syntax)
        quads += found
        if fault is not None:
            faults.append(fault)
    return quads, faults


def _parsed_line(line: bytes, number: int, syntax: RdfFormat) -> tuple[list[Quad], Fault | None]:
    text = line.decode(errors="replace")
    if line.count(b"<<(") > MOST_TRIPLE_TERMS:
        return [], Fault(number, text, TRIPLE_TERM, "unsupported")
    try:
        quads = list(parse(line, syntax))
    except SyntaxError as error:
        return [], Fault(number, text, reason_of(error))
    if not all(map(is_plain, quads)):
        return [], Fault(number, text, TRIPLE_TERM, "unsupported")
    return quads, None


TRIPLE_TERM = "RDF 1.2 triple terms are not supported yet"


def is_plain(quad: Quad) -> bool:
    """Whether a quad has no triple terms."""
    return isinstance(quad.subject, NamedNode | BlankNode) and isinstance(
        quad.object, NamedNode | BlankNode | Literal
    )


def batches(quads: Iterable[Quad]) -> Iterator[list[Quad]]:
    """Yields lists of quads, shorter lists if the quads are long."""
    batch: list[Quad] = []
    length = 0
    for quad in quads:
        batch.append(quad)
        length += _QUAD_LENGTH + len(quad.object.value)  # type: ignore[union-attr]
        if length >= _BATCH_LENGTH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
