"""Groups that follow from totals have the same state whether rows come one by one, in columns, or stored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.live.terms import Terms
from sparqlive.live.totals import TotalGroups
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.aggregates import HALF, halves
from sparqlive.sparql.algebra import Aggregate, Var
from sparqlive.zset.relation import Relation
from sparqlive.zset.run import Run, RunRows
from sparqlive.zset.zset import add_into
from tests.conftest import times

Row = tuple[int, ...]

H, G, X, Y = (Var(name) for name in "hgxy")
AGGREGATES = (
    (Var("s"), Aggregate("SUM", X)),
    (Var("m"), Aggregate("AVG", Y)),
    (Var("n"), Aggregate("COUNT", None)),
    (Var("k"), Aggregate("COUNT", X)),
    (Var("t"), Aggregate("SUM", X)),
)
XSD = "http://www.w3.org/2001/XMLSchema#"


def literal(text: str, kind: str) -> ox.Literal:
    return ox.Literal(text, datatype=ox.NamedNode(XSD + kind))


EXACT = (
    *(ox.Literal(number) for number in (0, 1, -1, 7, 2**63 - 1, -(2**63), 2**40 + 3)),
    *(literal(text, "decimal") for text in ("0.5", "-2.25", "1.0", "-0.000000000000000001", "1e0")),
    ox.Literal("seven"),
)
OTHERS = (
    *(ox.Literal(number) for number in (2**63, -(10**30), 0.1, 1e300, -2.5)),
    literal("INF", "double"),
    literal("NaN", "float"),
    literal("12345678901234567890.5", "decimal"),
    literal("0.0000000000000000001", "decimal"),
)


def source(width: int, member: bool) -> op.Group:
    own = (H, G)[:width]
    variables = (*own, X, Y, *((Var("member"),) if member else ()))
    return op.Group(op.Table(variables, ()), own, AGGREGATES, Var("member") if member else None)


class Case:
    def __init__(self, seed: int, width: int, member: bool, values: tuple[ox.Literal, ...]) -> None:
        self.chance = random.Random(seed)
        tuning = replace(DEFAULT, column_rows=1, sorting_rows=7, groups_kept=2)
        self.terms = Terms(Dictionary(tuning=tuning))
        self.operator = source(width, member)
        self.ids = [UNDEF, *map(self.terms.dictionary.id_of, values)]
        self.names = [self.terms.dictionary.id_of(ox.NamedNode(f"urn:{n}")) for n in range(4)]
        self.member = member

    def state(self) -> TotalGroups:
        return TotalGroups(self.operator, self.terms)

    def row(self) -> Row:
        keys = [self.chance.choice(self.names) for _ in self.operator.keys]
        member = [self.chance.choice([UNDEF, self.names[0]])] if self.member else []
        return (*keys, self.chance.choice(self.ids), self.chance.choice(self.ids), *member)

    def content(self, count: int, most: int = 3) -> dict[Row, int]:
        return {self.row(): self.chance.randrange(1, most) for _ in range(count)}

    def change(self, rows: dict[Row, int], count: int) -> dict[Row, int]:
        change = {self.row(): 1 for _ in range(count)}
        change |= {row: -rows[row] for row in self.chance.sample(sorted(rows), len(rows) // 2)}
        return change


def run_of(rows: dict[Row, int], width: int) -> Run:
    columns = list(np.array(list(rows), np.int64).reshape(-1, width).T)
    return Run.sort(columns, np.array(list(rows.values()), np.int64))


def content_of(relation: Relation) -> dict[Row, int]:
    return dict(relation.items())


def cases(values: tuple[ox.Literal, ...]) -> Iterator[Case]:
    for seed in range(times(4, 30)):
        for width in (0, 1, 2):
            yield Case(seed, width, seed % 2 == 1, values)


@pytest.mark.parametrize("values", [EXACT, (*EXACT, *OTHERS)], ids=["exact", "with others"])
def test_changes_one_by_one_and_by_columns(values: tuple[ox.Literal, ...]) -> None:
    """The state is always that of a first computation; so are the rows; rollbacks leave no trace."""
    for case in cases(values):
        width, chance = len(case.operator.source.variables), case.chance
        rows = case.content(12)
        kept = case.state()
        kept.load(run_of(rows, width) if chance.randrange(2) else dict(rows))
        for _ in range(8):
            change = case.change(rows, chance.choice([1, 5]))
            after = dict(rows)
            add_into(after, change)
            before = dict(kept.content())
            how = chance.randrange(4)
            if how == 0:
                kept.carry(change)
                kept.staged()
                kept.rollback()
                assert dict(kept.content()) == before
            if how < 2:
                add_into(before, kept.carry(change))
                assert before == dict(kept.evaluate(after.items()))
            elif how == 2:
                kept.stage(RunRows(run_of(change, width)))
                kept.staged()
            else:
                kept.stage_content(run_of(after, width))
            kept.commit()
            rows = after
            fresh = case.state()
            fresh.load(rows)
            assert content_of(kept.totals) == content_of(fresh.totals)
            assert content_of(kept.others) == content_of(fresh.others)
            assert dict(kept.content()) == dict(kept.evaluate(rows.items()))


def test_weights_beyond_words() -> None:
    for case in cases((*EXACT, *OTHERS)):
        rows = case.content(30, 1 << 40)
        by_columns, by_rows = case.state(), case.state()
        by_columns.load(run_of(rows, len(case.operator.source.variables)))
        by_rows.load(rows)
        assert content_of(by_columns.totals) == content_of(by_rows.totals)
        assert content_of(by_columns.others) == content_of(by_rows.others)


@pytest.mark.parametrize("total", [0, 1, -1, HALF, -HALF, HALF - 1, -HALF - 1, 10**30, -(10**30)])
def test_halves_round_to_zero(total: int) -> None:
    high, low = halves(total)
    assert high * HALF + low == total
    assert abs(low) < HALF
    assert low * total >= 0
    assert high * total >= 0


QUERIES = {
    "sums": "SELECT ?g (SUM(?x) AS ?s) (AVG(?x) AS ?m) (COUNT(*) AS ?n) "
    "{ ?a <urn:g> ?g ; <urn:x> ?x } GROUP BY ?g",
    "all": "SELECT (SUM(?x) AS ?s) (COUNT(?x) AS ?n) { ?a <urn:x> ?x }",
    "computed": "SELECT ?k (SUM(?y) AS ?s) "
    "{ ?a <urn:x> ?x BIND(?x * 2 AS ?y) BIND(STRLEN(STR(?x)) AS ?k) } GROUP BY ?k",
}


@pytest.mark.parametrize("seed", range(times(2, 10)))
@pytest.mark.parametrize("files", [False, True], ids=["mapped", "in files"])
def test_restarts(seed: int, files: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Sessions with and without memory, strategies, compactions, one after the other."""
    if files:
        request.getfixturevalue("in_files")
    chance = random.Random(seed)
    there: set[ox.Quad] = set()

    def quads(count: int) -> set[ox.Quad]:
        found = set()
        for _ in range(count):
            node = ox.NamedNode(f"urn:a{chance.randrange(60)}")
            found.add(ox.Quad(node, ox.NamedNode("urn:g"), ox.NamedNode(f"urn:g{chance.randrange(9)}")))
            values = (*EXACT, *OTHERS) if chance.randrange(3) == 0 else EXACT
            found.add(ox.Quad(node, ox.NamedNode("urn:x"), chance.choice(values)))
        return found

    for number in range(5):
        tuning, memory = replace(DEFAULT, groups_kept=3), chance.choice([0, "1GB"])
        with sparqlive.Session(tmp_path / "store", memory=memory, tuning=tuning) as session:
            if number == 0:
                session.apply(insert=(there := quads(80)))
                for name, text in QUERIES.items():
                    session.view(name, text)
            for _ in range(chance.randrange(1, 4)):
                gone = set(chance.sample(sorted(there, key=str), len(there) // chance.choice([3, 20])))
                come = quads(chance.choice([1, 30])) - there
                strategy = chance.choice(["live", "live", "duckdb", "rebuild"])
                session.apply(delete=gone, insert=come, strategy=strategy)  # type: ignore[arg-type]
                there = (there - gone) | come
                session.check()
            if chance.randrange(2):
                session.compact()
                session.apply(insert=(come := quads(2) - there))
                there |= come
            session.check()
