"""Delta Lake with Spark: a table's change data feed as a source, and tables of views that Spark reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

import sparqlive
from sparqlive.pipeline.sinks import catch_up
from sparqlive.pipeline.sinks.delta_lake import DeltaLakeSink
from tests.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "SELECT ?s ?o { ?s <a:p> ?o }"


def quad(number: int, value: int) -> ox.Quad:
    return ox.Quad(ox.NamedNode(f"a:{number}"), ox.NamedNode("a:p"), ox.Literal(value))


def feed(spark: SparkSession, path: Path) -> DataFrame:
    """The change data feed of a table, from its first version."""
    options = {"readChangeFeed": "true", "startingVersion": "0"}
    return spark.readStream.format("delta").options(**options).load(str(path))


def test_a_change_data_feed_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(
        f"CREATE TABLE {table} (s STRING, p STRING, o STRING) USING delta "
        f"TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )

    def rows(*quads: ox.Quad) -> str:
        return ", ".join(f"('{one.subject}', '{one.predicate}', '{one.object}')" for one in quads)

    def follow() -> None:
        with sparqlive.open(tmp_path / "store", spark=spark) as session:
            session.view("all", QUERY)
            session.follow(feed(spark, tmp_path / "table"), once=True).wait()
            found = {
                (row["s"], row["p"], row["o"])
                for row in spark.sql(f"SELECT s, p, o FROM {table}").toLocalIterator()
            }
            assert {(str(q.subject), str(q.predicate), str(q.object)) for q in session.quads()} == found
            expected = Oracle(set(session.quads())).weights(QUERY, session.views["all"].variables)
            assert session.views["all"].weights() == expected
            session.check()

    spark.sql(f"INSERT INTO {table} VALUES {rows(*(quad(number, number) for number in range(20)))}")
    follow()
    spark.sql(f"DELETE FROM {table} WHERE s = '<a:3>'")
    spark.sql(f"UPDATE {table} SET o = '{ox.Literal(100)}' WHERE s = '<a:4>'")
    spark.sql(f"INSERT INTO {table} VALUES {rows(quad(3, 3))}")  # it comes back in the same micro-batch
    follow()
    spark.sql(f"DELETE FROM {table} WHERE s IN ('<a:5>', '<a:4>')")
    follow()
    with sparqlive.open(tmp_path / "store") as session:
        epoch = session.epoch
    follow()  # nothing new
    with sparqlive.open(tmp_path / "store") as session:
        assert session.epoch == epoch


def test_spark_reads_the_table_of_the_sink_and_its_versions(spark: SparkSession, tmp_path: Path) -> None:
    """The sink writes without a JVM, one version per epoch."""
    path = tmp_path / "sink"

    def rows(**options: Any) -> Counter[tuple[str, ...]]:
        frame = spark.read.format("delta").options(**options).load(str(path))
        return Counter({tuple(map(str, row[:-1])): row[-1] for row in frame.collect()})

    def content(view: sparqlive.View) -> Counter[tuple[str, ...]]:
        return Counter({tuple(map(str, row)): weight for row, weight in view.weights().items()})

    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        sink = DeltaLakeSink(path, view.variables, weights=True)
        expected = []
        for number in range(4):
            session.apply(insert=[quad(number, 1), quad(number, 2)], delete=[quad(number - 1, 1)])
            catch_up(sink, view, "sink")
            expected.append(content(view))
        assert rows() == expected[-1]
        for version, wanted in enumerate(expected, start=1):  # version 0 is the empty table
            assert rows(versionAsOf=version) == wanted
        catch_up(DeltaLakeSink(path, view.variables, weights=True), view, "sink")
        assert rows() == expected[-1]


def test_spark_writes_a_view_as_a_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        view = session.view("all", QUERY)
        contents = []
        for number in range(3):
            session.apply(insert=[quad(number, number)], delete=[quad(number - 2, number - 2)])
            view.to_spark().write.format("delta").mode("overwrite").save(path)
            contents.append(sorted((s.value, int(o.value)) for s, o in view.weights()))
    for version, wanted in enumerate(contents):
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        assert sorted((row.s, int(row.o)) for row in frame.collect()) == wanted
