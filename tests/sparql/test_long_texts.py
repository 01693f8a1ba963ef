"""Parsing takes linear time: each terminal and each list of the grammar, in 100 kB of text."""

from __future__ import annotations

import contextlib
import time

import pytest

from sparqlive import errors
from sparqlive.sparql.syntax import parse_query

pytestmark = pytest.mark.slow

LONG = {
    "words and hyphens": "SELECT * { FILTER(" + "true-" * 20_000 + "true) }",
    "words and dots": "SELECT * { ?s " + "a." * 50_000 + "}",
    "words": "IN" * 50_000,
    "name": "SELECT * { ?s ?p :a" + "." * 100_000 + "}",
    "escapes": "SELECT * { ?s ?p :a" + "\\-" * 50_000 + "%20" * 10_000 + "}",
    "open string": "SELECT * { ?s ?p '" + "a" * 100_000,
    "open long string": 'SELECT * { ?s ?p """' + 'a"' * 50_000,
    "escapes in a string": "SELECT * { ?s ?p '" + "\\n" * 50_000 + "'}",
    "wrong escapes": "SELECT * { ?s ?p '" + "\\q" * 50_000 + "'}",
    "quotes": "SELECT * { ?s ?p " + '"' * 100_000,
    "open IRI": "SELECT * { ?s ?p <" + "a" * 100_000,
    "less than": "SELECT * { FILTER(" + "||".join(["?a<?b"] * 14_000) + ") }",
    "digits": "SELECT * { ?s ?p " + "1" * 100_000 + "x }",
    "digits and dots": "SELECT * { ?s ?p " + "1." * 50_000 + "}",
    "tag": "SELECT * { ?s ?p 'a'@" + "a-" * 50_000 + "}",
    "label": "SELECT * { _:a" + ".a" * 50_000 + ". }",
    "comments": "#\n" * 50_000 + "!",
    "blanks": " " * 100_000 + "!",
    "backslashes": "SELECT * { ?s ?p '" + "\\" * 100_000,
    "braces": "SELECT * " + "{" * 100_000,
    "brackets": "SELECT * { FILTER" + "(" * 50_000 + "1" + ")" * 50_000 + "}",
    "signs": "SELECT * { FILTER(" + "!" * 100_000 + "1) }",
    "sums": "SELECT * { FILTER(" + "1+" * 50_000 + "1) }",
    "steps": "SELECT * { ?s " + "<x:a>/" * 15_000 + "<x:a> ?o }",
    "objects": "SELECT * { ?s ?p " + "1," * 50_000 + "1 }",
    "bindings": "SELECT ?v1 {" + "".join(f"BIND(1 AS ?v{n})" for n in range(5_000)) + "}",
    "expressions": "SELECT " + "".join(f"(1 AS ?v{n})" for n in range(7_000)) + " {}",
    "keys": "SELECT ?v1 {} GROUP BY " + "".join(f"?v{n} " for n in range(14_000)),
    "prefixes": "PREFIX a:<b:c> " * 6_000 + "ASK {}",
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_take_linear_time(name: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(errors.Error):
        parse_query(LONG[name])
    assert time.thread_time() - began < 15  # it takes a second; what is quadratic takes minutes
