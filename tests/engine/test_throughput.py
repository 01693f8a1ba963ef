"""The benchmarks of throughput and regret, in small, without pathway. They stop where views are not right."""

from __future__ import annotations

import pytest

from bench import regret, throughput

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


def test_regret_compares_the_choice_with_each_strategy() -> None:
    report = regret.run({"smallest": 200, "largest": 200, "most_changes": 100, "batches": 1})
    assert {row[0] for row in report.details[1:]} == {
        "join",
        "sums",
        "star",
        "without orders",
        "largest value",
    }
    assert all(row[2] == "100" and row[-2] == "live" for row in report.details[1:])
    assert [figure.benchmark for figure in report.figures] == [
        "regret, worst of 5 cells",
        "regret, mean of 5 cells",
    ]
