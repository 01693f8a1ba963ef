"""The W3C query evaluation tests that the bulk executor runs: their plans, data and expected solutions."""

from __future__ import annotations

import random

import pyoxigraph as ox
import pytest

from sparqlive.errors import Unsupported
from sparqlive.plan.checks import check_functions
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.conftest import W3C_ABSENT
from tests.oracle import Weights, show
from tests.test_w3c import KNOWN, TESTS
from tests.w3c import EvaluationTest, same_solutions


def _plan(test: EvaluationTest) -> Operator | None:
    try:
        query = parse_query(test.query, test.base)
        check_functions(query, volatile=False)
        return rewrite(translate(query, False))
    except Unsupported:
        return None


PLANS = {test.name: plan for test in TESTS if (plan := _plan(test)) is not None and test.name not in KNOWN}
CASES = [test for test in TESTS if test.name in PLANS]


def assert_most_are_covered() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(PLANS) > 250


def data(test: EvaluationTest) -> tuple[set[ox.Quad], set[ox.Quad]]:
    """All quads of a test, and a part of them: the same part in each run."""
    quads = set(test.quads())
    return quads, {quad for quad in quads if random.Random(f"{test.name} {quad}").random() < 0.5}


def assert_expected(test: EvaluationTest, found: Weights) -> None:
    expected = test.expected([variable.name for variable in PLANS[test.name].variables])
    # None: CSV and TSV lose the types of terms
    if expected is not None and not same_solutions(found, expected, lax=test.lax):
        raise AssertionError(
            f"{test.name}\n{test.query}\n  actual:   {show(found)}\n  expected: {show(expected)}"
        )
