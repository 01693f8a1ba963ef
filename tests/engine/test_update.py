"""SPARQL Update through the session: one request is one epoch, or nothing."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from tests.conftest import examples
from tests.oracle import Weights, add, assert_same, show
from tests.random_updates import Data, Operation, RequestFailsError, effect, request, requests, starts
from tests.rdf.test_dictionary import few_bits
from tests.sources.server import Page, serve
from tests.w3c import isomorphic

EX = "http://example.org/"
PROLOGUE = f"PREFIX : <{EX}>\n"
VIEWS = (
    "SELECT * { ?s :p ?o }",
    "SELECT ?g ?s { GRAPH ?g { ?s ?p ?o } MINUS { ?s :q ?x } }",
    "SELECT DISTINCT ?s ?t { ?s :p ?o OPTIONAL { ?o :q|:r ?t } }",
)


def rows(quads: Data) -> Weights:
    named = {quad: quad.graph_name for quad in quads}
    return {(*q.triple, None if isinstance(g, ox.DefaultGraph) else g): 1 for q, g in named.items()}


def quads_of(text: str) -> Data:
    return {ox.Quad(*quad) for quad in ox.parse(PROLOGUE + text, ox.RdfFormat.TRIG)}


def after(data: str, update: str, **options: object) -> Data:
    """The quads after an update, with views that are checked."""
    with sparqlive.open(**options) as session:  # type: ignore[arg-type]
        session.load(quads_of(data))
        for number, text in enumerate(VIEWS):
            session.view(f"view{number}", PROLOGUE + text)
        session.update(PROLOGUE + update)
        session.check()
        return set(session.quads())


@pytest.mark.laws
@examples(50)
@given(data=starts, series=st.lists(requests, min_size=1, max_size=3))
def test_requests_do_what_they_say(data: list[ox.Quad], series: list[list[Operation]]) -> None:
    """The quads after each request equal those that another engine makes, and views follow."""
    with sparqlive.open() as session:
        session.load(data)
        views = [session.view(f"view{number}", PROLOGUE + text) for number, text in enumerate(VIEWS)]
        for operations in series:
            before, contents = set(session.quads()), [view.weights() for view in views]
            number = session.epoch
            try:
                expected = effect(operations, before)
            except RequestFailsError:
                with pytest.raises(sparqlive.Error):
                    session.update(request(operations))
                assert set(session.quads()) == before
                assert session.epoch == number
                session.check()
                continue
            epoch = session.update(request(operations))
            actual = set(session.quads())
            assert isomorphic(rows(actual), rows(expected)), (
                f"{operations}\n  actual:   {show(rows(actual))}\n  expected: {show(rows(expected))}"
            )
            assert (epoch.inserted, epoch.deleted) == (len(actual - before), len(before - actual))
            assert epoch.number == session.epoch == number + (actual != before)
            for view, content in zip(views, contents, strict=True):
                total = add(content, epoch.deltas[view.name].weights())
                assert_same(total, view.weights(), f"{operations}: the delta of {view.name}")
            session.check()


# One request


def test_operations_see_what_came_before_and_make_one_epoch() -> None:
    with sparqlive.open() as session:
        view = session.view("view", PROLOGUE + "SELECT ?o { :a :p ?o }")
        epoch = session.update(
            PROLOGUE
            + """INSERT DATA { :a :p 1 } ;
            DELETE { :a :p ?o } INSERT { :a :p ?more } WHERE { :a :p ?o BIND(?o + 1 AS ?more) } ;
            DELETE { :a :p ?o } INSERT { :a :p ?more } WHERE { :a :p ?o BIND(?o + 1 AS ?more) }"""
        )
        assert (epoch.number, epoch.inserted, epoch.deleted) == (1, 1, 0)
        assert epoch.deltas["view"].weights() == view.weights() == {(ox.Literal(3),): 1}
        assert session.update(PROLOGUE + "INSERT DATA { :a :p 3 }").number == 1
        session.check()


@pytest.mark.parametrize("kept", [False, True])
def test_a_request_that_fails_changes_nothing(kept: bool, tmp_path: Path) -> None:
    request = "DELETE WHERE { ?s ?p ?o } ; INSERT DATA { :z :p :z . GRAPH :h { :z :p :z } } ; CREATE GRAPH :h"
    data = quads_of(":a :p :b , _:x . :g { :a :q :b }")
    with sparqlive.open(tmp_path / "store") as session:
        session.load(data)
        if kept:
            session.view("view", PROLOGUE + "SELECT * { ?s ?p ?o }")
        with pytest.raises(sparqlive.Error, match=r"the graph <http://example.org/h> exists"):
            session.update(PROLOGUE + request)
        assert set(session.quads()) == data
        assert (session.epoch, len(session)) == (1, 3)
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert set(session.quads()) == data


def test_operations_see_what_a_source_still_asserts(tmp_path: Path) -> None:
    """Deleting what a source asserts too leaves it, also for the operations that follow in the request."""
    (tmp_path / "s.nq").write_text("<urn:a> <urn:p> 1 <urn:g> .".replace("1", '"1"'))
    with sparqlive.open() as session:
        session.source("file", str(tmp_path / "s.nq"), name="s").refresh()
        session.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> '1', '2' } }")
        epoch = session.update(
            """DELETE WHERE { GRAPH <urn:g> { ?s ?p ?o } } ;
            INSERT { <urn:left> <urn:p> ?o } WHERE { GRAPH <urn:g> { ?s ?p ?o } } ;
            ADD GRAPH <urn:g> TO GRAPH <urn:h>"""
        )
        assert (epoch.inserted, epoch.deleted) == (2, 1)
        assert {(q.subject.value, q.object.value) for q in session.quads()} == {
            ("urn:a", "1"),
            ("urn:left", "1"),
        }
        session.sources["s"].remove()
        assert {q.graph_name for q in session.quads()} == {ox.DefaultGraph(), ox.NamedNode("urn:h")}


def test_graphs_are_managed_that_are_on_disk(tmp_path: Path) -> None:
    data = quads_of(":g { :a :p 1 ; :q 2 } :h { :b :p 3 }")
    with sparqlive.open(tmp_path / "store") as session:
        session.load(data)
        session.compact()
    with sparqlive.open(tmp_path / "store") as session:
        session.update(PROLOGUE + "COPY :g TO :h ; MOVE :g TO :k ; CREATE GRAPH :g")
        assert set(session.quads()) == quads_of(":h { :a :p 1 ; :q 2 } :k { :a :p 1 ; :q 2 }")
        session.update(PROLOGUE + "CLEAR GRAPH :k")
        assert set(session.quads()) == quads_of(":h { :a :p 1 ; :q 2 }")


@pytest.mark.parametrize(
    "request_",
    [
        "INSERT DATA { GRAPH <view:a> { :s :p 1 } }",
        "INSERT { GRAPH ?g { :s :p 1 } } WHERE { :a :p ?g }",
        "INSERT DATA { GRAPH <sparqlive:links> { :s :p 1 } }",
        "INSERT DATA { :s <sparqlive:describedBy> :d }",
        "COPY DEFAULT TO <view:a>",
    ],
)
def test_reserved_names_are_nobodys_to_write(request_: str, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.update(PROLOGUE + "INSERT DATA { :a :p <view:b> }")
    with sparqlive.open(tmp_path / "store") as session:
        with pytest.raises(
            sparqlive.InvalidChange, match=r"Cannot write (into the graph|quads with the predicate)"
        ):
            session.update(PROLOGUE + "INSERT DATA { :a :p 2 } ; " + request_)
        assert (len(session), session.epoch) == (1, 1)
        session.update("CLEAR ALL ; CLEAR GRAPH <view:a> ; DELETE DATA { GRAPH <view:a> { <a:a> <a:b> 1 } }")
        assert len(session) == 0


def test_reserved_names_on_every_way_in(tmp_path: Path) -> None:
    quad = ox.Quad(ox.NamedNode(EX + "s"), ox.NamedNode(EX + "p"), ox.Literal(1), ox.NamedNode("view:a"))
    (tmp_path / "s.nq").write_text(f"{quad} .")
    with sparqlive.open() as session:
        for attempt in (
            lambda: session.apply(insert=[quad]),
            lambda: session.apply(insert=f"{quad} ."),
            lambda: session.load([quad]),
            lambda: session.load(tmp_path / "s.nq"),
            lambda: session.load([quad.triple], graph="view:b"),
            lambda: session.source("file", str(tmp_path / "s.nq"), name="view:c"),
            lambda: session.source("file", str(tmp_path / "s.nq"), name="s").refresh(),
        ):
            with pytest.raises(sparqlive.Error, match=r"Cannot write into the graph <view:[abc]>"):
                attempt()
        assert (len(session), session.epoch) == (0, 0)
        assert session.apply(delete=[quad]).ignored == 1


def test_a_syntax_error_says_where() -> None:
    with (
        sparqlive.open() as session,
        pytest.raises(sparqlive.SyntaxError, match=r"line 2, column 15: .*variables"),
    ):
        session.update("INSERT DATA { <urn:a> <urn:b> 1 } ;\nDELETE DATA { ?s <urn:b> 1 }")


@pytest.mark.parametrize("strategy", ["live", "rebuild"])
def test_a_strategy_can_be_forced(strategy: str) -> None:
    with sparqlive.open() as session:
        session.view("view", PROLOGUE + "SELECT DISTINCT ?s { ?s :p ?o }")
        epoch = session.update(PROLOGUE + "INSERT DATA { :a :p 1 }", strategy=strategy)  # type: ignore[arg-type]
        assert epoch.strategy == strategy
        session.check()
        with pytest.raises(sparqlive.Error, match="strategy must be one of"):
            session.update("CLEAR ALL", strategy="quickly")  # type: ignore[arg-type]


def test_relative_iris_are_resolved_against_the_base() -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { <a> <p> <b> }", base=EX)
        assert set(session.quads()) == quads_of(":a :p :b .")


# Templates


def test_blank_nodes_of_a_template_are_new_for_each_solution() -> None:
    made = after(":a :p 1 , 2 .", "INSERT { ?s :q _:n . _:n :r _:n } WHERE { ?s :p ?o }")
    assert isomorphic(rows(made), rows(quads_of(":a :p 1 , 2 ; :q _:x , _:y . _:x :r _:x . _:y :r _:y .")))


def test_what_no_graph_can_hold_is_left_out() -> None:
    made = after(
        ":a :p 1 , :b , _:x .",
        "INSERT { ?o :q ?s . ?s ?o ?s . ?s :q ?none . GRAPH ?o { ?s :q ?s } } WHERE { ?s :p ?o }",
    )
    [blank] = {quad.object for quad in made if isinstance(quad.object, ox.BlankNode)}
    named = {quad.graph_name for quad in made}
    assert blank in named
    expected = quads_of(
        ":a :p 1 , :b , _:x ; :b :a . :b :q :a . _:x :q :a . :b { :a :q :a } _:x { :a :q :a }"
    )
    assert isomorphic(rows(made), rows(expected))


# Datasets


def test_with_names_the_default_graph_and_leaves_the_named_ones() -> None:
    data = ":d :p 1 . :g { :a :p 2 } :h { :a :q 3 }"
    update = "WITH :g DELETE { ?s :p ?o } INSERT { ?s :p ?n } WHERE { ?s :p ?o GRAPH :h { ?s :q ?n } }"
    assert after(data, update) == quads_of(":d :p 1 . :g { :a :p 3 } :h { :a :q 3 }")


def test_with_an_absent_graph_and_an_empty_pattern_has_one_solution() -> None:
    assert after("", "WITH :g INSERT { :a :p 1 } WHERE { }") == quads_of(":g { :a :p 1 }")


def test_using_replaces_with_in_where_but_not_in_the_templates() -> None:
    data = ":g { :a :p 1 } :h { :b :p 2 }"
    update = "WITH :g INSERT { ?s :q ?o } USING :h WHERE { ?s :p ?o }"
    assert after(data, update) == quads_of(":g { :a :p 1 . :b :q 2 } :h { :b :p 2 }")


def test_with_a_union_default_graph_where_reads_all_and_templates_write_the_unnamed_one() -> None:
    data = ":a :p 1 . :g { :b :p 2 }"
    update = "DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o }"
    expected = quads_of(":a :q 1 . :b :q 2 . :g { :b :p 2 }")
    assert after(data, update, default_graph="union") == expected
    assert after(data, "CLEAR DEFAULT", default_graph="union") == quads_of(":g { :b :p 2 }")
    copied = after(data, "COPY DEFAULT TO :h", default_graph="union")
    assert copied == quads_of(data + " :h { :a :p 1 }")


def test_load() -> None:
    with serve() as site, sparqlive.open() as session:
        site.pages["/data"] = Page("<urn:a> <urn:b> 1 . [] <urn:b> 2 .")
        site.pages["/graphs"] = Page("<urn:g> { <urn:a> <urn:b> 1 }", "application/trig")
        view = session.view("all", "SELECT ?o { ?s <urn:b> ?o }")
        load = f"LOAD <{site.address}/data>"
        epoch = session.update(
            f"{load} ; {load} INTO GRAPH <urn:g> ; DELETE WHERE {{ GRAPH <urn:g> {{ <urn:a> ?p ?o }} }}",
            allow_private=True,
        )
        assert (epoch.number, epoch.inserted, len(session), len(view)) == (1, 3, 3, 2)
        assert site.paths() == ["/data"], "a document is fetched once a request"
        session.check()
        for address in ("/graphs", "/nothing"):
            with pytest.raises(sparqlive.Error, match=r"named graphs|status 404"):
                session.update(f"CLEAR ALL ; LOAD <{site.address}{address}>", allow_private=True)
        assert len(session) == 3


# What is refused


@pytest.mark.parametrize(
    "source", ["file:///etc/hostname", "http://localhost/data.ttl", "http://127.0.0.1:9/", "urn:x"]
)
def test_load_reads_neither_files_nor_private_addresses(source: str) -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { <urn:a> <urn:b> 1 }")
        with pytest.raises(sparqlive.Error, match=rf"^LOAD <{source}>: "):
            session.update(f"CLEAR ALL ; LOAD <{source}> INTO GRAPH <urn:g>")
        assert len(session) == 1
        session.update(f"LOAD SILENT <{source}>")
        assert len(session) == 1


def test_an_update_asks_no_endpoint() -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { <urn:a> <urn:b> 1 }")
        body = "?s <urn:b> ?o SERVICE %s <http://localhost/sparql> { ?s ?p ?more }"
        with pytest.raises(sparqlive.Unsupported, match=r"SERVICE <\S+> is not supported in an update"):
            session.update(f"DELETE {{ ?s ?p ?o }} WHERE {{ {body % ''} }}")
        with pytest.raises(sparqlive.Unsupported, match="SERVICE"):
            session.view("view", f"SELECT * {{ {body % 'SILENT'} }}")
        # Federated Query §2.2: an endpoint that cannot be reached gives one solution without bindings.
        answer = session.query(f"SELECT ?s ?more {{ {body % 'SILENT'} }}")
        assert answer.weights() == {(ox.NamedNode("urn:a"), None): 1}
        session.update(f"DELETE {{ ?s <urn:b> ?o }} WHERE {{ {body % 'SILENT'} }}")
        assert len(session) == 0


# Volatile functions


def test_volatile_functions_are_called_once_a_solution() -> None:
    data = ":a :p 1 , 2 . :b :p 1 ."
    with sparqlive.open() as session:
        session.load(quads_of(data))
        for call in ("UUID()", "STRUUID()", "RAND()", "BNODE()"):
            # Equal solutions are several: each has its own value, and keeps it in all of the query.
            answer = session.query(
                f"{PROLOGUE} SELECT ?s ?v {{ {{ SELECT ?s {{ ?s :p ?o }} }} BIND({call} AS ?v) }}"
            )
            assert len({value for _, value in answer.weights()}) == 3, call
            once = session.query(f"{PROLOGUE} SELECT ?v {{ ?s :p ?o {{ SELECT ({call} AS ?v) {{ }} }} }}")
            assert list(once.weights().values()) == [3], call
            counted = session.query(f"SELECT (COUNT(DISTINCT {call}) AS ?n) {{ ?s ?p ?o }}")
            assert counted.weights() == {(ox.Literal(3),): 1}, call
            inside = "FILTER EXISTS { ?s :p ?o FILTER(SAMETERM(?v, ?v)) }"
            same = session.query(f"{PROLOGUE} SELECT * {{ ?s :p ?o BIND({call} AS ?v) {inside} }}")
            assert sum(same.weights().values()) == 3, call


def test_now_is_one_moment_in_all_of_a_query() -> None:
    with sparqlive.open() as session:
        session.load(quads_of(":a :p 1 , 2 , 3 ."))
        body = "?s ?p ?o BIND(NOW() AS ?n) FILTER(?n = NOW()) { SELECT (NOW() AS ?n) { } }"
        assert len(session.query(f"SELECT DISTINCT ?n {{ {body} }}").weights()) == 1


def test_a_filter_with_rand_samples_solutions() -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { " + " ".join(f"<urn:a> <urn:p> {n} ." for n in range(1000)) + " }")
        session.update("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(RAND() < 0.5) }")
        assert 300 < len(session) < 700


def test_a_volatile_condition_of_optional_is_refused() -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Unsupported, match="BIND"):
        session.query("SELECT * { ?s ?p ?o OPTIONAL { ?o ?q ?r FILTER(RAND() < ?o) } }")


def test_terms_that_where_computes_are_themselves_also_where_ids_collide() -> None:
    with sparqlive.open() as session:
        session.dictionary._hash = few_bits(6)
        session.load(quads_of(":a :p 1, 2, 3, 4, 5, 6, 7, 8, 9 ."))
        session.update(
            PROLOGUE + "INSERT { ?s :q ?t, ?u } WHERE { ?s :p ?o BIND(?o * 100 AS ?t) BIND(STR(?o) AS ?u) }"
        )
        values = {quad.object.value for quad in session.quads() if quad.predicate.value == EX + "q"}
        assert values == {str(number) for number in range(1, 10)} | {f"{number}00" for number in range(1, 10)}
        session.check()
