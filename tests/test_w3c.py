"""The W3C query evaluation tests, each as a view kept in three ways that must give the same result.

At once: the data is there when the view is registered. In pieces: the view is there first and the quads
arrive in a random order. With a detour: other quads are inserted and deleted again. A query with volatile
functions, which no view keeps, is evaluated once. A test whose feature is
refused is skipped with the refusal's sentence; the summary at the end of the run counts them by sentence.
"""

from __future__ import annotations

import random
import re

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.plan.checks import calls_in
from sparqlive.sparql.expressions import volatile_function
from sparqlive.sparql.syntax import parse_query
from tests.conftest import W3C, W3C_ABSENT
from tests.oracle import Weights, add, assert_same, show
from tests.w3c import EvaluationTest, isomorphic, known_failures, read_tests, same_order, same_solutions

pytestmark = pytest.mark.w3c

ROOT = W3C / "sparql"
TESTS = read_tests(ROOT) if ROOT.is_dir() else []
SINGLE_QUADS = 40  # up to so many quads arrive one by one, more in as many batches

KNOWN = known_failures(ROOT)  # an entry that passes is a failure: remove it then


def case(test: EvaluationTest) -> object:
    reason = KNOWN.get(test.name)
    marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return pytest.param(test, id=test.name, marks=marks)


def test_the_suites_are_complete() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(TESTS) >= (426 if KNOWN else 512)
    assert len({test.name for test in TESTS}) == len(TESTS)
    assert sum(test.expected_order([]) is not None for test in TESTS if "/sort/" in test.name) > 10
    known = {name for name in KNOWN if not name.endswith(".rq")}
    assert known <= {test.name for test in TESTS}, "the list of known failures names tests that do not exist"


@pytest.mark.parametrize("test", [case(test) for test in TESTS])
def test_evaluation(test: EvaluationTest) -> None:
    quads = test.quads()
    if is_volatile(test):
        once(test, quads)
        return
    skip_if_refused(test)
    at_once(test, quads)
    in_pieces(test, quads)
    with_a_detour(test, quads)


def skip_if_refused(test: EvaluationTest) -> None:
    """Only registration may refuse; an Unsupported later on is a failure."""
    with sparqlive.open() as session:
        try:
            session.view("view", test.query, base=test.base)
        except sparqlive.Unsupported as refusal:
            pytest.skip(str(refusal))


def is_volatile(test: EvaluationTest) -> bool:
    """Whether the query calls RAND, NOW, UUID, STRUUID or BNODE: it is evaluated once, and not kept."""
    query = parse_query(test.query, test.base)
    return any(volatile_function(call) for call in calls_in(query.pattern))


def once(test: EvaluationTest, quads: list[ox.Quad]) -> None:
    with sparqlive.open() as session:
        session.load(quads)
        with pytest.raises(sparqlive.Unsupported, match="a different value each time"):
            session.view("view", test.query, base=test.base)
        try:
            answer = session.query(test.query, base=test.base)
        except sparqlive.Unsupported as refusal:
            pytest.skip(str(refusal))
        compare(test, answer, "as a one-off query")


def at_once(test: EvaluationTest, quads: list[ox.Quad]) -> None:
    with sparqlive.open() as session:
        session.load(quads)
        view = session.view("view", test.query, base=test.base)
        compare(test, view, "at once")
        assert_same(
            session.query(test.query, base=test.base).weights(),
            view.weights(),
            f"{test.name}: the one-off query",
        )
        session.check()


def in_pieces(test: EvaluationTest, quads: list[ox.Quad]) -> None:
    shuffled = list(quads)
    random.Random(test.name).shuffle(shuffled)
    size = max(1, len(shuffled) // SINGLE_QUADS)
    with sparqlive.open() as session:
        view = session.view("view", test.query, base=test.base)
        total = view.weights()
        for start in range(0, len(shuffled), size):
            epoch = session.apply(insert=shuffled[start : start + size])
            total = add(total, epoch.deltas["view"].weights())
        assert_same(total, view.weights(), f"{test.name}, in pieces: the sum of the deltas and the view")
        compare(test, view, "in pieces")
        session.check()


def with_a_detour(test: EvaluationTest, quads: list[ox.Quad]) -> None:
    others = strangers(quads, random.Random(test.name))
    with sparqlive.open() as session:
        session.load(quads)
        view = session.view("view", test.query, base=test.base)
        before = view.weights()
        there = session.apply(insert=others).deltas["view"].weights()
        session.check()
        half = len(others) // 2
        back = session.apply(delete=others[:half]).deltas["view"].weights()
        last = session.apply(delete=others[half:]).deltas["view"].weights()
        assert_same(add(there, add(back, last)), {}, f"{test.name}: a detour leaves no trace in the deltas")
        assert_same(view.weights(), before, f"{test.name}: a detour leaves no trace in the view")
        compare(test, view, "with a detour")
        session.check()


def strangers(quads: list[ox.Quad], rng: random.Random) -> list[ox.Quad]:
    """Quads that are not there, put together from the terms that are, so that they join with them."""
    found: dict[ox.Quad, None] = {}
    for _ in range(60 if quads else 0):
        subject, predicate, value, graph = (rng.choice(quads) for _ in range(4))
        quad = ox.Quad(subject.subject, predicate.predicate, value.object, graph.graph_name)
        if quad not in quads:
            found[quad] = None
    return list(found)[:20]


def compare(test: EvaluationTest, view: sparqlive.View | sparqlive.Answer, way: str) -> None:
    actual = view.weights()
    expected = test.expected(view.variables)
    if expected is None:  # CSV: what is written is compared
        assert lines_of(view.serialize("csv")) == lines_of(test.expected_text()), f"{test.name}, {way}"
        return
    if not same_solutions(actual, expected, lax=test.lax):
        raise AssertionError(
            f"{test.name}, {way}\n{test.query}\n  actual:   {show(actual)}\n  expected: {show(expected)}"
        )
    in_order = test.expected_order(view.variables) if view.form == "SELECT" else None
    if in_order is not None:
        listed = [tuple(solution.get(name) for name in view.variables) for solution in view.solutions()]
        assert same_order(listed, in_order), f"{test.name}, {way}: the order is {listed}, not {in_order}"


def lines_of(text: str) -> tuple[str, list[str]]:
    """The head and the rows in any order; the tests have no two blank nodes, so that a label is a label."""
    head, *lines = BLANK_LABEL.sub("_:", text).splitlines()
    return head, sorted(lines)


BLANK_LABEL = re.compile(r"_:\w+")


# The comparison itself


def rows(*texts: str) -> Weights:
    """Weights from rows such as "_:a 1"."""
    result: Weights = {}
    for text in texts:
        terms = (ox.BlankNode(t[2:]) if t.startswith("_:") else ox.Literal(t) for t in text.split())
        result = add(result, {tuple(terms): 1})
    return result


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (["_:a 1", "_:b 2"], ["_:x 2", "_:y 1"], True),
        (["_:a 1", "_:a 2"], ["_:x 2", "_:y 1"], False),
        (["_:a _:b", "_:b _:a"], ["_:x _:y", "_:y _:x"], True),
        (["_:a _:b", "_:b _:c", "_:c _:a"], ["_:x _:y", "_:y _:x", "_:z _:z"], False),
        (["_:a _:b", "_:c _:d"], ["_:x _:y", "_:z _:w"], True),
        (["1", "1"], ["1"], False),
        (["_:a", "_:a"], ["_:a", "_:b"], False),
    ],
)
def test_blank_nodes_are_compared_by_structure(left: list[str], right: list[str], same: bool) -> None:
    assert isomorphic(rows(*left), rows(*right)) is same
    assert isomorphic(rows(*right), rows(*left)) is same


def test_lax_results_may_lose_duplicates_but_no_rows() -> None:
    assert same_solutions(rows("1"), rows("1", "1"), lax=True)
    assert not same_solutions(rows("1", "1"), rows("1"), lax=True)
    assert not same_solutions(rows("1"), rows("1", "2"), lax=True)
    assert not same_solutions(rows("1"), rows("1", "1"))


def test_decimals_are_compared_by_value_and_integers_by_form() -> None:
    def number(text: str, kind: str) -> Weights:
        return {(ox.Literal(text, datatype=ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{kind}")),): 1}

    assert same_solutions(number("2", "decimal"), number("2.0", "decimal"))
    assert same_solutions(number("1.0E2", "double"), number("100", "double"))
    assert not same_solutions(number("2", "decimal"), number("2", "double"))
    assert not same_solutions(number("01", "integer"), number("1", "integer"))
