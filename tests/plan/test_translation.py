"""The translation of queries to plans, without executors.

A plan, by the definitions of its operators, has the solutions that the query has by those of the algebra.
"""

from __future__ import annotations

import random

import pytest

import sparqlive
from sparqlive.plan.translate import translate
from sparqlive.sparql.reference import Reference
from sparqlive.sparql.syntax import parse_query
from tests.oracle import assert_same
from tests.plan_reference import Reference as PlanReference
from tests.random_nested import Maker, quad


@pytest.mark.parametrize("part", range(4))
def test_plans_mean_what_queries_mean(part: int) -> None:
    compared = 0
    for seed in range(part * 20, part * 20 + 20):
        pick = random.Random(seed)
        maker = Maker(seed, pick.choice((2, 3, 4)))
        data = {quad(pick) for _ in range(pick.randint(5, 14))}
        union = pick.random() < 0.2
        for _ in range(5):
            text = maker.query()
            try:
                query = parse_query(text)
            except sparqlive.SyntaxError:  # BIND to a variable of its group
                continue
            plan = PlanReference(data).content(translate(query, union))
            expected = Reference(data, union=union).weights(query)
            assert_same(dict(plan.weights), expected, f"seed {seed}, union: {union}, {text}")
            compared += 1
    assert compared > 70
