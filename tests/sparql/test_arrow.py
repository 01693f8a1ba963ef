"""Typed columns: a variable of one datatype has its Arrow type, everything else stays complete."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.sparql.arrow import STRUCT
from tests.nasty_terms import XSD

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o } ORDER BY DESC(?s)"


def of(*objects: str) -> sparqlive.View:
    """A view with one row per object, in N-Triples syntax without the prefix of XSD."""
    session = sparqlive.open()
    for number, text in enumerate(objects):
        text = text.replace("^^xsd:", f"^^<{XSD}") + (">" if "^^xsd:" in text else "")
        session.apply(insert=f"<http://x/{number}> <http://x/p> {text} .")
    return session.view("v", QUERY)


def values(view: sparqlive.View) -> list[object]:
    return view.to_arrow().column("o").to_pylist()[::-1]


@pytest.mark.parametrize(
    ("objects", "type_", "expected"),
    [
        (['"7"^^xsd:integer', '"-3"^^xsd:integer'], pa.int64(), [7, -3]),
        (['"007"^^xsd:integer', '"+1"^^xsd:integer'], pa.int64(), [7, 1]),
        (['"200"^^xsd:unsignedByte'], pa.int64(), [200]),
        (
            [f'"{10**25}"^^xsd:integer', '"1"^^xsd:integer'],
            pa.decimal128(38, 0),
            [Decimal(10**25), Decimal(1)],
        ),
        (
            ['"1.50"^^xsd:decimal', '"-2.25"^^xsd:decimal'],
            pa.decimal128(38, 2),
            [Decimal("1.5"), Decimal("-2.25")],
        ),
        (['"4"^^xsd:decimal'], pa.decimal128(38, 0), [Decimal(4)]),
        (['"1.5000000000000000000000"^^xsd:decimal'], pa.decimal128(38, 1), [Decimal("1.5")]),
        (['"0.0000000000000000001"^^xsd:decimal'], pa.decimal128(38, 19), [Decimal("1e-19")]),
        (
            [f'"{"9" * 38}"^^xsd:decimal', f'"-{"9" * 38}"^^xsd:decimal'],
            pa.decimal128(38, 0),
            [Decimal("9" * 38), Decimal("-" + "9" * 38)],
        ),
        (
            ['"-12345678901234567890.25"^^xsd:decimal', '"0.5"^^xsd:decimal'],
            pa.decimal128(38, 2),
            [Decimal("-12345678901234567890.25"), Decimal("0.5")],
        ),
        (['"1e3"^^xsd:double', '"INF"^^xsd:double'], pa.float64(), [1000.0, float("inf")]),
        (['"1.5"^^xsd:float'], pa.float32(), [1.5]),
        (['"true"^^xsd:boolean', '"0"^^xsd:boolean'], pa.bool_(), [True, False]),
        (
            ['"2024-02-29"^^xsd:date', '"1969-12-31"^^xsd:date'],
            pa.date32(),
            [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)],
        ),
        (
            ['"2024-02-29T12:00:00.5"^^xsd:dateTime'],
            pa.timestamp("us"),
            [datetime.datetime(2024, 2, 29, 12, 0, 0, 500_000)],
        ),
        (
            ['"2024-02-29T12:00:00+02:00"^^xsd:dateTime', '"1960-01-01T00:00:00Z"^^xsd:dateTime'],
            pa.timestamp("us", "UTC"),
            [
                datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC),
                datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC),
            ],
        ),
        (['"a\\"b\\n\\\\"', '""'], pa.string(), ['a"b\n\\', ""]),
        (["<http://x/y>", "_:node"], pa.string(), ["http://x/y", "_:node"]),
    ],
)
def test_one_datatype_is_one_type(objects: list[str], type_: pa.DataType, expected: list[object]) -> None:
    view = of(*objects)
    assert view.to_arrow().schema.field("o").type == type_
    assert values(view) == expected
    parquet = pq.read_table(io.BytesIO(b"".join(view.typed_pieces("parquet"))))  # type: ignore[arg-type]
    assert parquet.column("o").to_pylist()[::-1] == expected
    stream = pa.ipc.open_stream(b"".join(view.typed_pieces("arrow"))).read_all()  # type: ignore[arg-type]
    assert stream.equals(view.to_arrow())


@pytest.mark.parametrize(
    "objects",
    [
        ['"1"^^xsd:integer', '"1"^^xsd:int'],
        ['"1"^^xsd:integer', '"one"^^xsd:integer'],
        ['"1"', "<http://x/y>"],
        ['"a"@en', '"b"@en'],
        ['"2024-01-01T00:00:00Z"^^xsd:dateTime', '"2024-01-01T00:00:00"^^xsd:dateTime'],
        ['"2024-01-01Z"^^xsd:date'],
        ['"12:00:00"^^xsd:time'],
        [f'"{10**40}"^^xsd:integer'],
        [f'"1.{"1" * 38}"^^xsd:decimal'],
        [f'"{"1" * 38}"^^xsd:decimal', '"0.1"^^xsd:decimal'],
        ['"0000-12-31"^^xsd:date', '"2024-02-29"^^xsd:date'],
        ['"10000-01-01T00:00:00"^^xsd:dateTime'],
        ['"0001-01-01T00:00:00+14:00"^^xsd:dateTime'],
        ['"99999999999999999-01-01T00:00:00Z"^^xsd:dateTime'],
        ['"x"^^<http://x/own>'],
        ['" 1"^^xsd:integer'],
    ],
)
def test_anything_else_is_a_struct_that_loses_nothing(objects: list[str]) -> None:
    view = of(*objects)
    assert view.to_arrow().schema.field("o").type == STRUCT
    for (_, term), found in zip(sorted(view.weights(), key=str), values(view), strict=True):
        assert isinstance(found, dict)
        if isinstance(term, ox.Literal):
            assert (found["value"], found["type"], found["language"]) == (
                term.value,
                term.datatype.value,
                term.language,
            )
        else:
            assert (found["value"], found["type"]) == (term.value, "iri")  # type: ignore[union-attr]


def test_order_and_copies_are_kept_and_weights_come_on_request() -> None:
    session = sparqlive.open()
    session.apply(
        insert="".join(f'<http://x/{n}> <http://x/p> "{n % 3}"^^<{XSD}integer> .\n' for n in range(10))
    )
    view = session.view("v", "SELECT ?o { ?s <http://x/p> ?o } ORDER BY DESC(?o)")
    assert view.to_arrow().column("o").to_pylist() == [2, 2, 2, 1, 1, 1, 0, 0, 0, 0]
    weighted = view.to_arrow(weights=True)
    assert weighted.schema.field("_weight").type == pa.int64()
    assert {row["o"]: row["_weight"] for row in weighted.to_pylist()} == {0: 4, 1: 3, 2: 3}
    lines = "".join(view.typed_pieces("ndjson")).splitlines()  # type: ignore[arg-type]
    assert [json.loads(line) for line in lines] == [{"o": n} for n in (2, 2, 2, 1, 1, 1, 0, 0, 0, 0)]
    texts = view.to_arrow(typed=False).column("o").to_pylist()
    assert texts[0] == f'"2"^^<{XSD}integer>'


def test_pandas_and_polars_get_numbers_and_moments() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    session = sparqlive.open()
    session.update(
        """PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> INSERT DATA {
        :a :n 3 ; :d 4.5 ; :day "2020-01-02"^^xsd:date ; :at "2020-01-02T03:04:05Z"^^xsd:dateTime .
        :b :n 7 ; :d 1.25 ; :day "2021-01-02"^^xsd:date ; :at "2021-01-02T03:04:05Z"^^xsd:dateTime ; :i 5 .
        }"""
    )
    view = session.view(
        "v",
        """PREFIX : <http://x/> SELECT ?s ?n ?d ?day ?at ?i {
        ?s :n ?n ; :d ?d ; :day ?day ; :at ?at OPTIONAL { ?s :i ?i } } ORDER BY DESC(?n)""",
    )
    frame = view.to_pandas()
    assert list(frame["n"]) == [7, 3]
    assert all(pandas.api.types.is_numeric_dtype(frame[name]) for name in ("n", "d", "i"))
    assert all(pandas.api.types.is_datetime64_any_dtype(frame[name]) for name in ("day", "at"))
    assert frame["n"].dtype == "int64"
    assert frame["i"].dtype == "Int64"
    table = view.to_polars()
    assert table["n"].to_list() == [7, 3]
    assert (table.schema["n"], table.schema["day"]) == (polars.Int64, polars.Date)


def test_a_data_frame_is_plotted() -> None:
    """The lines show what the view has, in its order: numbers, dates, and an integer that is unbound."""
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    session = sparqlive.open()
    session.update(
        """PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> INSERT DATA {
        :a :n 3 ; :d 4.5 ; :day "2020-01-02"^^xsd:date .
        :b :n 7 ; :d 1.25 ; :day "2021-01-02"^^xsd:date ; :i 5 .
        :c :n 5 ; :d 2.0 ; :day "2022-01-02"^^xsd:date ; :i 6 . }"""
    )
    frame = session.view(
        "v",
        """PREFIX : <http://x/>
        SELECT ?n ?d ?day ?i { ?s :n ?n ; :d ?d ; :day ?day OPTIONAL { ?s :i ?i } } ORDER BY DESC(?n)""",
    ).to_pandas()
    axes = frame.plot(x="day")
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["n"].get_ydata().tolist() == [7, 5, 3]
    assert lines["d"].get_ydata().tolist() == [1.25, 2.0, 4.5]
    assert lines["i"].get_ydata()[:2].tolist() == [5, 6]
    assert [str(day)[:4] for day in lines["n"].get_xdata()] == ["2021", "2022", "2020"]
    assert {"n", "d", "i"} <= {line.get_label() for line in frame.plot().get_lines()}


def test_what_no_row_binds_is_a_column_of_nulls() -> None:
    session = sparqlive.open()
    session.apply(insert="<http://x/a> <http://x/p> <http://x/b> .")
    view = session.view("v", "SELECT ?s ?n { ?s <http://x/p> ?o OPTIONAL { ?s <http://x/n> ?n } }")
    assert view.to_arrow().column("n").to_pylist() == [None]
    assert session.query("SELECT ?s { ?s <http://x/none> ?o }").to_arrow().num_rows == 0
    assert session.query("ASK { ?s ?p ?o }").to_arrow().to_pylist() == [{"answer": True}]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        (['"tea"@en', '"Tee"@de'], ["Tee", "tea"]),
        (['"tea"@en', '"tea"'], ["tea", "tea"]),
        (["<http://x/a>", '"4"^^xsd:integer', '"x"'], ["4", "http://x/a", "x"]),
        (["_:b", '"x"@en'], ["_:", "x"]),
        (['"4"^^xsd:integer', '"05"^^xsd:nonNegativeInteger', '"6"^^xsd:byte'], [4, 5, 6]),
        (
            ['"4"^^xsd:integer', '"2.5"^^xsd:decimal', '"1e0"^^xsd:double', '"3"^^xsd:float'],
            [1.0, 2.5, 3.0, 4.0],
        ),
        (['"123456789012345678901"', '"4"^^xsd:integer'], ["123456789012345678901", "4"]),
        (['"123456789012345678901"^^xsd:integer', '"5"^^xsd:int'], [5.0, 123456789012345678901.0]),
        (['"4"^^xsd:integer', '"true"^^xsd:boolean'], ["4", "true"]),
        (['"true"^^xsd:boolean', '"false"^^xsd:boolean'], [False, True]),
        (['"no"^^xsd:integer', '"4"^^xsd:integer'], ["4", "no"]),
        (
            ['"2020-01-02"^^xsd:date', '"2020-01-02T03:04:05"^^xsd:dateTime'],
            ["2020-01-02", "2020-01-02T03:04:05"],
        ),
        (['"10000-01-01T00:00:00"^^xsd:dateTime'], ["10000-01-01T00:00:00"]),
        (['"x"^^<http://x/own>', '"a\\"b"'], ['a"b', "x"]),
    ],
)
def test_cells_of_data_frames_are_plain(objects: list[str], expected: list[object]) -> None:
    """Numbers where all are numbers, and strings where they are not; dicts only on request."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("polars")
    view = of(*objects)
    for found in (view.to_pandas()["o"].tolist(), view.to_polars()["o"].to_list()):
        found = ["_:" if isinstance(cell, str) and cell.startswith("_:") else cell for cell in found]
        assert sorted(found, key=str) == sorted(expected, key=str)
        assert {type(cell) for cell in found} == {type(cell) for cell in expected}
    if view.to_arrow().schema.field("o").type == STRUCT:
        as_dicts = view.to_pandas(terms="struct")["o"].tolist()
        assert as_dicts == view.to_polars(terms="struct")["o"].to_list() == view.to_arrow()["o"].to_pylist()
    assert isinstance(view.to_pandas(), pandas.DataFrame)


def test_plain_cells_may_be_unbound_and_come_in_any_order() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    with sparqlive.open() as session:
        session.update(
            """PREFIX : <http://x/>
            INSERT DATA { :a :p 1 ; :l "eins"@de ; :n 1 . :b :p 2 ; :n 2.5 . :c :p 3 }"""
        )
        query = """PREFIX : <http://x/>
            SELECT ?l ?n { ?s :p ?p OPTIONAL { ?s :l ?l } OPTIONAL { ?s :n ?n } } ORDER BY ?p"""
        for result in (session.query(query), session.view("v", query)):
            frame = result.to_pandas()
            assert frame["l"].tolist()[0] == "eins"
            assert frame["l"].isna().tolist() == [False, True, True]
            assert frame["n"].dtype == "float64"
            assert frame["n"].isna().tolist() == [False, False, True]
            assert result.to_polars().to_dict(as_series=False) == {
                "l": ["eins", None, None],
                "n": [1.0, 2.5, None],
            }
            assert result.to_pandas(weights=True)["_weight"].tolist() == [1, 1, 1]


def test_a_wrong_form_of_terms_is_refused() -> None:
    pytest.importorskip("polars")
    view = of('"4"^^xsd:integer')
    with pytest.raises(sparqlive.Error, match='terms must be "plain" or "struct", not'):
        view.to_polars(terms="dicts")  # type: ignore[arg-type]
    with pytest.raises(sparqlive.Error, match="N-Triples"):
        view.to_polars(typed=False, terms="struct")
    assert view.to_polars(typed=False)["o"].to_list() == [f'"4"^^<{XSD}integer>']
