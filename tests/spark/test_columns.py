"""Columns of DataFrames in mappings and options: names, fields and types; errors of the sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import sparqlive
from sparqlive.bulk.backends.spark.columns import Columns
from sparqlive.bulk.backends.spark.start import is_connect

pytestmark = pytest.mark.spark

XSD = "http://www.w3.org/2001/XMLSchema#"


def mapping(**predicates: str) -> sparqlive.TableMapping:
    return sparqlive.TableMapping(subject="u:{id}", predicates=predicates)


def test_names_are_found_as_spark_finds_them(spark: SparkSession) -> None:
    schema = StructType.fromDDL(
        "ID INT, addr STRUCT<Street: STRING, `a.b`: INT>, `x.y` INT, list ARRAY<STRUCT<a: INT>>, N INT, n INT"
    )
    columns = Columns(schema)
    paths = {
        "id": ("ID",),
        "ADDR.street": ("addr", "Street"),
        "addr.`A.B`": ("addr", "a.b"),
        "x.y": ("x.y",),
        "addr.town": None,
        "addr.": None,
        "list.a": None,
        "x.`y": None,
    }
    for name, path in paths.items():
        found = columns.find(name)
        assert (found and found.path) == path, name
    with pytest.raises(sparqlive.Error, match="'n' matches several columns: N, n"):
        columns.find("n")
    exact = Columns(schema, minds_case=True)
    assert exact.find("id") is None
    assert exact.find("n") is not None


def test_fields_and_other_cases(spark: SparkSession) -> None:
    """In a mapping, in the columns of terms, in op and order, and in Debezium's rows."""
    table = spark.sql("SELECT 1 AS ID, named_struct('Street', 'Main', 'geo', named_struct('lat', 1.5D)) AS a")
    changes = spark.sql(
        "SELECT '<u:1>' AS S, '<u:s>' AS P, '\"Main\"' AS O, '-' AS Kind, struct(2 AS Lsn) AS at"
    )
    rows = spark.sql(
        "SELECT 'u' AS op, struct(1 AS ID, struct(1.5D AS Lat) AS geo) AS before, "
        "struct(1 AS ID, struct(2.5D AS Lat) AS geo) AS after"
    )
    with sparqlive.open(spark=spark) as session:
        session.load(table, mapping=mapping(**{"a.street": "u:s", "A.Geo.LAT": "u:lat"}))
        assert {quad.object for quad in session.quads()} == {Literal("Main"), Literal(1.5)}
        session.apply(changes=changes, op="kind", order="at.LSN")
        session.apply(changes=rows, mapping=mapping(**{"Geo.lat": "u:lat"}))
        assert [quad.object for quad in session.quads()] == [Literal(2.5)]
        with pytest.raises(sparqlive.Error, match=r"no column 'a\.town'. Its columns: id, a"):
            session.load(table, mapping=mapping(**{"a.town": "u:s"}))


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("X'00'", "binary, .* base64"),
        ("array(1)", r"array<int>, .* explode\(v\)"),
        ("array()", r"array<void>, .* explode\(v\)"),
        ("map('a', 1)", "map<string,int>, .* explode"),
        ("named_struct('a', 1)", r"struct<a:int>, .* such as 'v\.a'"),
        ("INTERVAL '1' DAY", "interval day, .* CAST"),
        ("make_interval(1)", "interval, .* CAST"),
        ("parse_json('1')", "variant, .* CAST"),
    ],
)
def test_types_without_literals_are_refused_at_once(spark: SparkSession, value: str, advice: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {value} AS v")
    with sparqlive.open(spark=spark) as session:
        with pytest.raises(sparqlive.Error, match=f"Column 'v' has type {advice}") as found:
            session.load(frame, mapping=mapping(v="u:v"))
        assert type(found.value) is sparqlive.Error  # what tasks find is an InvalidChange
        with pytest.raises(sparqlive.Error, match=r"'o' has type .* must be a string with a term"):
            session.load(frame.selectExpr("'<u:s>' AS s", "'<u:p>' AS p", "v AS o"))


def test_decimals_and_other_types_come_back(spark: SparkSession) -> None:
    values = {
        "large": f"CAST('{'9' * 38}' AS DECIMAL(38, 0))",
        "small": "CAST(1.50 AS DECIMAL(10, 2))",
        "both": "CAST(-12345678901234567890.25 AS DECIMAL(38, 18))",
        "clock": "TIMESTAMP_NTZ'2020-01-01 00:00:00'",
        "byte": "CAST(5 AS TINYINT)",
        "nan": "CAST('NaN' AS DOUBLE)",
        "nothing": "NULL",
    }
    frame = spark.sql(f"SELECT 1 AS id, {', '.join(f'{value} AS {name}' for name, value in values.items())}")
    with sparqlive.open(spark=spark) as session:
        session.load(frame, mapping=mapping(**{name: f"u:{name}" for name in values}))
        chosen = " ".join(f"OPTIONAL {{ ?s <u:{name}> ?{name} }}" for name in values)
        found = session.view(
            "v", f"SELECT {' '.join(f'?{n}' for n in values)} {{ ?s <u:byte> ?b {chosen} }}"
        ).to_spark()
    kinds = ["decimal(38,0)", "decimal(38,1)", "decimal(38,2)", "timestamp_ntz", "bigint", "double", "string"]
    assert [kind for _, kind in found.dtypes] == kinds
    [row] = found.collect()
    assert row[:3] == (Decimal("9" * 38), Decimal("1.5"), Decimal("-12345678901234567890.25"))
    assert row.nothing is None


def first_line(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as found:  # noqa: PT011 - Spark has several
        action()
    return str(found.value).partition("\n\n")[0].replace("worker:\n", "worker: ")


def test_errors_of_data_sources_begin_with_their_sentence(spark: SparkSession, tmp_path: Path) -> None:
    sparqlive.register(spark)
    (tmp_path / "bad.nt").write_text("<u:a> <u:b> .\n")
    rows = spark.sql("SELECT '<u:s>' AS s, '<u:p>' AS p, array(1) AS o")
    bad = spark.sql("SELECT 's' AS s, '<u:p>' AS p, '<u:o>' AS o")
    said = {
        "has no option 'stor'": lambda: spark.read.format("sparqlive").option("stor", "x").load(),
        "There is no store at": lambda: spark.read.format("sparqlive").load(f"{tmp_path}/none").collect(),
        "bad.nt, line 1": lambda: spark.read.format("rdf").load(f"{tmp_path}/bad.nt").collect(),
        "'o' has type array<int>": lambda: write(rows, tmp_path, "append"),
        "'s' is not a term": lambda: write(bad, tmp_path, "append"),
    }
    for sentence, action in said.items():
        line = first_line(action)
        assert sentence in line
        assert "Traceback" not in line


def write(frame: DataFrame, folder: Path, mode: str) -> None:
    frame.write.format("sparqlive").mode(mode).save(str(folder / "store"))


def test_what_spark_advises_for_the_default_mode_works(spark: SparkSession, tmp_path: Path) -> None:
    """It names append and overwrite."""
    sparqlive.register(spark)
    rows = spark.sql("SELECT '<u:s>' AS S, '<u:p>' AS P, stack(2, '<u:1>', '<u:2>') AS O")
    line = first_line(lambda: rows.write.format("sparqlive").save(str(tmp_path / "store")))
    assert '"Append" or "Overwrite"' in line
    write(rows, tmp_path, "append")
    write(rows.where("O = '<u:2>'"), tmp_path, "overwrite")
    with sparqlive.open(tmp_path / "store") as session:
        assert [quad.object for quad in session.quads()] == [NamedNode("u:2")]
        assert session.epoch == 2
    with_operations = rows.selectExpr("*", "'+' AS op")
    assert "'op' says what happens" in first_line(lambda: write(with_operations, tmp_path, "overwrite"))


def test_the_name_of_a_stream_stands_for_one_source(spark: SparkSession, tmp_path: Path) -> None:
    if is_connect(spark):
        pytest.skip("the server's Python process takes long to start")

    def stream(name: str) -> DataFrame:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "1.json").write_text(json.dumps({"S": f"<u:{name}>", "p": "<u:p>", "o": "<u:o>"}))
        return spark.readStream.schema("S STRING, p STRING, o STRING").json(str(folder))

    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        session.follow(stream("a"), once=True).wait()
        with pytest.raises(sparqlive.SparkFailed, match=r"(?s)belongs to a different source.*name='…'"):
            session.follow(stream("b"), once=True).wait()
        session.follow(stream("b"), once=True, name="b").wait()
        assert {quad.subject.value for quad in session.quads()} == {"u:a", "u:b"}
