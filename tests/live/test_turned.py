"""Marks tell which runs have no such object, so that they are not scanned; they never hide one."""

from __future__ import annotations

import numpy as np
import pytest

from sparqlive.live import turned
from sparqlive.live.turned import TurnedRuns
from sparqlive.zset.run import Run


def run_of(size: int, seed: int) -> Run:
    numbers = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (2, size))
    return Run.sort(list(numbers))


@pytest.mark.parametrize("size", [1, 2, 7, 1_000, 20_000])
def test_marks_miss_nothing_and_spare_most_scans(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "_MOST_MARK_BITS", 1 << 14)
    runs, run, other = TurnedRuns(), run_of(size, 1), run_of(1_000, 2).columns[1].tolist()
    assert not any(runs.lacks(run, value) for value in other), "nothing is known before the first scan"
    runs.note_absence(run, other[0])
    assert not any(runs.lacks(run, value) for value in run.columns[1].tolist())
    if size <= 1_000:
        assert sum(runs.lacks(run, value) for value in other) > 800


def test_marks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "_MOST_MARK_BYTES", 2_000)
    runs, every = TurnedRuns(), [run_of(1_000, seed) for seed in range(20)]
    for run in every:
        runs.note_absence(run, 0)
        assert not runs.lacks(run, int(run.columns[1][5]))
    assert sum(marks.nbytes for _, marks in runs._marks.values()) <= 4_000


def test_a_run_is_turned_after_a_scan_that_finds_something() -> None:
    runs, run = TurnedRuns(), run_of(1_000, 1)
    runs.note_absence(run, 5)
    assert not runs.is_wanted(run), "a scan in vain leaves marks, which are enough"
    assert runs.count(run, int(run.columns[1][5])) == 1
    assert not runs.is_wanted(run)
    runs.note_scan(run, 600)
    assert runs.is_wanted(run)
    assert not runs.is_wanted(run_of(1_000, 1)), "another run"


def test_a_value_that_a_scan_has_not_found_is_not_sought_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "_MOST_MARK_BITS", 8)
    runs, run = TurnedRuns(), run_of(1_000, 1)
    runs.note_absence(run, 5)
    assert runs.lacks(run, 5)
    assert not runs.lacks(run, 6), "the marks are too few to tell"
