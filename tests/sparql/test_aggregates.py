"""Aggregates under additions and removals, against their definitions over whole lists."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.sparql.aggregates import Group, Grouping
from sparqlive.sparql.algebra import Aggregate, Var
from sparqlive.sparql.reference.aggregates import aggregate_of
from sparqlive.sparql.values import Value, value_of
from tests.conftest import examples

XSD = "http://www.w3.org/2001/XMLSchema#"
X = Var("x")
NAMES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
AGGREGATES = [
    Aggregate(name, X, distinct, "|" if name == "GROUP_CONCAT" else " ")
    for name in NAMES
    for distinct in (False, True)
]
STARS = [Aggregate("COUNT", None), Aggregate("COUNT", None, distinct=True)]


def literal(text: str, kind: str) -> ox.Literal:
    return ox.Literal(text, datatype=ox.NamedNode(XSD + kind))


def double(number: float) -> ox.Literal:
    special = {math.inf: "INF", -math.inf: "-INF"}
    return literal("NaN" if number != number else special.get(number, repr(number)), "double")


numbers = st.one_of(
    st.integers(-5, 5).map(lambda n: literal(str(n), "integer")),
    st.integers(-(10**30), 10**30).map(lambda n: literal(str(n), "integer")),
    st.sampled_from(("01", "+1", "1")).map(lambda text: literal(text, "integer")),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000).map(
        lambda n: literal(f"{n:f}", "decimal")
    ),
    st.sampled_from(("0.1", "0.10", "1.0", "1e3")).map(lambda text: literal(text, "decimal")),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda n: literal(repr(n), "float")),
    st.floats(allow_nan=False, allow_infinity=False).map(double),
    st.sampled_from((1e16, 1.0, -1e16, 5e-324, 1.7e308, -0.0)).map(double),
)
wild = st.sampled_from((double(math.inf), double(-math.inf), double(math.nan), literal("INF", "float")))
others = st.sampled_from(
    (
        ox.Literal("a"),
        ox.Literal("b"),
        ox.Literal("a", language="en"),
        ox.Literal(True),
        literal("2020-01-01", "date"),
        literal("x", "integer"),
        ox.NamedNode("http://example.org/n"),
        ox.BlankNode("b"),
        None,
    )
)
terms = st.one_of(numbers, numbers, numbers, wild, others)
Term = ox.NamedNode | ox.BlankNode | ox.Literal | None


class Changing:
    """A group under change, and the bag of its values."""

    def __init__(self, aggregates: list[Aggregate]) -> None:
        self.aggregates = aggregates
        self.bag: Counter[Term] = Counter()
        self._ids: dict[Term, int] = {None: 0}
        columns = [(aggregate, None if aggregate.argument is None else 0) for aggregate in aggregates]
        self._grouping = Grouping(columns, None, self._value)
        self.group: Group = self._grouping.group()

    def _value(self, number: int) -> Value | None:
        term = list(self._ids)[number]
        return None if term is None else value_of(term)

    def add(self, term: Term, weight: int) -> None:
        number = self._ids.setdefault(term, len(self._ids))
        self.bag[term] += weight
        self._grouping.add(self.group, (number,), weight)

    def add_all(self, given: list[tuple[Term, int]]) -> None:
        numbers = [self._ids.setdefault(term, len(self._ids)) for term, _ in given]
        self.bag.update(dict.fromkeys(self._ids, 0))
        for term, weight in given:
            self.bag[term] += weight
        self._grouping.add_all(self.group, [numbers], [weight for _, weight in given])

    def results(self) -> list[Term]:
        return [None if value is None else value.term for value in self.group.results()]

    def check(self) -> None:
        rows = {(term,): weight for term, weight in self.bag.items() if weight}
        expected = [aggregate_of(aggregate, (X,), rows) for aggregate in self.aggregates]
        assert self.results() == expected
        assert self.group.weight == sum(rows.values())


@pytest.mark.laws
@examples(50)
@given(st.lists(st.tuples(terms, st.integers(1, 3), st.integers(0, 99)), min_size=1, max_size=25))
def test_any_stream_of_changes_equals_the_definition(changes: list[tuple[Term, int, int]]) -> None:
    """After each addition, and each removal of what is there, every aggregate is as by definition."""
    changing = Changing([*AGGREGATES, *STARS])
    for term, weight, choice in changes:
        present = [known for known, count in changing.bag.items() if count]
        if choice % 3 == 0 and present:
            leaving = present[choice % len(present)]
            changing.add(leaving, -min(weight, changing.bag[leaving]))
        else:
            changing.add(term, weight)
        changing.check()


@pytest.mark.laws
@examples(25)
@given(st.lists(st.tuples(terms, st.integers(1, 3)), unique_by=lambda pair: pair[0], max_size=25), terms)
def test_many_values_at_once_equal_the_definition(given: list[tuple[Term, int]], more: Term) -> None:
    changing = Changing([*AGGREGATES, *STARS])
    changing.add_all(given)
    changing.check()
    changing.add(more, 1)
    changing.check()


@pytest.mark.laws
@examples(50)
@given(st.lists(terms, max_size=8), st.lists(terms, min_size=1, max_size=8), st.randoms())
def test_insert_then_delete_gives_back_the_same_bits(
    base: list[Term], extra: list[Term], chance: Random
) -> None:
    changing = Changing([*AGGREGATES, *STARS])
    for term in base:
        changing.add(term, 1)
    before = changing.results()
    for term in extra:
        changing.add(term, 1)
    chance.shuffle(extra)
    for term in extra:
        changing.add(term, -1)
    assert changing.results() == before


def total(*values: ox.Literal, name: str = "SUM") -> Term:
    changing = Changing([Aggregate(name, X)])
    for value in values:
        changing.add(value, 1)
    return changing.results()[0]


def test_doubles_are_summed_exactly_and_rounded_once() -> None:
    assert total(double(1e16), double(1.0), double(-1e16)) == literal("1", "double")
    tenths = [double(0.1)] * 10
    assert total(*tenths) == literal("1", "double"), "ten additions one by one give 0.9999999999999999"
    assert total(double(1.7e308), double(1.7e308), double(-1.7e308)) == total(double(1.7e308))
    assert total(double(1.7e308), double(1.7e308)) == literal("INF", "double")


def test_floats_stay_floats_and_are_not_rounded_twice() -> None:
    # Halfway between two singles, and a little more: by way of a double the little is lost.
    halfway, little = literal("16777217", "integer"), literal("0.0000000000000000001", "decimal")
    assert total(literal("0", "float"), halfway) == literal("16777216", "float")
    assert total(literal("0", "float"), halfway, little) == literal("16777218", "float")


def test_an_average_of_decimals_has_eighteen_places() -> None:
    thirds = [literal(text, "integer") for text in ("1", "0", "0")]
    assert total(*thirds, name="AVG") == literal("0." + "3" * 18, "decimal")


def test_an_integer_that_is_too_long_is_an_error() -> None:
    nines = literal("9" * 3999, "integer")
    assert total(*[nines] * 5) is not None
    assert total(*[nines] * 11) is None


def test_the_head_forgets_what_has_left() -> None:
    changing = Changing([Aggregate("MAX", X)])
    for number in range(1000):
        changing.add(literal(str(number), "integer"), 1)
    for number in range(990):
        changing.add(literal(str(number), "integer"), -1)
    assert changing.results() == [literal("999", "integer")]
    assert len(changing.group.accumulators[0]._head) < 200  # type: ignore[attr-defined]
