"""The W3C query evaluation tests on Spark: at once, and as a delta from a part of the data to all of it.

Which features are refused, and that live passes the tests, is the business of tests/test_w3c.py.
"""

from __future__ import annotations

import random
from concurrent.futures import Future

import pytest

from sparqlive.errors import Unsupported
from sparqlive.plan.checks import check_functions
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.conftest import W3C_ABSENT
from tests.on_spark import Work, representative
from tests.oracle import Weights, add, assert_same, show
from tests.test_w3c import KNOWN, TESTS
from tests.w3c import EvaluationTest, same_solutions

pytestmark = [pytest.mark.spark, pytest.mark.w3c]


def covered(test: EvaluationTest) -> Operator | None:
    try:
        query = parse_query(test.query, test.base)
        check_functions(query, volatile=False)
        return rewrite(translate(query, False))
    except Unsupported:
        return None


PLANS = {test.name: plan for test in TESTS if (plan := covered(test)) is not None and test.name not in KNOWN}
CHOSEN = representative(list(PLANS), 20)


def test_most_of_the_suites_is_covered() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(PLANS) > 250


def computed(case: EvaluationTest, work: Work) -> dict[str, Weights]:
    plan, quads = PLANS[case.name], set(case.quads())
    part = {quad for quad in quads if random.Random(f"{case.name} {quad}").random() < 0.5}
    work.evaluate("part", plan, part)
    work.delta("rest", plan, part, quads)
    work.delta("back", plan, quads, part)
    work.evaluate("whole", plan, quads)
    return work.run()


@pytest.mark.parametrize("case", [t for t in TESTS if t.name in CHOSEN], ids=lambda t: t.name)
def test_evaluation(case: EvaluationTest, ahead: dict[str, Future[dict[str, Weights]]]) -> None:
    found = ahead[case.name].result()
    assert_same(add(found["part"], found["rest"]), found["whole"], f"{case.name}: the delta of the rest")
    assert_same(add(found["whole"], found["back"]), found["part"], f"{case.name}: the delta back")
    expected = case.expected([variable.name for variable in PLANS[case.name].variables])
    if expected is None:
        return  # CSV and TSV lose the types of terms; the deltas have been compared
    if not same_solutions(found["whole"], expected, lax=case.lax):
        raise AssertionError(
            f"{case.name}\n{case.query}\n  actual:   {show(found['whole'])}\n  expected: {show(expected)}"
        )
