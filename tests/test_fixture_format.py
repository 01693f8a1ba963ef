"""The fixtures' own format, and the fixtures' expectations against pyoxigraph alone (no session involved)."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.fixture_format import Change, Fixture, FixtureError, last_words, parse, read
from tests.oracle import Oracle, add, graph_union
from tests.w3c import assert_alike

FIXTURES = [read(path) for path in sorted((Path(__file__).parent / "fixtures").glob("*.view"))]
EX = "http://example.org/"

EXAMPLE = """\
# OPTIONAL: a solution falls back to unbound
# when its match leaves.
prefix : <http://example.org/>
default-graph union
query
  SELECT ?p ?mail
  WHERE { ?p a :Person OPTIONAL { ?p :mail ?mail } }
data
  :ann a :Person ;
    :mail "a # x" .
graph :g
data
  :bob a :Person .
data
  :cyn a :Person .
snapshot ?p ?mail
  +2 :ann "a # x"
  :bob UNDEF
epoch 1: the address: withdrawn
  - :ann :mail "a # x" .
graph :g
  + :bob :age -5 .
graph default
  + _:b :mail "b"@en .
delta
  -2 :ann "a # x"
  + _:b "b"@en
  +3 -5 2.5
epoch 2: nothing
delta
"""


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(EX + name)


def test_header_query_and_data() -> None:
    fixture = parse(EXAMPLE)
    assert fixture.comment == "OPTIONAL: a solution falls back to unbound when its match leaves."
    assert fixture.default_graph == "union"
    assert fixture.text.startswith("PREFIX : <http://example.org/>\nSELECT ?p ?mail\nWHERE")
    graphs = [(quad.subject, quad.graph_name) for quad in fixture.data]
    assert graphs == [
        (node("ann"), ox.DefaultGraph()),
        (node("ann"), ox.DefaultGraph()),
        (node("bob"), node("g")),
        (node("cyn"), ox.DefaultGraph()),
    ]


def test_rows_and_epochs() -> None:
    fixture = parse(EXAMPLE)
    assert fixture.kind == "snapshot"
    assert fixture.variables == ("p", "mail")
    assert fixture.snapshot == {(node("ann"), ox.Literal("a # x")): 2, (node("bob"), None): 1}
    first, second = fixture.epochs
    assert first.title == "the address: withdrawn"
    assert [(change.sign, change.quad.graph_name) for change in first.changes] == [
        ("-", ox.DefaultGraph()),
        ("+", node("g")),
        ("+", ox.DefaultGraph()),
    ]
    decimal = ox.Literal("2.5", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#decimal"))
    assert first.delta == {
        (node("ann"), ox.Literal("a # x")): -2,
        (ox.BlankNode("b"), ox.Literal("b", language="en")): 1,
        (ox.Literal(-5), decimal): 3,
    }
    assert (second.changes, second.delta) == ([], {})


@pytest.mark.parametrize(
    ("text", "kind", "rows"),
    [("ask true", "ask", [()]), ("ask false", "ask", []), ("ordered ?x", "ordered", [])],
)
def test_other_snapshots(text: str, kind: str, rows: list[object]) -> None:
    fixture = parse(f"query\n  ASK {{ }}\n{text}\n")
    assert (fixture.kind, fixture.rows) == (kind, rows)


def test_error_snapshot() -> None:
    fixture = parse("query\n  ASK { }\nerror Unsupported\n  ASK\n  later\n")
    assert (fixture.kind, fixture.error, fixture.error_says) == ("error", "Unsupported", ["ASK", "later"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("snapshot ?x\n", "no query"),
        ("query\n  ASK { }\n", "no snapshot"),
        ("query\n  ASK { }\nsnapshot ?x\n  1 2\n", "line 4.*2 terms for the 1 variables"),
        ("query\n  ASK { }\nsnapshot ?x\n  what\n", "line 4.*not all terms"),
        ("query\n  ASK { }\nsnapshot ?x\n  :a\n", "line 4"),
        ("query\n  ASK { }\nsnapshot ?x\n  - 1\n", "line 4.*negative"),
        ("query\n  ASK { }\nsnapshot ?x\nepoch 1: a\n  = <x:a> <x:b> 1 .\ndelta\n", "line 5.*'\\+' or '-'"),
        ("query\n  ASK { }\nsnapshot ?x\nepoch 1: a\nepoch 2: b\n", "line 5.*delta"),
        ("query\n  ASK { }\nsnapshot ?x\nepoch 1: a\n", "no delta"),
        ("query\n  ASK { }\nsnapshot ?x\nepoch 1: a\ndelta\n  + 1\n  + 1\n", "line 7.*once"),
        ("queri\n", "line 1.*no section"),
        ("  indented\n", "line 1.*outside"),
    ],
)
def test_what_is_not_a_fixture(text: str, says: str) -> None:
    with pytest.raises(FixtureError, match=says):
        parse(text)


def test_last_words() -> None:
    first, second, third = (ox.Quad(node("a"), node("p"), node(name)) for name in "bcd")
    changes = [
        Change("-", first),
        Change("+", first),
        Change("+", second),
        Change("-", second),
        Change("+", third),
    ]
    assert last_words(changes) == ([first, third], [first, second])


def test_graph_union_is_the_definition_of_graph() -> None:
    assert graph_union("?g", "?s ?p ?o", []) == "{ VALUES ?g { } }"
    quads = [ox.Quad(node("a"), node("p"), node(name), node(name)) for name in "gh"]
    body = graph_union("?g", "?s ?p ?o", [node("g"), node("h")])
    oracle = Oracle(quads)
    assert oracle.weights(f"SELECT ?g ?o WHERE {{ {body} }}", ("g", "o")) == {
        (node("g"), node("g")): 1,
        (node("h"), node("h")): 1,
    }


def test_the_oracle_merges_default_graphs_as_sets() -> None:
    quads = [ox.Quad(node("a"), node("p"), node("o"), node(name)) for name in "gh"]
    select = "SELECT ?s %s WHERE { ?s ?p ?o }"
    assert Oracle(quads).weights(select % "", ("s",)) == {}
    assert Oracle(quads, union=True).weights(select % "", ("s",)) == {(node("a"),): 1}
    for clause in (f"FROM <{EX}g>", f"FROM <{EX}g> FROM <{EX}h>"):
        assert Oracle(quads).weights(select % clause, ("s",)) == {(node("a"),): 1}
    assert Oracle(quads).weights(f"PREFIX : <{EX}> " + select % "FROM NAMED :g", ("s",)) == {}


def test_there_are_fixtures() -> None:
    assert len(FIXTURES) >= 100
    assert all(fixture.comment for fixture in FIXTURES), "each fixture says what it shows"


@pytest.mark.parametrize("fixture", [f for f in FIXTURES if f.kind == "snapshot"], ids=lambda f: f.name)
def test_expectations_agree_with_the_oracle(fixture: Fixture) -> None:
    quads, weights = set(fixture.data), fixture.snapshot
    for number in range(len(fixture.epochs) + 1):
        if number:
            epoch = fixture.epochs[number - 1]
            insert, delete = last_words(epoch.changes)
            quads = (quads - set(delete)) | set(insert)
            weights = add(weights, epoch.delta)
        oracle = Oracle(quads, union=fixture.default_graph == "union")
        recomputed = oracle.weights(fixture.oracle_text, fixture.variables)
        assert_alike(weights, recomputed, f"{fixture.name} after epoch {number}")
