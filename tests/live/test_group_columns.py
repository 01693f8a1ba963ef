"""Groups by columns, against those of the accumulators."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import Literal

from sparqlive.live import group_columns
from sparqlive.live.group import Groups
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Aggregate, Var
from sparqlive.zset.blocks import blocks_of
from tests.live.test_totals import EXACT, OTHERS, Case, X, Y

NAMES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
AGGREGATES = [
    Aggregate("COUNT", None),
    *(
        Aggregate(name, argument, distinct)
        for name in NAMES
        for argument in (X, Y)
        for distinct in (False, True)
    ),
]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("values", [EXACT[:8], EXACT, EXACT + OTHERS])
def test_groups_are_those_of_the_accumulators(seed: int, values: tuple[Literal, ...]) -> None:
    case = Case(seed, width=seed % 3, member=bool(seed & 4), values=values)
    aggregates = [(Var(f"a{place}"), aggregate) for place, aggregate in enumerate(AGGREGATES)]
    source = case.operator.source
    operator = op.Group(source, case.operator.keys, tuple(aggregates), case.operator.member)
    chance = random.Random(seed)
    found = case.content(chance.choice((0, 1, 5, 100)), chance.choice((3, 2**33)))
    rows = {row: abs(weight) for row, weight in found.items()}
    by_columns = group_columns.evaluate(
        operator, case.terms, blocks_of(iter(rows.items()), len(source.variables))
    )
    assert dict(by_columns) == dict(Groups(operator, case.terms).evaluate(rows.items()))
