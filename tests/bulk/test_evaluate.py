"""Plans on Spark: snapshots and deltas of fixtures, all epochs as one batch; in a full run all, and each."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.conftest import FULL
from tests.fixture_format import Fixture, last_words
from tests.on_spark import Work, representative
from tests.oracle import Weights, add
from tests.test_fixtures import KEPT, reorder
from tests.w3c import assert_alike

pytestmark = pytest.mark.spark


def plan_of(text: str, *, union: bool = False, base: str | None = None) -> Operator:
    return rewrite(translate(parse_query(text, base), union))


def plan_for(fixture: Fixture) -> Operator:
    return plan_of(fixture.text, union=fixture.default_graph == "union")


CHOSEN = representative([fixture.name for fixture in KEPT], 10)


def computed(case: Fixture, work: Work) -> dict[str, Weights]:
    """The first snapshot, the delta of all epochs as one, and in a full run each epoch's delta."""
    plan = plan_for(case)
    quads = first = set(case.data)
    work.evaluate("snapshot", plan, first)
    for number, epoch in enumerate(case.epochs, 1):
        insert, delete = last_words(epoch.changes)
        before, quads = quads, (quads - set(delete)) | set(insert)
        if FULL:
            work.delta(f"epoch {number}", plan, before, quads)
    work.delta("all epochs", plan, first, quads)
    names = tuple(variable.name for variable in plan.variables)
    return {name: reorder(weights, names, case.variables) for name, weights in work.run().items()}


@pytest.mark.parametrize("case", [f for f in KEPT if f.name in CHOSEN], ids=lambda fixture: fixture.name)
def test_fixture(case: Fixture, ahead: dict[str, Future[dict[str, Weights]]]) -> None:
    expected = {"snapshot": case.snapshot, "all epochs": {}}
    for number, epoch in enumerate(case.epochs, 1):
        expected[f"epoch {number}"] = epoch.delta
        expected["all epochs"] = add(expected["all epochs"], epoch.delta)
    found = ahead[case.name].result()
    assert len(found) == (2 + len(case.epochs) if FULL else 2)
    for name, weights in found.items():
        assert_alike(weights, expected[name], f"{case.name}, {name}")
