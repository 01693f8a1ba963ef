"""Paths of no steps inside EXISTS: what is put in place of an outer variable matches itself (§18.4, §18.6).

The judge is the definition: for each solution around the EXISTS, the body is asked with its terms written in.
"""

from __future__ import annotations

import re
from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from tests.conftest import examples
from tests.random_queries import PROLOGUE, batches, graphs

OUT = "<http://example.org/out>"
AROUND = (
    f"VALUES ?a {{ :n0 :n1 1 {OUT} }}",
    f"VALUES (?a ?b) {{ (:n0 :n1) ({OUT} {OUT}) (:n1 {OUT}) ({OUT} 1) }}",
    "GRAPH :g { ?a :p ?b }",
    "?a :p ?b",
    f"?c :p ?a BIND({OUT} AS ?b)",
    "{ ?a :q ?b } UNION { GRAPH :h { ?b :q ?a } }",
    f"VALUES ?a {{ :n0 UNDEF {OUT} }}",
    f"VALUES (?a ?b) {{ (:n0 UNDEF) ({OUT} :n1) (UNDEF {OUT}) (UNDEF UNDEF) }}",
    "?c :p ?b OPTIONAL { GRAPH :g { ?b :q ?a } }",
)
PATHS = (":p*", ":p?", "(:p/:q)*", "(:p|^:q)*", ":p?/:q?", "(:p?)+", "^:p*", ":p+")
BODIES = (
    "?a {path} ?y",
    "?y {path} ?a",
    "?a {path} ?b",
    "?a {path} ?a",
    "?a {path} ?y FILTER(?y = :n1)",
    "?a {path} ?y FILTER(ISIRI(?y))",
    "?a {path} ?y . ?y :q ?z",
    "?y :q ?z MINUS {{ ?a {path} ?y }}",
    "OPTIONAL {{ ?a {path} ?y }} FILTER(BOUND(?y))",
    "GRAPH :g {{ ?a {path} ?y }}",
    "GRAPH ?g {{ ?a {path} ?b }}",
    "{{ SELECT ?a {{ ?a {path} ?b }} }}",
    "{{ SELECT ?y {{ ?a {path} ?y }} }}",
    "?y :p ?z FILTER NOT EXISTS {{ ?a {path} ?y }}",
)


def written_in(body: str, solution: dict[str, ox.NamedNode | ox.BlankNode | ox.Literal]) -> str:
    """The body with the terms of a solution in place of its variables; a sub-SELECT's own are others."""
    own = re.search(r"SELECT \?(\w) ", body)
    for name, term in solution.items():
        if own and own[1] != name:
            continue
        body = body.replace("SELECT ?a {", "SELECT * {") if own else body
        body = re.sub(rf"\?{name}\b", str(term), body)
    return body


@pytest.mark.laws
@examples(30)
@given(
    around=st.sampled_from(AROUND),
    body=st.sampled_from(BODIES),
    path=st.sampled_from(PATHS),
    negated=st.booleans(),
    data=graphs,
    stream=st.lists(batches, max_size=2),
)
def test_exists_is_substitution(
    around: str,
    body: str,
    path: str,
    negated: bool,
    data: list[ox.Quad],
    stream: list[list[tuple[str, ox.Quad]]],
) -> None:
    text = body.format(path=path)
    sign = "NOT EXISTS" if negated else "EXISTS"
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", f"{PROLOGUE}SELECT * {{ {around} FILTER {sign} {{ {text} }} }}")
        for batch in [[], *stream]:
            session.apply(
                insert=[quad for mark, quad in batch if mark == "+"],
                delete=[quad for mark, quad in batch if mark == "-"],
            )
            expected: Counter[tuple[ox.NamedNode | ox.BlankNode | ox.Literal | None, ...]] = Counter()
            for solution in session.query(f"{PROLOGUE}SELECT * {{ {around} }}").solutions():
                asked = session.query(f"{PROLOGUE}ASK {{ {written_in(text, solution)} }}")
                if asked.answer() != negated:
                    expected[tuple(solution.get(name) for name in view.variables)] += 1
            assert view.weights() == expected, f"{around} {sign} {text}"
            session.check()
