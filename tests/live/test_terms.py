"""Comparing ids of terms is comparing their values."""

from __future__ import annotations

from itertools import product

import pytest
from pyoxigraph import Literal, NamedNode

from sparqlive.live.terms import Terms
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.sparql.algebra import Call, Constant, Var
from sparqlive.sparql.expressions import compile_condition
from sparqlive.sparql.functions.logic import RELATIONS
from sparqlive.sparql.ordering import order_bytes
from sparqlive.sparql.values import XSD, value_of

A, B = Var("a"), Var("b")
NUMBERS = {
    "integer": ["1", "01", "+1", "-1", "9007199254740992", "9007199254740993", "-9007199254740993", "x"],
    "long": ["1", "9007199254740993"],
    "decimal": ["1.0", "0.1", "9007199254740993.0"],
    "float": ["1", "0.1", "16777217", "NaN", "INF"],
    "double": ["1", "0.1", "9007199254740992", "NaN", "INF", "-INF", "-0", "0"],
    "boolean": ["true", "1"],
}
TERMS = [
    *(Literal(text, datatype=NamedNode(XSD + name)) for name, texts in NUMBERS.items() for text in texts),
    *(Literal("1"), Literal("a"), Literal("a", language="en"), NamedNode("http://example.org/1")),
]


@pytest.mark.parametrize(
    "text",
    ["0", "1", "00", "01", "-0", "-1", "+1", "1_0", " 1", "", "٣", "1" * 17, "1" * 18, "1" * 40, "1\\n"],
)
def test_an_integer_read_from_its_text_is_that_of_its_term(text: str) -> None:
    terms = Terms(Dictionary())
    literal = Literal(text, datatype=NamedNode(f"{XSD}integer"))
    value, expected = terms.value(terms.dictionary.id_of(literal)), value_of(literal)
    assert value is not None
    assert (value.kind, value.value, value.term) == (expected.kind, expected.value, expected.term)
    assert terms.id_of(value) == terms.dictionary.id_of(literal)


@pytest.mark.parametrize("variables", [(A, B), (B, A)], ids=["in order", "mirrored"])
@pytest.mark.parametrize("name", [*RELATIONS, "SAMETERM"])
def test_pairs_of_terms(name: str, variables: tuple[Var, Var]) -> None:
    terms = Terms(Dictionary())
    expression = Call(name, (A, B))
    expected = compile_condition(expression, variables)
    holds = terms.condition(expression, variables, compile_condition(expression, variables))
    ids = {terms.dictionary.id_of(term): value_of(term) for term in TERMS} | {UNDEF: None}
    for _ in range(2):  # the second time, all values are cached
        for (one, first), (other, second) in product(ids.items(), repeat=2):
            assert holds(one, other) == expected((first, second)), (first, name, second)


@pytest.mark.parametrize("name", [*RELATIONS, "SAMETERM"])
@pytest.mark.parametrize("constant", [Literal(1), Literal(-1), Literal(10**20), Literal(1.0), Literal("1")])
def test_a_term_and_a_constant(name: str, constant: Literal) -> None:
    terms = Terms(Dictionary())
    ids = {terms.dictionary.id_of(term): value_of(term) for term in TERMS} | {UNDEF: None}
    for arguments in ((A, Constant(constant)), (Constant(constant), A)):
        expression = Call(name, arguments)
        expected = compile_condition(expression, (A,))
        holds = terms.condition(expression, (A,), expected)
        for one, value in ids.items():
            assert holds(one) == expected((value,)), (value, name, constant)


def test_the_order_of_natural_numbers_is_that_of_all_numbers() -> None:
    terms = Terms(Dictionary())
    for number in (0, 1, 9, 10, 99, 100, 101, 120, 999, 1000, 10**16, 10**17 - 1, 10**17, 10**20):
        literal = Literal(number)
        assert terms.order(terms.dictionary.id_of(literal)) == order_bytes(value_of(literal))


def test_sort_keys_are_kept_for_later_requests_and_those_of_new_terms_are_not() -> None:
    terms = Terms(Dictionary())
    date = terms.dictionary.id_of(Literal("2024-02-03", datatype=NamedNode(f"{XSD}date")))
    request = terms.extended()
    new = request.dictionary.id_of(Literal("2024-02-04", datatype=NamedNode(f"{XSD}date")))
    assert request.order(UNDEF) < request.order(date) < request.order(new)
    assert terms._orders.keys() == {date}
    assert terms.extended().order(date) is request.order(date)
