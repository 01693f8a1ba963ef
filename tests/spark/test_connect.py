"""The tests of this folder on Spark Connect, in a process of their own; all of them by `make test-spark`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparqlive
from tests.bulk.backends.spark.test_in_store import VIEWS, orders

pytestmark = pytest.mark.spark
XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
ON_CONNECT = os.environ.get("SPARQLIVE_SPARK") == "connect"


@pytest.mark.skipif(ON_CONNECT, reason="needs a classic session")
def test_a_server_beside_a_classic_session_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc")
    with sparqlive.open(spark="sc://localhost:1") as session:
        session.apply(insert="<u:a> <u:p> <u:b> .")
        with pytest.raises(sparqlive.Error, match="has a classic Spark session already"):
            session.quads_to_spark()
        monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client", None)
        with pytest.raises(sparqlive.Error, match=r"pip install 'sparqlive\[connect\]'"):
            session.quads_to_spark()


@pytest.mark.skipif(not ON_CONNECT, reason="other tests do this on classic Spark")
def test_a_bit_of_everything(spark: SparkSession, tmp_path: Path) -> None:
    """DataFrames in and out, a view that Spark carries, the formats."""
    rows = spark.createDataFrame(
        [("<u:a>", "<u:p>", '"1"'), ("<u:b>", "<u:p>", "2")], "s STRING, p STRING, o STRING"
    )
    (tmp_path / "2.nt").write_text("<u:e> <u:p> <u:f> .\n", encoding="utf-8")
    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        view = session.view("all", "SELECT ?s ?o { ?s <u:p> ?o }", strategy="spark")
        with pytest.raises(sparqlive.InvalidChange, match="'2' is not a term"):
            session.load(rows)
        session.load(rows.limit(1))
        session.apply(insert=spark.read.format("rdf").load(str(tmp_path / "2.nt")), strategy="spark")
        assert session.epoch == 2
        found = {
            ("u:a", ("1", XSD_STRING, None)),
            ("u:e", ("u:f", "iri", None)),
        }
        assert {(row.s, tuple(row.o)) for row in view.to_spark().collect()} == found
        session.check()
    rows.limit(1).write.format("sparqlive").option("store", str(tmp_path / "copy")).mode("append").save()
    with sparqlive.open(tmp_path / "copy", read_only=True) as session:
        assert len(session) == 1


@pytest.mark.skipif(not ON_CONNECT, reason="other tests compute views on classic Spark")
def test_views_are_computed_and_carried(spark: SparkSession, tmp_path: Path) -> None:
    """In the store and held, with functions of Python and braces in the SQL."""
    concatenated = """SELECT ?y (GROUP_CONCAT(?v) AS ?g) (AVG(?v) AS ?a)
        { ?x <urn:p> ?z . ?z <urn:q> ?y . ?x <urn:v> ?v FILTER REGEX(STR(?x), "x[0-9]{1,2}") } GROUP BY ?y"""
    with sparqlive.open(tmp_path, spark=spark) as session:
        session.apply(insert="<urn:z1> <urn:q> <urn:y> .\n<urn:z2> <urn:q> <urn:y2> .")
        session.apply(insert=orders(0, 40))
        for name, query in {**VIEWS, "concatenated": concatenated}.items():
            session.view(name, query, strategy="spark")
        session.view("held", concatenated)
        session.apply(insert=orders(40, 44), delete=orders(0, 3), strategy="spark")
        session.check()
