"""Writes results in pieces of bounded size: as JSON, XML, CSV and TSV.

Implements the formats of the W3C recommendations for solutions and ASK results; deltas are JSON lines.
Solutions come as blocks of ids. A column's terms are encoded once per piece, from their canonical N-Triples
text, and stay known for the next pieces up to a bound. CSV has plain values and does not distinguish an IRI
from a string; the other formats keep terms complete. Characters that XML 1.0 cannot represent are an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.errors import Error
from sparqlive.rdf.dictionary import UNDEF, literal_parts
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Term
from sparqlive.zset.blocks import Block

FORMATS = ("json", "xml", "csv", "tsv")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STRING = "http://www.w3.org/2001/XMLSchema#string"
# The approximate size of the largest piece, unless a single row is larger.
_PIECE_CHARACTERS = 1 << 20
# The approximate size of the parts of an event. Each slow reader of events has one of them in memory.
_PART_CHARACTERS = 1 << 16
# The first part of a large event stream is small, so that it leaves at once.
_FIRST_PART_CHARACTERS = 1 << 14
_PART_ROWS = 256
# How many characters of encoded terms a column keeps for its next rows.
_KNOWN_CHARACTERS = 2 << 20

Texts: TypeAlias = Callable[[Sequence[int]], Sequence[str]]
"""Gives the canonical N-Triples texts of ids."""
Encode: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Encodes terms, given by their canonical texts."""


# Solutions


@dataclass(frozen=True)
class Layout:
    """How a format writes rows: what a cell is, and what stands before, between and after cells and rows."""

    head: Callable[[Sequence[str]], str]
    cells: Callable[[str], Encode]
    """Gives the function that encodes the terms of a variable."""
    tail: str
    first: str
    """Before the first row."""
    between: str
    """Between rows."""
    last: str
    """After the last row, if there is any row."""
    glue: str
    """Between cells."""
    leaves_out: bool = False
    """Whether an unbound variable has no cell; otherwise its cell is empty."""
    lone_empty: str = ""
    """An empty cell that is the only one of its row."""


def write_results(
    syntax: str, variables: Sequence[str], blocks: Iterable[Block], texts: Texts
) -> Iterator[str]:
    """Yields the text of a result in one of FORMATS: each row as often as its weight."""
    if syntax not in LAYOUTS:
        raise Error(f"Solutions cannot be written as {syntax!r}. Available formats: {', '.join(FORMATS)}.")
    return _written(LAYOUTS[syntax], variables, blocks, texts)


def _written(
    layout: Layout, variables: Sequence[str], blocks: Iterable[Block], texts: Texts
) -> Iterator[str]:
    rows = Rows(layout, variables, texts)
    # The head leaves together with the first rows: a result that fails at once has no first byte.
    before = layout.head(variables) + layout.first
    empty = True
    for block in blocks:
        for part in repeated(block):
            for text in rows.written(part):
                yield before + text
                before, empty = layout.between, False
    yield (layout.head(variables) if empty else layout.last) + layout.tail


def repeated(block: Block) -> Iterator[Block]:
    """Repeats each row by its weight, in blocks of bounded length."""
    if (block.weights == 1).all():
        yield block
        return
    ends = np.cumsum(block.weights)
    for start in range(0, int(ends[-1]), DEFAULT.block_rows):
        copies = np.arange(start, min(start + DEFAULT.block_rows, int(ends[-1])))
        part = block.take(np.searchsorted(ends, copies, side="right"))
        yield Block(part.columns, np.ones_like(copies))


class Cells:
    """Encodes the terms of blocks, and remembers some of those that it has encoded."""

    def __init__(
        self, columns: Iterable[Encode], texts: Texts, most_characters: int = _PIECE_CHARACTERS
    ) -> None:
        """`most_characters`: the approximate size of the largest part, unless a single row is larger."""
        self._texts = texts
        self._most_characters = most_characters
        self._columns = [_Column(encode) for encode in columns]

    def encoded(self, block: Block) -> Iterator[tuple[Block, Sequence[Sequence[str]]]]:
        """Yields the cells of a block, column by column; in several parts if they are large."""
        columns = [column.tolist() for column in block.columns]
        new = [column.unknown(ids) for column, ids in zip(self._columns, columns, strict=True)]
        texts = [self._texts(ids) for ids in new]
        sizes = zip(self._columns, columns, new, texts, strict=True)
        characters = sum([column.size(ids, own, added) for column, ids, own, added in sizes])
        if characters > self._most_characters and len(block.weights) > 1:
            del columns, new, texts  # a slow reader would keep them in memory
            yield from self._halves(block)
            return
        yield (
            block,
            [
                column.cells(ids, own, added)
                for column, ids, own, added in zip(self._columns, columns, new, texts, strict=True)
            ],
        )

    def _halves(self, block: Block) -> Iterator[tuple[Block, Sequence[Sequence[str]]]]:
        middle = len(block.weights) // 2
        yield from self.encoded(block.take(slice(middle)))
        yield from self.encoded(block.take(slice(middle, None)))

    def forget(self) -> None:
        """Forgets the terms that it has encoded."""
        for column in self._columns:
            column.forget()


class Rows(Cells):
    """Writes blocks of rows in one layout."""

    def __init__(
        self, layout: Layout, variables: Sequence[str], texts: Texts, most_characters: int = _PIECE_CHARACTERS
    ) -> None:
        super().__init__(map(layout.cells, variables), texts, most_characters)
        self._layout = layout

    def written(self, block: Block) -> Iterator[str]:
        """Yields the rows of a block, regardless of their weights, in texts of bounded size."""
        for part, cells in self.encoded(block):
            yield self.joined(part, cells)

    def joined(self, block: Block, cells: Sequence[Sequence[str]]) -> str:
        """The rows as one text, without what stands before the first and after the last."""
        layout = self._layout
        if not cells:
            return layout.between.join([""] * len(block.weights))
        rows: Iterable[Iterable[str]] = zip(*cells, strict=True)
        if len(cells) == 1 and layout.lone_empty:
            return layout.between.join([cell or layout.lone_empty for cell in cells[0]])
        if layout.leaves_out and any((column == UNDEF).any() for column in block.columns):
            rows = (filter(None, row) for row in rows)
        return layout.between.join(map(layout.glue.join, rows))


class _Column:
    """The encoded terms of one variable."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self.forget()

    def forget(self) -> None:
        self._known: dict[int, str] = {UNDEF: ""}
        self._characters = 0
        self.longest = 0
        """The length of the longest known cell."""

    def unknown(self, ids: Sequence[int]) -> Sequence[int]:
        """The ids whose terms must be encoded; the ids themselves if all of them are different and new."""
        distinct = set(ids)
        if len(distinct) == len(ids) and distinct.isdisjoint(self._known):
            return ids
        return list(distinct.difference(self._known))

    def size(self, ids: Sequence[int], new: Sequence[int], texts: Sequence[str]) -> int:
        """Bounds the number of characters of the terms of ids. `new` and `texts` are the unknown ones."""
        if new is ids:
            return sum(map(len, texts))
        return len(ids) * max([self.longest, *map(len, texts)])

    def cells(self, ids: Sequence[int], new: Sequence[int], texts: Sequence[str]) -> Sequence[str]:
        """The encoded terms of ids; `new` and `texts` are the unknown ones."""
        encoded = self._encode(texts)
        if new is ids:  # probably a key, whose terms rarely repeat
            return encoded
        if self._characters > _KNOWN_CHARACTERS:
            kept = {number: self._known[number] for number in set(ids).difference(new)}
            self._known, self._characters = {UNDEF: "", **kept}, sum(map(len, kept.values()))
            self.longest = max(map(len, self._known.values()))
        known = self._known
        known.update(zip(new, encoded, strict=True))
        self._characters += sum(map(len, encoded))
        self.longest = max([self.longest, *map(len, encoded)])
        return [known[number] for number in ids]


# The cells of each format


def _json_head(variables: Sequence[str]) -> str:
    return f'{{"head":{{"vars":{json.dumps(list(variables), ensure_ascii=False)}}},"results":{{"bindings":['


def _json_cells(name: str) -> Encode:
    """SPARQL 1.1 Query Results JSON Format §3.2.2.

    The escapes of canonical N-Triples are escapes of JSON, too, so the quoted value is used as it is.
    """
    begin = json.dumps(name, ensure_ascii=False) + ":"
    iri, blank = begin + '{"type":"uri","value":"', begin + '{"type":"bnode","value":"'
    literal = begin + '{"type":"literal","value":'

    def cell(text: str) -> str:
        if text[0] == "_":
            return f'{blank}{text[2:]}"}}'
        end = text.rindex('"') + 1
        if end == len(text):
            return f"{literal}{text}}}"
        if text[end] == "@":
            return f'{literal}{text[:end]},"xml:lang":"{text[end + 1 :].partition("--")[0]}"}}'
        return f'{literal}{text[:end]},"datatype":"{text[end + 3 : -1]}"}}'

    def cells(texts: Sequence[str]) -> list[str]:
        return [f'{iri}{text[1:-1]}"}}' if text[0] == "<" else cell(text) for text in texts]

    return cells


_XML_START = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
_XML_END = "</sparql>\n"


def _xml_head(variables: Sequence[str]) -> str:
    names = "".join(f"<variable name={quoteattr(name)}/>" for name in variables)
    return f"{_XML_START}<head>{names}</head><results>"


def _xml_cells(name: str) -> Encode:
    """SPARQL Query Results XML Format §2.3.1."""
    begin = f"<binding name={quoteattr(name)}>"

    def cell(text: str) -> str:
        if text[0] == "<":
            return f"{begin}<uri>{xml_text(text[1:-1])}</uri></binding>"
        if text[0] == "_":
            return f"{begin}<bnode>{xml_text(text[2:])}</bnode></binding>"
        value, kind = literal_parts(text)
        if kind[:1] == "@":
            kind = f" xml:lang={quoteattr(kind[1:].partition('--')[0])}"
        elif kind:
            kind = f" datatype={quoteattr(kind[3:-1])}"
        return f"{begin}<literal{kind}>{xml_text(value)}</literal></binding>"

    return lambda texts: list(map(cell, texts))


def xml_text(text: str) -> str:
    found = _NO_XML.search(text)
    if found is not None:
        raise Error(
            f"XML cannot represent the character U+{ord(found[0]):04X} in {text!r}. Use json or tsv instead."
        )
    return escape(text, {"\r": "&#13;"})


def _csv_head(variables: Sequence[str]) -> str:
    return ",".join(map(_csv_field, variables)) + "\r\n"


def _csv_field(value: str) -> str:
    if "," in value or '"' in value or "\n" in value or "\r" in value:
        return '"' + value.replace('"', '""') + '"'
    return value


def _csv_cells(texts: Sequence[str]) -> list[str]:
    return [_csv_field(text[1:-1]) if text[0] == "<" else _csv_other(text) for text in texts]


def _csv_other(text: str) -> str:
    return text if text[0] == "_" else _csv_field(literal_parts(text)[0])


def _tsv_head(variables: Sequence[str]) -> str:
    return "\t".join(f"?{name}" for name in variables) + "\n"


LAYOUTS: Mapping[str, Layout] = {
    "json": Layout(
        _json_head,
        _json_cells,
        tail="\n]}}\n",
        first="\n{",
        between="},\n{",
        last="}",
        glue=",",
        leaves_out=True,
    ),
    "xml": Layout(
        _xml_head,
        _xml_cells,
        tail=f"\n</results>{_XML_END}",
        first="\n<result>",
        between="</result>\n<result>",
        last="</result>",
        glue="",
    ),
    "csv": Layout(
        _csv_head,
        lambda name: _csv_cells,
        tail="",
        first="",
        between="\r\n",
        last="\r\n",
        glue=",",
        lone_empty='""',
    ),
    "tsv": Layout(_tsv_head, lambda name: list, tail="", first="", between="\n", last="\n", glue="\t"),
}


_ONE_LINE = replace(LAYOUTS["json"], between="},{")


# Answers


def write_answer(syntax: str, answer: bool) -> str:
    """Writes an ASK result. CSV and TSV, for which the recommendations define none, have the bare word."""
    word = "true" if answer else "false"
    match syntax:
        case "json":
            return f'{{"head":{{}},"boolean":{word}}}\n'
        case "xml":
            return f"{_XML_START}<head></head><boolean>{word}</boolean>{_XML_END}"
        case "csv":
            return f"{word}\r\n"
        case "tsv":
            return f"{word}\n"
        case _:
            raise Error(
                f"An ASK result cannot be written as {syntax!r}. Available formats: {', '.join(FORMATS)}."
            )


# Changes


def json_term(term: Term) -> dict[str, str]:
    """Returns a term as in the JSON results format (SPARQL 1.1 Query Results JSON Format §3.2.2)."""
    match term:
        case NamedNode():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.value}
        case Literal():
            found = {"type": "literal", "value": term.value}
            if term.language is not None:
                found["xml:lang"] = term.language
            elif term.datatype.value != _STRING:
                found["datatype"] = term.datatype.value
            return found
        case _:
            raise TypeError(f"{term!r} is not a term of a solution")


def json_delta(
    epoch: int, reset: bool, variables: Sequence[str], weights: Mapping[tuple[Term | None, ...], int]
) -> str:
    """Writes a delta as one line of JSON. `reset` means that it is the whole content."""
    rows = [
        {"weight": weight, "row": json_row(dict(zip(variables, row, strict=True)))}
        for row, weight in weights.items()
    ]
    entry = {"epoch": epoch, "reset": reset, "variables": list(variables), "changes": rows}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def json_weighted(
    variables: Sequence[str], epoch: int, blocks: Iterable[Block], texts: Texts
) -> Iterator[tuple[str, bool]]:
    """Yields a content or a delta in parts of bounded size, each with whether it is the last.

    A part is one line of JSON without its last brace: a result in the JSON results format with the members
    epoch and weights, one weight per binding, in the same order. A part does not wait for the next one.
    Nothing is kept between two parts, because many slow readers may be waiting there.
    """
    rows = Rows(_ONE_LINE, variables, texts, _PART_CHARACTERS)
    written: list[str] = []
    weights: list[int] = []
    most = _FIRST_PART_CHARACTERS
    pieces = (
        block.take(slice(start, start + _PART_ROWS))
        for block in blocks
        for start in range(0, len(block.weights), _PART_ROWS)
    )
    # None: more rows follow, which are not encoded yet.
    for encoded in chain.from_iterable(chain((None,), rows.encoded(piece)) for piece in pieces):
        if sum(map(len, written)) > most:
            finished = _json_part(variables, epoch, written, weights)
            written, weights = [], []
            most = min(4 * most, _PART_CHARACTERS)
            rows.forget()
            yield finished, False
            del finished
        if encoded is not None:
            part, cells = encoded
            written.append(rows.joined(part, cells))
            weights += part.weights.tolist()
            del encoded, part, cells
    yield _json_part(variables, epoch, written, weights), True


def _json_part(variables: Sequence[str], epoch: int, rows: Sequence[str], weights: Sequence[int]) -> str:
    bindings = f"{{{'},{'.join(rows)}}}" if weights else ""
    listed = ",".join(map(str, weights))
    return f'{_json_head(variables)}{bindings}]}},"epoch":{epoch},"weights":[{listed}]'


def json_weighted_answer(epoch: int, weights: Sequence[int]) -> str:
    """Like `json_weighted` for an ASK, always in one part: `boolean` is the answer as of the epoch."""
    answer = "true" if any(weight > 0 for weight in weights) else "false"
    return f'{{"head":{{}},"boolean":{answer},"epoch":{epoch},"weights":[{",".join(map(str, weights))}]'


def tsv_term(term: Term | None) -> str:
    """Writes a term in Turtle syntax; an unbound variable is empty (TSV format §4)."""
    return "" if term is None else str(term).replace("\t", "\\t")


def json_row(row: Mapping[str, Term | None]) -> dict[str, Any]:
    return {name: json_term(term) for name, term in row.items() if term is not None}
