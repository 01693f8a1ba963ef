"""Each fixture with held views that are carried from files to files, as Spark does it; here DuckDB does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import sparqlive
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.engine.carry import Strategies
from sparqlive.zset.relation import change_between
from sparqlive.zset.run import Run
from tests.conftest import FULL
from tests.fixture_format import Fixture
from tests.test_fixtures import KEPT, start
from tests.tuned import tune

CASES = [
    (fixture, ("memory", "store")[number % 2], ("searched", "scanned")[number // 2 % 2])
    for number, fixture in enumerate(KEPT if FULL else KEPT[5::11])
]


@pytest.mark.parametrize(("fixture", "place", "how"), CASES, ids=lambda given: getattr(given, "name", given))
def test_epoch_by_epoch(
    fixture: Fixture, place: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Strategies, "_spark_on_files", lambda self, quads, target: DuckDb())
    searching = {"scanned_rows": -1, "rows_per_search": 0} if how == "searched" else {}
    tune(monkeypatch, catalog_rows=2, **searching)
    path = tmp_path / "store" if place == "store" else None
    with sparqlive.open(path, default_graph=fixture.default_graph) as session:
        run = start(fixture, session, data_first=True)
        assert run.view._state.content.is_held
        content = session._writer.strategies.contents_by("spark")
        for part in run.view._state.content.stored_parts():
            found = content(part.name, part.plan)
            assert isinstance(found, Mapping | Run)
            assert not change_between(part.whole(), found)
        for number, epoch in enumerate(fixture.epochs, 1):
            run.apply(epoch.changes, epoch.delta, f"epoch {number} ({epoch.title})", "spark")
        session.check()
