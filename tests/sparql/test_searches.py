"""A filter that searches texts finds what its condition says, one by one and by columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session

TEXTS = (
    *(
        "bake",
        "Bake",
        "BAKE a cake",
        "unrelated",
        "ba ke",
        "a\\nbake",
        "ſtraße BAKE",
        "K bake",
        "\\u0130 bake",
    ),
    *(
        "ſ",
        "s",
        "S",
        "ß",
        "K",
        "k",
        "\\u0131",
        "I",
        "i",
        "\\u0130",
        'say \\"bake\\"',
        "tab\\tbake",
        "42",
        "schema",
    ),
)
SUFFIXES = ("", "@en", "@de-bake", "^^<http://www.w3.org/2001/XMLSchema#integer>", "^^<x:bake>")
CONDITIONS = (
    *('CONTAINS(?o, "bake")', 'CONTAINS(LCASE(?o), "bake")', 'CONTAINS(LCASE(STR(?o)), "BAKE")'),
    *('CONTAINS(STR(?o), "bake")', 'STRSTARTS(?o, "ba")', 'STRENDS(LCASE(?o), "ke")', 'CONTAINS(?o, "")'),
    *('REGEX(?o, "bake")', 'REGEX(?o, "BaKe", "i")', 'REGEX(?o, "s", "i")', 'REGEX(?o, "k", "i")'),
    *('REGEX(?o, "i", "i")', 'REGEX(STR(?o), "b a k e", "x")', 'REGEX(?o, "ba.e")', 'REGEX(?o, "x:", "i")'),
    *(
        'ISLITERAL(?o) && REGEX(?o, "bake", "i")',
        'REGEX(LCASE(?o), "bake") || ISIRI(?o)',
        '!CONTAINS(?o, "bake")',
    ),
    *('CONTAINS(?o, "schema")', 'CONTAINS(STR(?o), "integer")', 'CONTAINS(UCASE(?o), "BAKE")'),
)


@pytest.fixture(scope="module", params=[1, 2_000])
def session(request: pytest.FixtureRequest) -> sparqlive.Session:
    session = Session(tuning=replace(DEFAULT, column_rows=request.param))
    lines = [f'<x:s> <x:p> "{text}"{suffix} .' for text in TEXTS for suffix in SUFFIXES]
    session.apply(insert="\n".join([*lines, "<x:s> <x:p> <x:bake> .", "<x:s> <x:p> _:bake ."]))
    return session


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_search_finds_what_its_condition_says(session: sparqlive.Session, condition: str) -> None:
    """Written with IF, the same condition is not tested by columns."""
    found = session.query(f"SELECT ?o {{ ?s <x:p> ?o FILTER({condition}) }}").weights()
    tested = session.query(f"SELECT ?o {{ ?s <x:p> ?o FILTER(IF({condition}, true, false)) }}").weights()
    assert found == tested
