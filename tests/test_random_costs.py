"""Costs of random queries: of a change against asking again, and of twice as many parts.

`make search` tries many, other ones in each run; `python -m tests.random_costs` prints the worst.
"""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import sparqlive
from tests.conftest import examples
from tests.random_costs import change_costs, growth, lines_of

seeds = st.integers(0, 10**9)
MOST_TIMES = 30
"""Known shapes take up to 15 times as much (`docs/internals/limits.md`): what is beyond is a new one."""
FIXED_LINES = 5_000
"""Of a change: an epoch has costs that do not depend on the query."""


@pytest.mark.laws
@examples(9)
@given(seeds)
def test_a_change_costs_little_more_than_the_query(seed: int) -> None:
    costs = change_costs(seed)
    if costs is not None:
        note(str(costs))
        assert costs.worst <= MOST_TIMES * costs.once + FIXED_LINES


@pytest.mark.laws
@examples(1)
@given(seeds)
def test_twice_the_parts(seed: int) -> None:
    """Four times as many lines are the square, which 30 and 60 parts are still small enough for."""
    found = growth(seed)
    note(str(found))
    assert found.worst < 6


MET = [
    "?a :p ?b OPTIONAL { ?b :v ?n OPTIONAL { ?a :q ?d FILTER(?n > 10) } }",
    "?a :p ?b OPTIONAL { ?b :v ?n OPTIONAL { ?a :q ?d } }",
    "?a :p ?b OPTIONAL { ?b :v ?n . ?a :q ?d }",
    "?a :p ?b { ?b :v ?n OPTIONAL { ?a :q ?d FILTER(?n > 10) } }",
    "?a :p ?b FILTER NOT EXISTS { ?b :v ?n . ?a :q ?d }",
    "?a :p ?b MINUS { ?b :v ?n OPTIONAL { ?a :q ?d } }",
    "?a :p ?b OPTIONAL { { ?b :v ?n . ?a :q ?d } UNION { ?b :q ?d } }",
]


@pytest.mark.parametrize("body", MET)
def test_a_change_costs_what_it_meets(body: str) -> None:
    """Four times as many quads, of which a change meets as many as before."""
    small, large = (_most_lines(body, nodes) for nodes in (40, 160))
    assert large < 2 * small


def _most_lines(body: str, nodes: int) -> int:
    """The lines of the costliest change, over nodes with one quad of each predicate."""
    with sparqlive.open() as session:
        quads = [
            f":n{i} :p :n{(i + 1) % nodes} ; :q :n{(i + 2) % nodes} ; :v {i % 20} ." for i in range(nodes)
        ]
        session.update(f"PREFIX : <u:> INSERT DATA {{ {' '.join(quads)} }}")
        session.view("v", f"PREFIX : <u:> SELECT * {{ {body} }}")
        found = []
        for change in (":n1 :p :n9", ":n1 :q :n9", ":n1 :v 30", ":n1 :v 3"):
            for form in ("INSERT", "DELETE") * 2:  # the first time, code and indexes may be missing
                text = f"PREFIX : <u:> {form} DATA {{ {change} }}"
                found.append(lines_of(lambda text=text: session.update(text)))  # type: ignore[misc]
            del found[-4:-2]
        session.check()
        return max(found)
