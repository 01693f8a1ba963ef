"""Forms of basic graph patterns, by the definitions and examples of the continuous-patterns paper."""

from __future__ import annotations

from itertools import permutations

import pytest

from sparqlive.plan import operators as op
from sparqlive.plan.forms import Form, centre_of, decompose, form_of, variable_partition
from sparqlive.plan.translate import translate
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.syntax import parse_query


def scans(text: str) -> list[op.Scan]:
    plan = translate(parse_query(f"PREFIX : <http://ex/> SELECT * WHERE {{ {text} }}", None), False)
    found: list[op.Scan] = []

    def walk(operator: op.Operator) -> None:
        if isinstance(operator, op.Scan):
            found.append(operator)
        for child in operator.children:
            walk(child)

    walk(plan)
    return found


def partition(text: str) -> list[set[str]]:
    return [{variable.name for variable in member} for member in variable_partition(scans(text))]


def positions(text: str) -> list[tuple[int, ...]]:
    return [part.positions for part in decompose(scans(text))]


# The text of the paper gives the variables and the partitions of its two examples; the triples are ours.
EXAMPLE_1 = "?X :p ?Y . ?Y :q ?Z . ?Z :r :c . :c :s ?W . ?W :t :d . :c :u :d"
EXAMPLE_2 = "?X :p :a . :a :q ?Y . ?Y :r :b . :b :s ?Z . :a :t :b"


def test_example_1() -> None:
    assert partition(EXAMPLE_1) == [{"X", "Y", "Z"}, {"W"}]
    assert positions(EXAMPLE_1) == [(0, 1, 2), (3, 4), (5,)]
    assert [part.form for part in decompose(scans(EXAMPLE_1))] == [Form.CONNECTED, Form.STAR, Form.GROUND]
    assert form_of(scans(EXAMPLE_1)) is Form.CONNECTED


def test_example_2() -> None:
    assert partition(EXAMPLE_2) == [{"X"}, {"Y"}, {"Z"}]
    assert positions(EXAMPLE_2) == [(0,), (1, 2), (3,), (4,)]
    assert [part.form for part in decompose(scans(EXAMPLE_2))] == [Form.STAR] * 3 + [Form.GROUND]
    assert form_of(scans(EXAMPLE_2)) is Form.LOOSELY_CONNECTED


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (":a :p :b", Form.GROUND),
        (":a :p :b . :b :q :c", Form.GROUND),
        ("?x :p :a", Form.STAR),
        ("?x :p :a . :b :q ?x . ?x a :C", Form.STAR),
        ("?x :p ?x", Form.STAR),
        (":a ?p :b", Form.STAR),
        ("?x :p :a . ?y :p :a", Form.LOOSELY_CONNECTED),
        ("?x :p :a . :b :p :c", Form.LOOSELY_CONNECTED),
        ("?x :p ?y", Form.CONNECTED),
        ("?x :p ?y . ?y :p ?z . ?z :p ?x", Form.CONNECTED),
        ("?x :p ?y . ?z :p :a", Form.CONNECTED),
        ("?x ?p :a", Form.CONNECTED),
        ("?x ?p :a . ?y ?p :b", Form.CONNECTED),
        ("GRAPH ?g { ?x :p :a }", Form.CONNECTED),
        ("GRAPH :g { ?x :p :a }", Form.STAR),
    ],
)
def test_form(text: str, form: Form) -> None:
    assert form_of(scans(text)) is form


@pytest.mark.parametrize(
    ("text", "centre"),
    [
        ("?x :p ?y . ?x :q ?z . ?w :r ?x", "x"),
        ("?x :p ?y . ?z :q ?y", "y"),
        ("?x :p ?y . ?y :p ?z . ?z :p ?w", None),
        ("?x ?p :a . ?y ?p :b", None),
        (":a :p ?x . :a :q ?y", None),
    ],
)
def test_centre_of_a_star_with_variable_arms(text: str, centre: str | None) -> None:
    assert centre_of(scans(text)) == (None if centre is None else Var(centre))


def test_variable_predicates_and_graphs_connect() -> None:
    assert partition("?x ?p :a . ?y ?p :b . ?z :q :c") == [{"x", "p", "y"}, {"z"}]
    assert len(partition("GRAPH ?g { ?x :p :a . ?y :p :b }")) == 1


def test_a_late_pattern_brings_parts_together() -> None:
    assert partition("?a :p :x . ?b :p :x . ?c :p :x . ?a :q ?c") == [{"a", "c"}, {"b"}]


@pytest.mark.parametrize("text", [EXAMPLE_1, EXAMPLE_2])
def test_parts_hold_each_pattern_once_whatever_the_order(text: str) -> None:
    expected = {frozenset(part.scans) for part in decompose(scans(text))}
    for order in permutations(scans(text)):
        parts = decompose(order)
        assert sorted(place for part in parts for place in part.positions) == list(range(len(order)))
        assert {frozenset(part.scans) for part in parts} == expected
        seen = [variable for part in parts for variable in part.variables]
        assert len(seen) == len(set(seen))
