"""On Spark, too, texts are nothing but texts, whatever its session does with variables and backslashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.bulk.backends.spark.backend import read_files
from sparqlive.bulk.dialect import SparkSql
from tests.bulk.test_duckdb import plan_of
from tests.bulk.test_hostile_texts import DATA, expected, written
from tests.hostile_texts import QUERIES, TEXTS, WHOLE, query
from tests.on_spark import LONG, Work
from tests.oracle import assert_same

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_files")]

ESCAPED = "spark.sql.parser.escapedStringLiterals"
QUOTED = "spark.sql.ansi.doubleQuotedIdentifiers"


@pytest.fixture(params=["true", pytest.param("false", marks=LONG)])
def settings(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """A session of its user: what he has set may stay."""
    kept = {name: spark.conf.get(name) for name in (ESCAPED, QUOTED)}
    for name in kept:
        spark.conf.set(name, request.param)
    yield
    for name, value in kept.items():
        spark.conf.set(name, value)


def test_each_text_is_what_comes_back(spark: SparkSession, settings: None) -> None:
    texts = (*TEXTS, WHOLE)
    [row] = spark.sql(f"SELECT array({', '.join(map(SparkSql().text, texts))}) AS texts").collect()
    assert tuple(row.texts) == texts


SOME = ("tests", "constants", "groups")
"""The queries that `make test` runs; `make test-spark` runs all of them."""


@pytest.mark.parametrize("names", [SOME, pytest.param(tuple(QUERIES), marks=LONG, id="all")])
def test_places_of_queries(spark: SparkSession, settings: None, names: tuple[str, ...]) -> None:
    work = Work(spark)
    for name in names:
        work.evaluate(name, plan_of(query(name)), DATA)
    for name, weights in work.run().items():
        assert_same(weights, expected(name), name)


def test_files_in_folders_with_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    """A name is neither a pattern nor a partition, nor percent-encoded."""
    files = written(tmp_path)
    rows = read_files(spark, list(files), ("s", "o")).collect()
    assert sorted(map(tuple, rows)) == sorted((number, number) for number in files.values())


def test_a_store_with_an_odd_name(spark: SparkSession, settings: None, tmp_path: Path) -> None:
    """A view with an odd name, with texts of Spark's variables, carried by Spark from the store's files."""
    name = "it's ${env:HOME}`"
    text = 'SELECT ?s (CONCAT(STR(?o), "${env:HOME}") AS ?x) { ?s <u:p> ?o FILTER(STRSTARTS(?o, "${env:")) }'
    quads = [
        ox.Quad(ox.NamedNode(f"u:{number}"), ox.NamedNode("u:p"), ox.Literal("${env:HOME}"))
        for number in range(3)
    ]
    with sparqlive.open(tmp_path / "a b${env:HOME}'%20[x]{y}*?;#,:é`s=1", memory=0, spark=spark) as session:
        session.apply(insert=quads[:2])
        session.compact()
        view = session.view(name, text, strategy="spark")
        session.apply(insert=quads[2:], strategy="spark")
        expected = {(quad.subject, ox.Literal("${env:HOME}${env:HOME}")): 1 for quad in quads}
        assert view.now().weights() == expected
        assert {row.x for row in view.to_spark().collect()} == {"${env:HOME}${env:HOME}"}
