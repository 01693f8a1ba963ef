"""The quads in all their orders against a plain set, with scopes, batches, commits and rollbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sparqlive
from sparqlive.quads.current import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Quads, Scope
from sparqlive.quads.leaves import KINDS, GraphNames, Nodes
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.columns import ColumnRows, last_rows
from sparqlive.zset.keyed_relation import KeyedRelation
from tests.conftest import examples

# Ids at both ends of their range; some are predicates and nodes at once.
NODES = (-(2**63), -5, 3, 2**63 - 1)
PREDICATES = (3, 40, -41)
GRAPHS = (DEFAULT_GRAPH, 70, -71)
Triple = tuple[int, int, int]

ONE = [Scope("one", frozenset({graph})) for graph in GRAPHS]
MERGED = [
    Scope("merged", None),
    Scope("merged", frozenset({DEFAULT_GRAPH, 70})),
    Scope("merged", frozenset({70, -71})),
    Scope("merged", frozenset()),
]
NAMED = [Scope("named", None), Scope("named", frozenset({70})), Scope("named", frozenset({70, -71}))]
ORDERS = [
    ((SUBJECT, PREDICATE, OBJECT), 1),
    ((OBJECT, PREDICATE, SUBJECT), 2),
    ((PREDICATE, SUBJECT, OBJECT), 2),
    ((OBJECT, SUBJECT, PREDICATE), 1),
    ((SUBJECT, OBJECT, PREDICATE), 3),
]
NAMED_ORDERS = [
    ((GRAPH, SUBJECT, PREDICATE, OBJECT), 1),
    ((OBJECT, GRAPH, PREDICATE, SUBJECT), 2),
    ((SUBJECT, OBJECT, PREDICATE, GRAPH), 2),
    ((PREDICATE, GRAPH, SUBJECT, OBJECT), 2),
]

quads = st.tuples(*map(st.sampled_from, (NODES, PREDICATES, NODES, GRAPHS)))
quad_sets = st.sets(quads, max_size=8)


def seen(data: Iterable[Quad], scope: Scope) -> set[Quad]:
    """The quads of a scope; merged ones have lost their graph."""
    covered = {quad for quad in data if scope.covers(quad[GRAPH])}
    return {(*quad[:3], 0) for quad in covered} if scope.kind == "merged" else covered


def nodes_of(data: Iterable[Quad], scope: Scope) -> set[tuple[int, ...]]:
    width = slice(GRAPH, GRAPH + (scope.kind == "named"))
    return {(quad[end], *quad[width]) for quad in seen(data, scope) for end in (SUBJECT, OBJECT)}


def names_of(data: Iterable[Quad], scope: Scope) -> set[tuple[int, ...]]:
    return {(quad[GRAPH],) for quad in seen(data, scope)}


Rows = Callable[[Iterable[Quad], Scope], set[tuple[int, ...]]]


def in_order(order: tuple[int, ...], predicate: int | None) -> Rows:
    return lambda data, scope: {
        tuple(quad[i] for i in order) for quad in seen(data, scope) if predicate in (None, quad[PREDICATE])
    }


SIGNS = st.sampled_from((-1, 1))
STAGING: tuple[dict[str, int], ...] = (
    {"copied_to_staged_rows": 0, "smallest_run_rows": 1},
    {"copied_to_staged_rows": 1, "smallest_run_rows": 1, "column_rows": 2},
    {"copied_to_staged_rows": 128, "smallest_run_rows": 1},
    {},
)
"""Batches are staged as columns or one by one."""


class Machine(RuleBasedStateMachine):
    """Relations that are asked for at any time show the old set before, the new one after."""

    def __init__(self) -> None:
        super().__init__()
        self.quads = Quads()
        self.old: set[Quad] = set()
        self.new: set[Quad] = set()
        self.changes: list[Change] = []
        self.watched: list[Scope] = []
        self.made: dict[tuple[object, ...], tuple[KeyedRelation, Scope, Rows]] = {}

    @initialize(
        few=st.sampled_from((0, 2, 64)),
        part=st.sampled_from((0, 1, 8)),
        staging=st.integers(0, len(STAGING) - 1),
    )
    def look_into_each_graph(self, few: int, part: int, staging: int) -> None:
        """Also where a subject or object has few rows, or the graph most of them."""
        self.quads = Quads(
            replace(DEFAULT, smallest_merge_rows=5, filtered_rows=few, graph_part=part, **STAGING[staging])
        )

    def make(self, relation: KeyedRelation, scope: Scope, rows: Rows, *key: object) -> None:
        known = self.made.setdefault((scope, *key), (relation, scope, rows))
        assert known[0] is relation, "a relation that was given out is no longer the right one"

    # Scopes are watched between epochs

    @precondition(lambda self: not self.changes)
    @rule(scope=st.sampled_from(ONE + MERGED + NAMED))
    def watch(self, scope: Scope) -> None:
        self.quads.watch(scope)
        if scope not in self.watched:
            self.watched.append(scope)

    # Relations are made before, between and during changes

    @precondition(lambda self: self.watched)
    @rule(data=st.data(), predicate=st.sampled_from((None, *PREDICATES)))
    def index(self, data: st.DataObject, predicate: int | None) -> None:
        scope = data.draw(st.sampled_from(self.watched))
        order, length = data.draw(st.sampled_from(NAMED_ORDERS if scope.kind == "named" else ORDERS))
        relation = self.quads.index(scope, predicate, order, length)
        self.make(relation, scope, in_order(order, predicate), predicate, order, length)

    @rule(graph=st.sampled_from(GRAPHS), predicate=st.sampled_from(PREDICATES))
    def pairs(self, graph: int, predicate: int) -> None:
        scope = Scope("one", frozenset({graph}))
        relation = self.quads.pairs(graph, predicate)
        self.make(relation, scope, in_order((SUBJECT, OBJECT), predicate), "pairs", predicate)

    @rule(graph=st.sampled_from(GRAPHS), predicate=st.sampled_from(PREDICATES))
    def inverse(self, graph: int, predicate: int) -> None:
        scope = Scope("one", frozenset({graph}))
        relation = self.quads.inverse(graph, predicate)
        self.make(relation, scope, in_order((OBJECT, SUBJECT), predicate), "inverse", predicate)

    @precondition(lambda self: any(scope.kind == "merged" for scope in self.watched))
    @rule(data=st.data(), predicate=st.sampled_from(PREDICATES))
    def merged_pairs(self, data: st.DataObject, predicate: int) -> None:
        scope = data.draw(st.sampled_from([scope for scope in self.watched if scope.kind == "merged"]))
        forward, back = self.quads.pairs(scope, predicate), self.quads.inverse(scope, predicate)
        self.make(forward, scope, in_order((SUBJECT, OBJECT), predicate), "pairs", predicate)
        self.make(back, scope, in_order((OBJECT, SUBJECT), predicate), "inverse", predicate)

    @precondition(lambda self: self.watched)
    @rule(data=st.data())
    def nodes(self, data: st.DataObject) -> None:
        scope = data.draw(st.sampled_from(self.watched))
        self.make(self.quads.nodes(scope), scope, nodes_of, "nodes")

    @precondition(lambda self: any(scope.kind != "merged" for scope in self.watched))
    @rule(data=st.data())
    def names(self, data: st.DataObject) -> None:
        scope = data.draw(st.sampled_from([scope for scope in self.watched if scope.kind != "merged"]))
        self.make(self.quads.names(scope), scope, names_of, "names")

    # Changes

    @precondition(lambda self: not self.changes)
    @rule(batch=quad_sets)
    def stage(self, batch: set[Quad]) -> None:
        """What of the batch is there is deleted, the rest inserted."""
        self.changes = [(*quad, -1 if quad in self.old else 1) for quad in sorted(batch)]
        self.new = self.old ^ batch
        self.quads.stage(self.changes)

    @precondition(lambda self: not self.changes)
    @rule(data=st.data(), batch=st.sets(quads, min_size=1, max_size=8))
    def stage_columns(self, data: st.DataObject, batch: set[Quad]) -> None:
        """As columns: what is said several times counts as said last, what is so already is no change."""
        said = data.draw(st.lists(st.tuples(st.sampled_from(sorted(batch | self.old)), SIGNS), min_size=1))
        last = dict(said)
        wanted = ColumnRows([np.array(column) for column in zip(*((*q, w) for q, w in said), strict=True)])
        changes = self.quads.effective_columns(wanted)
        self.changes = list(changes)
        expected = self.quads.effective(last)
        assert sorted(self.changes) == sorted(expected)
        assert [(p, g, s, o) for s, p, o, g, _ in changes] == sorted(
            (p, g, s, o) for s, p, o, g, _ in changes
        )
        self.new = self.old ^ {change[:4] for change in self.changes}
        if self.changes:
            self.quads.stage(changes)

    @precondition(lambda self: not self.changes and self.old)
    @rule(step=st.integers(1, 3), batch=quad_sets)
    def stage_deletes(self, step: int, batch: set[Quad]) -> None:
        self.stage(set(sorted(self.old)[::step]) | batch)

    @precondition(lambda self: self.changes)
    @rule()
    def commit(self) -> None:
        self.quads.commit()
        self.old, self.changes = set(self.new), []

    @precondition(lambda self: self.changes)
    @rule()
    def rollback(self) -> None:
        self.quads.rollback()
        self.new, self.changes = set(self.old), []

    @precondition(lambda self: not self.changes)
    @rule(batch=quad_sets)
    def add(self, batch: set[Quad]) -> None:
        """In one go; many inserts are sorted at once."""
        new = batch - self.old
        self.quads.add([(*quad, 1) for quad in sorted(new)])
        self.old |= new
        self.new = set(self.old)

    # What must hold

    @invariant()
    def relations_show_both_states(self) -> None:
        for key, (relation, scope, rows) in self.made.items():
            assert sorted(relation.rows_before()) == sorted(rows(self.old, scope)), key
            assert sorted(relation.rows_after()) == sorted(rows(self.new, scope)), key
            if not isinstance(relation, GraphNames | Nodes):
                assert relation.size_before() == len(rows(self.old, scope)), key

    @invariant()
    def tables_show_both_states(self) -> None:
        for scope in self.watched:
            for after, quads in ((False, self.old), (True, self.new)):
                rows = Counter[Quad]()
                for predicate, graph, subjects, objects, deleted in self.quads.tables(scope, None, after):
                    graphs = np.full(len(subjects), graph) if isinstance(graph, int) else graph
                    own = zip(subjects.tolist(), objects.tolist(), graphs.tolist(), strict=True)
                    gone = set(zip(*(column.tolist() for column in deleted or ()), strict=True))
                    kept = (row for row in own if not {row, row[:2]} & gone)
                    rows.update((s, predicate, o, g) for s, o, g in kept)
                assert rows == Counter(quad for quad in quads if scope.covers(quad[GRAPH])), scope

    @invariant()
    def staged_changes_are_listed_by_scope(self) -> None:
        for scope in self.watched:
            old, new = seen(self.old, scope), seen(self.new, scope)
            expected = {(*quad, 1) for quad in new - old} | {(*quad, -1) for quad in old - new}
            listed = self.quads.staged.get(scope, [])
            assert Counter(listed) == Counter(expected)
        assert all(self.quads.staged.values()), "a scope without changes is listed"

    @invariant()
    def nodes_and_names_come_and_go(self) -> None:
        for scope, kind in ((key[0], key[1]) for key in self.made if key[1] in KINDS):
            is_nodes = kind == "nodes"
            rows = nodes_of if is_nodes else names_of
            leaf = self.quads.nodes(scope) if is_nodes else self.quads.names(scope)
            old, new = rows(self.old, scope), rows(self.new, scope)
            for first in (*NODES, *GRAPHS):
                for value in GRAPHS if is_nodes and scope.kind == "named" else ((),):
                    row = (first,) if value == () else (first, value)
                    assert leaf.has_before(first, value) == (row in old)
                    assert leaf.has_after(first, value) == (row in new)
                if isinstance(leaf, Nodes) and scope.kind == "named":
                    assert {*leaf.before(first)} == {graph for node, graph in old if node == first}
                    assert {*leaf.after(first)} == {graph for node, graph in new if node == first}
            expected = {(row, 1) for row in new - old} | {(row, -1) for row in old - new}
            assert Counter(self.quads.delta(kind, scope)) == Counter(expected)

    @invariant()
    def the_set_is_the_old_one_until_commit(self) -> None:
        assert Counter(self.quads) == Counter(self.old)
        for quad in self.new | self.old | {(3, 3, 3, 70)}:
            assert (quad in self.quads) == (quad in self.old)

    @precondition(lambda self: not self.changes)
    @invariant()
    def it_agrees_with_itself(self) -> None:
        self.quads.check()
        assert self.quads.size == len(self.old)
        assert not self.quads.staged


class TestQuads(Machine.TestCase):  # type: ignore[name-defined,misc]
    settings = examples(75, stateful_step_count=20)


# Scopes


def test_what_a_scope_covers() -> None:
    assert [Scope("merged", None).covers(graph) for graph in GRAPHS] == [True, True, True]
    assert [Scope("named", None).covers(graph) for graph in GRAPHS] == [False, True, True]
    assert [Scope("merged", frozenset({70})).covers(graph) for graph in GRAPHS] == [False, True, False]
    assert [Scope("one", frozenset({DEFAULT_GRAPH})).covers(graph) for graph in GRAPHS] == [
        True,
        False,
        False,
    ]


def test_equal_scopes_are_one_key() -> None:
    assert Scope("merged", frozenset({1, 70})) == Scope("merged", frozenset({70, 1}))
    assert len({Scope("merged", None), Scope("named", None), Scope("merged", None)}) == 2


def test_a_merged_triple_leaves_with_its_last_graph() -> None:
    quads = Quads()
    scope = Scope("merged", None)
    quads.watch(scope)
    triple = (5, 6, 7)
    seen_changes = []
    for graph, weight in ((1, 1), (70, 1), (1, -1), (70, -1)):
        quads.stage([(*triple, graph, weight)])
        seen_changes.append(quads.staged.get(scope))
        quads.commit()
    assert seen_changes == [[(*triple, 0, 1)], None, None, [(*triple, 0, -1)]]


def test_a_triple_that_moves_between_graphs_does_not_change_their_union() -> None:
    quads = Quads()
    scope = Scope("merged", frozenset({1, 70}))
    quads.watch(scope)
    quads.add([(5, 6, 7, 1, 1)])
    quads.stage([(5, 6, 7, 1, -1), (5, 6, 7, 70, 1)])
    assert scope not in quads.staged
    quads.commit()
    assert list(quads.pairs(scope, 6).rows_before()) == [(5, 7)]
    quads.check()


# Looking up without making anything


def test_lookups_at_run_time_make_nothing() -> None:
    quads = Quads()
    assert list(quads.pairs_if_any(1, 6).rows_before()) == []
    assert list(quads.inverse_if_any(1, 6).rows_before()) == []
    quads.add([(5, 6, 7, 1, 1)])
    assert list(quads.pairs_if_any(1, 6).rows_before()) == [(5, 7)]
    assert list(quads.inverse_if_any(1, 6).rows_before()) == [(7, 5)]
    assert list(quads.inverse_if_any(1, 8).rows_before()) == []
    assert list(quads) == [(5, 6, 7, 1)]


# Loading


SMALL_BULK = replace(DEFAULT, column_rows=4, smallest_run_rows=1)


def changes(numbers: Iterable[int], weight: int = 1) -> list[Change]:
    return [(number, 6 + number % 2, number * 2, 1, weight) for number in numbers]


def test_bulk_loads_are_sorted_at_once() -> None:
    quads = Quads(SMALL_BULK)
    quads.add(changes(range(10)))
    pairs = quads.pairs(1, 6)
    assert isinstance(pairs, KeyedRelation)
    assert pairs.run is not None
    assert pairs.overlay == {}
    quads.add(changes(range(10, 20)))
    assert set(quads) == {change[:4] for change in changes(range(20))}
    assert quads.size == 20
    quads.check()


def test_bulk_loads_into_what_was_emptied() -> None:
    quads = Quads(SMALL_BULK)
    quads.add(changes(range(10)))
    quads.add(changes(range(10), -1))
    assert quads.size == 0
    quads.add(changes(range(10)))
    assert quads.size == 10
    quads.check()


def test_loading_again_after_deleting_everything() -> None:
    predicate = ox.NamedNode("http://example.org/p")
    data = [
        ox.Quad(ox.NamedNode(f"http://example.org/{number}"), predicate, ox.Literal(number))
        for number in range(10_001)
    ]
    with sparqlive.open() as session:
        session.load(data)
        session.apply(delete=data)
        assert session.load(data).inserted == len(data)
        session.check()


def test_a_large_batch_of_columns() -> None:
    rng = np.random.default_rng(7)
    columns = [rng.integers(-(2**63), 2**63, 500) for _ in range(3)]
    columns[1] = rng.choice(np.array([6, -7, 2**62]), 500)
    quads = Quads()
    rows = ColumnRows([*columns, np.full(500, 70), np.ones(500, np.int64)])
    quads.add(last_rows(rows, by=(PREDICATE, GRAPH, SUBJECT, OBJECT)))
    expected = {(*map(int, row), 70) for row in zip(*columns, strict=True)}
    assert set(quads) == expected
    assert quads.size == len(expected)
    assert quads.nbytes >= 16 * len(expected)
    quads.check()


# Undoing and checking


def test_a_rollback_of_nothing_changes_nothing() -> None:
    quads = Quads()
    quads.stage([(5, 6, 7, 1, 1)])
    quads.commit()
    quads.rollback()
    assert quads.size == 1


@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("is_merged", [False, True])
def test_a_snapshot_stays_as_it_is_and_is_no_part_of_the_others(rows: int, is_merged: bool) -> None:
    quads, union = Quads(), Scope("merged", None)
    order = (OBJECT, PREDICATE, SUBJECT)
    quads.add([(5 + i, 6, 7 + i % 3, graph, 1) for i in range(rows) for graph in (1, 70)])
    if is_merged:
        quads.watch(union)
        quads.index(union, None, order, 1)
        quads.nodes(union)
        quads.inverse(1, 6)
    taken = quads.snapshot()

    def seen() -> list[object]:
        taken.watch(union)
        return [
            set(taken.pairs(union, 6).rows_before()),
            set(taken.inverse(1, 6).rows_before()),
            set(taken.index(union, None, order, 1).rows_before()),
            set(taken.nodes(union).rows_before()),
        ]

    def same(before: list[object]) -> list[object]:
        assert seen() == before
        return before

    before = seen() if rows == 3 else None
    quads.stage([(5, 6, 7, 1, -1), (1000, 6, 1001, 70, 1), (6, 6, 8, 1, -1), (6, 6, 8, 70, -1)])
    quads.commit()
    expected = {(5 + i, 7 + i % 3) for i in range(rows)}
    assert seen()[0] == expected
    assert seen()[1] == {(o, s) for s, o in expected}
    assert seen()[2] == {(o, 6, s) for s, o in expected}
    assert seen()[3] == {(node,) for pair in expected for node in pair}
    assert before is None or same(before)
    quads.stage([(5, 6, 7, 1, 1), (2000, 6, 7, 1, 1)])
    quads.commit()
    quads.check()
    assert set(quads.inverse(1, 6).before(7) or ()) >= {5, 2000}


def spoil_size(quads: Quads) -> None:
    quads.size += 1


def spoil_inverse(quads: Quads) -> None:
    inverse = quads.inverse(1, 6)
    assert isinstance(inverse, KeyedRelation)
    inverse.stage((99, 98), 1)
    inverse.commit()


def spoil_order(quads: Quads) -> None:
    order = quads.ordered("osp", 1)
    order.stage((7, 5, 6, 1), -1)
    order.commit()


def spoil_graph(quads: Quads) -> None:
    pairs = quads.pairs(70, 6)
    assert isinstance(pairs, KeyedRelation)
    pairs.stage((5, 8), -1)
    pairs.commit()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (spoil_size, "number of quads"),
        (spoil_inverse, "inverse"),
        (spoil_order, "order"),
        (spoil_graph, "graph"),
    ],
)
def test_check_finds_what_is_off(spoil: Callable[[Quads], None], sentence: str) -> None:
    quads = Quads()
    for scope in (Scope("one", frozenset({1})), Scope("merged", None)):
        quads.watch(scope)
    quads.add([(5, 6, 7, 1, 1), (5, 6, 8, 70, 1)])
    quads.check()
    spoil(quads)
    with pytest.raises(AssertionError, match=sentence):
        quads.check()
