"""The state of groups over a relation that is large enough for a run: groups are made when touched."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.live.group import Groups
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql import aggregates
from sparqlive.sparql.algebra import Aggregate, Var
from sparqlive.zset.run import Run, RunRows
from sparqlive.zset.zset import add_into
from tests.conftest import times
from tests.nasty_terms import TERMS

pytestmark = pytest.mark.slow

G, X = Var("g"), Var("x")
SOURCE = op.Scan(op.OneGraph(None), G, ox.NamedNode("http://example.org/p"), X)
AGGREGATES = tuple((Var(name), Aggregate(name, X)) for name in ("SUM", "MAX", "MIN"))
MANY = 20_000  # more than an overlay holds

Row = tuple[int, ...]


@pytest.fixture(params=[64, 2], ids=["", "short heads"])
def heads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of the first values a group knows: with few, it often has to read its rows again."""
    monkeypatch.setattr(aggregates, "_HEAD", request.param)
    monkeypatch.setattr(aggregates, "_FEWEST_FIRST", 2 * request.param)


@pytest.fixture
def terms(heads: None) -> Terms:
    return Terms(Dictionary())


def state(terms: Terms) -> Groups:
    return Groups(op.Group(SOURCE, (G,), AGGREGATES), terms)


def rows_of(terms: Terms, groups: int) -> dict[Row, int]:
    ids = [terms.dictionary.id_of(ox.Literal(number)) for number in range(MANY // groups)]
    names = [terms.dictionary.id_of(ox.NamedNode(f"http://example.org/{number}")) for number in range(groups)]
    return {(name, number): 1 for name in names for number in ids}


@pytest.mark.parametrize("groups", [200, 10_000])
def test_changes_of_a_large_state_equal_evaluation(terms: Terms, groups: int) -> None:
    """Groups shrink, vanish and come back, in the run, in the overlay, and across a merge."""
    chance = random.Random(groups)
    rows = rows_of(terms, groups)
    kept = state(terms)
    kept.load(dict(rows))
    content = dict(kept.evaluate(rows.items()))
    names = sorted({row[0] for row in rows})[:20]
    for step in range(24):
        group = chance.choice(names)
        delta = {row: -weight for row, weight in rows.items() if row[0] == group and step % 3 == 0}
        for _ in range(3):
            row = (group, terms.dictionary.id_of(ox.Literal(chance.randrange(5))))
            delta[row] = 1 - rows.get(row, 0) if row in delta else 1
        delta = {row: weight for row, weight in delta.items() if weight}
        change = dict(kept.carry(delta))
        if step % 10 == 4:
            kept.rollback()
            assert dict(kept.content()) == content, "a rollback leaves no trace"
            assert dict(kept.carry(delta)) == change
        kept.commit()
        add_into(rows, delta)
        add_into(content, change)
        if step == 20:
            kept._rows.merge()
    assert content == dict(kept.evaluate(rows.items()))
    assert dict(kept.content()) == content
    assert dict(kept.items()) == rows


@pytest.mark.parametrize("seed", range(times(3, 30)))
def test_the_first_values_leave(seed: int) -> None:
    """Terms of all kinds come and go, the first ones most often; runs, overlays, large changes, rollbacks."""
    terms, chance = Terms(Dictionary(tuning=replace(DEFAULT, column_rows=4))), random.Random(seed)
    columns = (G, X, Var("y"))
    named = [("MIN", X), ("MAX", X), ("SAMPLE", X), ("MAX", columns[2]), ("MIN", columns[2])]
    own = tuple((Var(f"{name}{n}"), Aggregate(name, argument)) for n, (name, argument) in enumerate(named))
    kept = Groups(op.Group(op.Table(columns, ()), (G,), own), terms)
    ids = [
        *map(terms.dictionary.id_of, TERMS),
        *(terms.dictionary.id_of(ox.Literal(n / 4)) for n in range(60)),
    ]
    names, rows = ids[:2], dict[Row, int]()
    for _ in range(80):
        before = dict(kept.evaluate(rows.items()))
        first = {number for row in before for number in row[1:]}
        gone = [row for row in rows if first & {*row[1:]} or not chance.randrange(40)]
        delta = {row: -rows[row] for row in gone if chance.randrange(3)}
        for _ in range(chance.choice([0, 1, 30])):
            row = (chance.choice(names), chance.choice(ids), chance.choice([UNDEF, *ids, *ids]))
            if row not in rows:
                delta[row] = chance.choice([1, 2])
        after = dict(rows)
        add_into(after, delta)
        how = chance.randrange(4)
        if how == 0 and delta:
            made = [np.array(column, np.int64) for column in zip(*delta, strict=True)]
            kept.stage(RunRows(Run.sort(made, np.array(list(delta.values()), np.int64))))
        else:
            for _ in range(chance.choice([0, 0, 1])):
                kept.carry(delta)
                kept.rollback()
            add_into(before, kept.carry(delta))
            assert before == dict(kept.evaluate(after.items()))
        kept.commit()
        rows = after
        if how == 3:
            kept.load(dict(rows))
    assert dict(kept.content()) == dict(kept.evaluate(rows.items()))


def test_a_delta_that_was_computed_elsewhere(terms: Terms) -> None:
    """What Spark carried is staged and committed: the next change must see it."""
    rows = rows_of(terms, 200)
    kept = state(terms)
    kept.load(dict(rows))
    row = next(iter(rows))
    kept.stage({row: -1})
    kept.commit()
    del rows[row]
    assert dict(kept.content()) == dict(kept.evaluate(rows.items()))


@pytest.mark.parametrize("ratio", [0, 500], ids=["taken in", "read again"])
def test_large_changes_between_small_ones(ratio: int) -> None:
    """A group in memory takes in what large changes brought, also if they removed it."""
    terms = Terms(Dictionary(tuning=replace(DEFAULT, column_rows=1, rows_to_large_changes=ratio)))
    chance = random.Random(4)
    rows, kept = rows_of(terms, 200), state(terms)
    kept.load(dict(rows))
    names = sorted({row[0] for row in rows})[:4]
    numbers = [terms.dictionary.id_of(ox.Literal(number)) for number in range(30)]
    for step in range(times(12, 30)):
        delta: dict[Row, int] = {}
        if step % 3:
            for name, number in product(chance.sample(names, 3), chance.sample(numbers, 20)):
                delta[name, number] = -1 if (name, number) in rows else 1
            gone = chance.choice(names)
            delta |= {row: -weight for row, weight in rows.items() if row[0] == gone}
            columns = [np.array(column, dtype=np.int64) for column in zip(*delta, strict=True)]
            kept.stage(RunRows(Run.sort(columns, np.array(list(delta.values()), dtype=np.int64))))
        else:
            before = dict(kept.evaluate(rows.items()))
            row = (chance.choice(names), chance.choice(numbers))
            delta[row] = -1 if row in rows else 1
            change = kept.carry(delta)
            add_into(before, change)
            assert before == dict(kept.evaluate((rows | {row: rows.get(row, 0) + delta[row]}).items()))
        kept.commit()
        add_into(rows, delta)
        if step % 5 == 0:
            assert dict(kept.content()) == dict(kept.evaluate(rows.items()))
    assert bool(kept._large) is (ratio == 0)


def test_a_group_that_is_gone_leaves_nothing(terms: Terms) -> None:
    kept = state(terms)
    kept.load({})
    row = next(iter(rows_of(terms, 200)))
    kept.carry({row: 1})
    kept.commit()
    kept.carry({row: -1})
    kept.commit()
    assert len(kept) == 0
    assert not kept._groups


def test_a_store_with_many_groups_is_opened_and_changed(tmp_path: Path) -> None:
    query = "SELECT ?g (SUM(?x) AS ?s) (MAX(?x) AS ?m) { ?g <http://example.org/p> ?x } GROUP BY ?g"
    predicate = ox.NamedNode("http://example.org/p")

    def quad(group: int, number: int) -> ox.Quad:
        return ox.Quad(ox.NamedNode(f"http://example.org/{group}"), predicate, ox.Literal(number))

    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(group, number) for group in range(200) for number in range(100)])
        session.view("view", query)
    with sparqlive.open(tmp_path / "store") as session:
        delta = session.apply(delete=[quad(7, 99)]).deltas["view"].weights()
        assert sorted(delta.values()) == [-1, 1]
        session.apply(delete=[quad(8, number) for number in range(100)])
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        session.apply(insert=[quad(8, 5), quad(7, 99), quad(9, 1000)])
        session.check()
