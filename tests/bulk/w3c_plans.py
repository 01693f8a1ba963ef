"""The W3C query evaluation tests that the bulk executor runs: their plans, data and expected solutions."""

from __future__ import annotations

import random
import re

import pyoxigraph as ox
import pytest

from sparqlive.plan.checks import check_functions
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.conftest import W3C_ABSENT
from tests.oracle import Weights, show
from tests.test_w3c import KNOWN, TESTS
from tests.w3c import EvaluationTest, same_solutions

# No view can have these functions. Found by their text: parsing takes seconds in every process that collects.
_VOLATILE = re.compile(r"\b(?:RAND|NOW|UUID|STRUUID|BNODE)\s*\(", re.IGNORECASE)
CASES = [test for test in TESTS if test.name not in KNOWN and not _VOLATILE.search(test.query)]


def plan_of_test(test: EvaluationTest) -> Operator:
    """The plan of a test's query."""
    query = parse_query(test.query, test.base)
    check_functions(query, volatile=False)
    return rewrite(translate(query, False))


def assert_most_are_covered() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(CASES) > 250


def data(test: EvaluationTest) -> tuple[set[ox.Quad], set[ox.Quad]]:
    """All quads of a test, and a part of them: the same part in each run."""
    quads = set(test.quads())
    return quads, {quad for quad in quads if random.Random(f"{test.name} {quad}").random() < 0.5}


def assert_expected(test: EvaluationTest, plan: Operator, found: Weights) -> None:
    expected = test.expected([variable.name for variable in plan.variables])
    # None: CSV and TSV lose the types of terms
    if expected is not None and not same_solutions(found, expected, lax=test.lax):
        raise AssertionError(
            f"{test.name}\n{test.query}\n  actual:   {show(found)}\n  expected: {show(expected)}"
        )
