"""The benchmarks of throughput and regret, in small, without pathway. They stop where views are not right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench import regret, throughput
from bench.kept import Kept

SIZES = {"orders": 60, "customers": 20, "cities": 5, "batches": 20, "changes": 400, "largest": 100}


@pytest.mark.slow
def test_all_modes_process_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "pathway_interpreter", lambda: None)
    monkeypatch.setattr(throughput, "_QUADS_AT_MOST", 1)  # so that batches of 100 are text
    report = throughput.run(SIZES)
    assert [row[:2] for row in report.details[1:]] == [["1", "20"], ["100", "4"]]
    assert len(report.figures) == 6
    assert all(figure.ours.endswith("/s") and not figure.peer for figure in report.figures)


def test_orders_keep_their_number() -> None:
    case = throughput.case_of(SIZES, 10)
    assert case.batches == 20
    assert all(len(deletes) == len(inserts) == 5 for deletes, inserts in case.parts())
    assert sum(count for _, count in case.expected.values()) == 60


def test_regret_compares_the_choice_with_each_strategy(tmp_path: Path) -> None:
    measuring = regret.Measuring(time.process_time, 1, 0)
    kept = Kept(tmp_path / "regret.jsonl", lambda: ["- load average: 1"])
    regret.run(measuring, kept, [200], [100, 10_000])
    keys = list(regret.groups([200], [100]))
    assert all(key in kept for key in keys), "and no more changes than orders to replace"
    text, rows = regret.page(kept, keys, "processor time")
    views = {"join", "sums", "star", "without orders", "largest value"}
    views |= {"orders or none", "distinct", "ten largest", "mean of some"}
    assert {row["view"] for row in rows} == views
    assert all(row["was"] == ["live"] and row["changes"] == 100 for row in rows)
    assert "| worst of 9 cells |" in text
    regret.draw(rows, tmp_path / "regret.svg")
    assert (tmp_path / "regret.svg").exists()
    regret.run(
        measuring, Kept(tmp_path / "regret.jsonl", lambda: pytest.fail("measured again")), [200], [100]
    )


def test_regret_is_the_time_over_the_best() -> None:
    row = {"auto": 1.2, "live": 2.0, "duckdb": 1.0, "rebuild": 3.0}
    assert regret.regret(row) == 1.2
    assert regret.lead(row) == 3.0
    assert regret.regret({**row, "auto": 0.9}) == 1.0, "below 1 is noise"
