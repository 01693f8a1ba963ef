"""Relations against dict models, in any order of staging, committing, rolling back and merging."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.blocks import cut, rows_in
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.relation import Relation, Row, change_between, rows_of
from sparqlive.zset.run import Column, Run, RunRows
from sparqlive.zset.zset import add_into
from tests.conftest import examples

values = st.sampled_from((-(2**63), -1, 0, 1, 2, 2**63 - 1))
SHAPES = [(arity, length) for arity in range(1, 5) for length in (1, 2) if length <= arity]


def run_of(rows: list[Row], arity: int) -> Run:
    return Run.sort(columns_of(rows, arity))


def columns_of(rows: Sequence[Row], arity: int) -> list[Column]:
    return [np.array([row[number] for row in rows], dtype=np.int64) for number in range(arity)]


def mapped_run(weights: Mapping[Row, int], arity: int) -> Run:
    """A run that says that it lies in a file."""
    run = Run.sort(columns_of([*weights], arity), np.array([*weights.values()], dtype=np.int64))
    return Run.over([column.data for column in run.columns], run.weights, is_mapped=True)


SMALL_MERGES = replace(DEFAULT, smallest_merge_rows=4, run_to_overlay=4)
"""Overlays are merged after a few rows, so that all three layers are met."""


class KeyedMachine(RuleBasedStateMachine):
    """A `KeyedRelation` is the set that it was given."""

    relation: KeyedRelation

    @initialize(data=st.data(), shape=st.sampled_from(SHAPES), start=st.booleans())
    def make(self, data: st.DataObject, shape: tuple[int, int], start: bool) -> None:
        self.arity, self.key_length = shape
        self.rows = st.tuples(*(values for _ in range(self.arity)))
        self.old: set[Row] = data.draw(st.sets(self.rows, max_size=12)) if start else set()
        self.new = set(self.old)
        run = run_of(sorted(self.old), self.arity) if start else None
        self.relation = KeyedRelation(self.arity, self.key_length, run, tuning=SMALL_MERGES)

    @precondition(lambda self: self.old == self.new)
    @rule(data=st.data())
    def stage_columns(self, data: st.DataObject) -> None:
        """A batch as columns: the only one of its epoch."""
        changed = sorted(data.draw(st.sets(self.rows, max_size=8)) | set(sorted(self.old)[::2]))
        self.relation.rollback()
        weights = np.array([-1 if row in self.old else 1 for row in changed], dtype=np.int64)
        self.relation.stage_columns(columns_of(changed, self.arity), weights)
        self.new = self.old ^ set(changed)

    @precondition(lambda self: self.relation.next is None)
    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        """Changes that change something, each row at most once a batch."""
        for row in data.draw(st.sets(self.rows, max_size=5)):
            if (row in self.old) == (row in self.new):
                self.relation.stage(row, -1 if row in self.old else 1)
                self.new ^= {row}

    @precondition(lambda self: self.relation.next is None)
    @rule(data=st.data())
    def stage_deletes(self, data: st.DataObject) -> None:
        for row in sorted(self.old & self.new)[:: data.draw(st.integers(1, 3))]:
            self.relation.stage(row, -1)
            self.new.remove(row)

    @rule()
    def commit(self) -> None:
        self.relation.commit()
        self.old = set(self.new)

    @rule()
    def rollback(self) -> None:
        self.relation.rollback()
        self.new = set(self.old)

    @rule()
    def merge(self) -> None:
        """Also while something is staged."""
        self.relation.merge()

    @precondition(lambda self: not self.old and self.old == self.new and self.relation.run is None)
    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        self.relation.merge()
        rows = data.draw(st.sets(self.rows, min_size=1, max_size=6))
        if self.relation.run is None and not self.relation.overlay:
            self.relation.fill(run_of(sorted(rows), self.arity))
            self.old, self.new = set(rows), set(rows)

    def key(self, row: Row) -> int | Row:
        return row[0] if self.key_length == 1 else row[: self.key_length]

    def value(self, row: Row) -> int | Row:
        return row[-1] if self.arity - self.key_length == 1 else row[self.key_length :]

    @rule(data=st.data())
    def look_up_many(self, data: st.DataObject) -> None:
        """In any order, also while something is staged; nothing is merged."""
        rows = data.draw(st.lists(self.rows, max_size=8)) + list(self.old)
        overlay = dict(self.relation.overlay)
        found = self.relation.has_rows_before(columns_of(rows, self.arity))
        assert found.tolist() == [row in self.old for row in rows]
        assert self.relation.overlay == overlay

    @invariant()
    def reads_like_a_set(self) -> None:
        relation = self.relation
        for rows, read, has, count, whole, size in (
            (
                self.old,
                relation.before,
                relation.has_before,
                relation.count_before,
                relation.rows_before(),
                relation.size_before(),
            ),
            (
                self.new,
                relation.after,
                relation.has_after,
                relation.count_after,
                relation.rows_after(),
                relation.size_after(),
            ),
        ):
            assert sorted(whole) == sorted(rows)
            assert size == len(rows)
            for row in self.old | self.new | {(0,) * self.arity, (7,) * self.arity}:
                key = self.key(row)
                of_key = sorted(self.value(other) for other in rows if self.key(other) == key)
                assert sorted(read(key) or ()) == of_key
                assert count(key) == len(of_key)
                assert has(key, self.value(row)) == (row in rows)

    @invariant()
    def keeps_no_zero_and_counts_its_overlay(self) -> None:
        relation = self.relation
        for layer in (relation.overlay, relation.pending):
            assert all(weight in (-1, 1) for changes in layer.values() for weight in changes.values())
        assert all(relation.overlay.values()), "a key without changes is left in the overlay"
        assert relation.overlay_rows == sum(len(changes) for changes in relation.overlay.values())
        assert relation.run is None or relation.run.length, "an empty run is kept"
        assert relation.nbytes >= 200 * relation.overlay_rows
        assert relation.fan_out >= 1.0


class TestKeyedRelation(KeyedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = examples(60, stateful_step_count=15)


class BagMachine(RuleBasedStateMachine):
    """A `Relation` is the dict of weights that it was given."""

    relation: Relation

    @initialize(data=st.data(), arity=st.integers(0, 4))
    def make(self, data: st.DataObject, arity: int) -> None:
        self.rows = st.tuples(*(values for _ in range(arity)))
        self.deltas = st.dictionaries(self.rows, st.integers(-3, 3).filter(bool), max_size=6)
        self.model: dict[Row, int] = data.draw(self.deltas)
        self.mapped = mapped_run(self.model, arity) if arity and data.draw(st.booleans()) else None
        self.relation = Relation(arity, self.model if self.mapped is None else self.mapped, SMALL_MERGES)

    @rule(data=st.data(), keep=st.booleans(), by_columns=st.booleans())
    def epoch(self, data: st.DataObject, keep: bool, by_columns: bool) -> None:
        delta = data.draw(self.deltas)
        for row in sorted(self.model)[:2]:
            if data.draw(st.booleans()):
                delta[row] = -self.model[row]
        before = dict(self.relation.items())
        self.relation.stage(self.packed(delta) if by_columns else delta)
        assert dict(self.relation.items()) == before, "what is staged is not seen before the commit"
        if not keep:
            self.relation.rollback()
            return
        self.relation.commit()
        total = {row: self.model.get(row, 0) + delta.get(row, 0) for row in {*self.model, *delta}}
        self.model = {row: weight for row, weight in total.items() if weight}

    def packed(self, delta: dict[Row, int]) -> Mapping[Row, int]:
        """The same as columns, where there are any."""
        if not self.relation.arity:
            return delta
        rows = RunRows(
            Run.sort(
                columns_of(list(delta), self.relation.arity), np.array([*delta.values()], dtype=np.int64)
            )
        )
        assert rows == delta
        assert dict(rows.items()) == delta
        assert list(rows) == sorted(delta)
        return rows

    @rule()
    def merge(self) -> None:
        self.relation.merge()

    @precondition(lambda self: self.relation.arity and not self.relation.pending)
    @rule(data=st.data())
    def rebase(self, data: st.DataObject) -> None:
        """To a mapped run of some rows, and the changes from them to all rows."""
        base = data.draw(self.deltas)
        self.mapped = mapped_run(base, self.relation.arity)
        run = self.mapped if self.mapped.length else None
        self.relation.rebase(
            Relation.of_parts(self.relation.arity, run, dict(change_between(base, self.model)))
        )

    @rule()
    def reads_in_other_ways(self) -> None:
        relation, arity = self.relation, self.relation.arity
        copy = relation.copy()
        assert dict(rows_in(copy.blocks())) == dict(rows_in(relation.blocks())) == self.model
        assert sum(len(block.weights) for block in relation.blocks()) == len(self.model)
        if arity:
            whole = copy.whole()
            assert (dict(RunRows(whole).items()) if whole else {}) == self.model
            together: dict[Row, int] = {}
            for *columns, weights in copy.parts():
                add_into(together, dict(rows_in(cut(columns, weights))))
            assert together == self.model
        assert set(self.model) <= set(
            product(sorted({int(v) for column in relation.ids() for v in column}), repeat=arity)
        )
        rows, _ = relation.size()
        assert rows >= len(self.model)

    @precondition(lambda self: self.relation.arity)
    @rule()
    def reads_beginnings(self) -> None:
        relation = self.relation
        relation.merge()
        for prefix in {row[:length] for row in self.model for length in range(len(row) + 1)}:
            found: dict[Row, int] = {}
            for columns, weights in relation.beginning(prefix):
                for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
                    add_into(found, {row: weight})
            wanted = {row: weight for row, weight in self.model.items() if row[: len(prefix)] == prefix}
            assert found == wanted
            assert relation.has_in_runs(prefix)
        assert relation.rows_in_runs >= len(self.model)

    @invariant()
    def never_copies_a_mapped_run(self) -> None:
        if self.mapped is not None and self.mapped.length:
            assert self.relation.run is self.mapped
        else:
            assert self.relation.late is None

    @invariant()
    def reads_like_a_dict(self) -> None:
        items = list(self.relation.items())
        assert dict(items) == self.model
        assert len(items) == len(self.model) == len(self.relation), "a row comes twice"
        for row in (*self.model, (7,) * self.relation.arity):
            assert self.relation.weight_before(row) == self.model.get(row, 0)
        assert 0 not in self.relation.overlay.values()
        assert self.relation.nbytes >= 100 * len(self.relation.overlay)


class TestRelation(BagMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = examples(60, stateful_step_count=15)


def test_an_overlay_is_merged_when_it_is_large_for_its_run() -> None:
    relation = KeyedRelation(2, 1, tuning=SMALL_MERGES)
    for number in range(4):
        relation.stage((number, number), 1)
    relation.commit()
    assert relation.run is None
    relation.stage((9, 9), 1)
    relation.commit()
    assert relation.run is not None
    assert relation.overlay == {}
    assert relation.overlay_rows == 0
    assert relation.size_before() == 5


def test_the_overlay_of_a_bag_grows_to_a_16th_of_its_run() -> None:
    tuning = replace(DEFAULT, smallest_merge_rows=4, run_to_overlay=16)
    bag = Relation(1, {(number,): 1 for number in range(160)}, tuning)
    assert bag.run is not None
    for number in range(160, 170):
        bag.add({(number,): 1})
    assert len(bag.overlay) == 10
    bag.add({(170,): 1})
    assert bag.overlay == {}
    assert bag.run.length == len(bag) == 171


def test_a_bag_is_merged_when_it_is_made() -> None:
    relation = Relation(1, {(number,): number + 1 for number in range(5)}, SMALL_MERGES)
    assert relation.run is not None
    assert relation.overlay == {}
    assert dict(relation.items()) == {(number,): number + 1 for number in range(5)}


@pytest.mark.parametrize("key_length", [1, 2])
@pytest.mark.parametrize("changed", [False, True])
def test_what_nobody_refers_to_is_freed_at_once(key_length: int, changed: bool) -> None:
    """The garbage collector rests during epochs, and a copy or a snapshot would keep whole runs."""
    run = Run.sort(columns_of([(1, 2, 3), (4, 5, 6)], 3))
    relation = KeyedRelation(3, key_length, run)
    if changed:
        relation.apply_all([(relation.key_of((7, 8, 9)), relation.value_of((7, 8, 9)), 1)])
    key = relation.key_of((1, 2, 3))
    gc.disable()
    try:
        before = sys.getrefcount(run)
        copy, snapshot = relation.copy(), relation.snapshot()
        for reader in (copy, snapshot):
            assert [*(reader.before(key) or ())] == [relation.value_of((1, 2, 3))]
            assert reader.run_before() is not None
        relation.last_snapshot = None
        del copy, snapshot, reader
        assert sys.getrefcount(run) == before
    finally:
        gc.enable()


def test_what_a_reader_merged_is_read_by_others_and_taken_over_by_the_next_change() -> None:
    relation = KeyedRelation(2, 1, Run.sort(columns_of([(1, 2), (4, 5)], 2)))
    relation.apply_all([(7, 8, 1), (1, 2, -1)])
    first = relation.snapshot()
    whole = first.run_before()
    assert whole is not None
    assert [*whole.rows()] == [(4, 5), (7, 8)]
    del first
    late = relation.snapshot()
    assert late.run_before() is whole, "another reader of the same rows"
    relation.apply_all([(9, 9, 1)])
    assert relation.run is whole
    assert relation.overlay == {9: {9: 1}}
    second = relation.snapshot()
    relation.apply_all([(9, 9, -1)])
    assert {*second.rows_before()} == {(4, 5), (7, 8), (9, 9)}
    merged = second.run_before()
    assert merged is not None
    assert [*merged.rows()] == [(4, 5), (7, 8), (9, 9)], "as it was, read after a change"
    now = relation.snapshot().run_before()
    assert now is not None
    assert [*now.rows()] == [*late.rows_before()] == [(4, 5), (7, 8)]


@pytest.mark.parametrize("mapped", [False, True])
def test_another_key_shares_the_run(mapped: bool) -> None:
    rows = [(1, 2, 3), (1, 2, 4), (5, 6, 7)]
    run = mapped_run(dict.fromkeys(rows, 1), 3) if mapped else Run.sort(columns_of(rows, 3))
    relation = KeyedRelation(3, 1, Run.over(run.views, is_mapped=mapped))
    relation.apply_all([(1, (2, 3), -1), (8, (9, 9), 1)])
    other = relation.with_key(2)
    assert other.run is relation.run
    relation.apply_all([(8, (9, 9), -1)])
    assert {*other.rows_before()} == {(1, 2, 4), (5, 6, 7), (8, 9, 9)}
    assert [*(other.before((1, 2)) or ())] == [4]
    assert other.with_key(1).count_before(8) == 1
    assert relation.with_key(2).count_before((8, 9)) == 0


def test_a_commit_of_single_changes_does_not_copy_the_run() -> None:
    """The cost of an epoch follows the delta: a run of 100,000 rows is left alone."""
    rows = [(number * 2**40, number) for number in range(100_000)]
    relation = KeyedRelation(2, 1, run_of(rows, 2))
    run = relation.run
    for number in range(100):
        relation.stage((number, -1), 1)
        relation.commit()
    assert relation.run is run
    assert relation.size_before() == 100_100


@given(st.lists(st.tuples(values, values), min_size=1, unique=True))
def test_fan_out_of_a_small_run_is_exact(rows: list[Row]) -> None:
    relation = KeyedRelation(2, 1, run_of(rows, 2))
    assert relation.fan_out == len(rows) / len({row[0] for row in rows})


def test_an_empty_run_is_no_run() -> None:
    relation = KeyedRelation(2, 1, run_of([], 2))
    assert relation.run is None
    assert relation.before(1) is None
    assert relation.after(1) is None
    assert list(relation.rows_before()) == []
    assert relation.fan_out == 1.0


def test_the_change_between_two_contents() -> None:
    old = {(1, 2): 1, (3, 4): 2, (5, 6): 3}
    new = {(1, 2): 1, (3, 4): 5, (7, 8): 1}
    expected = {(3, 4): 3, (5, 6): -3, (7, 8): 1}
    runs = [Relation(2, content).whole() for content in (old, new)]
    assert runs[0] is not None
    assert runs[1] is not None
    assert (
        change_between(runs[0], runs[1])
        == change_between(old, runs[1])
        == change_between(old, new)
        == expected
    )
    assert rows_of(runs[1]) == new
    loaded = Relation(2, runs[1])
    assert dict(loaded.items()) == new
    assert loaded.size() == (3, 7)
    assert Relation(2).whole() is None
