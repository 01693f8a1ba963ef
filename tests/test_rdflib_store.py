"""The rdflib store: graphs and datasets on a session, whose views follow; compared with rdflib's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdflib import BNode, Dataset, Graph, Literal, URIRef, Variable
from rdflib.compare import isomorphic
from rdflib.namespace import FOAF, RDF

import sparqlive
from sparqlive.rdflib_store import SparqliveStore

EX = "http://example.org/"
NODES = [*(URIRef(f"{EX}n{number}") for number in range(4)), BNode("b")]
VALUES = [
    *NODES,
    Literal(1),
    Literal("a"),
    Literal("a", lang="en"),
    Literal("2026-01-01", datatype=URIRef(EX + "d")),
]


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph(store=SparqliveStore())
    yield made
    made.close()


def test_two_lines_give_an_existing_program_live_views(graph: Graph) -> None:
    view = graph.store.session.view("names", f"SELECT ?name {{ ?p <{FOAF.name}> ?name }}")
    graph.parse(data=f"<{EX}ann> a <{FOAF.Person}> ; <{FOAF.name}> 'Ann' .", format="turtle")
    assert [solution["name"].value for solution in view] == ["Ann"]
    graph.remove((None, FOAF.name, None))
    assert list(view) == []
    assert (URIRef(EX + "ann"), RDF.type, FOAF.Person) in graph


def test_every_pattern_finds_what_rdflib_finds(graph: Graph) -> None:
    other = Graph()
    chance = random.Random(5)
    for _ in range(120):
        triple = (chance.choice(NODES), chance.choice(NODES[:3]), chance.choice(VALUES))
        graph.add(triple)
        other.add(triple)
        if chance.random() < 0.3:
            gone = (chance.choice([*NODES, None]), chance.choice([*NODES[:3], None]), chance.choice(VALUES))
            graph.remove(gone)
            other.remove(gone)
    assert len(graph) == len(other) > 20
    assert isomorphic(graph, other)
    for subject in (*NODES, None):
        for predicate in (*NODES[:3], None):
            for object_ in (*VALUES, None):
                pattern = (subject, predicate, object_)
                assert set(graph.triples(pattern)) == set(other.triples(pattern))


def test_relative_iris_come_back_as_they_were(graph: Graph) -> None:
    odd = [URIRef("michel"), URIRef("a b?c=d#e%20f"), URIRef("")]
    triples = {(one, URIRef("likes"), other) for one in odd for other in (*odd, Literal(1))}
    for triple in triples:
        graph.add(triple)
    assert set(graph) == triples
    assert set(graph.triples((odd[1], None, Literal(1)))) == {(odd[1], URIRef("likes"), Literal(1))}
    assert {row.s for row in graph.query("SELECT ?s { ?s ?p 1 }")} == set(odd)
    graph.remove((None, None, odd[0]))
    assert len(graph) == 9


def test_graphs_of_a_dataset_are_apart() -> None:
    dataset = Dataset(store=SparqliveStore())
    first, second = dataset.graph(URIRef(EX + "first")), dataset.graph(URIRef(EX + "second"))
    triple = (NODES[0], NODES[1], Literal(1))
    first.add(triple)
    second.add((NODES[0], NODES[1], Literal(2)))
    dataset.default_graph.add(triple)
    assert (len(first), len(second), len(dataset.default_graph)) == (1, 1, 1)
    assert {str(one.identifier) for one in dataset.graphs()} >= {EX + "first", EX + "second"}
    assert {str(name) for *_, name in dataset.quads(triple)} >= {EX + "first"}
    dataset.remove_graph(first)
    assert (len(first), len(dataset.default_graph)) == (0, 1)


def test_sparql(graph: Graph) -> None:
    graph.bind("ex", EX)
    graph.update("INSERT DATA { ex:a ex:p 1 , 2 }")
    rows = [int(row.v) for row in graph.query("SELECT ?v { ex:a ex:p ?v } ORDER BY ?v")]
    assert rows == [1, 2]
    assert graph.query("ASK { ex:a ex:p 2 }").askAnswer is True
    assert len(graph.query("CONSTRUCT WHERE { ?s ?p ?o }").graph) == 2
    bound = graph.query("SELECT ?v { ?s ex:p ?v } ORDER BY ?v", initBindings={"s": URIRef(EX + "a")})
    assert [int(row.v) for row in bound] == [1, 2]


def test_a_directory(tmp_path: Path) -> None:
    for count in (1, 2):
        graph = Graph(store=SparqliveStore())
        graph.open(str(tmp_path / "graph.store"), create=True)
        graph.add((URIRef(f"{EX}{count}"), RDF.type, FOAF.Person))
        assert len(graph) == count
        graph.close()


def test_what_cannot_be_stored_is_refused(graph: Graph) -> None:
    with pytest.raises(sparqlive.InvalidChange, match="cannot be stored"):
        graph.add((Variable("x"), RDF.type, FOAF.Person))
    assert len(graph) == 0
    other = Graph()
    other.add((URIRef("relative"), RDF.type, FOAF.Person))
    with sparqlive.open() as session, pytest.raises(sparqlive.InvalidChange, match="IRIs must be absolute"):
        session.load(other)


def test_results_as_rdflib() -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { <urn:a> <urn:p> 'x'@en }")
        assert len(session.query("CONSTRUCT WHERE { ?s ?p ?o }").to_rdflib()) == 1
        assert [row.o for row in session.query("SELECT ?o { ?s ?p ?o }").to_rdflib()] == [
            Literal("x", lang="en")
        ]
        assert session.query("ASK {}").to_rdflib().askAnswer is True
