"""Strategies take turns at random: after every epoch, deltas and the state of operators are the same as live.

A session that is always carried live is compared with one whose epochs are carried by any strategy, in all
relations that a store would keep. The sizes from which totals and columns are used are set to nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from tests.conftest import times

EX = "http://example.org/"
_BY = "{ ?s :in ?g . ?s :v ?v } GROUP BY ?g"
VIEWS = {
    "sums": f"SELECT ?g (SUM(?v) AS ?t) (COUNT(*) AS ?n) (AVG(?v) AS ?a) {_BY}",
    "one group": "SELECT (SUM(?v) AS ?t) (COUNT(?s) AS ?n) { ?s :in ?g . ?s :v ?v }",
    "computed": (
        "SELECT ?g (SUM(?x) AS ?t) (COUNT(?x) AS ?n) { ?s :in ?g . ?s :v ?v BIND(?v * 2 AS ?x) } GROUP BY ?g"
    ),
    "unbound": "SELECT ?g (SUM(?v) AS ?t) (COUNT(?v) AS ?n) { ?s :in ?g OPTIONAL { ?s :v ?v } } GROUP BY ?g",
    "constants": "SELECT ?f (SUM(?f) AS ?t) (COUNT(*) AS ?n) { ?s :in ?g VALUES ?f { 1 2.5 } } GROUP BY ?f",
    "distinct values": f"SELECT ?g (SUM(DISTINCT ?v) AS ?t) (COUNT(DISTINCT ?v) AS ?n) {_BY}",
    "first": f"SELECT ?g (MIN(?v) AS ?a) (MAX(?v) AS ?b) (SAMPLE(?v) AS ?c) {_BY}",
    "texts": f"SELECT ?g (GROUP_CONCAT(?v) AS ?a) (COUNT(*) AS ?n) {_BY}",
    "groups of groups": (
        "SELECT ?n (COUNT(*) AS ?m) (SUM(?t) AS ?u) "
        "{ { SELECT ?g (COUNT(*) AS ?n) (SUM(?v) AS ?t) { ?s :in ?g . ?s :v ?v } GROUP BY ?g } } GROUP BY ?n"
    ),
    "distinct": "SELECT DISTINCT ?g ?v { ?s :in ?g . ?s :v ?v }",
    "distinct, joined": "SELECT ?s ?v { ?s :in ?g { SELECT DISTINCT ?g ?v { ?x :in ?g . ?x :v ?v } } }",
    "group, joined": (
        "SELECT ?s ?n { ?s :in ?g { SELECT ?g (COUNT(*) AS ?n) { ?x :in ?g . ?x :v ?v } GROUP BY ?g } }"
    ),
    "group, missing": (
        "SELECT ?g { ?g :near ?h FILTER NOT EXISTS "
        "{ SELECT ?g (COUNT(*) AS ?n) { ?x :in ?g . ?x :v ?v } GROUP BY ?g } }"
    ),
    "having": f"SELECT ?g (COUNT(*) AS ?n) {_BY} HAVING (SUM(?v) > 10)",
    "window": "SELECT ?s ?v { ?s :in ?g . ?s :v ?v } ORDER BY ?v ?s LIMIT 4",
    "top groups": f"SELECT ?g (COUNT(*) AS ?n) {_BY} ORDER BY DESC(?n) ?g LIMIT 2",
    "numbered": "CONSTRUCT { _:x :was ?v } { ?s :in ?g . ?s :v ?v }",
    "closure": "SELECT ?g ?h { ?g :near+ ?h }",
}  # fmt: skip

VALUES = (
    *(ox.Literal(number) for number in (0, 1, 2, 7, -3)),
    *(ox.Literal(text, datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#decimal"))
      for text in ("0.5", "2.25", "1.0", "12345678901234567890.000000000000000000001")),
    *(ox.Literal(number) for number in (10**30, 0.1, 1e300, -2.5)),
    ox.Literal("seven"),
    ox.NamedNode(EX + "x"),
)  # fmt: skip
EXACT = 8
"""How many of the values SQL adds exactly: most epochs have only these."""


FROM_THE_FIRST_ROW = replace(DEFAULT, column_rows=1, rows_to_large_changes=0)


def quad(chance: random.Random, values: int) -> ox.Quad:
    name, predicate = ox.NamedNode(f"{EX}s{chance.randrange(9)}"), chance.choice(("in", "v", "v", "near"))
    node = ox.NamedNode(f"{EX}g{chance.randrange(4)}")
    if predicate == "near":
        return ox.Quad(node, ox.NamedNode(EX + "near"), ox.NamedNode(f"{EX}g{chance.randrange(4)}"))
    other = chance.choice(VALUES[:values]) if predicate == "v" else node
    return ox.Quad(name, ox.NamedNode(EX + predicate), other)


def states(session: sparqlive.Session) -> dict[str, dict[tuple[int, ...], int]]:
    """Everything that is stored of the views, by the names of relations."""
    return {
        name: dict(rows.items())
        for view in session.views.values()
        for name, _, rows in view._state.content.relations()
    }


def batches(chance: random.Random, count: int) -> Iterator[tuple[set[ox.Quad], set[ox.Quad]]]:
    there: set[ox.Quad] = set()
    for number in range(count):
        values = len(VALUES) if number % 3 == 2 else EXACT
        come = {quad(chance, values) for _ in range(chance.choice((1, 12, 30)))} - there
        gone = set(
            chance.sample(sorted(there, key=str), chance.choice((0, len(there) // 3, len(there) // 2)))
        )
        yield gone, come
        there = (there - gone) | come


@pytest.mark.parametrize("seed", range(times(1, 2)))
def test_strategies_take_turns(seed: int) -> None:
    chance = random.Random(seed)
    with Session(tuning=FROM_THE_FIRST_ROW) as session, Session(tuning=FROM_THE_FIRST_ROW) as live:
        for opened, strategy in ((session, "duckdb"), (live, "live")):
            for name, text in VIEWS.items():
                opened.view(name, f"PREFIX : <{EX}> {text}", strategy=strategy)  # type: ignore[arg-type]
        for gone, come in batches(chance, 6):
            how = chance.choice(("duckdb", "duckdb", "live", "rebuild"))
            epoch = session.apply(delete=gone, insert=come, strategy=how)  # type: ignore[arg-type]
            expected = live.apply(delete=gone, insert=come, strategy="live")
            for name in VIEWS:
                assert epoch.deltas[name].weights() == expected.deltas[name].weights(), f"{name}: {how}"
            assert states(session) == states(live), how
        session.check()


def test_views_of_a_filled_session() -> None:
    """A first computation on DuckDB leaves the state that live has, and so do changes after it."""
    first, *others = batches(random.Random(7), 3)
    with Session(tuning=FROM_THE_FIRST_ROW) as session, Session(tuning=FROM_THE_FIRST_ROW) as live:
        for opened, strategy in ((session, "duckdb"), (live, "live")):
            opened.apply(insert=first[1])
            for name, text in VIEWS.items():
                opened.view(name, f"PREFIX : <{EX}> {text}", strategy=strategy)  # type: ignore[arg-type]
        assert states(session) == states(live)
        for gone, come in others:
            session.apply(delete=gone, insert=come, strategy="duckdb")
            live.apply(delete=gone, insert=come, strategy="live")
            assert states(session) == states(live)
        session.check()
