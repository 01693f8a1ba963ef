"""Views and quads as DataFrames, and the formats `rdf` and `sparqlive`, to read, to follow and to write."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import sparqlive
from tests.on_spark import LONG
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

XSD = "http://www.w3.org/2001/XMLSchema#"
VIEW = "SELECT ?s ?n ?d { ?s <u:n> ?n OPTIONAL { ?s <u:d> ?d } }"
ORDERED = "SELECT ?s ?n { ?s <u:n> ?n } ORDER BY DESC(?n)"


def quads(*numbers: int) -> list[Quad]:
    found = [Quad(NamedNode(f"http://x/{n}"), NamedNode("u:n"), Literal(n % 7)) for n in numbers]
    day = Literal("2026-01-02", datatype=NamedNode(f"{XSD}date"))
    return found + [Quad(NamedNode(f"http://x/{n}"), NamedNode("u:d"), day) for n in numbers if n % 2]


def counted(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def expected(view: sparqlive.View, **options: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in view.to_arrow(**options).to_pylist())


@pytest.mark.parametrize("in_store", [True, pytest.param(False, marks=LONG)])
def test_views_and_quads_as_data_frames(spark: SparkSession, tmp_path: Path, in_store: bool) -> None:
    with sparqlive.open(tmp_path / "store" if in_store else None, spark=spark) as session:
        view, ordered = session.view("all", VIEW), session.view("ordered", ORDERED)
        session.apply(insert=quads(*range(12)))
        session.apply(delete=quads(1), insert=quads(20))
        frame = view.to_spark()
        assert [kind for _, kind in frame.dtypes] == ["string", "bigint", "date"]
        assert counted(frame) == expected(view)
        assert counted(view.to_spark(typed=False)) == expected(view, typed=False)
        assert view.to_spark(weights=True).columns == ["s", "n", "d", "_weight"]
        assert counted(view.to_spark(1)) == expected(view.at(1))
        assert [row.n for row in ordered.to_spark().collect()] == ordered.to_arrow()["n"].to_pylist()
        changes = {(row.s, row._epoch, row._weight) for row in view.changes_to_spark(1).collect()}
        assert changes == {("http://x/1", 2, -1), ("http://x/20", 2, 1)}
        assert {tuple(row) for row in session.quads_to_spark().collect()} == {
            (str(q.subject), str(q.predicate), str(q.object), None) for q in session.quads()
        }
        for wrong in (lambda: view.to_spark(99), lambda: session.view("late", VIEW).changes_to_spark(1)):
            with pytest.raises(sparqlive.HistoryGone):
                wrong()
        again = sparqlive.open(spark=spark)
        again.load(session.quads_to_spark())
        assert set(again.quads()) == set(session.quads())
        again.close()


def test_documents_as_rows(spark: SparkSession, tmp_path: Path) -> None:
    sparqlive.register(spark)
    (tmp_path / "a.ttl").write_text("<u:a> <u:p> 1, 'x'@en .", encoding="utf-8")
    with gzip.open(tmp_path / "b.nq.gz", "wt") as stream:
        stream.write("_:b <u:p> <u:c> <u:g> .\n")
    (tmp_path / "c.nt").write_text("<u:a> <u:p> .\n", encoding="utf-8")
    found = {tuple(row) for row in spark.read.format("rdf").load(f"{tmp_path}/[ab]*").collect()}
    [(blank, *rest)] = [row for row in found if row[0].startswith("_:")]
    assert rest == ["<u:p>", "<u:c>", "<u:g>"]
    assert found - {(blank, *rest)} == {
        ("<u:a>", "<u:p>", f'"1"^^<{XSD}integer>', None),
        ("<u:a>", "<u:p>", '"x"@en', None),
    }
    with pytest.raises(Exception, match=r"c\.nt, line 1"):
        spark.read.format("rdf").load(f"{tmp_path}/c.nt").collect()


@pytest.mark.parametrize("in_store", [True, pytest.param(False, marks=LONG)])
def test_values_of_every_type(spark: SparkSession, tmp_path: Path, in_store: bool) -> None:
    """What a mapping makes of columns comes back with their types and values."""
    kinds = {
        "decimal(38,2)": "CAST(1.25 AS DECIMAL(9,2))",
        "date": "DATE'1500-02-28'",
        "timestamp": "TIMESTAMP'1969-12-31 23:59:59.5 Europe/Berlin'",
        "timestamp_ntz": "TIMESTAMP_NTZ'2026-01-02 03:04:05'",
        "boolean": "true",
        "float": "CAST(0.1 AS FLOAT)",
        "double": "DOUBLE('Infinity')",
        "bigint": "7",
        "string": "'Ü'",
    }
    names = {f"c{number}": kind for number, kind in enumerate(kinds)}
    rows = spark.sql(f"SELECT 1 AS id, {', '.join(f'{v} AS c{n}' for n, v in enumerate(kinds.values()))}")
    mapping = sparqlive.TableMapping("u:{id}", {name: f"u:{name}" for name in names})
    query = f"SELECT * {{ ?id {'; '.join(f'<u:{name}> ?{name}' for name in names)} }}"
    with sparqlive.open(tmp_path / "store" if in_store else None, spark=spark) as session:
        session.load(rows, mapping=mapping)
        found = session.view("all", query).to_spark().select(*names)
        assert dict(found.dtypes) == names
        assert found.collect() == rows.select(*names).collect()


def test_what_cannot_be_read_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    store = str(tmp_path / "s")
    with sparqlive.open(store, spark=spark) as session:
        session.apply(insert="<u:a> <u:p> <u:b> .")
        session.view("odd", "SELECT ?s (1 AS ?_weight) { ?s ?p ?o }")
        session.view("none", "SELECT * { <u:a> <u:p> <u:b> }")
        hidden = session.view("hidden", "SELECT ?s { ?s ?p ?o } ORDER BY ?o")
        with pytest.raises(sparqlive.Unsupported, match="Pass weights=True"):
            session.views["none"].to_spark()
        assert [row._weight for row in session.views["none"].to_spark(weights=True).collect()] == [1]
        assert session.views["odd"].to_spark().collect() == [("u:a", 1)]
        with pytest.raises(sparqlive.Unsupported, match="ORDER BY uses values that are not selected"):
            hidden.changes_to_spark(1)
    reader = spark.read.format("sparqlive")
    assert [row.s for row in reader.load(store).collect()] == ["<u:a>"], "the path is the store"
    with pytest.raises(Exception, match=r"variable \?_weight has the name of the column _weight"):
        reader.option("view", "odd").load(store).collect()
    with pytest.raises(Exception, match=r"The view has the columns s\. Leave out schema"):
        reader.option("view", "hidden").schema("a STRING, _epoch BIGINT, _weight BIGINT").load(
            store
        ).collect()


@LONG
def test_a_stream_of_a_view_goes_into_another_store(spark: SparkSession, tmp_path: Path) -> None:
    """The whole content, then changes, through restarts: the copy equals the original at each end."""
    with sparqlive.open(tmp_path / "from", spark=spark) as session:
        session.view("graph", "CONSTRUCT { ?s <u:copy> ?n } { ?s <u:n> ?n }")
        session.apply(insert=quads(0, 1, 2))

        def copied() -> set[Quad]:
            source = spark.readStream.format("sparqlive").option("store", str(tmp_path / "from"))
            rows = source.option("view", "graph").option("typed", "false").load()
            writer = rows.writeStream.format("sparqlive").option("store", str(tmp_path / "to"))
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            wait_until(lambda: not query.isActive)
            assert query.exception() is None
            with sparqlive.open(tmp_path / "to", read_only=True) as copy:
                return set(copy.quads())

        assert copied() == set(session.views["graph"].quads())
        session.apply(delete=quads(1), insert=quads(3))
        session.apply(delete=quads(0), insert=quads(1))
        session.apply(insert=quads(5, 6))
        session.apply(delete=quads(5))  # it came and went since the last time
        session.compact()
        assert copied() == set(session.views["graph"].quads())
        assert copied() == set(session.views["graph"].quads())


def test_a_batch_is_written_as_an_epoch(spark: SparkSession, tmp_path: Path) -> None:
    sparqlive.register(spark)
    rows = spark.sql(
        "SELECT concat('<u:', id, '>') AS s, '<u:p>' AS p, concat('\"', id, '\"') AS o FROM range(9)"
    )
    rows.write.format("sparqlive").option("store", str(tmp_path / "s")).mode("append").save()
    with sparqlive.open(tmp_path / "s", read_only=True) as session:
        assert (session.epoch, len(session)) == (1, 9)
    for frame, option, said in (
        (rows.withColumn("o", rows.p.substr(2, 5)), {}, "Row 0 of partition 0 .*column 'o'"),
        (rows, {"what": "x"}, "no option 'what'"),
        (rows, {"order": "s"}, "orders changes only by _commit_version and _epoch"),
        (rows.selectExpr("'c' AS op", "struct(*) AS before", "struct(*) AS after"), {}, "before and after"),
        (rows.withColumn("_epoch", lit(None)).withColumn("_weight", lit(1)), {}, "'_epoch': is null"),
    ):
        with pytest.raises(Exception, match=said):
            frame.write.format("sparqlive").options(store=str(tmp_path / "s"), **option).mode("append").save()
    with sparqlive.open(tmp_path / "s") as session:
        assert session.epoch == 1
        with pytest.raises(Exception, match="is open for writing in process"):
            rows.write.format("sparqlive").option("store", str(tmp_path / "s")).mode("append").save()


def test_the_last_version_of_a_change_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever tasks have the changes; of one version, inserts come after deletes."""
    sparqlive.register(spark)
    feed = [(1, "insert", 1), (1, "delete", 2), (2, "delete", 3), (2, "insert", 4), (3, "insert", 5)]
    feed += [(3, "update_postimage", 7), (3, "update_preimage", 7), (4, "insert", 10), (4, "delete", 9)]
    rows = spark.createDataFrame(feed, "n INT, _change_type STRING, _commit_version BIGINT").selectExpr(
        "concat('<u:', n, '>') AS s", "'<u:p>' AS p", "'<u:o>' AS o", "_change_type", "_commit_version"
    )
    writer = rows.repartition(5, "_commit_version").write.format("sparqlive").mode("append")
    writer.option("store", str(tmp_path / "s")).save()
    with sparqlive.open(tmp_path / "s", read_only=True) as session:
        assert session.epoch == 1
        assert {quad.subject.value for quad in session.quads()} == {"u:2", "u:3", "u:4"}
