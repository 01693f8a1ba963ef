"""Views over views: `GRAPH <view:name>` is the graph of a CONSTRUCT or DESCRIBE view, in the same epoch."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from tests.conftest import examples
from tests.oracle import Oracle, Weights, add, assert_same
from tests.random_queries import PROLOGUE, batches, graphs

Batch = list[tuple[str, ox.Quad]]

# Each may read those before it.
GRAPHS = {
    "links": "CONSTRUCT { ?a :link ?b . ?b :back ?a . ?b a :Node } WHERE { ?a :p ?b }",
    "far": "CONSTRUCT { ?a :far ?c } WHERE { GRAPH <view:links> { ?a :link ?b . ?b ?p ?c } }",
    "about": "DESCRIBE ?a FROM <view:links> FROM :g WHERE { ?a :far ?b . ?a :link ?b }",
    "both": "CONSTRUCT { ?s ?p ?o } FROM <view:far> FROM <view:links> WHERE { ?s ?p ?o }",
}
READERS = {
    "join": "SELECT ?a ?b ?c { ?a :q ?c GRAPH <view:links> { ?a :link ?b } }",
    "exact": "SELECT ?a { GRAPH <view:links> { ?a :link ?a . ?a a :Node FILTER NOT EXISTS { ?a :back 1 } } }",
    "open": "SELECT ?s ?p ?o { GRAPH <view:far> { ?s ?p ?o } OPTIONAL { ?s :p ?o . ?o :q ?z } }",
    "merged": "SELECT ?s ?x ?o FROM <view:links> FROM :g FROM :h { ?s ?x ?o }",
    "named": "SELECT ?g ?s ?o FROM NAMED <view:links> FROM NAMED :g { GRAPH ?g { ?s ?x ?o } }",
    "names": "SELECT ?g FROM NAMED <view:far> FROM NAMED <view:links> FROM NAMED :g { GRAPH ?g { } }",
    "nodes": "SELECT ?x ?y { GRAPH <view:far> { ?x :far? ?y } }",
    "paths": "SELECT ?x ?y { GRAPH <view:links> { ?x :link+ ?y } }",
    "none": "SELECT ?x { GRAPH <view:links> { ?x :never ?y } }",
    "ask": "ASK { GRAPH <view:both> { ?x :far ?x } }",
    "count": "SELECT ?x (COUNT(*) AS ?n) { GRAPH <view:both> { ?x ?p ?y } } GROUP BY ?x",
    "negated": "SELECT ?x ?y { GRAPH <view:links> { ?x !(:link|:back) ?y } }",
}


def recomputed(data: set[ox.Quad]) -> dict[str, Weights]:
    """Every view by pyoxigraph, the graphs of those before it among the data."""
    known, found = set(data), {}
    for name, text in {**GRAPHS, **READERS}.items():
        query = PROLOGUE + text
        variables = [v.value for v in ox.Store().query(query).variables] if text.startswith("SELECT") else ()
        found[name] = Oracle(known).weights(query, variables)
        if name in GRAPHS:
            known |= {ox.Quad(*row, ox.NamedNode(f"view:{name}")) for row in found[name]}
    return found


def compare(session: sparqlive.Session, data: set[ox.Quad], what: str) -> None:
    for name, weights in recomputed(data).items():
        assert_same(session.views[name].weights(), weights, f"{name}, {what}")
    session.check()


def applied(data: set[ox.Quad], batch: Batch) -> set[ox.Quad]:
    for sign, quad in batch:
        data = data | {quad} if sign == "+" else data - {quad}
    return data


@pytest.mark.laws
@examples(15)
@given(data=graphs, stream=st.lists(batches, min_size=1, max_size=3), late=st.booleans())
def test_views_over_views_equal_their_re_evaluation(
    data: list[ox.Quad], stream: list[Batch], late: bool
) -> None:
    with sparqlive.open() as session:
        if late:
            session.load(data)
        views = {n: session.view(n, PROLOGUE + text) for n, text in {**GRAPHS, **READERS}.items()}
        if not late:
            session.load(data)
        current = set(data)
        compare(session, current, "at first")
        sums = {name: view.weights() for name, view in views.items()}
        for batch in stream:
            before, current = current, applied(current, batch)
            epoch = session.apply(insert=current - before, delete=before - current)
            compare(session, current, "after a batch")
            for name, view in views.items():
                sums[name] = add(sums[name], epoch.deltas[name].weights())
                assert_same(sums[name], view.weights(), f"{name}: the sum of the deltas")
        for name, text in READERS.items():
            once = session.query(PROLOGUE + text).weights()
            assert_same(once, views[name].weights(), f"{name}: the one-off query")


@pytest.mark.parametrize("strategy", ["live", "rebuild"])
def test_a_store_is_reopened_with_views_over_views(tmp_path: Path, strategy: str) -> None:
    quads = [ox.Quad(*ox.Triple(*triple)) for triple in triples("n0 p n1", "n1 p n2", "n2 p n0", "n1 q n1")]
    with sparqlive.open(tmp_path / "store") as session:
        session.view("far", PROLOGUE + "CONSTRUCT { ?a :old ?b } { ?a :p ?b }")
        session.view("links", PROLOGUE + GRAPHS["links"])
        session.view("far", PROLOGUE + GRAPHS["far"], replace=True)  # now it reads what is younger
        for name, text in {**GRAPHS, **READERS}.items():
            session.view(name, PROLOGUE + text)
        session.apply(insert=quads[:2])
    with sparqlive.open(tmp_path / "store") as session:
        compare(session, set(quads[:2]), "reopened")
        session.apply(insert=quads[2:], delete=quads[:1], strategy=strategy)  # type: ignore[arg-type]
        compare(session, set(quads[1:]), "reopened and changed")


def triples(*texts: str) -> list[tuple[ox.NamedNode, ...]]:
    return [tuple(ox.NamedNode(f"http://example.org/{name}") for name in text.split()) for text in texts]


def test_an_update_reads_the_graph_of_a_view() -> None:
    with sparqlive.open() as session:
        session.view("links", PROLOGUE + GRAPHS["links"])
        session.update(
            PROLOGUE + "INSERT DATA { :a :p :b } ; "
            "INSERT { ?b :seen ?a } WHERE { GRAPH <view:links> { ?a :link ?b } }"
        )
        assert session.query(PROLOGUE + "ASK { :b :seen :a }").answer()


def test_blank_nodes_of_a_view_are_its_readers_too() -> None:
    with sparqlive.open() as session:
        session.apply(insert="<x:a> <x:p> <x:b> .")
        source = session.view("my.view", "CONSTRUCT { ?s <x:has> [ <x:value> ?o ] } { ?s <x:p> ?o }")
        reader = session.view(
            "reader", "SELECT ?n { GRAPH <view:my%2Eview> { ?s <x:has> ?n . ?n <x:value> ?o } }"
        )
        [(node,)] = reader.weights()
        assert node in {quad.object for quad in source.quads()}


def test_what_is_read_stays() -> None:
    with sparqlive.open() as session:
        session.view("links", PROLOGUE + GRAPHS["links"])
        session.view("far", PROLOGUE + GRAPHS["far"])
        with pytest.raises(sparqlive.Error, match="'links' is read by view 'far'"):
            session.drop("links")
        with pytest.raises(sparqlive.Error, match="'links' is read by view 'far'"):
            session.view("links", "CONSTRUCT WHERE { ?s ?p ?o }", replace=True)
        with pytest.raises(sparqlive.Unsupported, match="'links' would read its own graph through 'far'"):
            session.view(
                "links", "CONSTRUCT { ?s ?p ?o } WHERE { GRAPH <view:far> { ?s ?p ?o } }", replace=True
            )
        with pytest.raises(sparqlive.Unsupported, match="'self' would read its own graph"):
            session.view("self", "CONSTRUCT { ?s ?p ?o } FROM <view:self> WHERE { ?s ?p ?o }")
        with pytest.raises(sparqlive.UnknownView, match="no view named 'nobody'"):
            session.view("reader", "ASK { GRAPH <view:nobody> { ?s ?p ?o } }")
        session.view("solutions", "SELECT * { ?s ?p ?o }")
        with pytest.raises(sparqlive.Error, match="'solutions' has no graph"):
            session.query("ASK { GRAPH <view:solutions> { ?s ?p ?o } }")
        assert set(session.views) == {"links", "far", "solutions"}
        session.drop("far")
        session.drop("links")


def test_views_that_read_each_other_many_ways_stay_small() -> None:
    """Each view reads the two before it: there are thousands of ways to the first."""
    with sparqlive.open() as session:
        session.apply(insert="<a:a> <a:p> <a:b> .")
        session.view("v0", "CONSTRUCT { ?s <a:p> ?o } { ?s <a:p> ?o }")
        session.view("v1", "CONSTRUCT { ?s <a:p> ?o } { GRAPH <view:v0> { ?s <a:p> ?o } }")
        for number in range(2, 30):
            before = " UNION ".join(f"{{ GRAPH <view:v{number - n}> {{ ?s <a:p> ?o }} }}" for n in (1, 2))
            session.view(f"v{number}", f"CONSTRUCT {{ ?s <a:p> ?o }} {{ {before} }}")
        session.apply(insert="<a:c> <a:p> <a:d> .", delete="<a:a> <a:p> <a:b> .")
        assert [str(quad.subject) for quad in session.views["v29"].quads()] == ["<a:c>"]
        with pytest.raises(sparqlive.Unsupported, match="would read its own graph"):
            session.view("v0", "CONSTRUCT { ?s <a:p> ?o } { GRAPH <view:v29> { ?s <a:p> ?o } }", replace=True)
