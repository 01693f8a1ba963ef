"""Lent quads stay as they were, whatever epochs do to the quads they were lent from."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from sparqlive.quads.current import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Quads, Scope
from sparqlive.quads.lookup import quads_with
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.columns import ColumnRows

NODES, PREDICATES, GRAPHS = range(100, 112), range(50, 53), (1, 70, 71)
EVERYTHING = Scope("merged", None)
SCOPES = (Scope("one", frozenset({1})), Scope("named", None), EVERYTHING, Scope("merged", frozenset({1, 70})))


def random_quad(pick: random.Random) -> Quad:
    return pick.choice(NODES), pick.choice(PREDICATES), pick.choice(NODES), pick.choice(GRAPHS)


def changes(pick: random.Random, present: set[Quad], count: int) -> list[Change]:
    """Effective changes, each of another quad."""
    wanted = {random_quad(pick) for _ in range(count)}
    return [(*quad, -1 if quad in present else 1) for quad in sorted(wanted)]


def as_columns(batch: Iterable[Change]) -> ColumnRows:
    ordered = sorted(batch, key=lambda change: (change[1], change[3], change[0], change[2]))
    return ColumnRows([np.ascontiguousarray(column) for column in np.array(ordered, dtype=np.int64).T])


def expected(quads: set[Quad], scope: Scope) -> set[Quad]:
    inside = {quad for quad in quads if scope.covers(quad[GRAPH])}
    return {(s, p, o, 0) for s, p, o, _ in inside} if scope.kind == "merged" else inside


def check(lent: Snapshot, quads: set[Quad], pick: random.Random) -> None:
    """Reads the scopes in every way, and compares."""
    for scope in SCOPES:
        rows = expected(quads, scope)
        order = (SUBJECT, PREDICATE, OBJECT, GRAPH)
        assert sorted(lent.index(scope, None, order, 1).rows_before()) == sorted(rows)
        subject, predicate, object_, _ = random_quad(pick)
        of_subject = lent.index(scope, None, (SUBJECT, PREDICATE, OBJECT), 1).before(subject)
        assert sorted(of_subject) == sorted((p, o) for s, p, o, _ in rows if s == subject)
        of_object = lent.index(scope, None, (OBJECT, GRAPH, PREDICATE, SUBJECT), 1)
        wanted = sorted((g, p, s) for s, p, o, g in rows if o == object_)
        assert sorted(of_object.before(object_)) == wanted
        both = lent.index(scope, predicate, (OBJECT, SUBJECT, GRAPH), 2)
        assert sorted(both.before((object_, subject))) == sorted(
            g for s, p, o, g in rows if (s, p, o) == (subject, predicate, object_)
        )
        nodes = {node for s, _, o, _ in rows for node in (s, o)}
        assert {row[0] for row in lent.nodes(scope).rows_before()} == nodes
        assert lent.index(scope, None, order, 1).size_before() == len(rows)
        if scope.kind == "merged":
            pairs = {(s, o) for s, p, o, _ in rows if p == predicate}
            assert set(lent.pairs(scope, predicate).rows_before()) == pairs
            turned = lent.inverse(scope, predicate)
            assert sorted(turned.before(object_) or ()) == sorted(s for s, o in pairs if o == object_)
            assert turned.count_before(object_) == sum(o == object_ for _, o in pairs)


@pytest.mark.parametrize("seed", range(12))
def test_lent_quads_stay_as_they_were(seed: int) -> None:
    pick = random.Random(seed)
    tuning = replace(
        DEFAULT,
        smallest_merge_rows=pick.choice((3, 30, 10_000)),
        few_graphs=pick.choice((1, 100)),
        graph_part=pick.choice((0, 1, 8)),
        filtered_rows=pick.choice((0, 2, 64)),
    )
    quads, present = Quads(tuning), set[Quad]()
    if seed % 3 == 0:
        quads.watch(EVERYTHING)  # its merged graph is kept
        for predicate in PREDICATES:
            quads.inverse(1, predicate)
    lent: list[tuple[Snapshot, set[Quad]]] = []
    for _ in range(25):
        batch = changes(pick, present, pick.choice((1, 2, 10, 60)))
        quads.stage(as_columns(batch) if pick.random() < 0.4 else batch)
        if pick.random() < 0.2:
            quads.rollback()
        else:
            quads.commit()
            for *quad, weight in batch:
                (present.add if weight > 0 else present.remove)(tuple(quad))  # type: ignore[arg-type]
        if pick.random() < 0.6:
            lent.append((quads.snapshot(), set(present)))
        if pick.random() < 0.2:
            lent.pop(pick.randrange(len(lent))) if lent else None
        for one, quads_then in pick.sample(lent, min(2, len(lent))):
            check(one, quads_then, pick)
    quads.check()
    for one, quads_then in lent:
        check(one, quads_then, pick)


def test_lending_copies_nothing_and_a_change_copies_only_what_a_reader_has() -> None:
    quads = Quads()
    quads.add([(5, 50, 6, 1, 1), (5, 51, 6, 1, 1)])
    first, second = quads.pairs(1, 50), quads.pairs(1, 51)
    lent = quads.snapshot()
    assert lent.pairs(1, 50).overlay is first.overlay  # type: ignore[union-attr]
    quads.add([(7, 50, 8, 1, 1)])
    assert lent.pairs(1, 50).overlay is not first.overlay  # type: ignore[union-attr]
    assert lent.pairs(1, 51).overlay is second.overlay  # type: ignore[union-attr]
    before = second.overlay
    del lent
    quads.add([(7, 51, 8, 1, 1)])
    assert second.overlay is before, "nobody reads it any more"


def test_an_order_that_is_younger_than_a_snapshot() -> None:
    """It was created after an epoch that the snapshot does not have, and before one that changes it."""
    quads, present = Quads(), {(s, p, s + 1, g) for s in range(9) for p in range(50, 70) for g in (70, 71)}
    quads.add([(*quad, 1) for quad in sorted(present)])
    named = Scope("named", None)
    old = quads.snapshot()
    quads.add([(100, 50, 101, 70, 1)])
    new = quads.snapshot()
    every = {SUBJECT: 100, OBJECT: 101, GRAPH: 70}
    for position, value in every.items():
        assert [*quads_with(quads, named, {position: value})]
    quads.add([(102, 51, 103, 71, 1)])
    for lent, added in ((old, set()), (new, {(100, 50, 101, 70)})):
        for position, value in every.items():
            expected = {quad for quad in present | added if quad[position] == value}
            assert set(lent.matching(named, {position: value})) == expected


def test_readers_between_two_changes_share_what_is_lent() -> None:
    quads = Quads()
    quads.add([(5, 50, 6, 1, 1)])
    first, second = quads.snapshot(), quads.snapshot()
    assert second.pairs(1, 50) is first.pairs(1, 50)
    quads.stage([(7, 50, 8, 1, 1)])
    between = quads.snapshot()  # a reader while an epoch is prepared
    quads.commit()
    assert set(between.pairs(1, 50).rows_before()) == {(5, 6)}
    assert set(quads.snapshot().pairs(1, 50).rows_before()) == {(5, 6), (7, 8)}
