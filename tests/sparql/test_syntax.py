"""The front end against the W3C syntax tests, and pairs of text and algebra where translations go wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Store

from setup.grammar import TABLE, written
from sparqlive import errors
from sparqlive.sparql import algebra
from sparqlive.sparql.syntax import parse_query, parse_update
from tests.conftest import W3C, W3C_ABSENT
from tests.w3c import known_failures

SPARQL = W3C / "sparql"
MANIFEST = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QUERY = NamedNode("http://www.w3.org/2001/sw/DataAccess/tests/test-query#query")
REQUEST = NamedNode("http://www.w3.org/2009/sparql/tests/test-update#request")
RDF_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
PREFIXES = "PREFIX : <http://e/> "


# The W3C suites


@cache
def w3c_cases() -> tuple[tuple[str, Path], ...]:
    """Every test of 1.0 and 1.1 as its kind and the file of its query or update, in a fixed order."""
    manifests = [m for version in ("sparql10", "sparql11") for m in (SPARQL / version).rglob("manifest*.ttl")]
    return tuple(sorted({case for manifest in manifests for case in manifest_cases(manifest)}))


def manifest_cases(manifest: Path) -> Iterator[tuple[str, Path]]:
    store = Store()
    store.load(path=str(manifest), format=RdfFormat.TURTLE, base_iri=manifest.as_uri())
    for test, _, kind, _ in store.quads_for_pattern(None, RDF_TYPE, None):
        for _, _, action, _ in store.quads_for_pattern(test, NamedNode(MANIFEST + "action"), None):
            queries = [q.object for p in (QUERY, REQUEST) for q in store.quads_for_pattern(action, p, None)]
            for file in [action] if isinstance(action, NamedNode) else queries:
                assert isinstance(kind, NamedNode)
                assert isinstance(file, NamedNode)
                yield kind.value.partition("#")[2], Path(file.value.removeprefix("file://"))


def w3c_parameters(kinds: tuple[str, ...], suffix: str) -> list[object]:
    if not SPARQL.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=W3C_ABSENT))]
    files = sorted({path for kind, path in w3c_cases() if kind in kinds and path.suffix == suffix})
    known = known_failures(SPARQL)
    found = []
    for path in files:
        name = str(path.relative_to(SPARQL))
        marks = [pytest.mark.xfail(reason=known[name], strict=True)] if name in known else []
        found.append(pytest.param(path, id=name, marks=marks))
    return found


@pytest.mark.w3c
@pytest.mark.parametrize("path", w3c_parameters(("PositiveSyntaxTest", "PositiveSyntaxTest11"), ".rq"))
def test_w3c_valid_query_parses(path: Path) -> None:
    parse_query(path.read_text("utf-8"), path.as_uri())


@pytest.mark.w3c
@pytest.mark.parametrize("path", w3c_parameters(("NegativeSyntaxTest", "NegativeSyntaxTest11"), ".rq"))
def test_w3c_invalid_query_is_refused(path: Path) -> None:
    with pytest.raises(errors.SyntaxError, match=r"^line \d+, column \d+: ") as refusal:
        parse_query(path.read_text("utf-8"), path.as_uri())
    assert "^" in str(refusal.value).splitlines()[-1]


# No query of an evaluation test is invalid in 1.1: nothing is left out.
@pytest.mark.w3c
@pytest.mark.parametrize("path", w3c_parameters(("QueryEvaluationTest", "CSVResultFormatTest"), ".rq"))
def test_w3c_evaluated_query_parses(path: Path) -> None:
    parse_query(path.read_text("utf-8"), path.as_uri())


UPDATE_KINDS = ("PositiveUpdateSyntaxTest11", "UpdateEvaluationTest")
INVALID_UPDATE_KINDS = ("NegativeUpdateSyntaxTest11", "NegativeSyntaxTest11")


@pytest.mark.w3c
@pytest.mark.parametrize("path", w3c_parameters(UPDATE_KINDS, ".ru"))
def test_w3c_valid_update_parses(path: Path) -> None:
    parse_update(path.read_text("utf-8"), path.as_uri())


@pytest.mark.w3c
@pytest.mark.parametrize("path", w3c_parameters(INVALID_UPDATE_KINDS, ".ru"))
def test_w3c_invalid_update_is_refused(path: Path) -> None:
    with pytest.raises(errors.SyntaxError, match=r"^line \d+, column \d+: "):
        parse_update(path.read_text("utf-8"), path.as_uri())


# Text and algebra


def show(value: object) -> str:
    """Algebra as text: `Join(a, b)`, `{?s :p ?o . …}` for basic patterns, operators as calls."""
    match value:
        case algebra.BasicPattern(patterns):
            return (
                "{" + " . ".join(f"{show(p.subject)} {show_verb(p)} {show(p.object)}" for p in patterns) + "}"
            )
        case algebra.Call(name, arguments):
            return f"{name.replace('http://e/', ':')}({', '.join(map(show, arguments))})"
        case algebra.Constant(term):
            return show(term)
        case NamedNode(value=iri):
            return iri.replace("http://e/", ":").replace(
                "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "rdf:"
            )
        case Literal(value=text, datatype=datatype):
            kind = datatype.value.partition("#")[2]
            return repr(text) if kind in ("string", "langString") else f"{text}^{kind}"
        case algebra.Var() | BlankNode():
            return str(value)
        case tuple():
            return "[" + ", ".join(map(show, value)) + "]"
        case _ if is_dataclass(value):
            parts = [show(getattr(value, field.name)) for field in fields(value) if field.compare]
            return f"{type(value).__name__}({', '.join(parts)})"
    return str(value)


def show_verb(pattern: algebra.Triple | algebra.PathPattern) -> str:
    return show(pattern.predicate) if isinstance(pattern, algebra.Triple) else f"<{show(pattern.path)}>"


WHERE = [
    ("", "{}"),
    ("{}", "{}"),
    ("{{}}", "{}"),
    ("{ ?s :p ?o }", "{?s :p ?o}"),
    # adjacent triples are one basic pattern, also around a filter, but not around anything else
    ("?s :p ?o . ?o a :C ; :q 1, 2 .", "{?s :p ?o . ?o rdf:type :C . ?o :q 1^integer . ?o :q 2^integer}"),
    ("?s :p ?o FILTER(?o) ?o :q ?r", "Filter(?o, {?s :p ?o . ?o :q ?r})"),
    ("?s :p ?o . { ?a :q ?b } ?b :r ?c", "Join(Join({?s :p ?o}, {?a :q ?b}), {?b :r ?c})"),
    # filters hold for the whole group, wherever they stand
    ("FILTER(?x) ?s :p ?o FILTER(?y) OPTIONAL {}", "Filter(&&(?x, ?y), LeftJoin({?s :p ?o}, {}, None))"),
    ("{ FILTER(?x) } ?s :p ?o", "Join(Filter(?x, {}), {?s :p ?o})"),
    # the filter of an optional group is the condition of the left join; that of a group inside it is not
    ("?s :p ?o OPTIONAL { ?s :q ?r FILTER(?o) }", "LeftJoin({?s :p ?o}, {?s :q ?r}, ?o)"),
    ("?s :p ?o OPTIONAL { { ?s :q ?r FILTER(?o) } }", "LeftJoin({?s :p ?o}, Filter(?o, {?s :q ?r}), None)"),
    ("?s :p ?o OPTIONAL { FILTER(?a) FILTER(?b) }", "LeftJoin({?s :p ?o}, {}, &&(?a, ?b))"),
    ("OPTIONAL { ?s :p ?o } ?s :q ?r", "Join(LeftJoin({}, {?s :p ?o}, None), {?s :q ?r})"),
    # BIND ends the basic pattern and sees only what is before it
    ("?s :p ?o BIND(1 AS ?x) ?s :q ?x", "Join(Extend({?s :p ?o}, ?x, 1^integer), {?s :q ?x})"),
    ("BIND(1 AS ?x)", "Extend({}, ?x, 1^integer)"),
    ("MINUS { ?s :p ?o } ?s :q ?o", "Join(Minus({}, {?s :p ?o}), {?s :q ?o})"),
    ("{ ?a :p 1 } UNION { ?a :q 1 } UNION {}", "Union(Union({?a :p 1^integer}, {?a :q 1^integer}), {})"),
    ("GRAPH ?g { ?s :p ?o FILTER(?g) }", "Graph(?g, Filter(?g, {?s :p ?o}))"),
    ("SERVICE SILENT :s { ?s :p ?o }", "Service(:s, {?s :p ?o}, True)"),
    ("VALUES (?x ?y) { (1 UNDEF) }", "Values([?x, ?y], [[1^integer, None]])"),
    ("VALUES ?x { :a } ?x :p ?y", "Join(Values([?x], [[:a]]), {?x :p ?y})"),
    ("VALUES () { () () }", "Values([], [[], []])"),
    ("{ SELECT ?s { ?s :p ?o } } ?s :q ?r", "Join(Project({?s :p ?o}, [?s]), {?s :q ?r})"),
    # blank nodes and collections are hidden variables
    ("_:a :p [] . _:a :q [ :r ?x ]", "{?._a :p ?.blank1 . ?._a :q ?.blank2 . ?.blank2 :r ?x}"),
    ("_:a :p ?x FILTER(?x) _:a :q ?y", "Filter(?x, {?._a :p ?x . ?._a :q ?y})"),
    ("[ :p ?x ] .", "{?.blank1 :p ?x}"),
    ("() :p ()", "{rdf:nil :p rdf:nil}"),
    (
        "(?a [ :p ?b ]) :q 1",
        "{?.blank1 rdf:first ?a . ?.blank1 rdf:rest ?.blank2 . ?.blank2 rdf:first ?.blank3 . ?.blank3 :p ?b"
        " . ?.blank2 rdf:rest rdf:nil . ?.blank1 :q 1^integer}",
    ),
    # paths
    ("?s (:p) ?o", "{?s :p ?o}"),
    ("?s :p/:q/:r ?o", "{?s <Sequence(Sequence(:p, :q), :r)> ?o}"),
    ("?s :p|:q/^:r ?o", "{?s <Alternative(:p, Sequence(:q, Inverse(:r)))> ?o}"),
    ("?s ^:p+ ?o", "{?s <Inverse(OneOrMore(:p))> ?o}"),
    ("?s (:p?)* ?o", "{?s <ZeroOrMore(ZeroOrOne(:p))> ?o}"),
    ("?s !^:p ?o", "{?s <NegatedSet([], [:p])> ?o}"),
    ("?s !(:p|^a|:q) ?o", "{?s <NegatedSet([:p, :q], [rdf:type])> ?o}"),
    ("?s !() ?o", "{?s <NegatedSet([], [])> ?o}"),
    # numbers keep their form; the longest token wins
    ("?s ?p -1.0", "{?s ?p -1.0^decimal}"),
    ("?s ?p 01 , +1e0, .5", "{?s ?p 01^integer . ?s ?p +1e0^double . ?s ?p .5^decimal}"),
    ("?s :p 1.", "{?s :p 1^integer}"),
    ("?s :p tRuE", "{?s :p true^boolean}"),
    (r"?s :\~a\-b%20.c 'a'@EN-gb", "{?s :~a-b%20.c 'a'}"),
    (r"""?s :p '''a'b\n"c''' """, r"""{?s :p 'a\'b\n"c'}"""),
    (r"""?s :p "\u0041\U00000042" , '\\u0041'""", r"{?s :p 'AB' . ?s :p '\\u0041'}"),
    ("?s <q> <../r?x#y> # <ignored>\n", "{?s http://base/a/q http://base/r?x#y}"),
]


@pytest.mark.parametrize(("text", "expected"), WHERE)
def test_where_clause(text: str, expected: str) -> None:
    query = parse_query(f"{PREFIXES} ASK {{ {text} }}", "http://base/a/b")
    assert show(query.pattern) == expected


EXPRESSIONS = [
    ("?a-1", "-(?a, 1^integer)"),
    ("?a -1*2 +3", "+(-(?a, *(1^integer, 2^integer)), 3^integer)"),
    ("?a - -1", "-(?a, -1^integer)"),
    ("- ?a + +1", "+(NEGATE(?a), +1^integer)"),
    ("?a*2/3-4", "-(/(*(?a, 2^integer), 3^integer), 4^integer)"),
    ("?a || ?b && !?c || ?d", "||(||(?a, &&(?b, !(?c))), ?d)"),
    ("?a < 1 && ?b>=2", "&&(<(?a, 1^integer), >=(?b, 2^integer))"),
    ("?a IN ()", "IN(?a)"),
    ("?a not in (1, :x)", "NOT IN(?a, 1^integer, :x)"),
    ("CONCAT()", "CONCAT()"),
    ("COALESCE()", "COALESCE()"),
    ("isURI(?a)", "ISIRI(?a)"),
    ("uri('x')", "IRI('x', http://base/a/b)"),
    (":f()", ":f()"),
    (":f(?a, 1)", ":f(?a, 1^integer)"),
    ("EXISTS { ?s :p ?o }", "Exists({?s :p ?o})"),
    ("NOT EXISTS { ?s :p ?o FILTER(?x) }", "!(Exists(Filter(?x, {?s :p ?o})))"),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
def test_expression(text: str, expected: str) -> None:
    pattern = parse_query(f"{PREFIXES} ASK {{ FILTER({text}) }}", "http://base/a/b").pattern
    assert isinstance(pattern, algebra.Filter)
    assert show(pattern.condition) == expected


QUERIES = [
    (
        "SELECT * { ?s :p ?o . [] :q ?z MINUS { ?m :p ?n } }",
        "Project(Minus({?s :p ?o . ?.blank1 :q ?z}, {?m :p ?n}), [?s, ?o, ?z])",
    ),
    (
        "SELECT * { GRAPH ?g { ?s ?p 1 } } VALUES ?x { 2 }",
        "Project(Join(Graph(?g, {?s ?p 1^integer}), Values([?x], [[2^integer]])), [?g, ?s, ?p, ?x])",
    ),
    ("SELECT ?s ?s { ?s :p ?o }", "Project({?s :p ?o}, [?s])"),
    (
        "SELECT DISTINCT ?s (?o+1 AS ?x) (?x AS ?y) { ?s :p ?o } ORDER BY DESC(?x) ?s OFFSET 2 LIMIT 1",
        "Slice(Distinct(Project(OrderBy(Extend(Extend({?s :p ?o}, ?x, +(?o, 1^integer)), ?y, ?x),"
        " [[?x, True], [?s, False]]), [?s, ?x, ?y])), 2, 1)",
    ),
    ("SELECT REDUCED ?s {} OFFSET 3", "Slice(Reduced(Project({}, [?s])), 3, None)"),
    (
        "SELECT (COUNT(*) AS ?c) { ?s :p ?o }",
        "Project(Extend(Group({?s :p ?o}, [], [[?.aggregate1, Aggregate(COUNT, None, False,  )]]),"
        " ?c, ?.aggregate1), [?c])",
    ),
    (
        "SELECT ?s (COUNT(*)+1 AS ?c) { ?s :p ?o } GROUP BY ?s HAVING (COUNT(*) > 1) ORDER BY COUNT(*)",
        "Project(OrderBy(Extend(Filter(>(?.aggregate1, 1^integer), Group({?s :p ?o}, [[?s, ?s]],"
        " [[?.aggregate1, Aggregate(COUNT, None, False,  )]])), ?c, +(?.aggregate1, 1^integer)),"
        " [[?.aggregate1, False]]), [?s, ?c])",
    ),
    # grouping hides what is no key, so AS may name it anew
    (
        "SELECT (COUNT(?o) AS ?s) { ?s :p ?o }",
        "Project(Extend(Group({?s :p ?o}, [], [[?.aggregate1, Aggregate(COUNT, ?o, False,  )]]),"
        " ?s, ?.aggregate1), [?s])",
    ),
    (
        "SELECT ?k { ?s :p ?o } GROUP BY (STR(?o) AS ?k) LCASE(?s)",
        "Project(Group({?s :p ?o}, [[?k, STR(?o)], [?.key1, LCASE(?s)]], []), [?k])",
    ),
    (
        "SELECT (GROUP_CONCAT(DISTINCT ?o; separator='|') AS ?x) { ?s :p ?o }",
        "Project(Extend(Group({?s :p ?o}, [], [[?.aggregate1, Aggregate(GROUP_CONCAT, ?o, True, |)]]),"
        " ?x, ?.aggregate1), [?x])",
    ),
    (
        "SELECT ?s (SUM(?o) AS ?c) { ?s :p ?o } GROUP BY ?s VALUES ?s { :a }",
        "Project(Extend(Join(Group({?s :p ?o}, [[?s, ?s]], [[?.aggregate1, Aggregate(SUM, ?o, False,  )]]),"
        " Values([?s], [[:a]])), ?c, ?.aggregate1), [?s, ?c])",
    ),
    (
        "SELECT * { { SELECT (1 AS ?x) ?s { ?s :p ?o } } }",
        "Project(Project(Extend({?s :p ?o}, ?x, 1^integer), [?x, ?s]), [?x, ?s])",
    ),
]


@pytest.mark.parametrize(("text", "expected"), QUERIES)
def test_select(text: str, expected: str) -> None:
    query = parse_query(PREFIXES + text)
    assert show(query.pattern) == expected
    assert query.form == "SELECT"


def test_other_forms() -> None:
    construct = parse_query(f"{PREFIXES} CONSTRUCT {{ _:a :p [], _:a ; a ?x }} {{ ?x :p ?y }} LIMIT 1")
    assert show(construct.pattern) == "Slice({?x :p ?y}, 0, 1)"
    assert show(construct.template) == (
        "[Triple(_:b1, :p, _:b2), Triple(_:b1, :p, _:b1), Triple(_:b1, rdf:type, ?x)]"
    )
    short = parse_query(f"{PREFIXES} CONSTRUCT FROM :g FROM NAMED :h WHERE {{ ?s :p _:a }}")
    assert (show(short.pattern), show(short.template)) == ("{?s :p ?._a}", "[Triple(?s, :p, _:b1)]")
    assert show(short.dataset) == "Dataset([:g], [:h])"
    assert show(parse_query(f"{PREFIXES} DESCRIBE :a ?x {{ ?x ?y ?z }}").describe) == "[:a, ?x]"
    assert show(parse_query(f"{PREFIXES} DESCRIBE * {{ ?x :p ?z }}").describe) == "[?x, ?z]"
    assert parse_query(f"{PREFIXES} DESCRIBE :a").pattern == algebra.BasicPattern(())


def test_terms_are_those_of_rdf() -> None:
    query = parse_query("BASE <http://b/> PREFIX p: <x#> ASK { <s> p:q 'a'@EN, 'b'^^p:t }")
    assert query.pattern == algebra.BasicPattern(
        tuple(
            algebra.Triple(NamedNode("http://b/s"), NamedNode("http://b/x#q"), value)
            for value in (Literal("a", language="en"), Literal("b", datatype=NamedNode("http://b/x#t")))
        )
    )


UPDATES = [
    ("", "[]"),
    ("PREFIX x: <http://x/>", "[]"),
    (
        "INSERT DATA { :a :p _:x GRAPH :g { _:x :p [] } } ; DELETE DATA { :a :p 1 } ;",
        "[InsertData([QuadPattern(:a, :p, _:b1, None), QuadPattern(_:b1, :p, _:b2, :g)]),"
        " DeleteData([QuadPattern(:a, :p, 1^integer, None)])]",
    ),
    (
        "WITH :g DELETE { ?s :p ?o } INSERT { GRAPH ?h { ?s :q [] } }"
        " USING :u USING NAMED :n WHERE { ?s :p ?h }",
        "[Modify([QuadPattern(?s, :p, ?o, :g)], [QuadPattern(?s, :q, _:b1, ?h)], {?s :p ?h},"
        " Dataset([:u], [:n]), :g)]",
    ),
    ("INSERT { :a :p ?x } WHERE {}", "[Modify([], [QuadPattern(:a, :p, ?x, None)], {}, None, None)]"),
    (
        "DELETE WHERE { ?s :p 1 GRAPH ?g { ?s :q 2 } }",
        "[Modify([QuadPattern(?s, :p, 1^integer, None), QuadPattern(?s, :q, 2^integer, ?g)], [],"
        " Join({?s :p 1^integer}, Graph(?g, {?s :q 2^integer})), None, None)]",
    ),
    ("LOAD :a ; LOAD SILENT :a INTO GRAPH :g", "[Load(:a, None, False), Load(:a, :g, True)]"),
    ("CLEAR ALL; DROP SILENT GRAPH :g", "[Clear(ALL, False), Drop(:g, True)]"),
    ("CREATE GRAPH :g", "[Create(:g, False)]"),
    (
        "ADD :a TO DEFAULT; MOVE SILENT DEFAULT TO GRAPH :b; COPY :a TO :b",
        "[Transfer(ADD, :a, None, False), Transfer(MOVE, None, :b, True), Transfer(COPY, :a, :b, False)]",
    ),
]


@pytest.mark.parametrize(("text", "expected"), UPDATES)
def test_update(text: str, expected: str) -> None:
    assert show(parse_update(PREFIXES + text)) == expected


REFUSED_UPDATES = [
    (
        "INSERT DATA { ?s ?p 1 }",
        "column 15: INSERT DATA cannot contain variables; use INSERT { … } WHERE { … }",
    ),
    ("DELETE DATA { _:a <http://e/p> 1 }", "DELETE DATA cannot contain a blank node"),
    ("DELETE { ?s ?p [] } WHERE { ?s ?p 1 }", "DELETE cannot contain a blank node"),
    ("DELETE WHERE { ?s ?p (1) }", "DELETE WHERE cannot contain a blank node"),
    ("INSERT DATA { _:a <x:p> 1 } ; INSERT DATA { _:a <x:p> 2 }", "`_:a` is used in two INSERT DATA"),
    ("SELECT * {}", "`SELECT` begins a query, and this must be an update"),
    ("DELETE WHERE {} ; ASK {}", "`ASK` begins a query, and this must be an update"),
    ("INSERT {} WHERE { DELETE }", "found `DELETE`"),
    ("CLEAR GRAPH <g>", "the IRI `<g>` is relative"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED_UPDATES)
def test_update_refusal(text: str, sentence: str) -> None:
    with pytest.raises(errors.SyntaxError) as refusal:
        parse_update(text)
    assert sentence in str(refusal.value)


# RFC 3986 §5.4 in the parts that differ from joining strings
RESOLVED = [
    ("g", "http://a/b/c/g"),
    ("./g/.", "http://a/b/c/g/"),
    ("../../../g", "http://a/g"),
    ("..", "http://a/b/"),
    ("/g", "http://a/g"),
    ("//h", "http://h"),
    ("?y", "http://a/b/c/d;p?y"),
    ("#s", "http://a/b/c/d;p?q#s"),
    ("", "http://a/b/c/d;p?q"),
    ("g:h/../i", "g:h/../i"),
    ("g;x=1/../y", "http://a/b/c/y"),
]


@pytest.mark.parametrize(("reference", "expected"), RESOLVED)
def test_iri_resolution(reference: str, expected: str) -> None:
    query = parse_query(f"DESCRIBE <{reference}>", "http://a/b/c/d;p?q")
    assert query.describe == (NamedNode(expected),)


# What is refused, and in which words

REFUSED = [
    ("SELECT", "line 1, column 7: unexpected end of the text; expected a variable, `(`, `*`, `DISTINCT`"),
    ("SELECT * {\n  ?s ?p }", "line 2, column 9: found `}`, expected a term"),
    ("SELECT * { ?s ?p ?o ?x }", "found `?x`, expected a pattern such as OPTIONAL or FILTER, `,`, `.`"),
    ("SELECT * { ?s ?p 'a }", "this string is not closed; a string of several lines needs triple quotes"),
    (r"SELECT * { ?s ?p 'a\q' }", "invalid escape in this string; write"),
    ("SELECT * { ?s ?p <a b> }", "this IRI is not closed"),
    ("SELECT * { ?s name ?o }", "`name` is not a SPARQL keyword or function"),
    ("SELECT * { ?s ex:p ?o }", "column 15: the prefix `ex:` is not declared; add `PREFIX ex: <…>`"),
    ("SELECT * { ?s <p> ?o }", "column 15: the IRI `<p>` is relative"),
    ("SELECT * { ?s ?p 1 % 2 }", "unexpected character `%`"),
    ("SELECT * { ?s ?p '\\uD800' }", "is not a Unicode character"),
    ("SELECT * { ?s ?p '\ud800' }", "half of a character (a lone surrogate)"),
    ("SELECT * { <<?s ?p ?o>> ?q 1 }", "SPARQL 1.2"),
    ("SELECT * { ?s ?p ?o {| ?q 1 |} }", "SPARQL 1.2"),
    ("SELECT ?x { ?s ?p ?x } GROUP BY ?s", "column 8: SELECT uses ?x, which is neither in GROUP BY nor"),
    ("SELECT (?x+1 AS ?y) (COUNT(*) AS ?c) { ?s ?p ?x }", "SELECT uses ?x"),
    (
        "SELECT (1 AS ?x) {} HAVING (?x > 1) VALUES ?x { 1 }",
        "?x is already in use; choose another name after AS",
    ),
    ("SELECT * { FILTERfoo(?x) }", "`FILTERfoo` is not a SPARQL keyword"),
    ("SELECT * { ?s aa ?x }", "`aa` is not a SPARQL keyword"),
    ("IN" * 1000, "is not a SPARQL keyword"),
    ("SELECT * { ?s ?p ?x } GROUP BY ?s", "`SELECT *` is not allowed with GROUP BY"),
    ("SELECT (1 AS ?x) (2 AS ?x) {}", "column 24: ?x is already in use; choose another name after AS"),
    ("SELECT (1 AS ?s) { ?s ?p ?o }", "?s is already in use; choose another name after AS"),
    (
        "SELECT (COUNT(*) AS ?s) { ?s ?p ?o } GROUP BY ?s",
        "?s is already in use; choose another name after AS",
    ),
    ("SELECT (1 AS ?x) {} VALUES ?x { 1 }", "?x is already in use; choose another name after AS"),
    ("SELECT (1 AS ?x) { { SELECT ?x {} } }", "?x is already in use; choose another name after AS"),
    ("SELECT * { ?s ?p ?o BIND(1 AS ?o) }", "?o is already in use in this group; BIND needs"),
    ("SELECT * { VALUES (?x ?y) { (1) } }", "number of values (1) differs from the number of variables (2)"),
    ("SELECT (SUM(COUNT(*)) AS ?x) {}", "an aggregate cannot contain another one"),
    ("SELECT * { FILTER(COUNT(*) > 1) }", "aggregates are only allowed in SELECT, HAVING and ORDER BY"),
    ("SELECT ?x {} GROUP BY (COUNT(*) AS ?x)", "aggregates are not allowed in GROUP BY"),
    ("SELECT (SUM(*) AS ?x) {}", "only COUNT accepts `*`; give SUM an expression"),
    ("SELECT (SUM(?a; SEPARATOR='') AS ?x) {}", "only GROUP_CONCAT accepts a separator; SUM does not"),
    ("SELECT * { FILTER(STRLEN(?a, ?b)) }", "STRLEN takes 1 argument, not 2"),
    ("SELECT * { FILTER(REGEX(?a)) }", "REGEX takes 2 to 3 arguments, not 1"),
    ("SELECT * { FILTER(BOUND(1)) }", "BOUND takes a variable, such as BOUND(?x)"),
    ("ASK { _:a ?p 1 OPTIONAL { _:a ?p 2 } }", "`_:a` is used in two graph patterns"),
    ("ASK { _:a ?p 1 BIND(1 AS ?x) _:a ?p 2 }", "`_:a` is used in two graph patterns"),
    ("CONSTRUCT { ?s ?p* ?o } {}", "found `*`"),
    ("CONSTRUCT { ?s ^<http://e/p> ?o } {}", "a template cannot contain a property path"),
    ("SELECT * {} LIMIT " + "9" * 5000, "this number is too large"),
    ("ASK {} INSERT DATA {}", "found `INSERT`"),
    ("SELECT * {" * 5000, "unexpected end of the text"),
    ("SELECT * {" * 5000 + "}" * 5000, "nested too deeply. Use fewer levels of brackets."),
    ("\x00", "unexpected character `\x00`"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED, ids=lambda part: part[:60])
def test_refusal(text: str, sentence: str) -> None:
    with pytest.raises(errors.SyntaxError) as refusal:
        parse_query(text)
    assert sentence in str(refusal.value)


def test_refusal_shows_the_line_with_a_caret() -> None:
    with pytest.raises(errors.SyntaxError) as refusal:
        parse_query("ASK {\n\t?s :p ?o }\n")
    assert str(refusal.value).splitlines()[1:] == ["   ?s :p ?o }", "      ^"]
    with pytest.raises(errors.SyntaxError) as refusal:
        parse_query("ASK { " + "?s ?p 1 . " * 1000 + "?s :p ?o }")
    _, line, caret = str(refusal.value).splitlines()
    assert line[caret.index("^") :].startswith(":p")
    assert len(line) < 120


def test_base_must_be_absolute() -> None:
    with pytest.raises(errors.SyntaxError, match="`here` is not an absolute IRI"):
        parse_query("ASK {}", base="here")


def test_distinct_extension_aggregate_is_unsupported() -> None:
    with pytest.raises(errors.Unsupported, match="DISTINCT"):
        parse_query("ASK { FILTER(<http://e/f>(DISTINCT ?x)) }")


# Cost


def test_ordinary_query_parses_within_five_milliseconds() -> None:
    where = "{ ?a :p/:q* ?b OPTIONAL { ?a :r 'x'@en } FILTER(?b > 3) }"
    text = f"{PREFIXES} SELECT ?a (SUM(?b-1) AS ?c) {where} GROUP BY ?a"
    parse_query(text)
    times = []
    for _ in range(5):
        start = time.process_time()
        parse_query(text)
        times.append(time.process_time() - start)
    assert min(times) < 0.005


def test_the_parse_table_is_that_of_the_grammar() -> None:
    assert TABLE.read_text(encoding="utf-8") == written(), "run `make grammar`"


def test_importing_the_front_end_does_not_load_the_parser() -> None:
    code = "import sys, sparqlive.sparql.syntax; sys.exit('sparqlive.sparql.syntax.parser' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
