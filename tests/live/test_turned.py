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
    assert all(runs.may_have(run, value) for value in other), "nothing is known before the first scan"
    runs.scanned(run)
    assert all(runs.may_have(run, value) for value in run.columns[1].tolist())
    if size <= 1_000:
        assert sum(runs.may_have(run, value) for value in other) < 400


def test_marks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "_MOST_MARK_BYTES", 2_000)
    runs, every = TurnedRuns(), [run_of(1_000, seed) for seed in range(20)]
    for run in every:
        runs.scanned(run)
        assert runs.may_have(run, int(run.columns[1][5]))
    assert sum(marks.nbytes for _, marks in runs._marks.values()) <= 4_000
