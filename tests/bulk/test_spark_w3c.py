"""The W3C query evaluation tests on Spark: at once, and as a delta from a part of the data to all of it.

Which features are refused, and that live passes the tests, is the business of tests/test_w3c.py.
"""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.bulk.w3c_plans import CASES, assert_expected, assert_most_are_covered, data, plan_of_test
from tests.on_spark import Work, representative
from tests.oracle import Weights, add, assert_same
from tests.w3c import EvaluationTest

pytestmark = [pytest.mark.spark, pytest.mark.w3c]

CHOSEN = representative([case.name for case in CASES], 4)


def test_most_of_the_suites_is_covered() -> None:
    assert_most_are_covered()


def computed(case: EvaluationTest, work: Work) -> dict[str, Weights]:
    plan, (quads, part) = plan_of_test(case), data(case)
    work.evaluate("part", plan, part)
    work.delta("rest", plan, part, quads)
    work.delta("back", plan, quads, part)
    work.evaluate("whole", plan, quads)
    return work.run()


@pytest.mark.parametrize("case", [t for t in CASES if t.name in CHOSEN], ids=lambda t: t.name)
def test_evaluation(case: EvaluationTest, ahead: dict[str, Future[dict[str, Weights]]]) -> None:
    found = ahead[case.name].result()
    assert_same(add(found["part"], found["rest"]), found["whole"], f"{case.name}: the delta of the rest")
    assert_same(add(found["whole"], found["back"]), found["part"], f"{case.name}: the delta back")
    assert_expected(case, plan_of_test(case), found["whole"])
