"""What runs in SQL gives on Spark, too, the very terms that Python gives; the cases are those of DuckDB."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.bulk.test_duckdb import plan_of
from tests.bulk.test_native import (
    ALL_PAIRS,
    CONDITIONS,
    EX,
    OPTIONAL,
    ORDERS,
    PART,
    SELECTIONS,
    query,
    values_of,
)
from tests.conftest import FULL
from tests.on_spark import LONG, Work
from tests.oracle import assert_same
from tests.plan_reference import Reference

pytestmark = pytest.mark.spark

CHOSEN = CONDITIONS if FULL else CONDITIONS[::100]
BY_LENGTH = f"{{ {OPTIONAL.replace('?g', '?all')} BIND(STRLEN(STR(?v)) AS ?g) }}"


def compare(spark: SparkSession, texts: list[str], *, deltas: bool) -> None:
    """Several queries as one job."""
    work = Work(spark)
    plans = {str(number): plan_of(f"PREFIX : <{EX}> {text}") for number, text in enumerate(texts)}
    for name, plan in plans.items():
        if deltas:
            work.delta(name, plan, PART, ALL_PAIRS)
        else:
            work.evaluate(name, plan, ALL_PAIRS)
    reference = Reference(PART, ALL_PAIRS)
    for name, weights in work.run().items():
        plan = plans[name]
        expected = reference.delta(plan) if deltas else reference.content(plan)
        assert_same(weights, dict(expected.weights), texts[int(name)])


@LONG
def test_expressions(spark: SparkSession) -> None:
    """One value in a query: of several in a row, Spark leaves those with doubts to Python."""
    compare(spark, [values_of((condition,), OPTIONAL) for condition in CHOSEN], deltas=False)


@pytest.mark.skipif(not FULL, reason="Spark plans these for minutes: make conformance runs them")
@pytest.mark.parametrize("deltas", [False, True], ids=["content", "delta"])
def test_aggregates(spark: SparkSession, deltas: bool) -> None:
    texts = [query(selection, BY_LENGTH, "GROUP BY ?g") for selection in SELECTIONS]
    compare(spark, texts, deltas=deltas)


def test_windows(spark: SparkSession) -> None:
    orders = ORDERS if FULL else ORDERS[1:2]
    texts = [f"SELECT ?v ?u {{ {OPTIONAL} }} ORDER BY {order or '?s'} LIMIT 7 OFFSET 20" for order in orders]
    compare(spark, texts, deltas=False)
