"""Dispatch: a change reaches the plans that have a pattern that it matches, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.live.compiled_plan import CompiledPlan
from sparqlive.live.dispatch import Dispatcher
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.quads.current import Change, Quads
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.algebra import Var
from tests.conftest import examples

EX = "http://example.org/"
X, Y, Z = (Var(name) for name in "xyz")
UNNAMED = op.OneGraph(None)
VIEWS = 1000


def node(name: object) -> ox.NamedNode:
    return ox.NamedNode(f"{EX}{name}")


def quad(subject: object, predicate: object, object_: object, graph: ox.NamedNode | None = None) -> ox.Quad:
    return ox.Quad(node(subject), node(predicate), node(object_), graph or ox.DefaultGraph())


class Bench:
    """A dispatcher with its quads and dictionary."""

    def __init__(self) -> None:
        self.quads = Quads()
        self.terms = Terms(Dictionary())
        self.dispatcher = Dispatcher(self.quads)

    def add(self, plan: op.Operator) -> CompiledPlan:
        compiled = CompiledPlan(plan, self.quads, self.terms)
        assert compiled.compute() == {}  # a plan is kept from its content on
        self.dispatcher.add(compiled)
        return compiled

    def change(self, item: ox.Quad, weight: int = 1) -> Change:
        subject, predicate, object_, graph = map(self.terms.dictionary.id_of, item)
        return subject, predicate, object_, graph, weight

    def reached(self, *items: ox.Quad, weight: int = 1) -> dict[CompiledPlan, dict[int, Any]]:
        """The plans that inserted quads concern; nothing stays of them."""
        self.quads.stage([self.change(item, weight) for item in items])
        found = self.dispatcher.dispatch(self.quads.staged)
        self.quads.rollback()
        return found

    def insert(self, *items: ox.Quad) -> None:
        self.quads.stage([self.change(item) for item in items])
        self.quads.commit()


def scan(subject: Any, predicate: Any, object_: Any, graph: op.GraphChoice = UNNAMED) -> op.Scan:
    return op.Scan(graph, subject, predicate, object_)


# The constants of a thousand plans, at each of the positions

SHAPES: dict[str, tuple[Callable[[int], op.Scan], Callable[[int], ox.Quad]]] = {
    "subject": (lambda n: scan(node(n), X, Y), lambda n: quad(n, "p", "o")),
    "predicate": (lambda n: scan(X, node(n), Y), lambda n: quad("s", n, "o")),
    "object": (lambda n: scan(X, Y, node(n)), lambda n: quad("s", "p", n)),
    "subject and predicate": (lambda n: scan(node(n), node("p"), X), lambda n: quad(n, "p", "o")),
    "predicate and object": (lambda n: scan(X, node("p"), node(n)), lambda n: quad("s", "p", n)),
    "all": (lambda n: scan(node(n), node("p"), node("o")), lambda n: quad(n, "p", "o")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_only_plans_that_match_are_reached(shape: str) -> None:
    make, matching = SHAPES[shape]
    bench = Bench()
    plans = [bench.add(make(number)) for number in range(VIEWS if shape == "predicate and object" else 50)]
    for number in (0, 17, 49):
        found = bench.reached(matching(number))
        assert list(found) == [plans[number]]
        assert list(found[plans[number]].values()) == [[bench.change(matching(number))]]
    assert bench.reached(matching(1), matching(2), matching(10**6)).keys() == {plans[1], plans[2]}
    assert bench.reached(matching(10**6)) == {}
    assert bench.reached(matching(3), weight=1).keys() == {plans[3]}


def test_a_pattern_without_constants_is_always_reached() -> None:
    bench = Bench()
    everything, other = bench.add(scan(X, Y, Z)), bench.add(scan(X, node("p"), Y))
    assert bench.reached(quad("a", "q", "b")).keys() == {everything}
    assert bench.reached(quad("a", "p", "b")).keys() == {everything, other}


def test_each_pattern_gets_the_changes_that_it_matches() -> None:
    bench = Bench()
    plan = bench.add(op.Join((scan(X, node("p"), Y), scan(Y, node("q"), Z), scan(Y, node("p"), Z))))
    leaves = {number: leaf.predicate for number, leaf in plan.leaves() if isinstance(leaf, op.Scan)}
    p, q = quad("a", "p", "b"), quad("b", "q", "c")
    inputs = bench.reached(p, q, quad("a", "r", "b"))[plan]
    for number, predicate in leaves.items():
        assert inputs[number] == [bench.change(p if predicate == node("p") else q)]


def test_graphs_are_told_apart() -> None:
    bench = Bench()
    g, h = node("g"), node("h")
    unnamed = bench.add(scan(X, node("p"), Y))
    one = bench.add(scan(X, node("p"), Y, op.OneGraph(g)))
    merged = bench.add(scan(X, node("p"), Y, op.MergedGraphs((g, h))))
    union = bench.add(scan(X, node("p"), Y, op.MergedGraphs(None)))
    named = bench.add(scan(X, node("p"), Y, op.NamedGraphs(Z, None)))
    only_h = bench.add(scan(X, node("p"), Y, op.NamedGraphs(Z, (h,))))
    assert bench.reached(quad("a", "p", "b")).keys() == {unnamed, union}
    assert bench.reached(quad("a", "p", "b", g)).keys() == {one, merged, union, named}
    assert bench.reached(quad("a", "p", "b", h)).keys() == {merged, union, named, only_h}
    bench.insert(quad("a", "p", "b", g))
    # The union has the triple already: its change is none.
    assert bench.reached(quad("a", "p", "b", h)).keys() == {named, only_h}


def test_nodes_and_names_are_reached_when_they_change() -> None:
    bench = Bench()
    g = node("g")
    nodes = bench.add(op.Nodes(UNNAMED, X))
    name, names = bench.add(op.Names(op.OneGraph(g))), bench.add(op.Names(op.NamedGraphs(X, None)))
    found = bench.reached(quad("a", "p", "b"))
    assert found.keys() == {nodes}
    assert {row for rows in found[nodes].values() for row in rows} == {
        ((bench.terms.dictionary.id_of(node("a")),), 1),
        ((bench.terms.dictionary.id_of(node("b")),), 1),
    }
    found = bench.reached(quad("a", "p", "b", g))
    assert found.keys() == {name, names}
    assert list(found[name].values()) == [[((), 1)]]
    bench.insert(quad("a", "p", "b"), quad("a", "p", "b", g))
    assert bench.reached(quad("a", "q", "b"), quad("a", "q", "b", g)) == {}, "no node and no graph is new"


def test_a_plan_that_is_removed_is_no_longer_reached() -> None:
    bench = Bench()
    plans = [bench.add(scan(X, node("p"), node(number % 5))) for number in range(10)]
    counted = bench.add(op.Nodes(UNNAMED, X))
    bench.dispatcher.remove(plans[3])
    bench.dispatcher.remove(counted)
    assert bench.reached(quad("s", "p", 3)).keys() == {plans[8]}
    bench.dispatcher.remove(plans[8])
    assert bench.reached(quad("s", "p", 3)) == {}
    assert bench.reached(quad("s", "p", 4)).keys() == {plans[4], plans[9]}
    bench.dispatcher.add(plans[3])
    assert bench.reached(quad("s", "p", 3)).keys() == {plans[3]}


def test_a_plan_that_is_removed_leaves_no_entry() -> None:
    bench = Bench()
    for number in range(10):
        bench.dispatcher.remove(bench.add(scan(X, node("p"), node(number))))
        bench.dispatcher.remove(bench.add(scan(node(number), X, Y)))
    assert not any(bench.dispatcher._tables.values())


names = st.sampled_from("abc")
positions = st.tuples(*(st.one_of(st.sampled_from((X, Y, Z)), names.map(node)) for _ in range(3)))


@examples(50)
@given(
    st.lists(positions, min_size=1, max_size=6),
    st.lists(st.tuples(names, names, names), min_size=1, max_size=4),
)
def test_reached_if_and_only_if_the_constants_match(
    patterns: list[tuple[Any, Any, Any]], data: list[tuple[str, str, str]]
) -> None:
    bench = Bench()
    plans = [bench.add(scan(*pattern)) for pattern in patterns]
    items = [quad(*item) for item in dict.fromkeys(data)]
    found = bench.reached(*items)
    for plan, pattern in zip(plans, patterns, strict=True):
        expected = [
            bench.change(item)
            for item in items
            if all(
                isinstance(wanted, Var) or wanted == term for wanted, term in zip(pattern, item, strict=False)
            )
        ]
        got = [change for rows in found.get(plan, {}).values() for change in rows]
        assert sorted(got) == sorted(expected)


# A session with a thousand views


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[CompiledPlan]:
    """The plans that a change was carried through, in order."""
    ran: list[CompiledPlan] = []
    delta = CompiledPlan.delta

    def counting(self: CompiledPlan, inputs: Any) -> Any:
        ran.append(self)
        return delta(self, inputs)

    monkeypatch.setattr(CompiledPlan, "delta", counting)
    return ran


def changed(
    session: sparqlive.Session, runs: list[CompiledPlan], items: Iterable[ox.Quad]
) -> tuple[set[str], int]:
    """The views that a batch changed, and how many plans ran for it."""
    runs.clear()
    epoch = session.apply(insert=list(items))
    return set(epoch.deltas.changed()), len(runs)


def test_a_thousand_views_over_different_predicates(runs: list[CompiledPlan]) -> None:
    with sparqlive.open() as session:
        for number in range(VIEWS):
            session.view(f"v{number}", f"SELECT ?x ?y {{ ?x <{EX}p{number}> ?y }}")
        assert changed(session, runs, [quad("a", "p7", "b")]) == ({"v7"}, 1)
        assert changed(session, runs, [quad("a", "other", "b")]) == (set(), 0)
        assert changed(session, runs, [quad("c", "p1", "d"), quad("c", "p999", "d")]) == ({"v1", "v999"}, 2)
        session.drop("v7")
        assert changed(session, runs, [quad("e", "p7", "f")]) == (set(), 0)
        session.view("again", f"SELECT ?x ?y {{ ?x <{EX}p7> ?y }}")
        assert changed(session, runs, [quad("g", "p7", "h")]) == ({"again"}, 1)
        assert len(session.views["again"]) == 3


@pytest.mark.parametrize(
    "pattern", ["?x <{ex}p> <{ex}c{n}>", "<{ex}c{n}> <{ex}q> ?x", "?x <{ex}p> <{ex}c{n}> . ?x <{ex}r> ?y"]
)
def test_a_thousand_views_over_different_constants(runs: list[CompiledPlan], pattern: str) -> None:
    """Views of one shape may share one plan: then it runs once, and only views that match change."""
    with sparqlive.open() as session:
        for number in range(VIEWS):
            session.view(f"v{number}", f"SELECT ?x {{ {pattern.format(ex=EX, n=number)} }}")
        session.apply(insert=[quad("s", "r", "t"), quad("s", "r", "u")])
        inverse = pattern.startswith("<")

        def item(number: object) -> ox.Quad:
            return quad(f"c{number}", "q", "s") if inverse else quad("s", "p", f"c{number}")

        names, count = changed(session, runs, [item(7)])
        assert names == {"v7"}
        assert count == 1
        names, count = changed(session, runs, [item(1), item(999), item("other")])
        assert names == {"v1", "v999"}
        assert count <= 2
        names, count = changed(session, runs, [item("another")])
        assert names == set()
        assert count <= 1
        assert changed(session, runs, [quad("s", "unrelated", "c7")]) == (set(), 0)
        assert sum(len(view) for view in session.views.values()) == 3 * (2 if "?y" in pattern else 1)


def test_dropped_views_cost_nothing(runs: list[CompiledPlan]) -> None:
    with sparqlive.open() as session:
        for number in range(100):
            session.view(f"v{number}", f"SELECT ?x {{ ?x <{EX}p> <{EX}c{number}> }}")
        for number in range(1, 100):
            session.drop(f"v{number}")
        assert changed(session, runs, [quad("s", "p", "c5")])[0] == set()
        assert changed(session, runs, [quad("s", "p", "c0")])[0] == {"v0"}
        session.drop("v0")
        assert changed(session, runs, [quad("t", "p", "c0")]) == (set(), 0)
        assert session.epoch == 3
        session.check()


def test_equal_views_run_once(runs: list[CompiledPlan]) -> None:
    with sparqlive.open() as session:
        for number in range(5):
            session.view(f"v{number}", f"SELECT ?x {{ ?x <{EX}p> ?y }}")
        assert changed(session, runs, [quad("a", "p", "b")]) == ({f"v{number}" for number in range(5)}, 1)
        session.drop("v0")
        assert changed(session, runs, [quad("c", "p", "d")]) == ({f"v{number}" for number in range(1, 5)}, 1)
