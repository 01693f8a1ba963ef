"""Spark DataFrames become epochs: the workers check and write their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad
from pyspark.sql import DataFrame, SparkSession

import sparqlive
from tests.nasty_terms import TERMS
from tests.on_spark import CLASSIC_ONLY

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
        session.load(
            frame(spark, quads[:1]).selectExpr("*", "1 AS `a.b`", "2 AS x", "3 AS x")
        )  # others are left
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


def test_changes_of_debezium(spark: SparkSession) -> None:
    """In the order of a column; without one, only if they do not disagree."""
    kind = "STRUCT<id: INT, name: STRING>"
    rows = [("c", None, "a"), ("u", "a", "b"), ("u", "b", "a"), ("u", "a", "c")]
    sides = [(op, before and (1, before), after and (1, after)) for op, before, after in rows]
    changes = spark.createDataFrame(
        [(*row, number) for number, row in enumerate(sides)],
        f"op STRING, before {kind}, after {kind}, offset BIGINT",
    ).repartition(3)
    mapping = sparqlive.TableMapping("http://x/{id}", {"name": P.value})
    with sparqlive.open(spark=spark) as session:
        with pytest.raises(sparqlive.InvalidChange, match=r"One row inserts .* Pass order="):
            session.apply(changes=changes, mapping=mapping)
        with pytest.raises(sparqlive.InvalidChange, match=r"both have the same value in 'op'"):
            session.apply(changes=changes.where("offset > 0"), mapping=mapping, order="op")
        with pytest.raises(sparqlive.InvalidChange, match=r"column 'offset': is null"):
            session.apply(
                changes=changes.selectExpr("op", "before", "after", "nullif(offset, 2) AS offset"),
                mapping=mapping,
                order="offset",
            )
        session.apply(changes=changes.where("offset = 0"), mapping=mapping)
        assert [quad.object for quad in session.quads()] == [Literal("a")]
        session.apply(changes=changes, mapping=mapping, order="offset")
        assert [quad.object for quad in session.quads()] == [Literal("c")]


@CLASSIC_ONLY
def test_workers_run_the_interpreter_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a session that somebody else started, in an environment that is not activated."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    with sparqlive.open() as session:
        session.load(spark.sql("SELECT '<u:s>' AS s, '<u:p>' AS p, '<u:o>' AS o"))
        assert len(session) == 1
