"""Result formats: what is written must read back as what was there, by a parser that is not ours."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pyarrow as pa
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.sparql.results import FORMATS
from tests.sparql.test_graphs import FORMATS as GRAPH_FORMATS

PREFIX = "PREFIX : <http://example.org/>\n"
TERMS = [
    ox.NamedNode("http://example.org/a&b"),
    ox.BlankNode("node1"),
    ox.Literal("plain"),
    ox.Literal(""),
    ox.Literal(' "quoted", <tagged> & more\t\r\n\\ end '),
    ox.Literal("grüße 🙂", language="de-at"),
    ox.Literal("2026-01-01", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#date")),
    ox.Literal(-5),
    ox.Literal("01", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#integer")),
    ox.Literal(True),
]
READERS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "tsv": ox.QueryResultsFormat.TSV,
}


@pytest.fixture
def session() -> sparqlive.Session:
    opened = sparqlive.open()
    subject, p = ox.NamedNode("http://example.org/s"), ox.NamedNode("http://example.org/p")
    opened.apply(insert=[ox.Quad(subject, p, term) for term in TERMS])
    opened.apply(insert=[ox.Quad(TERMS[0], p, ox.Literal(1))])
    return opened


def read(text: str, syntax: str) -> Counter[tuple[object, ...]]:
    if syntax == "xml":  # pyoxigraph's reader takes away spaces at the ends of literals
        return read_xml(text)
    parsed = ox.parse_query_results(text, format=READERS[syntax])
    assert isinstance(parsed, ox.QuerySolutions)
    names = [variable.value for variable in parsed.variables]
    return Counter(tuple(solution[name] for name in names) for solution in parsed)


def read_xml(text: str) -> Counter[tuple[object, ...]]:
    space = "{http://www.w3.org/2005/sparql-results#}"
    root = ElementTree.fromstring(text)
    names = [variable.attrib["name"] for variable in root.iter(f"{space}variable")]
    rows: Counter[tuple[object, ...]] = Counter()
    for result in root.iter(f"{space}result"):
        found = {binding.attrib["name"]: xml_term(binding[0]) for binding in result}
        rows[tuple(found.get(name) for name in names)] += 1
    return rows


def xml_term(element: ElementTree.Element) -> object:
    value = element.text or ""
    match element.tag.rpartition("}")[2]:
        case "uri":
            return ox.NamedNode(value)
        case "bnode":
            return ox.BlankNode(value)
    language = element.attrib.get("{http://www.w3.org/XML/1998/namespace}lang")
    datatype = element.attrib.get("datatype")
    return ox.Literal(value, language=language, datatype=datatype and ox.NamedNode(datatype))


@pytest.mark.parametrize("syntax", sorted(READERS))
def test_solutions_read_back(session: sparqlive.Session, syntax: str) -> None:
    query = PREFIX + "SELECT ?o ?n ?x { ?s :p ?o OPTIONAL { ?o :p ?n } { ?s :p 1 } UNION { ?t :p ?z } }"
    view = session.view("view", query)
    assert max(view.weights().values()) > 1
    assert read(view.serialize(syntax), syntax) == Counter(view.weights())
    assert read(session.query(query).serialize(syntax), syntax) == Counter(view.weights())
    empty = session.query(PREFIX + "SELECT ?x ?y { ?x :nowhere ?y }").serialize(syntax)
    assert not read(empty, syntax)


def test_csv(session: sparqlive.Session) -> None:
    """RFC 4180, plain values (§3 of the recommendation)."""
    text = session.query(PREFIX + "SELECT ?o ?x { :s :p ?o }").serialize("csv")
    lines = text.split("\r\n")
    assert lines[0] == "o,x"
    assert "http://example.org/a&b," in lines
    assert "_:node1," in lines
    assert "01," in lines
    assert '" ""quoted"", <tagged> & more\t\r\n\\ end ",' in text
    assert text.endswith("\r\n")


@pytest.mark.parametrize("syntax", FORMATS)
@pytest.mark.parametrize(("object_", "word"), [("-5", "true"), ("-6", "false")])
def test_answers(session: sparqlive.Session, syntax: str, object_: str, word: str) -> None:
    answer = session.query(PREFIX + f"ASK {{ :s :p {object_} }}")
    text = answer.serialize(syntax)
    if syntax in ("json", "xml"):
        parsed = ox.parse_query_results(text, format=READERS[syntax])
        assert isinstance(parsed, ox.QueryBoolean)
        assert bool(parsed) is answer.answer() is (word == "true")
    else:
        assert text.strip() == word


@pytest.mark.parametrize("syntax", sorted(GRAPH_FORMATS))
def test_graphs_read_back(session: sparqlive.Session, syntax: str) -> None:
    view = session.view("view", PREFIX + "CONSTRUCT { ?s :has [ :value ?o ] } { ?s :p ?o }")
    written = ox.parse(view.serialize(syntax), format=GRAPH_FORMATS[syntax])
    there, back = ox.Dataset(view.quads()), ox.Dataset(written)
    for graph in (there, back):
        graph.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    assert there == back
    assert len(there) == 2 * len(TERMS) + 2


def test_what_has_no_such_format_is_refused(session: sparqlive.Session) -> None:
    ask = session.query("ASK {}")
    select = session.query("SELECT * { ?s ?p ?o }")
    graph = session.query("CONSTRUCT WHERE { ?s ?p ?o }")
    for result in (ask, select, graph):
        with pytest.raises(sparqlive.Error, match=r"cannot be written as 'html'\. Available formats: "):
            result.serialize("html")
    with pytest.raises(sparqlive.Error, match="A graph cannot be written as 'json'"):
        graph.serialize("json")
    with pytest.raises(sparqlive.Error, match="only ASK has one"):
        select.answer()
    with pytest.raises(sparqlive.Error, match="An ASK query has no graph"):
        next(ask.quads())
    session.apply(insert=[ox.Quad(ox.BlankNode(), ox.NamedNode("x:p"), ox.Literal("\u0001"))])
    with pytest.raises(sparqlive.Error, match=r"U\+0001"):
        session.query("SELECT * { ?s ?p ?o }").serialize("xml")


def test_arrow(session: sparqlive.Session) -> None:
    view = session.view("view", PREFIX + "SELECT ?o ?n { ?s :p ?o OPTIONAL { ?o :p ?n } }")
    table = view.to_arrow(typed=False, weights=True)
    assert table.schema == pa.schema(
        [("o", pa.string()), ("n", pa.string()), pa.field("_weight", pa.int64(), nullable=False)]
    )
    rows = {tuple(row[name] for name in ("o", "n")): row["_weight"] for row in table.to_pylist()}
    expected = {
        tuple(None if term is None else str(term) for term in row): weight
        for row, weight in view.weights().items()
    }
    assert rows == expected
    assert session.query("ASK {}").to_arrow(weights=True).to_pylist() == [{"_weight": 1}]


def test_data_frames(session: sparqlive.Session) -> None:
    answer = session.query(PREFIX + "SELECT ?o { :s :p ?o }")
    for package, convert in (("pandas", answer.to_pandas), ("polars", answer.to_polars)):
        try:
            __import__(package)
        except ImportError:
            with pytest.raises(sparqlive.Error, match=f"pip install {package}"):
                convert()
        else:
            assert len(convert()) == len(TERMS)


@pytest.mark.parametrize("strategy", ["live", "duckdb"])
def test_many_rows_have_the_same_terms(session: sparqlive.Session, strategy: str) -> None:
    """Many rows are decoded by columns: every kind of term, unbound variables, weights, and the delta."""
    query = f"{PREFIX} SELECT ?o ?n {{ ?s :p ?o OPTIONAL {{ ?s :n ?n }} ?s :x ?x }}"
    view = session.view("many", query)
    p, x, n = (ox.NamedNode(f"http://example.org/{name}") for name in "pxn")
    subjects = [ox.BlankNode(f"s{number}") for number in range(100)]
    new = [ox.Quad(one, p, term) for one in subjects for term in TERMS]
    new += [ox.Quad(one, x, ox.Literal(number)) for one in subjects for number in range(2)]
    new += [ox.Quad(one, n, ox.Literal(number)) for number, one in enumerate(subjects[1:])]
    expected = {(term, ox.Literal(number)): 2 for term in TERMS for number in range(99)}
    expected |= {(term, None): 2 for term in TERMS}
    assert session.apply(insert=new, strategy=strategy).deltas["many"].weights() == expected
    assert view.weights() == expected
    assert session.query(query).weights() == expected
    gone = session.apply(delete=new, strategy=strategy).deltas["many"].weights()
    assert gone == {row: -weight for row, weight in expected.items()}


@pytest.mark.parametrize("subjects", [1, 2, 31, 32, 33, 150])
def test_few_and_many_ordered_rows_have_the_same_order(subjects: int) -> None:
    """Twice as many rows as subjects: they are put in order one by one, or by columns as for a text."""
    quads = [
        ox.Quad(ox.NamedNode(f"x:{n}"), ox.NamedNode(f"x:{name}"), ox.Literal(value))
        for n in range(subjects)
        for name, value in (("p", str(n % 3)), ("q", n % 7), ("q", n % 7 + 10))
    ]
    with sparqlive.open() as session:
        session.apply(insert=quads)
        for selected in ("?s ?o ?v", "?s", "?o"):  # the order may read columns that are not selected
            text = f"SELECT {selected} {{ ?s <x:p> ?o ; <x:q> ?v }} ORDER BY DESC(?o) ?v"
            answer = session.query(text)
            found = [[solution[name].value for name in answer.variables] for solution in answer.solutions()]  # type: ignore[union-attr]
            rows = [line.split(",") for line in answer.serialize("csv").splitlines()[1:]]
            assert found == rows
            assert len(found) == 2 * subjects


def test_a_view_shows_what_a_user_may_call() -> None:
    with sparqlive.open() as session:
        view = session.view("everything", "SELECT ?s { ?s ?p ?o }")
        shown = {name for name in dir(view) if not name.startswith("_")}
        answer = {name for name in dir(session.query("ASK {}")) if not name.startswith("_")}
    about = {"name", "text", "owner", "temporary", "failure", "since", "follow", "refresh_setting", "ordered"}
    reading = {"now", "at", "first", "preview", "live", "warn_if_empty", "dictionary", "refresh", "to_spark"}
    told = {"changes", "changes_after", "changes_to_spark", "explain", "explained", "costs", "stats"}
    assert shown - answer == about | reading | told
