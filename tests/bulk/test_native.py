"""What runs in SQL gives the very terms that Python gives: aggregates, expressions, orders of nasty terms."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.bulk.arithmetic import arithmetic
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.dialect import DuckDbSql
from sparqlive.bulk.evaluate import evaluate
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.operand import Operand, Writing
from sparqlive.bulk.typed import TEXT
from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.sparql.columns import NAMES, typed
from tests.bulk.test_duckdb import plan_of
from tests.conftest import FULL, examples, times
from tests.nasty_terms import TERMS, Term, terms
from tests.on_duckdb import DuckDbWork
from tests.oracle import assert_same
from tests.plan_reference import Reference

EX = "http://example.org/"
# ruff: noqa: E501
CONNECTION = duckdb.connect(":memory:", config={"threads": "1"})

Row = tuple[int, Term | None, Term | None]
"""A group, and the values of two variables."""


class TypedWork(DuckDbWork):
    """With a dictionary that has the typed columns."""

    def terms(self, quads: object) -> pa.Table:
        table = super().terms(quads)  # type: ignore[arg-type]
        for name, values in zip(NAMES, typed(table["term"]).flatten(), strict=True):
            table = table.append_column(name, values)
        return table


def quads_of(rows: list[Row]) -> set[ox.Quad]:
    found = set()
    for number, (group, one, other) in enumerate(rows):
        subject = ox.NamedNode(f"{EX}s{number}")
        found.add(ox.Quad(subject, ox.NamedNode(EX + "g"), ox.NamedNode(f"{EX}g{group}")))
        for name, term in (("v", one), ("u", other)):
            if term is not None:
                found.add(ox.Quad(subject, ox.NamedNode(EX + name), term))
    return found


def compare(text: str, old: set[ox.Quad], new: set[ox.Quad], *, types: bool = True) -> None:
    """Content and delta on DuckDB, against the reference."""
    plan = plan_of(f"PREFIX : <{EX}> {text}")
    reference = Reference(old, new)
    work = (TypedWork if types else DuckDbWork)(CONNECTION)
    assert_same(work.evaluate(plan, new), dict(reference.content(plan).weights), f"content of {text}")
    if old != new:
        assert_same(work.delta(plan, old, new), dict(reference.delta(plan).weights), f"delta of {text}")


def rows(largest: int) -> st.SearchStrategy[list[Row]]:
    value = st.none() | terms()
    return st.lists(st.tuples(st.integers(0, 1), value, value), max_size=largest)


@st.composite
def changes(draw: st.DrawFn, largest: int = 6) -> tuple[set[ox.Quad], set[ox.Quad]]:
    """Quads before and after a change."""
    old = draw(rows(largest))
    kept = [row for row in old if draw(st.booleans())]
    return quads_of(old), quads_of([*kept, *draw(rows(3))])


PATTERN = "{ ?s :g ?g OPTIONAL { ?s :v ?v } OPTIONAL { ?s :u ?u } }"
BOUND = "{ ?s :g ?g ; :v ?v }"
AGGREGATES = [
    f"{name}({distinct}{argument})"
    for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE")
    for distinct in ("", "DISTINCT ")
    for argument in ("?v", "?u")
]
SELECTIONS = [
    *AGGREGATES[::2],
    "COUNT(*)",
    "COUNT(DISTINCT *)",
    "SUM(?v) AVG(?u) COUNT(?v)",
    "MIN(?v) MAX(?u) SUM(DISTINCT ?v) COUNT(DISTINCT ?u) COUNT(*)",
    "SUM(?v + ?u) MIN(?v * 2)",
    "SUM(?v) GROUP_CONCAT(?u)",
]


def query(selection: str, pattern: str, by: str) -> str:
    parts = selection.replace(") ", ")\n").split("\n")
    columns = " ".join(f"({part} AS ?r{number})" for number, part in enumerate(parts))
    return f"SELECT {'?g' if by else ''} {columns} {pattern} {by}"


@pytest.mark.parametrize("selection", SELECTIONS)
@examples(times(2, 4))
@given(data=st.data())
def test_aggregates(selection: str, data: st.DataObject) -> None:
    old, new = data.draw(changes())
    by, types = data.draw(st.sampled_from(("GROUP BY ?g", ""))), data.draw(st.booleans())
    compare(query(selection, data.draw(st.sampled_from((PATTERN, BOUND))), by), old, new, types=types)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_aggregates_of_all_terms(selection: str) -> None:
    """Each nasty term in a group of its own, and with the next ones."""
    single = [(number, term, TERMS[number - 1]) for number, term in enumerate(TERMS)]
    pairs = [(number, TERMS[number - 1], TERMS[number - 2]) for number in range(len(TERMS))]
    compare(query(selection, PATTERN, "GROUP BY ?g"), quads_of(single), quads_of([*single, *pairs]))  # type: ignore[arg-type]


FIRSTS = [selection for selection in SELECTIONS if "M" in selection.replace("SUM", "")]


@pytest.mark.parametrize("selection", FIRSTS)
def test_firsts_without_sharing(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of a backend that computes what several parts of a query read for each of them."""
    monkeypatch.setattr(DuckDb, "shares", False)
    places = range(len(TERMS))
    one = [(place // 3, TERMS[place], TERMS[place - 1]) for place in places]
    other = [(place % 40, TERMS[place], TERMS[place - 2]) for place in places if place % 2]
    compare(query(selection, PATTERN, "GROUP BY ?g"), quads_of(one), quads_of([*one, *other]))  # type: ignore[arg-type]
    compare(query(selection, BOUND, ""), set(), quads_of([row for row in one if row[0] % 9]))  # type: ignore[arg-type]


CONSTANTS = (
    *(
        "0",
        "1",
        "100",
        "-1",
        "1.5",
        "-0.5",
        "1e0",
        "1e400",
        "9223372036854775808",
        "true",
        "false",
        '"a"',
        '""',
    ),
    *('"a"@en', '"2020-01-01T00:00:00"^^xsd:dateTime', '"2020-01-01T00:00:00Z"^^xsd:dateTime', ":a"),
    *('"2020-01-01"^^xsd:date', '"1"^^xsd:float', '"NaN"^^xsd:double', '"x"^^:type', '"abc"^^xsd:integer'),
    *('"PT1H"^^xsd:dayTimeDuration', '"b\\\\s"', '"\'"'),
)
SIGNS = ("=", "!=", "<", ">", "<=", ">=")
NUMBERS = (
    *(f"?v {sign} ?u" for sign in "+-*/"),
    *(
        f"?v {sign} {constant}"
        for sign in "+-*/"
        for constant in ("3", "0.5", "-7", "0", "2e0", "1e-300", "-0e0")
    ),
    *(f"{constant} {sign} ?v" for sign in "-/" for constant in ("1", "10.25", "1e0", "9007199254740993")),
    *("-?v", "+?v", "ABS(?v)", "ROUND(?v)", "CEIL(?v)", "FLOOR(?v)", "STRLEN(?v)"),
    *(
        "(?v + ?u) * ?v",
        "(?v - 1) / (?u + 1)",
        "ABS(?v - ?u) / 7",
        "-(?v * ?u) + 0.125",
        "ROUND(?v * 100) / 100",
    ),
    *("(?v / ?u) / ?v", "?v * ?v * ?v", "FLOOR(?v / 3) * 3", "1 / (?v * 0e0)", "COALESCE(?v, 0) + 1"),
    *("IF(?v > ?u, ?v - ?u, ?u - ?v)", "IF(BOUND(?u), ?v * 2, 1.5)", "COALESCE(?v / ?u, ?v + 1, -1)"),
    *(f"{name}(?v)" for name in ("YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS")),
    *("YEAR(?v) * 12 + MONTH(?v)", "SECONDS(?v) / 7"),
)
TEXTS = (
    *(
        "STR(?v)",
        "LANG(?v)",
        "DATATYPE(?v)",
        "UCASE(?v)",
        "LCASE(STR(?v))",
        "TZ(?v)",
        "?v",
        "UCASE(LANG(?v))",
    ),
    *(
        f"SUBSTR(?v, {where})"
        for where in (
            "1",
            "2",
            "0",
            "-1, 3",
            "2, 1",
            "1, 0",
            "1.0",
            "?u",
            "1, ?u",
            "9223372036854775807, 9223372036854775807",
        )
    ),
    *("SUBSTR(STR(?v), 1, 4)", "SUBSTR('a𝄞é', ?v)", "SUBSTR(?v, STRLEN(?v))"),
    *(
        f"{name}({one}, {other})"
        for name in ("STRBEFORE", "STRAFTER")
        for one, other in (
            ("?v", "?u"),
            ("?v", '"a"'),
            ("?v", '""'),
            ("?v", '"a"@en'),
            ("STR(?v)", '"/"'),
            ('"ab"@en', "?v"),
        )
    ),
    *(
        "CONCAT(?v, ?u)",
        "CONCAT(?v, '-', ?u)",
        "CONCAT(STR(?v))",
        "CONCAT('x'@en, ?v)",
        "CONCAT(?v)",
        "CONCAT()",
    ),
    *("IF(?v = ?u, STR(?v), ?u)", "COALESCE(?u + 1, STR(?v), 'none')", "COALESCE(DATATYPE(?v), ?u)"),
    *("IF(STRLEN(?v) > 1, SUBSTR(?v, 2), ?v)", "COALESCE(?missing, UCASE(?v))", "IF(?v, ?u < 1, ?u)"),
)
OTHERS = ("?u", "1e0", "'a'", "0.5", "'a'@en")
CONDITIONS = (
    *(f"?v {sign} {constant}" for sign in ("=", "<", ">=") for constant in CONSTANTS),
    *(f"{constant} {('!=', '>', '<=')[n % 3]} ?v" for n, constant in enumerate(CONSTANTS)),
    *(f"?v {sign} ?u" for sign in SIGNS),
    *NUMBERS,
    *(f"{number} {SIGNS[n % 6]} {OTHERS[n % 5]}" for n, number in enumerate(NUMBERS)),
    *TEXTS,
    *(f"{text} {SIGNS[n % 6]} {OTHERS[n % 5]}" for n, text in enumerate(TEXTS)),
    *(f"{name}({text}, ?u)" for name in ("STRSTARTS", "STRENDS", "CONTAINS") for text in ("?v", "STR(?v)")),
    *(
        "CONTAINS('a', ?v)",
        "STRSTARTS(?v, '')",
        "CONTAINS(LCASE(?v), 'a')",
        "STRSTARTS('a'@en, ?v)",
        "STRLEN(?v) IN (1, 2)",
    ),
    *(
        "(?v < ?u) = true",
        "STR(?v) IN ('a', 'b'@en)",
        "LCASE(?v) != UCASE(?v)",
        "STR(?v) = STR(?u)",
        "LANG(?v) = LANG(?u)",
    ),
    *(
        "SUBSTR(?v, 1, 1) = SUBSTR(?u, 1, 1)",
        "?v + ?u = ?u + ?v",
        "?v * ?u >= ?u * 1e0",
        "?v / ?u < ?v * 0.5",
    ),
    *("?v", "!?v", "?v && ?u", "?v || ?u", "!(?v < 1) || ?u = 2", "?v = 1 && BOUND(?u)"),
    *(
        "?v IN (1, 2.0, 'a', :a)",
        "?v NOT IN (1, ?u)",
        "?v IN (?u, 1)",
        "?v IN ()",
        "?missing = 1",
        "?v = ?missing",
    ),
    *(
        "isIRI(?v)",
        "isBlank(?v)",
        "isLiteral(?v)",
        "isNumeric(?v)",
        "sameTerm(?v, ?u)",
        "isNumeric(?missing)",
    ),
    *(
        f"{name}(?v, {part})"
        for name in ("STRSTARTS", "STRENDS", "CONTAINS")
        for part in ('"a"', '"\\n"', '"a"@en')
    ),
    *("CONTAINS(STR(?v), 'a')", "STRLEN(STR(?v)) > 3", "STRSTARTS(STR(?v), 'http')", "STRLEN(?v) = ?u"),
    *("LANG(?v) = 'en'", "LANG(?v) != ''", "LANG(?v) = ''", "LANGMATCHES(LANG(?v), 'EN')"),
    *("LANGMATCHES(LANG(?v), '*')", "LANGMATCHES(LANG(?v), '')", "LANGMATCHES(LANG(?v), 'en-us')"),
    *(
        f"DATATYPE(?v) = {name}"
        for name in ("xsd:integer", "xsd:string", "rdf:langString", "xsd:byte", ":type")
    ),
    *("DATATYPE(?v) != xsd:double", "IF(?v < 1, ?u, ?v) = 1", "COALESCE(?v < 1, ?u > 1)"),
)
PREFIXES = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "


def values_of(conditions: tuple[str, ...], pattern: str) -> str:
    bound = " ".join(f"BIND({condition} AS ?r{number})" for number, condition in enumerate(conditions))
    return f"{PREFIXES} PREFIX : <{EX}> SELECT * {{ {pattern} {bound} }}"


ALL_PAIRS = quads_of(
    [(0, term, TERMS[(place * step + 1) % len(TERMS)]) for place, term in enumerate(TERMS) for step in (1, 7)]
    + [(0, term, term) for term in TERMS]
    + [(0, None, TERMS[0]), (0, TERMS[0], None), (0, None, None)]
)
PART = {quad for place, quad in enumerate(sorted(ALL_PAIRS, key=str)) if place % 3}
OPTIONAL = "?s :g ?g OPTIONAL { ?s :v ?v } OPTIONAL { ?s :u ?u }"


def apart(conditions: tuple[str, ...], use: str, pattern: str = OPTIONAL) -> str:
    """Each condition in a part of its own, with the number of the part."""
    parts = (
        f"{{ {pattern} {use.format(condition)} BIND({number} AS ?n) }}"
        for number, condition in enumerate(conditions)
    )
    return f"{PREFIXES} SELECT * {{ {' UNION '.join(parts)} }}"


STEP = 1 if FULL else 7
"""Of the conditions, `make test` tries every seventh one alone; `make conformance` tries all of them."""


@pytest.mark.parametrize("place", range(0, len(CONDITIONS), times(40, 20)))
def test_values_of_all_terms(place: int) -> None:
    """What expressions make of each nasty term beside some others."""
    pattern = "?s :v ?v ; :u ?u" if place % 40 else OPTIONAL
    compare(apart(CONDITIONS[place : place + 20 : STEP], "BIND({} AS ?r)", pattern), ALL_PAIRS, ALL_PAIRS)


@pytest.mark.parametrize("place", range(0, len(CONDITIONS), 60))
def test_filters_of_all_terms(place: int) -> None:
    """What a filter keeps, of terms that are always there and of those that may be missing."""
    compare(apart(CONDITIONS[place + 1 : place + 60 : 3 * STEP], "FILTER({})"), ALL_PAIRS, ALL_PAIRS)


def test_values_of_values() -> None:
    """Expressions over the results of others, whose texts come along."""
    for place in range(0, len(CONDITIONS), 97):
        compare(
            values_of((*CONDITIONS[place : place + 3], "?r0 + ?r1", "STR(?r2) < ?r0"), OPTIONAL),
            PART,
            ALL_PAIRS,
        )


def test_many_values_in_a_row() -> None:
    """However many: queries in queries have no end that a reader of SQL would not reach."""
    many = tuple(f"?v * {number} / ?u + 0.5" for number in range(times(8, 30)))
    compare(values_of(many, "?s :g ?g ; :v ?v ; :u ?u"), set(), quads_of([(0, ox.Literal(7), ox.Literal(3))]))


@examples(30)
@given(changes(4), st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3), st.booleans())
def test_expressions(change: tuple[set[ox.Quad], set[ox.Quad]], chosen: list[str], types: bool) -> None:
    old, new = change
    pattern = "?s :v ?v ; :u ?u" if types else OPTIONAL
    compare(values_of(tuple(chosen), f"{pattern} FILTER({chosen[0]} || !BOUND(?u))"), old, new, types=types)


def test_projection_in_another_order_keeps_what_is_maybe_bound() -> None:
    """The texts of such a variable's terms are in the dictionary, not in the plan."""
    quads = quads_of([(0, ox.Literal(1), ox.Literal(2)), (0, ox.Literal(3), None)])
    for text in ("SELECT ?u ?v", "SELECT ?u"):
        compare(f"{text} {{ {OPTIONAL} }} ORDER BY ?v LIMIT 1 OFFSET 1", set(), quads)


ORDERS = ("?v", "DESC(?v)", "?u DESC(?v)", "DESC(?u) ?v", "(?v + 1)", "DESC(STR(?v))", "")


@pytest.mark.parametrize("order", ORDERS)
@examples(8)
@given(data=st.data())
def test_windows(order: str, data: st.DataObject) -> None:
    old, new = data.draw(changes())
    limit, offset = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    pattern = data.draw(
        st.sampled_from((PATTERN, "{ ?s :v ?v ; :u ?u }", "{ ?s :v ?v OPTIONAL { ?s :u ?u } }"))
    )
    columns = data.draw(st.sampled_from(("*", "?v ?u", "?u")))
    by = f"ORDER BY {order}" if order else ""
    compare(
        f"SELECT {columns} {pattern} {by} LIMIT {limit} OFFSET {offset}",
        old,
        new,
        types=data.draw(st.booleans()),
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limit", [7, 60])
def test_windows_of_all_terms(order: str, limit: int) -> None:
    by = f"ORDER BY {order}" if order else ""
    compare(f"SELECT ?v ?u {{ {OPTIONAL} }} {by} LIMIT {limit} OFFSET {2 * limit}", PART, ALL_PAIRS)


KEEPING = (
    f"SELECT ?g (SUM(?v) AS ?t) (COUNT(*) AS ?n) {PATTERN} GROUP BY ?g",
    f"SELECT ?g (MIN(?v) AS ?m) (COUNT(DISTINCT ?u) AS ?n) {PATTERN} GROUP BY ?g",
    f"SELECT DISTINCT ?u ?x {{ {OPTIONAL} BIND(?v + 1 AS ?x) }}",
    f"SELECT ?v ?u {PATTERN} ORDER BY ?v LIMIT 3",
    f"SELECT (SUM(?x) AS ?t) {{ SELECT DISTINCT ?x {{ {OPTIONAL} BIND(?v * 2 AS ?x) }} }}",
)


@pytest.mark.parametrize("text", KEEPING)
@examples(times(3, 8))
@given(change=changes())
def test_old_rows_come_from_a_table(text: str, change: tuple[set[ox.Quad], set[ox.Quad]]) -> None:
    """What a keeping operator's source had may be stored: then it is read, and not computed again."""
    old, new = change
    plan, work = plan_of(f"PREFIX : <{EX}> {text}"), TypedWork(CONNECTION)
    quads, backend = work.quads(old), DuckDb(CONNECTION)
    kept, terms = {}, DuckDbWork.terms(work, old | new)
    for operator in operators_of(plan):
        if isinstance(operator, op.Group | op.Window | op.Distinct):
            result = evaluate(operator.source, backend, quads, terms, work.id_of)
            kept[operator.source] = result.rows
            if result.new_terms is not None:
                terms = pa.concat_tables([terms, result.new_terms])
    terms = terms.group_by(["id", "term"]).aggregate([])
    assert kept
    changed = delta(plan, backend, quads, work.changes(old, new), terms, work.id_of, kept=kept)
    expected = dict(Reference(old, new).delta(plan).weights)
    assert_same(work.weights(changed), expected, f"delta of {text}")


@pytest.mark.parametrize("sign", ["+", "-", "*", "/"])
def test_the_text_of_nested_arithmetic_does_not_explode(sign: str) -> None:
    def length(depth: int) -> int:
        leaf, writing = Operand(lambda name: f"{name}_x", "x"), Writing(DuckDbSql())
        operand = leaf
        for _ in range(depth):
            operand = arithmetic(sign, operand, leaf, writing)
        text, columns = operand.cell(TEXT), Frame.table("x", ("x",))
        return len(writing.with_steps(columns).select(text).sql(writing.dialect)) + sum(
            map(len, writing.doubts)
        )

    assert length(32) < 64 * length(4)  # of the second power: each layer names the columns before it
