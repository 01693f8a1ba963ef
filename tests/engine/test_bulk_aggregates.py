"""The benchmark of orders in bulk, in small. It stops where a view or a delta is not that of the SQL."""

from __future__ import annotations

import pytest

from bench import bulk_aggregates


@pytest.mark.slow
def test_views_and_deltas_are_those_of_the_hand_written_sql() -> None:
    report = bulk_aggregates.run({"triples": 2_000, "orders": 50, "most_orders": 90, "rounds": 1})
    assert len(report.figures) == 1 + 8 * len(bulk_aggregates.VIEWS)
    assert sum(figure.measured.endswith("×") for figure in report.figures) == 5 * len(bulk_aggregates.VIEWS)
