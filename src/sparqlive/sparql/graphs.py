"""Writes graphs in pieces of bounded size: as N-Triples, Turtle, RDF/XML, JSON-LD and their relatives.

A graph comes as blocks of the ids of subject, predicate and object; like those of solutions, its terms are
read from their canonical N-Triples texts. N-Triples are these texts; Turtle, TriG and JSON-LD are written by
pyoxigraph. Its RDF/XML is not well-formed for some predicates, classes, blank nodes and characters, so that
is written here. Triples of a block that have the same subject are written together. What a syntax cannot
express is an error: RDF/XML cannot represent control characters, nor predicates that are not element names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias
from xml.sax.saxutils import quoteattr

import numpy as np
from pyoxigraph import RdfFormat, parse, serialize

from sparqlive.errors import Error
from sparqlive.rdf.dictionary import literal_parts
from sparqlive.sparql.results import Cells, Texts, xml_text
from sparqlive.zset.blocks import Block
from sparqlive.zset.run import Column

Triples: TypeAlias = Iterator[tuple[str, str, str]]

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_ITS = "http://www.w3.org/2005/11/its"
_XMLNS = "http://www.w3.org/2000/xmlns/"
"""A namespace that no document may declare."""


def write_graph(syntax: str, blocks: Iterable[Block], texts: Texts) -> Iterator[str]:
    """Yields the text of a graph in one of GRAPH_FORMATS. The weights of its triples do not matter."""
    if syntax not in _WRITERS:
        raise Error(
            f"A graph cannot be written as {syntax!r}. Available formats: {', '.join(GRAPH_FORMATS)}."
        )
    return _WRITERS[syntax](_pieces(blocks, texts, keeps_order=_WRITERS[syntax] is _lines))


def _pieces(blocks: Iterable[Block], texts: Texts, keeps_order: bool) -> Iterator[Triples]:
    """The triples as texts, in pieces of bounded size, none of them empty."""
    cells = Cells([list] * 3, texts)
    for block in blocks:
        for part, encoded in cells.encoded(block if keeps_order else _by_subject(block)):
            if len(part.weights):
                yield zip(*encoded, strict=True)


def _by_subject(block: Block) -> Block:
    """Groups triples by subject, and by predicate within it, in order of first occurrence."""
    subjects, predicates = (_ranks(column) for column in block.columns[:2])
    if (subjects[1:] > subjects[:-1]).all():
        return block
    return block.take(np.lexsort((predicates, subjects)))


def _ranks(column: Column) -> Column:
    """Returns equal numbers for equal values, in order of first occurrence."""
    _, first, places = np.unique(column, return_index=True, return_inverse=True)
    found: Column = first[places]
    return found


def _n_triples(triples: Triples) -> str:
    return "".join([f"{subject} {predicate} {object_} .\n" for subject, predicate, object_ in triples])


def _lines(pieces: Iterator[Triples]) -> Iterator[str]:
    return map(_n_triples, pieces)


def _documents(syntax: RdfFormat, pieces: Iterator[Triples]) -> Iterator[str]:
    """Each piece as a document."""
    for piece in pieces:
        quads = parse(_n_triples(piece), RdfFormat.N_TRIPLES, lenient=True)
        yield (serialize(quads, format=syntax) or b"").decode()


def _turtle(pieces: Iterator[Triples]) -> Iterator[str]:
    """Several documents without prefixes are one. TriG without named graphs is Turtle, and takes quads."""
    return _documents(RdfFormat.TRIG, pieces)


def _json_ld(pieces: Iterator[Triples]) -> Iterator[str]:
    """One list of all nodes; a node that is in several pieces is in it several times."""
    before = "["
    for document in _documents(RdfFormat.JSON_LD, pieces):
        yield before + document[1:-1]
        before = ",\n"
    yield "[]\n" if before == "[" else "]\n"


# RDF/XML

_NAME_START = (
    "A-Z_a-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_LOCAL_NAME = re.compile(f"[{_NAME_START}][{_NAME_START}0-9.\xb7\u0300-\u036f\u203f\u2040-]*")
"""An NCName of Namespaces in XML 1.0 §3."""
_NAME_CHARACTERS = re.compile(f"[{_NAME_START}0-9.\xb7\u0300-\u036f\u203f\u2040-]*")
# RDF/XML §5.1: these mean something else, or nothing, as the name of a property.
_NO_PROPERTIES = {
    _RDF + name
    for name in (
        *("RDF", "ID", "about", "parseType", "resource", "nodeID", "datatype", "Description", "li"),
        *("aboutEach", "aboutEachPrefix", "bagID"),
    )
}


def _rdf_xml(pieces: Iterator[Triples]) -> Iterator[str]:
    before = f'<?xml version="1.0" encoding="UTF-8"?>\n<rdf:RDF xmlns:rdf="{_RDF}" xmlns:its="{_ITS}">\n'
    for piece in pieces:
        nodes = groupby(piece, itemgetter(0))
        yield before + "".join([_description(subject, triples) for subject, triples in nodes])
        before = ""
    yield f"{before}</rdf:RDF>\n"


def _description(subject: str, triples: Iterable[tuple[str, str, str]]) -> str:
    properties = "".join([_property(predicate, object_) for _, predicate, object_ in triples])
    return f"\t<rdf:Description {_node(subject, 'rdf:about')}>\n{properties}\t</rdf:Description>\n"


def _property(predicate: str, object_: str) -> str:
    name, namespace = _element(predicate)
    begin = f"\t\t<{name} xmlns={namespace}"
    if object_[0] != '"':
        return f"{begin} {_node(object_, 'rdf:resource')}/>\n"
    value, kind = literal_parts(object_)
    if kind[:1] == "^":
        kind = f" rdf:datatype={_attribute(kind[3:-1])}"
    elif kind:
        language, _, direction = kind[1:].partition("--")
        way = f' rdf:version="1.2-basic" its:version="2.0" its:dir="{direction}"' if direction else ""
        kind = f' xml:lang="{language}"{way}'
    return f"{begin}{kind}>{xml_text(value)}</{name}>\n"


@lru_cache(maxsize=1024)
def _element(predicate: str) -> tuple[str, str]:
    """The local name of a predicate, and its namespace in quotation marks."""
    iri = predicate[1:-1]
    tail = _NAME_CHARACTERS.match(iri[::-1])
    assert tail is not None  # it may be empty
    found = _LOCAL_NAME.search(iri, len(iri) - tail.end())
    if found is None or iri in _NO_PROPERTIES or iri[: found.start()] in ("", _XMLNS):
        raise Error(f"RDF/XML cannot represent the predicate {predicate}. Use turtle, nt or jsonld instead.")
    return found[0], _attribute(iri[: found.start()])


def _node(text: str, iri: str) -> str:
    if text[0] == "<":
        return f"{iri}={_attribute(text[1:-1])}"
    # Labels that are not XML names, such as those that start with a digit, get a new, unique one.
    label = text[2:]
    if label[0] == "n" or not _LOCAL_NAME.fullmatch(label):
        label = f"n{label.encode().hex()}"
    return f'rdf:nodeID="{label}"'


def _attribute(value: str) -> str:
    xml_text(value)  # raises
    return quoteattr(value)


_WRITERS: Mapping[str, Callable[[Iterator[Triples]], Iterator[str]]] = {
    "nt": _lines,
    "nquads": _lines,
    "turtle": _turtle,
    "trig": _turtle,
    "rdfxml": _rdf_xml,
    "jsonld": _json_ld,
}
GRAPH_FORMATS = tuple(_WRITERS)
