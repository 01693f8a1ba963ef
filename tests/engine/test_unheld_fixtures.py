"""Each fixture with nothing held in memory: every epoch goes from file to file on DuckDB."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

import sparqlive
from tests.conftest import FULL
from tests.fixture_format import Change, Fixture
from tests.oracle import assert_same
from tests.test_fixtures import KEPT, Run, start
from tests.w3c import assert_alike

pytestmark = pytest.mark.usefixtures("in_files")


@pytest.mark.parametrize("fixture", KEPT if FULL else KEPT[::12], ids=lambda f: f.name)
def test_epoch_by_epoch(fixture: Fixture, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path, default_graph=fixture.default_graph, memory=0) as session:
        run = start(fixture, session, data_first=True)
        assert not run.view._state.content.is_held
        for number, epoch in enumerate(fixture.epochs, 1):
            run.apply(epoch.changes, epoch.delta, f"epoch {number} ({epoch.title})")


@pytest.mark.slow
@pytest.mark.parametrize("fixture", KEPT if FULL else KEPT[3::40], ids=lambda f: f.name)
def test_held_and_not_held_take_turns(fixture: Fixture, tmp_path: Path) -> None:
    """The store is opened again before each epoch; every second time, nothing is held."""
    limits = cycle((0, None))
    with sparqlive.open(tmp_path, default_graph=fixture.default_graph) as session:
        run = start(fixture, session, data_first=False)
        total, quads = run.sum, run.quads
    for number, epoch in enumerate(fixture.epochs, 1):
        limit = next(limits)
        with sparqlive.open(tmp_path, memory=limit) as session:
            run = Run(fixture, session, session.views["view"])
            run.sum, run.quads = total, quads
            run.compare(f"reopened before epoch {number}")
            assert run.view._state.content.is_held == (limit is None)
            strategy = "rebuild" if number % 3 == 0 else "auto"
            run.apply(epoch.changes, epoch.delta, f"epoch {number} ({epoch.title})", strategy)
            session.compact()
            run.compare("after a compaction")
            total, quads = run.sum, run.quads
    with sparqlive.open(tmp_path, memory=0) as session:
        run = Run(fixture, session, session.views["view"])
        run.sum, run.quads = total, quads
        first = set(fixture.data)
        back = [Change("-", quad) for quad in quads - first] + [Change("+", quad) for quad in first]
        run.apply(back, None, "everything undone")
        assert_alike(run.weights(), fixture.snapshot, "everything undone")
        assert_same(run.weights(), run.sum, "everything undone")
