"""The benchmark of throughput, in small and without pathway. It stops where the views are not right."""

from __future__ import annotations

import pytest

from bench import throughput

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
