"""Data frames as changes: what columns mean, how values become terms, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

import sparqlive
from tests.nasty_terms import TERMS

LANGUAGE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
XSD = "http://www.w3.org/2001/XMLSchema#"
S, P = NamedNode("http://x/s"), NamedNode("http://x/p")


def table(*quads: Quad, **more: list[Any]) -> pa.Table:
    names = {name: [str(getattr(quad, long)) for quad in quads] for name, long in LONG.items()}
    graphs = [str(quad.graph_name) if isinstance(quad.graph_name, NamedNode) else None for quad in quads]
    return pa.table({**names, "g": pa.array(graphs, pa.string()), **more})


LONG = {"s": "subject", "p": "predicate", "o": "object"}
FRAMES = {
    "arrow": lambda found: found,
    "batch": lambda found: found.to_batches()[0],
    "reader": lambda found: found.to_reader(),
    "pandas": lambda found: found.to_pandas(),
    "polars": polars.from_arrow,
    "lazy": lambda found: polars.from_arrow(found).lazy(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_library_are_changes(kind: str) -> None:
    quads = [Quad(S, P, Literal(number), NamedNode("http://x/g")) for number in range(3)]
    quads.append(Quad(BlankNode("b"), P, Literal("Ü \n\"'", language="de")))
    make = FRAMES[kind]
    with sparqlive.open() as session:
        view = session.view("all", "SELECT ?s ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }")
        assert session.load(make(table(*quads))).inserted == 4
        assert set(session.quads()) == set(quads)
        epoch = session.apply(insert=make(table(Quad(S, P, S))), delete=make(table(quads[0], quads[3])))
        assert (epoch.inserted, epoch.deleted) == (1, 2)
        assert set(session.quads()) == {quads[1], quads[2], Quad(S, P, S)}
        ops = make(table(quads[0], quads[1], op=["+", "-"]))
        assert session.apply(changes=ops).number == 3
        session.apply(insert=make(table(quads[3])), delete=[quads[2]])
        assert set(session.quads()) == {quads[0], quads[3], Quad(S, P, S)}
        assert len(view) == 3
        session.check()


def test_every_term_arrives_as_it_is() -> None:
    quads = {Quad(S, P, term) for term in TERMS}
    with sparqlive.open() as session:
        session.load(table(*quads), graph="http://x/g")
        assert set(session.quads()) == {Quad(S, P, quad.object, NamedNode("http://x/g")) for quad in quads}


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("o", "http://x/a", r"'http://x/a' is not a term in N-Triples syntax. IRIs are written in angle"),
        ("o", "plain", r"Strings are written in double quotes"),
        ("o", '"a" . <u:x> <u:y> <u:z>', "is not a term"),
        ("o", '"a" . #', "is not a term"),
        ("o", '"a" .\n<u:x> <u:y> "b"', "is not a term"),
        ("o", "<u:a> <u:g>", "is not a term"),
        ("o", "", "is not a term"),
        ("o", None, "is null"),
        ("o", "<<( <u:a> <u:b> <u:c> )>>", "triple term"),
        ("s", '"a"', "is a literal, which cannot be a subject"),
        ("p", "_:b", "is a blank node, which cannot be a predicate"),
        ("p", '"a"', "is a literal, which cannot be a predicate"),
        ("g", '"a"', "is a literal, which cannot be a graph"),
        ("s", "<relative>", "is not a term"),
    ],
)
def test_a_malformed_term_is_refused_by_row_and_column(column: str, text: str | None, reason: str) -> None:
    good = {"s": "<u:s>", "p": "<u:p>", "o": "<u:o>", "g": "<u:g>"}
    frame = pa.Table.from_pylist([good, {**good, column: text}])
    with sparqlive.open() as session:
        session.apply(insert="<u:a> <u:b> <u:c> .")
        with pytest.raises(sparqlive.InvalidChange, match=rf"^Row 1 \(counted from 0\), column '{column}': "):
            session.load(frame)
        with pytest.raises(sparqlive.InvalidChange, match=reason):
            session.apply(insert=frame)
        assert (session.epoch, len(session)) == (1, 1)


def test_operations() -> None:
    """By name, by the names of other systems, and in order."""
    one, two = Quad(S, P, Literal(1)), Quad(S, P, Literal(2))

    def after(start: list[Quad], *quads: Quad, by: str | None = None, **columns: list[Any]) -> set[Quad]:
        with sparqlive.open() as session:
            session.apply(insert=start)
            session.apply(changes=table(*quads, **columns), op=by)
            return set(session.quads())

    assert after([one], one, two, by="what", what=["DELETE", "insert"]) == {two}
    assert after([one], one, two, _change_type=["update_preimage", "update_postimage"]) == {two}
    assert after([one], one, two, op=["d", "r"]) == {two}
    assert after([one], one, two, _weight=[-3, 2]) == {two}
    assert after([], one, one, op=["+", "-"]) == {one}, "without an order, deletes come first"
    versions = {"_change_type": ["insert", "delete", "insert"], "_commit_version": [3, 4, 2]}
    assert after([], one, one, one, **versions) == set()
    with sparqlive.open() as session:
        session.apply(changes=table(one, one, op=["-", "+"], at=["b", "a"]), order="at")
        assert set(session.quads()) == set()
        for columns, said in (
            ({"op": ["u"]}, r"Row 0 .*column 'op': 'u' needs the columns 'before' and 'after'"),
            ({"op": ["x"]}, "'x' is not an operation"),
            ({"op": [None]}, "None is not an operation"),
            ({"_weight": [0]}, "a weight of 0 is no change"),
            ({}, "no column that says what happens"),
        ):
            with pytest.raises(sparqlive.Error, match=said):
                session.apply(changes=table(one, **columns))
        with pytest.raises(sparqlive.Error, match="no column 'at'"):
            session.apply(changes=table(one, op=["+"]), order="at")
        with pytest.raises(sparqlive.Error, match="no column 's'"):
            session.load(pa.table({"a": [1]}))
        with pytest.raises(sparqlive.Error, match="either changes or insert"):
            session.apply(insert=[one], changes=table(one, op=["+"]))
        with pytest.raises(sparqlive.Error, match="only to data frames"):
            session.apply(insert=[one], op="op")
        for operations in ({"op": ["-"]}, {"_change_type": ["delete"]}, {"_weight": [-1]}):
            for insert in (session.load, lambda frame: session.apply(insert=frame)):
                with pytest.raises(
                    sparqlive.Error, match=r"says what happens to each row. Pass .* changes=…"
                ):
                    insert(table(one, **operations))
        assert session.epoch == 0


def test_an_order_that_decides_nothing_is_refused() -> None:
    one = Quad(S, P, Literal(1))
    both = {"op": ["-", "+"]}
    with sparqlive.open() as session:
        for order, said in (
            ([None, 1], r"Row 0 .*column 'at': is null, and orders the changes"),
            ([[1], [2]], r"column 'at' cannot order the changes: values of type list<item: int64>"),
        ):
            with pytest.raises(sparqlive.Error, match=said):
                session.apply(changes=table(one, one, **both, at=order), order="at")
        assert session.epoch == 0


ROWS = sparqlive.TableMapping("http://x/{id}", {"name": "http://x/name"})


def debezium(*rows: tuple[str, str | None, str | None]) -> pa.Table:
    """Changes of the row 1: the operation, and the name before and after it."""
    structs = [[None if name is None else {"id": 1, "name": name} for name in row[1:]] for row in rows]
    names = ("op", "before", "after", "offset")
    return pa.Table.from_pylist(
        [
            dict(zip(names, (row[0], *sides, number), strict=True))
            for number, (row, sides) in enumerate(zip(rows, structs, strict=True))
        ]
    )


def test_rows_of_debezium_need_an_order_where_they_disagree() -> None:
    history = debezium(("c", None, "a"), ("u", "a", "b"), ("u", "b", "a"), ("d", "a", None))
    with sparqlive.open() as session:
        for count, found in enumerate((["a"], ["b"], ["a"], []), 1):
            session.apply(changes=history.slice(0, count), mapping=ROWS, order="offset")
            assert [quad.object.value for quad in session.quads()] == found
        for number in range(4):
            session.apply(changes=history.slice(number, 1), mapping=ROWS)  # alone, each is clear
        epoch = session.apply(
            changes=debezium(("c", None, "a"), ("u", "a", "a"), ("r", None, "a")), mapping=ROWS
        )
        assert [quad.object.value for quad in session.quads()] == ["a"]
        with pytest.raises(
            sparqlive.InvalidChange, match=r"One row inserts .*name> \"a\" \. and .* Pass order="
        ):
            session.apply(changes=history, mapping=ROWS)
        same = history.set_column(3, "offset", pa.array([0] * 4))
        with pytest.raises(sparqlive.InvalidChange, match=r"both have the same value in 'offset'"):
            session.apply(changes=same, mapping=ROWS, order="offset")
        text = pa.table({"op": ["c"], "before": pa.nulls(1), "after": ['{"id": 1}']})
        with pytest.raises(
            sparqlive.InvalidChange, match=r"column 'after': has the type string, and must be"
        ):
            session.apply(changes=text, mapping=ROWS)
        assert session.epoch == epoch.number


MAPPING = sparqlive.TableMapping(
    subject="http://x/product/{id}",
    predicates={name: f"http://x/{name}" for name in ("name", "price", "made", "at", "maker", "site", "tag")},
    as_iri={"maker": "http://x/maker/{maker}", "site": "{site}"},
    datatypes={"name": "@en", "tag": "xsd:token"},
    type="http://x/Product",
)


def test_a_plain_table_becomes_triples() -> None:
    rows = [
        {
            "id": "a b/ü", "name": "Chair", "price": Decimal("1.50"), "made": date(2026, 1, 2),
            "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "maker": 7, "site": "http://y/?a=b", "tag": "t",
        },
        {"id": "2", "name": None, "price": None, "made": None, "at": None, "maker": None, "site": None},
    ]  # fmt: skip
    chair = NamedNode("http://x/product/a%20b%2Fü")

    def triple(name: str, value: Any) -> Quad:
        return Quad(chair, NamedNode(f"http://x/{name}"), value)

    rdf_type = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    expected = {
        Quad(chair, rdf_type, NamedNode("http://x/Product")),
        Quad(NamedNode("http://x/product/2"), rdf_type, NamedNode("http://x/Product")),
        triple("name", Literal("Chair", language="en")),
        triple("price", Literal("1.50", datatype=NamedNode(f"{XSD}decimal"))),
        triple("made", Literal("2026-01-02", datatype=NamedNode(f"{XSD}date"))),
        triple("at", Literal("2026-01-02T03:04:05Z", datatype=NamedNode(f"{XSD}dateTime"))),
        triple("maker", NamedNode("http://x/maker/7")),
        triple("site", NamedNode("http://y/?a=b")),
        triple("tag", Literal("t", datatype=NamedNode(f"{XSD}token"))),
    }
    with sparqlive.open() as session:
        session.load(pa.Table.from_pylist(rows), mapping=MAPPING)
        assert set(session.quads()) == expected
        envelope = {"op": "u", "before": rows[0], "after": {**rows[0], "price": Decimal("2.00")}}
        session.apply(changes=pa.Table.from_pylist([envelope]), mapping=MAPPING)
        old, new = (Literal(text, datatype=NamedNode(f"{XSD}decimal")) for text in ("1.50", "2.00"))
        assert set(session.quads()) == expected - {triple("price", old)} | {triple("price", new)}
        with pytest.raises(sparqlive.InvalidChange, match=r"Row 0 .*column 'after': is null"):
            session.apply(
                changes=pa.Table.from_pylist([{**envelope, "after": None}, envelope]), mapping=MAPPING
            )
        with pytest.raises(sparqlive.InvalidChange, match=r"Row 1 .*column 'id': is null"):
            session.load(pa.Table.from_pylist([rows[0], {**rows[0], "id": None}]), mapping=MAPPING)
        with pytest.raises(sparqlive.InvalidChange, match=r"column 'site': 'no iri' is not an IRI"):
            session.load(pa.Table.from_pylist([{**rows[0], "site": "no iri"}]), mapping=MAPPING)
        with pytest.raises(sparqlive.Error, match=r"no column 'tag'"):
            session.load(pa.Table.from_pylist([rows[1]]), mapping=MAPPING)


def test_numbers_keep_their_values() -> None:
    columns = {
        "id": pa.array([1, 2, 3]),
        "double": pa.array([1.5, float("inf"), -0.0]),
        "float": pa.array([0.1, float("nan"), 1e20], pa.float32()),
        "boolean": pa.array([True, False, None]),
        "integer": pa.array([2**63 - 1, -1, 0]),
        "local": pa.array([datetime(2026, 1, 1), None, None], pa.timestamp("ms")),
    }
    mapping = sparqlive.TableMapping("u:{id}", {name: f"u:{name}" for name in columns if name != "id"})
    with sparqlive.open() as session:
        session.load(pa.table(columns), mapping=mapping)
        found = {str(quad.object) for quad in session.quads()}
    short = {text.replace(XSD, "") for text in found}
    assert short == {
        '"1.5"^^<double>', '"INF"^^<double>', '"-0.0"^^<double>', '"0.1"^^<float>', '"NaN"^^<float>',
        '"1e+20"^^<float>', '"true"^^<boolean>', '"false"^^<boolean>', f'"{2**63 - 1}"^^<integer>',
        '"-1"^^<integer>', '"0"^^<integer>', '"2026-01-01T00:00:00"^^<dateTime>',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"subject": "http://x/", "predicates": {"a": "u:a"}}, "template with a column in braces"),
        ({"subject": "u:{id}", "predicates": {"a": "no iri"}}, "is not an IRI"),
        ({"subject": "u:{id}", "predicates": {}}, "say nothing"),
        ({"subject": "u:{id}", "predicates": {"a": "u:a"}, "as_iri": ["b"]}, "no predicate for it"),
        ({"subject": "u:{id}", "predicates": {"a": "u:a"}, "datatypes": {"a": "@!"}}, "not a language"),
        ({"subject": "u:{id}", "predicates": {"a": "u:a"}, "datatypes": {"a": 1}}, "not an IRI"),
        ({"subject": "u:{id}", "predicates": ["a"]}, "predicates of a TableMapping is a dict"),
        ({"subject": "u:{id}", "predicates": {"a": "u:a"}, "datatypes": {"a": LANGUAGE}}, "such as '@en'"),
        (
            {"subject": "u:{id}", "predicates": {"a": "u:a"}, "as_iri": ["a"], "datatypes": {"a": "xsd:int"}},
            "IRIs have no datatype",
        ),
    ],
)
def test_a_mapping_is_checked_at_once(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(sparqlive.Error, match=said):
        sparqlive.TableMapping(**arguments)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([[1]]), r"column 'a': values of type list<item: int64> are not plain values"),
        (pa.array([b"a"]), "values of type binary"),
        (pa.array([10**6 * 9], pa.date32()), r"Row 0 .*column 'a': a year from 1 to 9999 is needed"),
        (pa.array([10**15], pa.timestamp("s")), "a year from 1 to 9999 is needed"),
    ],
)
def test_values_without_a_text_are_refused(values: pa.Array, said: str) -> None:
    """Also with a datatype, as IRIs, and in the template of the subject."""
    frame = pa.table({"id": [1], "a": values})
    one = {"a": "u:a"}
    with sparqlive.open() as session:
        for mapping in (
            sparqlive.TableMapping("u:{id}", one),
            sparqlive.TableMapping("u:{id}", one, datatypes={"a": "xsd:string"}),
            sparqlive.TableMapping("u:{id}", one, as_iri={"a": "u:{a}"}),
            sparqlive.TableMapping("u:{a}", {"id": "u:id"}),
        ):
            with pytest.raises(sparqlive.InvalidChange, match=said):
                session.load(frame, mapping=mapping)
        assert session.epoch == 0


def test_categories_and_times() -> None:
    frame = pandas.DataFrame({"id": [1, 2], "n": pandas.Categorical([7, None]), "t": [time(1, 2), None]})
    with sparqlive.open() as session:
        session.load(frame, mapping=sparqlive.TableMapping("u:{id}", {"n": "u:n", "t": "u:t"}))
        assert {str(quad.object).replace(XSD, "") for quad in session.quads()} == {
            '"7"^^<integer>', '"01:02:00"^^<time>',
        }  # fmt: skip


def test_odd_frames_and_graphs() -> None:
    good = {"s": ["<u:s>"], "p": ["<u:p>"], "o": ["<u:o>"]}
    with sparqlive.open() as session:
        twice = pa.table([["<u:a>"]] * 4, names=["s", "s", "p", "o"])
        for frame in (twice, twice.to_pandas()):
            with pytest.raises(sparqlive.Error, match="2 columns named 's'"):
                session.load(frame)
        large = polars.DataFrame({"id": [1], "n": polars.Series([1], dtype=polars.Int128)})
        with pytest.raises(sparqlive.InvalidChange, match="one that Arrow has no type for"):
            session.load(large, mapping=sparqlive.TableMapping("u:{id}", {"n": "u:n"}))
        for use in (session.load, session.apply):
            with pytest.raises(sparqlive.Error, match="graph must be an absolute IRI without brackets"):
                use(pa.table(good), graph="<u:g>")
        with pytest.raises(sparqlive.Error, match="graph must be an absolute IRI"):
            session.load("nothing.nt", graph="no iri")
        assert session.epoch == 0
        session.apply(insert=pa.table(good), graph=NamedNode("u:g"))
        assert {quad.graph_name for quad in session.quads()} == {NamedNode("u:g")}
        other = pandas.DataFrame(
            [["<u:s>", "<u:p>", "<u:2>", 1, 2, [3]]], columns=["s", "p", "o", "x", "x", 7]
        )
        assert session.load(other).inserted == 1, "other columns do not matter"


def test_large_frames_and_pandas_of_mixed_types() -> None:
    quads = [Quad(NamedNode(f"http://x/{number}"), P, Literal(number % 10)) for number in range(3_000)]
    with sparqlive.open() as session:
        view = session.view("counts", "SELECT ?o (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?o")
        session.load(table(*quads).to_pandas())
        assert len(view) == 10
        session.apply(delete=table(*quads[:1_000]))
        session.check()
        with pytest.raises(sparqlive.InvalidChange, match="mixed types"):
            session.load(pandas.DataFrame({"s": ["<u:a>", 1], "p": "<u:p>", "o": "<u:o>"}))
