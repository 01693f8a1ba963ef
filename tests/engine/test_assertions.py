"""A quad is there while at least one source asserts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.engine.assertions import ASSERTED, BY_QUAD, LOCAL, WIDTH, Assertions, TakenNumberError
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.run import Run

Quad = tuple[int, int, int, int]
Row = tuple[int, ...]
NAMES = ("a", "b", "c")
quads = st.tuples(*[st.integers(1, 2)] * 4)
wishes = st.dictionaries(quads, st.sampled_from([1, -1]), max_size=6)
steps = st.one_of(
    st.tuples(st.sampled_from([None, *NAMES]), wishes),
    st.sampled_from(["reopen", "roll back", *(f"remove {name}" for name in NAMES)]),
)


class Recorded:
    """Assertions beside the relations of a store, which their deltas keep, and a model of both."""

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.assertions = Assertions(tuning)
        self.graph: set[Quad] = set()
        self.stored: dict[str, Counter[Row]] = {ASSERTED: Counter(), LOCAL: Counter()}
        self.model: dict[str | None, set[Quad]] = {None: set()}

    def change(self, source: str | None, wanted: dict[Quad, int]) -> None:
        if source is not None and source not in self.model:
            self.assertions.add(source)
            self.model[source] = set()
        after = dict(wanted)
        expected = self.model.get(source, set()) | {quad for quad, weight in after.items() if weight > 0}
        expected -= {quad for quad, weight in after.items() if weight < 0}
        if source is not None:
            assert self.assertions.count_after(source, wanted) == len(expected)
        changes = self.assertions.resolve(source, wanted, self.graph.intersection)
        for name, (width, rows) in self.assertions.staged().items():
            assert all(len(row) == width for row in rows)
            self.stored[name].update(dict(rows.items()))
        self.assertions.commit()
        for quad, weight in changes.items():
            assert source is None or (quad in self.graph) == (weight < 0)
            (self.graph.add if weight > 0 else self.graph.discard)(quad)
        self.model[source] = expected

    def roll_back(self) -> None:
        for source in self.model:
            self.assertions.resolve(source, {(1, 1, 1, 1): 1, (2, 2, 2, 2): -1}, self.graph.intersection)
            self.assertions.rollback()

    def remove(self, source: str) -> None:
        if source in self.model:
            self.change(source, dict.fromkeys(self.assertions.quads(source), -1))
            self.assertions.forget(source)
            del self.model[source]

    def reopen(self) -> None:
        self.assertions = Assertions(self.tuning)
        asserted, local = (_run(self.stored[name]) for name in (ASSERTED, LOCAL))
        if asserted is not None:
            by_quad = Run.sort([asserted.columns[number] for number in BY_QUAD])
            self.assertions.use(
                KeyedRelation(WIDTH, 1, Run(asserted.columns)), KeyedRelation(WIDTH, 4, by_quad)
            )
        if local is not None:
            self.assertions.local.load(local)
        for source in self.model:
            if source is not None:
                assert self.assertions.is_loaded(source) == bool(self.model[source])
                self.assertions.add(source)

    def check(self) -> None:
        known = self.assertions
        others = {name: own for name, own in self.model.items() if name is not None}
        asserted = set[Quad]().union(*others.values())
        assert self.graph == self.model[None] | asserted
        assert set(known.sources()) == others.keys()
        assert bool(known) == bool(others)
        for name in NAMES:
            assert (name in known) == (name in others)
        for name, own in others.items():
            assert sorted(known.quads(name)) == sorted(own)
            assert known.count_after(name, {}) == len(own)
        for quad in self.graph:
            assert known.is_asserted(quad) == (quad in asserted)
            assert known.is_local(quad) == (quad in self.model[None])
        ids = {number for column in known.ids() for number in np.asarray(column).tolist()}
        assert ids >= {number for quad in asserted for number in quad}


def _run(rows: Counter[Row]) -> Run | None:
    assert all(weight in (0, 1) for weight in rows.values())
    there = [row for row, weight in rows.items() if weight]
    if not there:
        return None
    columns = [np.array(column, np.int64) for column in zip(*there, strict=True)]
    return Run.sort(columns, np.ones(len(there), np.int64))


@given(st.lists(steps, max_size=14), st.booleans(), st.booleans())
def test_the_graph_is_what_anybody_asserts(
    steps: list[str | tuple[str | None, dict[Quad, int]]], by_columns: bool, merged: bool
) -> None:
    recorded = Recorded(
        replace(DEFAULT, column_rows=1 if by_columns else 100, smallest_merge_rows=2 if merged else 100)
    )
    for step in steps:
        match step:
            case "reopen":
                recorded.reopen()
            case "roll back":
                recorded.roll_back()
            case str():
                recorded.remove(step.removeprefix("remove "))
            case source, wanted:
                recorded.change(source, wanted)
        recorded.check()


def test_two_names_with_one_number() -> None:
    assertions = Assertions(number_of=lambda name: 7)
    assertions.add("a")
    with pytest.raises(TakenNumberError, match="'b' and 'a' have the same hash"):
        assertions.add("b")
    assert "a" in assertions
    assert "b" not in assertions
    assertions.forget("a")
    assertions.add("b")
    assert list(assertions.sources()) == ["b"]


def test_rows_are_small() -> None:
    assertions = Assertions()
    number = 0
    for source in range(2_000):
        assertions.add(f"urn:{source}")
        wanted = {}
        for _ in range(20):
            number += 1
            wanted[number << 40, 1, number << 41, source << 40] = 1
        assertions.resolve(f"urn:{source}", wanted, lambda quads: set())
        assertions.commit()
    assertions._by_source.merge()
    assertions._by_quad.merge()
    assert assertions.nbytes < 100 * number
