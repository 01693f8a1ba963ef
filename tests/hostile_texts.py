"""Texts that mean something to the languages below SPARQL, and queries with them wherever a text can stand."""

# ruff: noqa: E501

from __future__ import annotations

import re

import pyoxigraph as ox

EX = "http://example.org/"
TEXTS = (
    "${env:HOME}", "${system:user.name}", "${spark:spark.master}", "${hiveconf:a}", "${a}", "$$", "$1", "${",
    "'", "''", '"', '""', "\\", "\\\\", "\\'", "'\\", '\\"', "it's", "';--", "' OR ''='", "`", "``a`",
    "--", "-- a\nb", "/*", "*/", "/* a */", "/*+ BROADCAST(l) */", ";", "; DROP TABLE quads;",
    "%", "_", "\\%", "\\_", "%s", "{}", "{{", "}}", "{0}", "{fn now()}", "{{a}}", ":name", "?", "@a", "#", "&",
    "\\u0041", "\\x41", "\\101", "\\n", "\n", "\r\n", "\t", "\0", "a\0b", "\x01", "\x7f", "\u2028", "\ufeff",
    "\ufffe", "\uffff", "𝄞", "\U0010ffff", "é", "e\u0301", "\u202e", " ", "  a ",
    "x AS y", " AS ", "n_0", "table_0", "view_0", "part_0", "sparqlive_view_0", "v_o", "NULL", "null", "true",
    "[a-z]", "(a", "a|b", "^a$", ".*", "E'a'", "X'41'", "U&'a'", "$a$b$a$", "a" * 20_000,
)  # fmt: skip
"""Quotes, escapes, comments, hints, markers of parameters, names of our own SQL, patterns and substitutions."""

WHOLE = "".join(text for text in TEXTS if len(text) < 100)
"""All at once."""

PLACES = (
    "a'b", "a$b", "$env:HOME", "a--b", "a/*b*/", "a/*+b*/", "a;b", "a%20b", "a%25", "a_b", "a:b", "a?b=c",
    "a@b", "a#b", "a*b", "a(b)", "a&b", "a,b", "a~b", "é", "𝄞",
)  # fmt: skip
"""What IRIs may have of it."""

FOLDERS = (
    "a b", "a*c", "a?d", "a[x]e", "a{x,y}f", "a\\b", "a'b", "s=1", "o=1", "${env:HOME}", "a%20b", "a;b", "a#b",
    "a,b", "a:b", "é𝄞", "a\nb", "--", "_*", '"', "`", "~",
)  # fmt: skip
"""Names of folders."""
DECOYS = ("aXc", "aXd", "axe", "axf", "a b")
"""Names that some of them match as patterns, or once they are decoded."""


def literal(text: str) -> str:
    """A text in the syntax of SPARQL."""
    return str(ox.Literal(text))


def iri(name: str) -> ox.NamedNode:
    return ox.NamedNode(f"{EX}{name}")


def data() -> set[ox.Quad]:
    """Each text as a literal of every kind, and each name as a subject, predicate, object, graph, datatype."""
    found = set()
    for number, text in enumerate((*TEXTS, WHOLE)):
        subject = iri(f"s{number}")
        found.add(ox.Quad(subject, iri("p"), ox.Literal(text)))
        found.add(ox.Quad(subject, iri("p"), ox.Literal(f"{text}a{text}")))
        found.add(ox.Quad(subject, iri("tagged"), ox.Literal(text, language="en-x-a1")))
        found.add(
            ox.Quad(subject, iri("typed"), ox.Literal(text, datatype=iri(PLACES[number % len(PLACES)])))
        )
    for place in PLACES:
        found.add(ox.Quad(iri(place), iri(place), iri(place), iri(place)))
        found.add(ox.Quad(iri(place), iri("p"), iri(place)))
    return found


def _sum(parts: list[str]) -> str:
    return f"CONCAT({', '.join(parts)})"


def _quoted(text: str) -> str:
    """A pattern that matches just this text."""
    return literal(re.sub(r"([\\^$.|?*+()\[\]{}-])", r"\\\1", text))


def _bits(tests: list[str]) -> str:
    """Which tests hold, as one value; `e` for an error."""
    return _sum([f'COALESCE(IF({test}, "1", "0"), "e")' for test in tests])


SHORT = tuple(text for text in TEXTS if len(text) < 100)
_SOME = ("${env:HOME}", "'\\", "%", WHOLE)

QUERIES = {
    "patterns": "SELECT ?s ?place { "
    + " UNION ".join(f"{{ ?s :p {literal(t)} BIND({n} AS ?place) }}" for n, t in enumerate(_SOME[:3]))
    + f" UNION {{ ?s :tagged {literal(WHOLE)}@en-x-a1 }} }}",
    "values": f"SELECT ?s ?o {{ VALUES ?o {{ {' '.join(map(literal, TEXTS))} }} ?s :p ?o }}",
    "tests": f"""SELECT ?s ?o ?bits {{ ?s :p ?o BIND({
        _bits([
            *(f"STRSTARTS(STR(?o), {literal(t)})" for t in _SOME),
            *(f"STRENDS(STR(?o), {literal(t)})" for t in _SOME),
            *(f"CONTAINS(STR(?o), {literal(t)})" for t in _SOME),
            *(f"STR(?o) = {literal(t)}" for t in _SOME),
            *(f"STR(?o) > {literal(t)}" for t in _SOME),
            f"?o IN ({', '.join(map(literal, SHORT))})",
        ])
    } AS ?bits) }}""",
    "strings": f"""SELECT ?s ?o ?made {{ ?s :p ?o BIND({
        _sum([
            f"STR(?o), {literal(t)}, STRBEFORE(STR(?o), {literal(t)}), STRAFTER(STR(?o), {literal(t)}), "
            f'SUBSTR({literal(t)}, 1, 1), IF(STRLEN(STR(?o)) > 3, {literal(t)}, "")'
            for t in _SOME
        ])
    } AS ?made) }}""",
    "constants": "SELECT * { ?s :p ?o FILTER(STRLEN(STR(?o)) = 1) "
    + " ".join(f"BIND({literal(t)} AS ?x{n})" for n, t in enumerate(_SOME))
    + f" BIND({literal(WHOLE)}@en-x-a1 AS ?tagged) BIND(STRDT({literal(WHOLE)}, <{EX}a'b>) AS ?typed) }}",
    "regex": f"""SELECT ?s ?o ?bits ?made {{ ?s :p ?o FILTER(STRLEN(STR(?o)) < 50) BIND({
        _bits([f"REGEX(STR(?o), {_quoted(t)}, 's')" for t in SHORT])
    } AS ?bits) BIND(REPLACE(STR(?o), {_quoted("${env:HOME}")}, "{{fn}}'%_", "i") AS ?made) }}""",
    "groups": f"""SELECT ?n (GROUP_CONCAT(?x; SEPARATOR={literal(WHOLE)}) AS ?all) (MAX(?x) AS ?last)
        (COUNT(?x) AS ?count) {{ ?s :p ?o FILTER(?o IN ("'", "\\\\")) BIND(STR(?o) AS ?x)
        BIND(CONCAT({literal(WHOLE)}, ?x) AS ?n) }} GROUP BY ?n HAVING(MAX(?x) != {literal(WHOLE)})""",
    "template": f"CONSTRUCT {{ ?s <{EX}a'b> {literal(WHOLE)} . <{EX}$env:HOME> ?p {literal('${env:HOME}')}@en }} "
    f"{{ ?s ?p ?o . ?s :p ?o FILTER(?o != {literal('${env:HOME}')}) }}",
    "order": "SELECT ?s ?o { ?s :p ?o } ORDER BY DESC("
    + " + ".join(f"IF(CONTAINS(STR(?o), {literal(t)}), 1, 0)" for t in _SOME)
    + ") STRLEN(STR(?o)) STR(?o) ?s LIMIT 9",
    "iris": "SELECT ?place ?s ?o ?b { "
    + " UNION ".join(
        f"{{ GRAPH <{EX}{name}> {{ ?s <{EX}{name}> <{EX}{name}> }} BIND({n} AS ?place) }}"
        for n, name in enumerate(PLACES[:3])
    )
    + f" ?s :p ?o BIND({_bits([f'?o = <{EX}{name}>' for name in PLACES])} AS ?b) }}",
    "kinds": f"""SELECT ?s ?kind ?bits {{ {{ ?s :typed ?o }} UNION {{ ?s :tagged ?o }} BIND(DATATYPE(?o) AS ?kind)
        BIND({_bits([f"DATATYPE(?o) = <{EX}{name}>" for name in PLACES] +
                    [f"LANGMATCHES(LANG(?o), {literal(t)})" for t in (*_SOME, "en-x-a1", "*")])} AS ?bits) }}""",
    "variables": "SELECT ?x ?X ?x_1 ?été ?select ?w ?s ?S { ?s :p ?x FILTER(STRLEN(STR(?x)) = 1) "
    'BIND(CONCAT(STR(?x), "\'") AS ?X) BIND(CONCAT(?X, "$") AS ?x_1) BIND(STR(?x) AS ?été) '
    'BIND("${env:HOME}" AS ?select) BIND(1 AS ?w) BIND("{" AS ?S) }',
}  # fmt: skip
"""Queries by the place of their texts."""


def query(name: str) -> str:
    return f"PREFIX : <{EX}> {QUERIES[name]}"
