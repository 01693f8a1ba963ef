"""Estimates of the cost of each way to carry an epoch."""

from __future__ import annotations

import pytest

import sparqlive
from sparqlive.engine.costs import BULK, LIVE, Sizes, Way, seconds_of, ways_of

DUCKDB = Way("duckdb", "duckdb")
PLAIN = Sizes(quads=200_000, rows=100_000, derivations=100_000)
GROUPS = Sizes(quads=200_000, rows=1_000, derivations=1_000, states=1)


@pytest.mark.parametrize("way", ways_of(["duckdb"]))
def test_operators_with_state_cost_more(way: Way) -> None:
    plain = Sizes(GROUPS.quads, GROUPS.rows, GROUPS.derivations)
    assert seconds_of(way, GROUPS, 1_000) > seconds_of(way, plain, 1_000)


@pytest.mark.parametrize("sizes", [PLAIN, GROUPS])
def test_live_suits_small_batches_and_columns_large_ones(sizes: Sizes) -> None:
    def cheapest(changed: int) -> Way:
        return min(ways_of(["duckdb"]), key=lambda way: seconds_of(way, sizes, changed))

    assert cheapest(1_000) == LIVE
    assert cheapest(100_000) != LIVE


def test_a_rebuild_suits_changes_as_large_as_the_view() -> None:
    small = Sizes(quads=40_000, rows=10_000, derivations=10_000)
    assert seconds_of(Way("rebuild", "duckdb"), small, 40_000) < seconds_of(DUCKDB, small, 40_000)


def test_a_backend_is_started_once_epochs_have_lost_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start = BULK["duckdb"].start_seconds
    with sparqlive.open() as session:
        strategies = session._epochs.strategies
        monkeypatch.setattr(strategies, "is_started", lambda name: False)
        assert strategies._start_seconds(DUCKDB) == start
        for left in (0.5, 0.0, 0.0):  # each epoch would have taken half of the start less
            seconds = 1.0 - start / 2 + strategies._start_seconds(DUCKDB)
            strategies._count_lost(1.0, {LIVE: 1.0, DUCKDB: seconds})
            assert strategies._start_seconds(DUCKDB) == pytest.approx(left * start)


def test_a_slower_backend_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with sparqlive.open() as session:
        strategies = session._epochs.strategies
        monkeypatch.setattr(strategies, "is_started", lambda name: False)
        start = strategies._start_seconds(DUCKDB)
        strategies._count_lost(1.0, {LIVE: 1.0, DUCKDB: 1.5 + start})
        assert strategies._start_seconds(DUCKDB) == start
