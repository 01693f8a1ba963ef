"""Bounds of computed values: a short query cannot make a long string or a long number."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pyoxigraph import Literal, NamedNode

import sparqlive
from sparqlive.sparql.aggregates import Grouping
from sparqlive.sparql.algebra import Aggregate, Call, Constant, Expression, Var
from sparqlive.sparql.expressions import ExpressionError, compile_expression
from sparqlive.sparql.values import (
    ILL_TYPED,
    MAXIMUM_CHARACTERS,
    MAXIMUM_DIGITS,
    XSD,
    Value,
    integer,
    string,
    value_of,
)

pytestmark = pytest.mark.slow

GENEROUS_SECONDS = 500
X = Var("x")
LONGEST = "a" * MAXIMUM_CHARACTERS


def doubling(expression: str, first: str, times: int) -> str:
    """A query that applies an expression in ?x to its own value, again and again."""
    steps = "".join(f"BIND({expression.replace('?x', f'?x{n}')} AS ?x{n + 1}) " for n in range(times))
    return f"SELECT (1 AS ?one) ?x{times} {{ BIND({first} AS ?x0) {steps} }}"


GROWING = {
    "CONCAT": doubling("CONCAT(?x, ?x)", "'0123456789'", 40),
    "CONCAT nested in CONCAT": "SELECT (1 AS ?one) ?x {{ BIND({} AS ?x) }}".format(
        "CONCAT(" * 40 + "'abc'" + ",'abc')" * 40
    ),
    "CONCAT of many": doubling("CONCAT(" + ", ".join(["?x"] * 50) + ")", "'a'", 12),
    "tagged strings": doubling("CONCAT(?x, ?x)", "'a'@en", 40),
    "REPLACE": doubling("REPLACE(?x, 'a+', 'aa$0$0')", "'a'", 40),
    "REPLACE of each": doubling("REPLACE(?x, 'a', '0123456789abcdef')", "'aaaaa'", 40),
    "REPLACE by groups": doubling("REPLACE(?x, '(.+)', '$1$1$1$1')", "'a'", 40),
    "ENCODE_FOR_URI": doubling("ENCODE_FOR_URI(?x)", "'%%%%'", 60),
    "UCASE": doubling("CONCAT(UCASE(?x), ?x)", "'ß'", 40),
    "products of integers": doubling("?x * ?x", "10", 60),
    "products of decimals": doubling("?x * ?x", "1.1", 60),
    "small decimals": doubling("?x * ?x", "0.1", 60),
    "quotients": doubling(f"?x / 0.{'0' * 99}1", "1.1", 60),
    "dates": doubling("?x + ?x", f"'P{'9' * 190}Y'^^<{XSD}duration>", 60),
    "literals": doubling(f"STRDT(CONCAT(?x, ?x), <{XSD}string>)", "'1'", 60),
    "IRIs": doubling("IRI(CONCAT(STR(?x), STR(?x)))", "'a:b'", 60),
}


def test_no_value_grows_without_bound() -> None:
    """In another process, of which a gigabyte of memory would be too much; it prints the growth so far."""
    program = (
        "import json, sys, resource, sparqlive\n"
        "with sparqlive.open() as session:\n"
        '    session.query(\'SELECT (REGEX("\\u03b1", "\\\\\\\\w", "i") AS ?x) {}\')\n'
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    for name, query in json.load(sys.stdin).items():\n"
        "        assert len(session.query(query)) == 1, name\n"
        "        assert len(session.view(name, query)) == 1, name\n"
        "        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(GROWING), text=True, check=True, timeout=GENEROUS_SECONDS, stdout=subprocess.PIPE,
    )  # fmt: skip
    kilobyte = 1024 if sys.platform == "darwin" else 1
    growth = [int(line) / kilobyte for line in done.stdout.splitlines()]
    assert len(growth) == len(GROWING)
    assert max(growth) < 150_000, dict(zip(GROWING, growth, strict=True))


def computed(name: str, *arguments: Literal | NamedNode) -> Value:
    expression: Expression = Call(name, tuple(Constant(argument) for argument in arguments))
    return compile_expression(expression, [])([])


def test_the_longest_string() -> None:
    assert len(computed("CONCAT", Literal(LONGEST), Literal("")).value) == MAXIMUM_CHARACTERS
    for name, *arguments in (
        ("CONCAT", Literal(LONGEST), Literal("b")),
        ("CONCAT", Literal(LONGEST, language="en"), Literal("b", language="en")),
        ("UCASE", Literal(LONGEST[1:] + "ßß")),
        ("ENCODE_FOR_URI", Literal(LONGEST[1:] + " ")),
        ("IRI", Literal("x:" + LONGEST)),
    ):
        with pytest.raises(ExpressionError, match="more than 1048576 characters"):
            computed(name, *arguments)


def test_longer_strings_of_data_are_kept_and_read() -> None:
    with sparqlive.open() as session:
        view = session.view(
            "long", "SELECT ?t { ?s <x:p> ?t FILTER(STRLEN(?t) > 1048576 && REGEX(?t, 'b$')) }"
        )
        session.apply(insert=f'<x:s> <x:p> "{LONGEST}b" .')
        assert [len(row["t"].value) for row in view.solutions()] == [MAXIMUM_CHARACTERS + 1]


@pytest.mark.parametrize("sign", ["", "-"])
def test_the_longest_numbers_are_read_again(sign: str) -> None:
    number = integer(int(sign + "9" * MAXIMUM_DIGITS))
    assert value_of(number.term).value == number.value
    tiny = computed("*", number.term, Literal("0." + "0" * (MAXIMUM_DIGITS - 1) + "1", datatype=DECIMAL))
    assert value_of(tiny.term).value == tiny.value
    for text, datatype in (("9" * (MAXIMUM_DIGITS + 1), INTEGER), ("1." + "1" * MAXIMUM_DIGITS, DECIMAL)):
        assert value_of(Literal(sign + text, datatype=datatype)).kind is ILL_TYPED
    for name, other in (("*", number.term), ("+", number.term)):
        with pytest.raises(ExpressionError, match="more than 4000 digits"):
            computed(name, number.term, other)


INTEGER, DECIMAL = NamedNode(XSD + "integer"), NamedNode(XSD + "decimal")


@pytest.mark.parametrize(
    ("text", "datatype"),
    [
        ("9" * 100_000, "integer"),
        ("0" * 100_000 + "1", "integer"),
        ("9" * 100_000, "decimal"),
        ("0." + "0" * 100_000 + "1", "decimal"),
        ("9" * 100_000, "double"),
        ("1e" + "9" * 100_000, "double"),
        ("9" * 100_000, "float"),
        (f"{'9' * 100_000}-01-01T00:00:00", "dateTime"),
        (f"2020-01-01T00:00:00.{'1' * 100_000}", "dateTime"),
        (f"{'9' * 100_000}-01-01", "date"),
        (f"00:00:00.{'1' * 100_000}", "time"),
        (f"P{'9' * 100_000}Y", "duration"),
        (f"PT0.{'9' * 100_000}S", "dayTimeDuration"),
        ("9" * 100_000, "byte"),
        ("true" * 100_000, "boolean"),
        ("en-" * 100_000, "language"),
    ],
)
def test_long_literals_are_read_as_they_are(text: str, datatype: str) -> None:
    """A literal of data may be any: it is kept, and no function fails on it otherwise than by an error."""
    literal = Literal(text, datatype=NamedNode(XSD + datatype))
    assert value_of(literal).term == literal
    with sparqlive.open() as session:
        view = session.view(
            "v",
            f"SELECT ?o (?o + ?o AS ?sum) (?o * 2 AS ?product) (<{XSD}integer>(?o) AS ?i)"
            f" (<{XSD}decimal>(?o) AS ?d) (<{XSD}string>(?o) AS ?t) (YEAR(?o) AS ?y) (SECONDS(?o) AS ?z)"
            f" (<{XSD}dateTime>(STR(?o)) AS ?m) (<{XSD}decimal>(STR(?o)) AS ?n) (?o < ?o AS ?less)"
            " { ?s <x:p> ?o } ORDER BY ?o",
        )
        totals = session.view("w", "SELECT (SUM(?o) AS ?n) (MAX(?o) AS ?m) (AVG(?o) AS ?a) { ?s <x:p> ?o }")
        session.apply(insert=f'<x:s> <x:p> {literal} .\n<x:s> <x:p> "1" .')
        assert len(view) == 2
        assert len(totals) == 1
        session.check()


def test_group_concat_has_a_bound_and_counts_before_it_writes() -> None:
    grouping = Grouping(
        [(Aggregate("GROUP_CONCAT", X, False, ""), 0), (Aggregate("GROUP_CONCAT", X, False, "|"), 0)],
        None,
        {1: string("ab"), 2: string(""), 3: integer(7)}.get,
    )
    group = grouping.group()
    grouping.add(group, (2,), 10**12)
    assert [None if value is None else value.value for value in group.results()] == ["", None]
    grouping.add(group, (2,), -(10**12))
    grouping.add(group, (1,), MAXIMUM_CHARACTERS // 2)
    short, long = group.results()
    assert short is not None
    assert len(short.value) == MAXIMUM_CHARACTERS
    assert long is None
    grouping.add(group, (1,), 2 - MAXIMUM_CHARACTERS // 2)
    grouping.add(group, (3,), 1)
    assert [None if value is None else value.value for value in group.results()] == ["7abab", "7|ab|ab"]


def test_an_average_of_the_longest_numbers() -> None:
    longest = integer(10**MAXIMUM_DIGITS - 1)
    grouping = Grouping(
        [(Aggregate("AVG", X, False), 0), (Aggregate("SUM", X, False), 0)], None, {1: longest}.get
    )
    group = grouping.group()
    grouping.add(group, (1,), 3)
    average, total = group.results()
    assert average is not None
    assert average.value == longest.value
    assert total is None
