"""What runs in SQL gives the very terms that Python gives: aggregates, expressions, orders of nasty terms."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparqlive.plan.reference import Reference
from sparqlive.sparql.columns import NAMES, typed
from tests.bulk.test_duckdb import plan_of
from tests.nasty_terms import TERMS, Term, terms
from tests.on_duckdb import DuckDbWork
from tests.oracle import assert_same

EX = "http://example.org/"
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
@settings(max_examples=12)
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
