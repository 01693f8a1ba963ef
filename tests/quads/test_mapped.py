"""Quads over a base that is never copied, as a store maps it: the same laws, while the base moves."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sparqlive.quads.base import POSITIONS, Direction, WholeOrder
from sparqlive.quads.current import GRAPH, OBJECT, PREDICATE, SUBJECT, Quad, Quads
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.columns import ColumnRows, last_rows
from sparqlive.zset.run import Column, Run
from tests.conftest import examples
from tests.quads.test_current import Machine, quad_sets
from tests.quads.test_snapshot import PREDICATES, changes, check, random_quad


class FakeMaps:
    """A base whose runs say that they are mapped."""

    is_mapped = True

    def __init__(self, quads: Iterable[Quad]) -> None:
        self._quads = sorted(quads)
        self.size = len(self._quads)
        self._graphs: dict[int, set[int]] = {}
        for quad in self._quads:
            self._graphs.setdefault(quad[PREDICATE], set()).add(quad[GRAPH])
        self.is_mixed = any(len(graphs) > 1 for graphs in self._graphs.values())

    def predicates(self) -> Column:
        return np.array(sorted(self._graphs), np.int64)

    def has(self, predicate: int) -> bool:
        return predicate in self._graphs

    def graph_of(self, predicate: int) -> int | None:
        graphs = self._graphs.get(predicate, set())
        return next(iter(graphs)) if len(graphs) == 1 else None

    def part(self, order: Direction, predicate: int) -> Run | None:
        places = (SUBJECT, OBJECT) if order == "pso" else (OBJECT, SUBJECT)
        if len(self._graphs.get(predicate, ())) > 1:
            places = (*places, GRAPH)  # type: ignore[assignment]
        rows = [[q[i] for i in places] for q in self._quads if q[PREDICATE] == predicate]
        return _mapped(rows) if rows else None

    def whole(self, order: WholeOrder) -> Run:
        return _mapped([[q[i] for i in POSITIONS[order]] for q in self._quads], 4)


def _mapped(rows: list[list[int]], width: int = 0) -> Run:
    table = np.array(sorted(rows), np.int64).reshape(len(rows), len(rows[0]) if rows else width)
    return Run.over([np.ascontiguousarray(column).data for column in table.T], is_mapped=True)


def net(base: set[Quad], now: set[Quad]) -> ColumnRows:
    """The changes from a base to the quads of now, sorted by p."""
    rows = [(*quad, 1) for quad in now - base] + [(*quad, -1) for quad in base - now]
    table = np.array(rows, np.int64).reshape(-1, 5)
    return last_rows(
        ColumnRows([np.ascontiguousarray(c) for c in table.T]), by=(PREDICATE, GRAPH, SUBJECT, OBJECT)
    )


class MappedMachine(Machine):
    """Between epochs the base may be exchanged: what was given out stays right."""

    @precondition(lambda self: not self.changes)
    @rule(missing=quad_sets, more=quad_sets)
    def move(self, missing: set[Quad], more: set[Quad]) -> None:
        """A base is of an earlier epoch: it lacks some quads, and has others that were deleted since."""
        base = (self.old - missing) | more
        self.quads.move(lambda: (FakeMaps(base), net(base, self.old)))

    @precondition(lambda self: not self.changes)
    @rule(data=st.data())
    def lend(self, data: st.DataObject) -> None:
        """A snapshot of now, read later."""
        kept = self.__dict__.setdefault("lent", [])
        kept.append((self.quads.snapshot(), set(self.old)))
        snapshot, quads = data.draw(st.sampled_from(kept))
        check(snapshot, quads, random.Random(1))


class TestMappedQuads(MappedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = examples(75, stateful_step_count=20)


@pytest.mark.parametrize("seed", range(12))
def test_snapshots_stay_as_they_were_over_bases_that_move(seed: int) -> None:
    pick = random.Random(seed)
    tuning = replace(
        DEFAULT,
        smallest_merge_rows=pick.choice((3, 30, 10_000)),
        few_graphs=pick.choice((1, 100)),
        graph_part=pick.choice((0, 1, 8)),
        filtered_rows=pick.choice((0, 2, 64)),
    )
    present = {random_quad(pick) for _ in range(pick.choice((0, 40, 300)))}
    first = set(present)
    quads = Quads(tuning)
    quads.attach(lambda: (FakeMaps(first), net(first, first)), len(first), is_blank=not first)
    lent = []
    for _ in range(30):
        if pick.random() < 0.25:
            base = (present - {random_quad(pick) for _ in range(40)}) | {random_quad(pick) for _ in range(9)}
            now = set(present)
            quads.move(lambda base=base, now=now: (FakeMaps(base), net(base, now)))  # type: ignore[misc]
        if pick.random() < 0.5:
            quads.inverse(1, pick.choice(PREDICATES))
            quads.ordered(pick.choice(("spo", "osp", "gpso", "gpos")), pick.choice((1, 3)))
        batch = changes(pick, present, pick.choice((1, 2, 10, 60)))
        quads.stage(batch)
        quads.commit()
        for *quad, weight in batch:
            (present.add if weight > 0 else present.remove)(tuple(quad))  # type: ignore[arg-type]
        assert quads.size == len(present)
        if pick.random() < 0.6:
            lent.append((quads.snapshot(), set(present)))
        for one, quads_then in pick.sample(lent, min(2, len(lent))):
            check(one, quads_then, pick)
    quads.check()
    for one, quads_then in lent:
        check(one, quads_then, pick)


def test_the_inverse_of_a_graph_that_was_alone_in_the_base() -> None:
    """It is first asked for when quads of another graph have come."""
    base = {(5, 6, 7, 1), (8, 6, 7, 1), (8, 6, 9, 1)}
    quads = Quads()
    quads.attach(lambda: (FakeMaps(base), net(base, base)), len(base), is_blank=False)
    quads.pairs(1, 6)
    quads.add([(5, 6, 7, 70, 1), (5, 6, 9, 1, 1), (8, 6, 9, 1, -1)])
    assert sorted(quads.inverse(1, 6).rows_before()) == [(7, 5), (7, 8), (9, 5)]
    assert sorted(quads.inverse(70, 6).rows_before()) == [(7, 5)]
    quads.check()


def test_a_graph_that_is_first_read_between_a_large_batch_and_its_commit() -> None:
    """What came after the base is in the graph's pairs once, not beside the state after the batch, too."""
    base = {(1, 6, 2, 1), (3, 6, 4, 70)}
    first = {(s, 6, 9, g) for s in range(10, 14) for g in (1, 70)}
    quads = Quads(replace(DEFAULT, smallest_run_rows=1))
    quads.attach(lambda: (FakeMaps(base), net(base, base | first)), len(base | first), is_blank=False)
    quads.pairs(70, 6)
    quads.stage(net(base | first, base))
    pairs = quads.pairs(1, 6)
    inverse = quads.inverse(1, 6)
    assert len(list(pairs.rows_before())) == 5
    assert list(pairs.rows_after()) == [(1, 2)]
    quads.commit()
    assert list(pairs.rows_before()) == [(1, 2)]
    assert list(inverse.rows_before()) == [(2, 1)]
    quads.check()
