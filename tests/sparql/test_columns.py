"""Typed columns: those computed by column are those of the definition, term by term."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.rdf.dictionary import term_of
from sparqlive.sparql.columns import NAMES, UNIT, VERSION, typed, typed_text
from sparqlive.sparql.values import DECIMAL, DOUBLE, INTEGER, value_of
from tests.nasty_terms import TERMS, Term, terms


def columns_of(texts: list[str | None]) -> list[tuple[object, ...]]:
    found = typed(pa.array(texts, pa.string())).to_pylist()
    return [tuple(row[name] for name in NAMES) for row in found]


def expected(term: Term | None) -> tuple[object, ...]:
    if term is None:
        return (None,) * len(NAMES)
    kind, *others = typed_text(str(term))
    return (int(kind), *others)


def assert_equal(left: object, right: object, term: Term | None) -> None:
    assert repr(left) == repr(right), term  # NaN is itself there, and -0.0 is not 0.0


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_each_term(term: Term) -> None:
    assert_equal(columns_of([str(term)]), [expected(term)], term)


@given(st.lists(st.none() | terms(), max_size=12))
def test_many_terms_at_once(chosen: list[Term | None]) -> None:
    rows = columns_of([None if term is None else str(term) for term in chosen])
    for row, term in zip(rows, chosen, strict=True):
        assert_equal(row, expected(term), term)


def test_the_version_says_what_the_columns_hold() -> None:
    """Stores keep the columns in files: whoever changes what they hold raises VERSION, and then this test."""
    xsd = "http://www.w3.org/2001/XMLSchema#"
    forms = {
        "integer": ("1", "-0", "99999999999999999999", "x"),
        "decimal": ("1.50", "-0.5", "0.0000000000000000001"),
        "double": ("1", "-0", "NaN", "INF", "1e400", "x"),
        "float": ("1.1", "-0", "x"),
        "boolean": ("true", "1", "no"),
        "dateTime": ("2024-02-29T12:00:00.5Z", "2024-02-29T12:00:00-05:00", "2024-02-30T00:00:00", "x"),
        "date": ("2024-02-29", "2024-02-29+14:00", "x"),
        "time": ("24:00:00", "12:00:00.000001Z"),
        "byte": ("127", "128"),
        "string": ("",),
        "anyURI": ("x",),
    }
    texts = [f'"{form}"^^<{xsd}{name}>' for name, found in forms.items() for form in found]
    texts += ["<urn:a>", "_:b", '""', '"a"', '"a\\nb"', '"a"@en', '"a\\"b"@en-GB']
    digest = hashlib.sha256(repr(columns_of([*texts])).encode()).hexdigest()[:16]
    assert (VERSION, digest) == ("1", "da2d465a16fed89f")


@given(terms())
def test_exact_numbers_are_exact(term: Term) -> None:
    text = str(term)
    found, value = typed_text(text), value_of(term_of(text))
    if value.kind in (INTEGER, DECIMAL):
        if found.whole is not None and found.fraction is not None:
            assert Fraction(found.whole) + Fraction(found.fraction, UNIT) == Fraction(value.value)
        assert found.nearest == float(Decimal(value.value))
    elif value.kind > DOUBLE:
        assert found.whole is None
        assert (found.nearest is None) == (found.instant is None), "of a date or time: its whole seconds"
