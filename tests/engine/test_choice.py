"""The rule that chooses a strategy for an epoch and a plan."""

from __future__ import annotations

import pytest

import sparqlive
from sparqlive.engine.choice import LIVE, Way, Work, choose, way_of
from sparqlive.runtime.tuning import DEFAULT

DUCKDB, SPARK = Way("duckdb", "duckdb"), Way("spark", "spark")
BOTH = pytest.mark.parametrize(("way", "most"), [(DUCKDB, DEFAULT.live_rows), (SPARK, DEFAULT.spark_rows)])


def chosen(changed: int, backend: str | None, quads: int = 1_000_000, derivations: int = 0) -> Way:
    return choose(Work(changed, quads, derivations), backend, DEFAULT)[0]


@BOTH
def test_live_carries_small_changes_and_a_backend_large_ones(way: Way, most: int) -> None:
    assert chosen(most, way.backend) == LIVE
    assert chosen(most + 1, way.backend) == way


@BOTH
def test_a_change_with_many_derivations_counts_for_as_many(way: Way, most: int) -> None:
    assert chosen(most // 50, way.backend, derivations=50_000_000) == LIVE
    assert chosen(most // 50 + 1, way.backend, derivations=50_000_000) == way


def test_live_carries_more_where_duckdb_would_scan_more() -> None:
    assert chosen(100_000, "duckdb", quads=10_000_000) == LIVE
    assert chosen(100_001, "duckdb", quads=10_000_000) == DUCKDB


@BOTH
def test_a_change_as_large_as_the_view_is_a_rebuild(way: Way, most: int) -> None:
    assert chosen(most + 1, way.backend, quads=2 * most + 2) == way
    assert chosen(most + 1, way.backend, quads=2 * most + 1) == Way("rebuild", way.backend)
    assert chosen(most, way.backend, quads=0) == LIVE, "a small one never is"


def test_live_carries_less_where_each_change_looks_up_rows() -> None:
    for more, way in enumerate((LIVE, DUCKDB)):
        work = Work(DEFAULT.looked_up_rows + more, 100_000, 0, looks_up_rows=True)
        assert choose(work, "duckdb", DEFAULT)[0] == way


@pytest.mark.parametrize(
    ("query", "looks_up_rows"),
    [
        ("SELECT ?s ?o { ?s <urn:p> ?o }", False),
        ("SELECT ?s (SUM(?o) AS ?n) { ?s <urn:p> ?o } GROUP BY ?s", False),
        ("SELECT ?s ?o { ?s <urn:p> ?o } ORDER BY ?o LIMIT 10", False),
        ("SELECT ?s (MAX(?o) AS ?n) { ?s <urn:p> ?o } GROUP BY ?s", True),
        ("SELECT DISTINCT ?o { ?s <urn:p> ?o }", True),
    ],
)
def test_which_views_look_up_rows(query: str, looks_up_rows: bool) -> None:
    with sparqlive.open() as session:
        (compiled,) = session.view("v", query)._state.content.carried_by()
        assert compiled.looks_up_rows is looks_up_rows


def test_live_carries_everything_where_there_is_no_backend() -> None:
    assert chosen(10_000_000, None) == LIVE


def test_a_requested_rebuild_runs_where_its_size_suits() -> None:
    small, large = Work(1, DEFAULT.live_rows - 1, 0), Work(1, 10 * DEFAULT.spark_rows, 0)
    assert (
        way_of("rebuild", small, "duckdb", DEFAULT)
        == way_of("rebuild", large, None, DEFAULT)
        == Way("rebuild")
    )
    assert way_of("rebuild", large, "duckdb", DEFAULT) == Way("rebuild", "duckdb")
    assert way_of("rebuild", large, "spark", DEFAULT) == Way("rebuild", "spark")


@pytest.mark.parametrize("strategy", ["live", "duckdb", "spark"])
def test_any_other_requested_strategy_is_taken_at_its_word(strategy: str) -> None:
    assert way_of(strategy, Work(1, 1, 1), "duckdb", DEFAULT).strategy == strategy


def test_the_reasons_are_sentences() -> None:
    assert [
        choose(Work(changed, quads, derivations), "duckdb", DEFAULT)[1]
        for changed, quads, derivations in (
            (1_000, 50_000, 0),
            (1_000, 50_000, 2_500_000),
            (30_000, 100_000, 0),
            (30_000, 50_000, 0),
        )
    ] == [
        "live is the cheapest for 1,000 changed rows: at most 20,000.",
        "duckdb is the cheapest for 1,000 changed rows with about 50 derivations each: more than 20,000.",
        "duckdb is the cheapest for 30,000 changed rows: more than 20,000.",
        "rebuild is the cheapest for 30,000 changed rows: more than half of the 50,000 quads that the view "
        "matches.",
    ]
