"""Spark DataFrames become epochs: the workers check and write their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad
from pyspark.sql import DataFrame, SparkSession

import sparqlive
from tests.nasty_terms import TERMS

pytestmark = pytest.mark.spark

P = NamedNode("http://x/p")
G = NamedNode("http://x/g")


def frame(spark: SparkSession, quads: list[Quad], **more: list[object]) -> DataFrame:
    rows = [
        (str(q.subject), str(q.predicate), str(q.object), str(q.graph_name) if q.graph_name == G else None)
        for q in quads
    ]
    columns = zip(*more.values(), strict=True) if more else [()] * len(rows)
    named = ", ".join(f"{name} {'BIGINT' if isinstance(v[0], int) else 'STRING'}" for name, v in more.items())
    schema = "s STRING, p STRING, o STRING, g STRING" + (f", {named}" if named else "")
    return spark.createDataFrame([(*row, *rest) for row, rest in zip(rows, columns, strict=True)], schema)


@pytest.mark.parametrize("in_store", [True, False])
def test_rows_become_epochs(spark: SparkSession, tmp_path: Path, in_store: bool) -> None:
    quads = [Quad(BlankNode(f"b{n % 3}"), P, term, G) for n, term in enumerate(TERMS[:60])]
    path = tmp_path / "store" if in_store else None
    with sparqlive.open(path, spark=spark) as session:
        epoch = session.load(frame(spark, quads), batch=("frames", 1))
        assert (epoch.number, set(session.quads())) == (1, set(quads))
        assert session.load(frame(spark, quads), batch=("frames", 1)).inserted == 0
        for come, gone in ((quads[:0], quads[4:9]), (quads[2:9], quads[3:7])):  # a quad in both stays
            epoch = session.apply(insert=frame(spark, come), delete=frame(spark, gone))
        assert (set(session.quads()), epoch.inserted) == (set(quads), 5)
        view = session.view("all", "SELECT ?s ?o { GRAPH ?g { ?s ?p ?o } }")
        new = Quad(BlankNode("b0"), P, Literal("new"), G)
        session.apply(insert=frame(spark, [new, quads[0]]), delete=frame(spark, quads[:3]))
        assert set(session.quads()) == {*quads[3:], quads[0], new}
        ordered = frame(spark, [new, new, quads[5]], op=["+", "-", "-"], at=[1, 2, 1])
        epoch = session.apply(changes=ordered, order="at")
        assert set(session.quads()) == {*quads[3:], quads[0]} - {quads[5]}
        bad = frame(spark, [new, quads[5]]).selectExpr("s", "p", "IF(o LIKE '%new%', 'new', o) AS o")
        with pytest.raises(
            sparqlive.InvalidChange, match=r"^Row \d of partition \d .*, column 'o': 'new' is"
        ):
            session.load(bad)
        with pytest.raises(sparqlive.SparkFailed, match="DIVIDE_BY_ZERO"):
            session.load(bad.selectExpr("s", "p", "CAST(1 / 0 AS STRING) AS o"))
        with pytest.raises(sparqlive.Error, match=r"session\.follow"):
            session.load(
                spark.readStream.format("rate").load().selectExpr("'<u:a>' AS s", "s AS p", "s AS o")
            )
        assert (session.epoch, len(view)) == (epoch.number, len(session))
        session.check()
    if path is not None:
        left = {file.suffix for file in path.rglob("*") if file.is_file()}
        assert ".nq" not in left, "the files of statements are removed"


def test_a_table_of_spark_becomes_triples(spark: SparkSession) -> None:
    mapping = sparqlive.TableMapping("http://x/{id}", {"price": "http://x/price", "day": "http://x/day"})
    rows = spark.sql("SELECT 1 AS id, CAST(1.5 AS DECIMAL(9,2)) AS price, DATE'2026-01-02' AS day")
    with sparqlive.open() as session:
        session.load(rows, mapping=mapping, graph=G.value)
        xsd = "http://www.w3.org/2001/XMLSchema#"
        assert set(session.quads()) == {
            Quad(NamedNode("http://x/1"), NamedNode("http://x/price"), price, G)
            for price in [Literal("1.50", datatype=NamedNode(f"{xsd}decimal"))]
        } | {
            Quad(NamedNode("http://x/1"), NamedNode("http://x/day"), day, G)
            for day in [Literal("2026-01-02", datatype=NamedNode(f"{xsd}date"))]
        }
