"""Estimates of the cost of each way to carry an epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sparqlive
from sparqlive.engine.costs import (
    BULK,
    LIVE,
    REBUILD,
    SWITCHING,
    Measurements,
    Sizes,
    Way,
    commit_seconds,
    seconds_of,
    ways_of,
    whole_seconds_of,
)

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


def test_a_window_is_sorted_row_by_row_however_it_is_carried() -> None:
    window = Sizes(quads=200_000, rows=10, derivations=10, states=1, windows=1)
    for changed in (1_000, 100_000):
        whole = {
            way: seconds_of(way, window, changed) + commit_seconds(way, window, changed)
            for way in ways_of(["duckdb"])
        }
        assert min(whole, key=whole.__getitem__) == LIVE


def test_counts_of_rows_cost_less_than_groups() -> None:
    distinct = replace(GROUPS, distincts=1)
    for way in (LIVE, DUCKDB):
        assert seconds_of(way, distinct, 1_000) < seconds_of(way, GROUPS, 1_000)


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


def expected(measurements: Measurements, way: Way) -> float:
    """The expected seconds of a way that is estimated to take one."""
    return measurements.correct("plan", {way: 1.0})[way]


def learned(*epochs: tuple[float, bool]) -> Measurements:
    """What is learned from epochs that DuckDB carried: their factors, and whether another way was before."""
    measurements = Measurements()
    expected(measurements, DUCKDB)
    for factor, is_switch in epochs:
        measurements.learn("plan", DUCKDB, factor, is_switch)
    return measurements


def test_a_way_is_not_judged_by_the_epoch_that_switches_to_it() -> None:
    assert expected(learned((2.5, True)), DUCKDB) == 1.0
    assert expected(learned((2.5, True), (1.1, False)), DUCKDB) == 1.1
    assert expected(learned((1.1, False), (2.5, True), (2.5, True)), DUCKDB) == 1.1


def test_a_way_that_is_switched_to_for_each_large_batch_is_learned_all_the_same() -> None:
    alternating = learned((2.5, True), (3.0, True), (3.0, True))
    assert expected(alternating, DUCKDB) == 3.0
    alternating.learn("plan", DUCKDB, 1.1, is_switch=False)
    assert expected(alternating, DUCKDB) == 1.1, "an epoch without a switch says more"


def test_a_new_plan_starts_with_what_others_have_learned() -> None:
    measurements = learned((2.0, False))
    assert measurements.correct("another", {DUCKDB: 1.0})[DUCKDB] == 2.0
    measurements.learn("another", DUCKDB, 1.0)
    assert measurements.correct("another", {DUCKDB: 1.0})[DUCKDB] == 1.0


def test_ways_of_nearly_the_same_cost_do_not_alternate() -> None:
    with sparqlive.open() as session:
        strategies = session._epochs.strategies
        slower, less = SWITCHING * 0.99, SWITCHING * 1.01
        for last, other in ((LIVE, REBUILD), (REBUILD, LIVE)):
            cheapest = strategies._cheapest("plan", {last: slower, other: 1.0}, last, PLAIN, 0)
            assert min(cheapest, key=cheapest.__getitem__) == last
            cheapest = strategies._cheapest("plan", {last: less, other: 1.0}, last, PLAIN, 0)
            assert min(cheapest, key=cheapest.__getitem__) == other


@pytest.mark.parametrize("changed", [300, 1_000, 100_000])
def test_groups_that_live_reads_once_do_not_count_as_its_speed(changed: int) -> None:
    """A view whose groups were all read would else be carried by others, because the first epoch was slow."""
    unread = replace(GROUPS, unread=100_000)
    whole = whole_seconds_of(LIVE, unread, changed)
    assert whole == pytest.approx(seconds_of(LIVE, GROUPS, changed) + unread.reading(changed))
    assert seconds_of(LIVE, GROUPS, changed) < seconds_of(LIVE, unread, changed) < whole
    assert whole_seconds_of(DUCKDB, unread, changed) == seconds_of(DUCKDB, unread, changed)
