"""A test of many terms by columns never contradicts the evaluation of the condition for each of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.sparql.algebra import Expression, Filter, Term, Var
from sparqlive.sparql.column_tests import ERROR, FALSE, TRUE, UNKNOWN, TermTexts, column_test
from sparqlive.sparql.expressions import ExpressionError, compile_expression
from sparqlive.sparql.functions.logic import effective_boolean
from sparqlive.sparql.syntax import parse_query
from sparqlive.sparql.values import XSD, value_of

V = Var("v")
LEXICAL = {
    "integer": ["1", "01", "+1", "-1", "50", "-0", "9007199254740993", "123456789012345678901", "x", ""],
    "byte": ["1", "300"],
    "decimal": ["1.0", "0.1", "-0.5", "50.000000000000000001", "1."],
    "double": ["1", "0.1", "NaN", "INF", "5e1"],
    "float": ["1", "50.5"],
    "boolean": ["true", "0"],
    "date": ["2023-06-01", "2023-06-02", "2023-06-01Z", "2023-06-01+10:00", "-0001-01-01", "2023-02-30"],
    "dateTime": ["2023-06-01T00:00:00", "2023-06-01T00:00:00Z", "2023-06-01T12:00:00.5+02:00"],
    "time": ["12:00:00", "12:00:00Z"],
    "duration": ["P1D", "P1M"],
    "string": ["Bake", "a--b"],
}
CONTENTS = (
    "",
    "bake",
    "BAKE 7",
    "a cake",
    'say "bake"',
    "back\\slash",
    "line\nbake",
    "Straße",
    "İ bake",
    "K",
    "\u0000",
)
TERMS: list[Term] = [
    *(Literal(text, datatype=NamedNode(XSD + name)) for name, texts in LEXICAL.items() for text in texts),
    *(Literal(text) for text in CONTENTS),
    *(Literal(text, language=tag) for text in CONTENTS for tag in ("en", "en-GB", "de")),
    *(Literal(text, datatype=NamedNode("x:bake--kind")) for text in CONTENTS),
    *(NamedNode("x:bake"), NamedNode("x:Straße"), NamedNode("http://example.org/7"), BlankNode("bake")),
]  # fmt: skip
COMPARISONS = [
    f"?v {relation} {constant}"
    for relation in ("=", "!=", "<", ">", "<=", ">=")
    for constant in (
        *(
            "1",
            "-1",
            "50.5",
            "0.1",
            "1e0",
            "123456789012345678901",
            '"bake"',
            '"a cake"@en',
            "<x:bake>",
            "true",
        ),
        *(f'"2023-06-01"^^<{XSD}date>', f'"2023-06-01Z"^^<{XSD}date>', f'"12:00:00"^^<{XSD}time>'),
        *(f'"2023-06-01T00:00:00Z"^^<{XSD}dateTime>', f'"P1D"^^<{XSD}duration>', f'"x"^^<{XSD}integer>'),
    )
]
CONDITIONS = [
    *COMPARISONS,
    *("1 < ?v", '"b" >= ?v', "?v IN (1, 50, <x:bake>)", '?v IN ("bake", "Bake")', "?v NOT IN (1, 2)"),
    *("ISIRI(?v)", "ISURI(?v)", "ISBLANK(?v)", "ISLITERAL(?v)", "ISNUMERIC(?v)", "BOUND(?v)", "?v"),
    *('CONTAINS(?v, "bake")', 'CONTAINS(STR(?v), "ake")', 'CONTAINS(LCASE(?v), "bake")', 'CONTAINS(?v, "")'),
    *('STRSTARTS(?v, "ba")', 'STRENDS(UCASE(STR(?v)), "KE")', 'CONTAINS(?v, "b"@en)', 'CONTAINS(?v, 1)'),
    *('REGEX(?v, "^ba.*e$")', 'REGEX(STR(?v), "k", "i")', 'REGEX(?v, "(a)\\\\1")', 'REGEX(?v, "[")'),
    *('REGEX(?v, "^$")', 'REGEX(?v, "bake$", "m")', 'REGEX(?v, "b a", "x")', 'REGEX(?v, "a.c", "q")'),
    *('STR(?v) = "bake"', 'LCASE(STR(?v)) < "c"', 'LCASE(?v) = "bake"', 'STR(?v) != "x:bake"', "STR(?v) = 1"),
    *('LANG(?v) = "en"', 'LANG(?v) != ""', 'LANGMATCHES(LANG(?v), "en")', 'LANGMATCHES(LANG(?v), "*")'),
    *(f"DATATYPE(?v) = <{XSD}integer>", f"DATATYPE(?v) != <{XSD}string>", "DATATYPE(?v) = <x:bake--kind>"),
    *('!CONTAINS(?v, "bake")', "!(?v < 50)", 'ISLITERAL(?v) && REGEX(?v, "BAKE", "i")', "?v < 2 || ?v = 50"),
    *('!(?v < 50 && CONTAINS(?v, "a"))', "?v < 50 || ABS(?v) = 50", "?v > 0 && ABS(?v) = 50"),
    *('!(ISIRI(?v) || LANG(?v) = "en" || ?v = 1)', "STRLEN(?v) > 3 || ?other", "?v = ?other || ?v = 1"),
]  # fmt: skip


def condition(text: str) -> Expression:
    pattern = parse_query(f"ASK {{ FILTER({text}) }}").pattern
    assert isinstance(pattern, Filter)
    return pattern.condition


def verdict(expression: Expression, term: Term) -> int:
    try:
        holds = effective_boolean(compile_expression(expression, [V])([value_of(term)]))
    except ExpressionError:
        return ERROR
    return TRUE if holds else FALSE


@pytest.mark.parametrize("text", CONDITIONS)
def test_verdicts_by_columns(text: str) -> None:
    expression = condition(text)
    expected = [verdict(expression, term) for term in TERMS]
    test = column_test(expression, V)
    if test is None:
        return
    texts = TermTexts(pa.array([str(term) for term in TERMS], pa.large_string()))
    for found, wanted, term in zip(test(texts), expected, TERMS, strict=True):
        assert found in (wanted, UNKNOWN), (term, found, wanted)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        *(("?v < 50", 60), ('CONTAINS(LCASE(?v), "bake")', 60), ('REGEX(?v, "^b.*e$")', 60)),
        *(('LANG(?v) = "en"', 60), (f'?v > "2023-06-01"^^<{XSD}date>', 60), ("?v = <x:bake>", 80)),
    ],
)
def test_most_verdicts_are_known(text: str, known: int) -> None:
    """Otherwise the test before this one would say nothing."""
    test = column_test(condition(text), V)
    assert test is not None
    texts = TermTexts(pa.array([str(term) for term in TERMS], pa.large_string()))
    assert np.count_nonzero(test(texts) != UNKNOWN) >= known
    assert TRUE in test(texts)
    assert len(test(TermTexts(pa.array([], pa.large_string())))) == 0
