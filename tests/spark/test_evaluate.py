"""Plans on Spark: the fixtures' snapshots and deltas, epoch by epoch and all epochs as one batch."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.fixture_format import Fixture, last_words
from tests.oracle import add, assert_same
from tests.spark.conftest import Work, representative
from tests.test_fixtures import KEPT, reorder

pytestmark = pytest.mark.spark

# Always run: each is the only one, or the hardest, of its kind.
ESSENTIAL = {
    "bind-joined",
    "distinct-with-unbound",
    "exists-in-bind",
    "exists-outer-variable-in-filter",
    "from-several-join",
    "graph-variable-optional",
    "join-of-two-optionals",
    "minus-maybe-unbound",
    "minus-right-schemas",
    "optional-filter-both-sides",
    "optional-maybe-unbound-key",
    "path-optional",
    "values-undef",
}
CHOSEN = ESSENTIAL | representative([fixture.name for fixture in KEPT], 18)


def test_the_essential_fixtures_are_there() -> None:
    assert {fixture.name for fixture in KEPT} >= ESSENTIAL


def plan_of(text: str, *, union: bool = False, base: str | None = None) -> Operator:
    return rewrite(translate(parse_query(text, base), union))


@pytest.mark.parametrize("fixture", [f for f in KEPT if f.name in CHOSEN], ids=lambda f: f.name)
def test_fixture(fixture: Fixture, spark: SparkSession) -> None:
    """The first snapshot, each epoch's delta, and the delta of all epochs as one."""
    plan = plan_of(fixture.text, union=fixture.default_graph == "union")
    work = Work(spark)
    quads = first = set(fixture.data)
    work.evaluate("snapshot", plan, first)
    expected = {"snapshot": fixture.snapshot}
    for number, epoch in enumerate(fixture.epochs, 1):
        insert, delete = last_words(epoch.changes)
        before, quads = quads, (quads - set(delete)) | set(insert)
        work.delta(f"epoch {number}", plan, before, quads)
        expected[f"epoch {number}"] = epoch.delta
        expected["all epochs"] = add(expected.get("all epochs", {}), epoch.delta)
    if len(fixture.epochs) > 1:
        work.delta("all epochs", plan, first, quads)
    names = tuple(variable.name for variable in plan.variables)
    for name, weights in work.run().items():
        assert_same(reorder(weights, names, fixture.variables), expected[name], f"{fixture.name}, {name}")
