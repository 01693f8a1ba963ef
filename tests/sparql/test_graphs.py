"""Graphs as text: what is written by columns means the same triples, in every syntax and size of block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import rdflib
from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Quad, RdfFormat, parse
from pyoxigraph import CanonicalizationAlgorithm as Algorithm
from pyoxigraph import Dataset as Graph

from sparqlive.errors import Error
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.graphs import GRAPH_FORMATS, write_graph
from sparqlive.zset.blocks import Block

EX = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
FORMATS = {
    "nt": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
OBJECTS = [
    NamedNode(EX + "o"),
    NamedNode("http://example.org/a?b=1&c='2'"),
    BlankNode("b"),
    BlankNode("n1"),
    BlankNode("1n"),
    BlankNode("a.b-c"),
    Literal("plain"),
    Literal(""),
    Literal(' <a>&amp; "q" \\ \' \t \n \r é \U0001f600 \x85 \u2028'),
    Literal("hello", language="en-gb"),
    Literal("shalom", language="he", direction=BaseDirection.RTL),
    Literal("x", datatype=NamedNode(EX + "a&b")),
    *(Literal(form, datatype=NamedNode(XSD + "integer")) for form in ("1", "-01", "+2", "1.0", "x", "")),
    *(Literal(form, datatype=NamedNode(XSD + "decimal")) for form in ("1.5", "-.5", "1", "1.", "1e3")),
    *(Literal(form, datatype=NamedNode(XSD + "double")) for form in ("1e0", "-1.e5", ".5E-3", "1.5", "INF")),
    *(Literal(form, datatype=NamedNode(XSD + "boolean")) for form in ("true", "false", "1", "TRUE")),
]
PREDICATES = [
    NamedNode(RDF + "type"),
    NamedNode(RDF + "_1"),
    NamedNode(EX + "p"),
    NamedNode(EX + "p/a1.b-c"),
    NamedNode(EX + "p#ünï"),
    NamedNode("urn:x:1a"),
    NamedNode(EX + "?q='1'&r=s"),
]
SUBJECTS = [NamedNode(EX + "s"), BlankNode("b"), BlankNode("n1"), NamedNode(EX + "s2?x=1&y")]
TRIPLES = [
    Quad(SUBJECTS[(n + m) % 4], predicate, object_)
    for n, object_ in enumerate(OBJECTS)
    for m, predicate in enumerate(PREDICATES)
]


def written(syntax: str, quads: Sequence[Quad], size: int = 7) -> str:
    dictionary = Dictionary()
    ids = [[dictionary.id_of(term) for term in quad.triple] for quad in quads]

    def blocks() -> Iterator[Block]:
        for start in range(0, len(ids), size):
            rows = np.array(ids[start : start + size], np.int64)
            yield Block(tuple(rows.T), np.ones(len(rows), np.int64))

    return "".join(write_graph(syntax, blocks(), dictionary.texts))


def canonical(quads: Sequence[Quad]) -> Graph:
    graph = Graph(quads)
    graph.canonicalize(Algorithm.UNSTABLE)
    return graph


def test_every_format_is_tested() -> None:
    assert set(FORMATS) == set(GRAPH_FORMATS)


@pytest.mark.parametrize("syntax", GRAPH_FORMATS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_is_written_is_read_again(syntax: str, size: int) -> None:
    read = list(parse(written(syntax, TRIPLES, size), FORMATS[syntax]))
    assert len(read) == len(TRIPLES)
    assert canonical(read) == canonical(TRIPLES)


@pytest.mark.parametrize("syntax", GRAPH_FORMATS)
def test_an_empty_graph_is_a_document(syntax: str) -> None:
    assert not list(parse(written(syntax, []), FORMATS[syntax]))


@pytest.mark.parametrize(("syntax", "name"), [("turtle", "turtle"), ("rdfxml", "xml")])
def test_rdflib_reads_the_same_number_of_triples(syntax: str, name: str) -> None:
    plain = [quad for quad in TRIPLES if getattr(quad.object, "direction", None) is None]
    assert len(rdflib.Graph().parse(data=written(syntax, plain), format=name)) == len(plain)


def test_triples_of_a_subject_stand_together_in_the_order_of_their_first() -> None:
    def triple(subject: str, predicate: str, object_: int) -> Quad:
        return Quad(NamedNode(EX + subject), NamedNode(EX + predicate), Literal(object_))

    quads = [triple("b", "p", 1), triple("a", "p", 2), triple("b", "q", 3), triple("b", "p", 4)]
    assert written("turtle", quads, 100).replace(EX, "") == "<b> <p> 1 , 4 ;\n\t<q> 3 .\n<a> <p> 2 .\n"
    assert written("nt", quads, 100) == "".join(f"{quad} .\n" for quad in quads)


@pytest.mark.parametrize(
    "predicate", [EX + "p/1", "urn:123", RDF + "li", RDF + "Description", "http://www.w3.org/2000/xmlns/a"]
)
def test_rdf_xml_rejects_predicates_that_are_no_names_of_properties(predicate: str) -> None:
    quads = [Quad(NamedNode(EX + "s"), NamedNode(predicate), Literal("o"))]
    with pytest.raises(Error, match=r"RDF/XML cannot represent the predicate <.*>. Use turtle"):
        written("rdfxml", quads)
    assert predicate in written("turtle", quads)


def test_rdf_xml_rejects_control_characters() -> None:
    with pytest.raises(Error, match=r"U\+0001"):
        written("rdfxml", [Quad(NamedNode(EX + "s"), NamedNode(EX + "p"), Literal("a\x01b"))])


def test_pieces_of_a_graph_have_a_bounded_size() -> None:
    long = [Literal(str(n % 10) * 40_000) for n in range(100)]
    quads = [Quad(NamedNode(f"{EX}{n}"), NamedNode(EX + "p"), text) for n, text in enumerate(long)]
    dictionary = Dictionary()
    rows = np.array([[dictionary.id_of(term) for term in quad.triple] for quad in quads], np.int64)
    block = Block(tuple(rows.T), np.ones(len(rows), np.int64))
    pieces = list(write_graph("turtle", iter([block]), dictionary.texts))
    assert len(list(parse("".join(pieces), RdfFormat.TURTLE))) == 100
    assert 2 < len(pieces) < 20
    assert all(len(piece) < 1 << 20 for piece in pieces)
