"""Reachability under inserts and deletes, against a search from scratch after every batch."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.live.closure import ClosureState
from sparqlive.live.closure_pairs import Pairs
from sparqlive.live.closure_tree import Tree
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var
from tests.conftest import examples

Edge = tuple[int, int]
Ends = tuple[int | None, ...]

edges = st.tuples(st.integers(0, 6), st.integers(0, 6))
batches = st.lists(st.lists(edges, max_size=5), min_size=1, max_size=8)


def joined(steps: Iterable[Edge]) -> set[Edge]:
    """All pairs, by a search from every node."""
    after: dict[int, list[int]] = {}
    for at, to in steps:
        after.setdefault(at, []).append(to)
    found: set[Edge] = set()
    for start, waiting in after.items():
        seen: set[int] = set()
        waiting = list(waiting)
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting.extend(after.get(node, ()))
        found |= {(start, end) for end in seen}
    return found


class Check:
    """A structure beside the set of edges it should be over."""

    def __init__(
        self, made: Tree | Pairs, steps: set[Edge], choose: dict[int, int], shown: list[int]
    ) -> None:
        self.made, self.steps = made, set(steps)
        self._choose, self._shown = choose, shown

    def expected(self, steps: Iterable[Edge]) -> set[tuple[int, ...]]:
        return {
            tuple(pair[place] for place in self._shown)
            for pair in joined(steps)
            if all(pair[place] == node for place, node in self._choose.items())
        }

    def change(self, toggled: Iterable[Edge], *, keep: bool) -> None:
        """Edges that are there go, the others come; the change is kept, or made the other way round."""
        gone = [edge for edge in dict.fromkeys(toggled) if edge in self.steps]
        come = [edge for edge in dict.fromkeys(toggled) if edge not in self.steps]
        after = (self.steps - set(gone)) | set(come)
        old, new = self.expected(self.steps), self.expected(after)
        self.made.change(gone, come)
        assert sorted(self.made.delta()) == sorted([(e, 1) for e in new - old] + [(e, -1) for e in old - new])
        self.compare(old, old=True)
        self.compare(new, old=False)
        if keep:
            self.steps = after
        else:
            self.made.change(come, gone)
            assert list(self.made.delta()) == []
        self.made.settle()
        self.compare(new if keep else old, old=True)
        assert self.made.count() == len(new if keep else old)
        assert self.made.is_empty == (not self.steps)

    def compare(self, expected: set[tuple[int, ...]], *, old: bool) -> None:
        width = len(self._shown)
        for wanted in [
            (None,) * width,
            *[(n, None)[:width] for n in (0, 3)],
            (None, 2)[-width:] if width else (),
        ]:
            found = list(self.made.matches(wanted, old))
            right = {e for e in expected if all(w is None or w == n for n, w in zip(e, wanted, strict=True))}
            assert sorted(found) == sorted(right), (wanted, old)


def structures(steps: set[Edge]) -> list[Check]:
    return [
        Check(Pairs(steps), steps, {}, [0, 1]),
        Check(Tree(steps, 0, turned=False), steps, {0: 0}, [1]),
        Check(Tree(steps, 0, turned=True), steps, {1: 0}, [0]),
        Check(Tree(steps, 0, turned=False, wanted=3), steps, {0: 0, 1: 3}, []),
        Check(Tree(steps, 0, turned=False, wanted=0), steps, {0: 0, 1: 0}, []),
    ]


@examples(100)
@given(
    first=st.sets(edges, max_size=20), stream=batches, kept=st.lists(st.booleans(), min_size=8, max_size=8)
)
def test_every_batch_equals_the_search(first: set[Edge], stream: list[list[Edge]], kept: list[bool]) -> None:
    for check in structures(first):
        for batch, keep in zip(stream, kept, strict=False):
            check.change(batch, keep=keep)


@pytest.mark.parametrize(("nodes", "degree"), [(30, 0.8), (30, 1.3), (40, 2.0), (60, 1.1)])
def test_larger_graphs(nodes: int, degree: float) -> None:
    """From sparse to one large component, by single edges, small batches, and batches done from scratch."""
    rng = random.Random(nodes * degree)
    pairs = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(int(nodes * degree))]
    for check in structures(set(pairs)):
        for step in range(40):
            size = 90 if step % 20 == 19 else rng.choice((1, 1, 1, 2, 6))
            there = rng.sample(sorted(check.steps), min(len(check.steps), size // 2 + rng.randrange(2)))
            new = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(size - len(there))]
            check.change([*there, *new], keep=step % 5 != 4)


def test_nothing_is_left_of_edges_that_are_gone() -> None:
    check = structures(set())[0]
    cycle = [(node, (node + 1) % 5) for node in range(5)]
    for _ in range(3):
        check.change(cycle, keep=True)
        check.change(cycle, keep=True)
    pairs = check.made
    assert isinstance(pairs, Pairs)
    assert not pairs._number
    assert not pairs._reach
    assert not pairs._members
    assert len(pairs._node) == 5, "numbers are used again"


def test_a_step_counts_until_its_last_solution_leaves() -> None:
    source = op.Table((Var("a"), Var("b"), Var("g")), ())
    state = ClosureState(op.Closure(source, (Var("g"),), Var("x"), Var("y")), hash)
    state.load({(1, 2, 7): 2, (2, 3, 7): 1, (2, 3, 8): 1})
    assert dict(state.content()) == {(1, 2, 7): 1, (2, 3, 7): 1, (1, 3, 7): 1, (2, 3, 8): 1}
    assert state.carry({(1, 2, 7): -1}) == {}
    state.commit()
    assert state.carry({(1, 2, 7): -1, (2, 3, 8): -1}) == {(1, 2, 7): -1, (1, 3, 7): -1, (2, 3, 8): -1}
    assert len(dict(state.content())) == 4, "before the epoch is as it was"
    assert state.row_count() == 1
    state.rollback()
    assert state.row_count() == len(dict(state.content())) == 4
    state.stage({(1, 2, 7): -1, (2, 3, 7): -1, (2, 3, 8): -1})
    state.commit()
    assert not dict(state.content())
    assert not state.rows
    assert not state._reached


def quad(subject: int, object_: int) -> ox.Quad:
    return ox.Quad(*(ox.NamedNode(f"http://example.org/{name}") for name in (subject, "p", object_)))


@pytest.mark.parametrize("strategy", ["live", "rebuild"])
@pytest.mark.parametrize(
    "pattern", ["?x :p+ ?y", "?x :p* ?y", ":1 :p+ ?y", "?x :p+/:p* ?y", "?x :p ?z . ?z :p+ ?y"]
)
def test_large_batches_by_every_strategy(pattern: str, strategy: sparqlive.session.Strategy) -> None:
    rng = random.Random(7)
    query = f"PREFIX : <http://example.org/> SELECT * WHERE {{ {pattern} }}"
    with sparqlive.open() as session:
        view = session.view("view", query)
        for _ in range(4):
            before = view.weights()
            there = rng.sample(sorted(session.quads(), key=str), len(set(session.quads())) // 3)
            new = [quad(rng.randrange(40), rng.randrange(40)) for _ in range(25)]
            epoch = session.apply(insert=new, delete=there, strategy=strategy)
            for row, weight in epoch.deltas["view"].weights().items():
                before[row] = before.get(row, 0) + weight
            assert {row: weight for row, weight in before.items() if weight} == view.weights()
            session.check()
