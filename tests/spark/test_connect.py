"""The tests of this folder on Spark Connect, in a process of their own; all of them by `make test-spark`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparqlive
from tests.bulk.backends.spark.test_in_store import VIEWS, orders
from tests.conftest import ROOT

pytestmark = pytest.mark.spark
ON_CONNECT = os.environ.get("SPARQLIVE_SPARK") == "connect"
REPRESENTATIVE = (
    "tests/spark/test_connect.py::test_views_are_computed_and_carried",
    "tests/spark/test_frames.py::test_rows_become_epochs[True]",
)


@pytest.mark.skipif(ON_CONNECT, reason="these tests run on Spark Connect already")
@pytest.mark.skipif("SPARQLIVE_SPARK" not in os.environ, reason="another start of Spark: `make test-spark`")
def test_a_part_passes_on_connect() -> None:
    pytest.importorskip("grpc")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *REPRESENTATIVE]
    environment = {**os.environ, "SPARQLIVE_SPARK": "connect"}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{len(REPRESENTATIVE)} passed" in done.stdout


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
