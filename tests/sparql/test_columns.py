"""Typed columns: those computed by column are those of the definition, term by term."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.rdf.dictionary import term_of
from sparqlive.sparql.columns import NAMES, UNIT, typed, typed_text
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
