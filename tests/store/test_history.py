"""History: the deltas of views across restarts, their contents at earlier epochs, and what is forgotten."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import sparqlive
from tests.oracle import add
from tests.store.test_store import QUERIES, quad, query

Weights = dict[tuple[Any, ...], int]


def change(session: sparqlive.Session, rng: random.Random) -> None:
    there = sorted(session.quads(), key=str)
    gone = rng.sample(there, min(2, len(there)))
    session.apply(insert=[quad(rng) for _ in range(3)], delete=gone)


def contents(session: sparqlive.Session) -> dict[str, Weights]:
    return {name: view.weights() for name, view in session.views.items()}


@pytest.mark.parametrize("store", [True, False], ids=["store", "memory"])
def test_every_kept_epoch_can_be_read(tmp_path: Path, store: bool) -> None:
    rng = random.Random(5)
    seen: dict[int, dict[str, Weights]] = {}
    path = tmp_path / "store" if store else None
    session = sparqlive.open(path)
    for name in QUERIES:
        session.view(name, query(name))
    for round_ in range(6):
        for _ in range(4):
            change(session, rng)
            seen[session.epoch] = contents(session)
        if round_ % 2:
            session.compact()
        if store:
            session.close()
            session = sparqlive.open(path)
        for epoch, expected in seen.items():
            assert {name: view.weights(at=epoch) for name, view in session.views.items()} == expected
    with pytest.raises(sparqlive.HistoryGone, match="does not exist yet"):
        session.views["optional"].weights(at=session.epoch + 1)
    session.close()


def test_a_reader_resumes_after_restarts(tmp_path: Path) -> None:
    """From whatever epoch it resumes: no delta twice, none missing."""
    rng = random.Random(6)
    seen: dict[int, dict[str, Weights]] = {}
    with sparqlive.open(tmp_path / "store") as session:
        for name in QUERIES:
            session.view(name, query(name))
        seen[session.epoch] = contents(session)
    for _ in range(8):
        with sparqlive.open(tmp_path / "store") as session:
            for _ in range(3):
                change(session, rng)
                seen[session.epoch] = contents(session)
            for since, before in seen.items():
                for name, view in session.views.items():
                    total = before[name]
                    for delta in view.changes(since=since):
                        assert not delta.reset
                        total = add(total, delta.weights())
                    assert total == view.weights()


def test_beyond_the_retention_a_snapshot_comes(tmp_path: Path) -> None:
    rng = random.Random(7)
    with sparqlive.open(tmp_path / "store", history_epochs=5) as session:
        view = session.view("optional", query("optional"))
        seen = {0: view.weights()}
        for _ in range(12):
            change(session, rng)
            seen[session.epoch] = view.weights()
        session.compact()
    with sparqlive.open(tmp_path / "store", history_epochs=5) as session:
        view = session.views["optional"]
        (first,) = view.changes(since=3)
        assert first.reset
        assert first.weights() == view.weights()
        assert not any(delta.reset for delta in view.changes(since=session.epoch - 5))
        assert view.weights(at=session.epoch - 5) == seen[session.epoch - 5]
        with pytest.raises(sparqlive.HistoryGone, match="history starts at epoch"):
            view.weights(at=3)
        session.check()


def test_deltas_are_forgotten_by_age(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", history_seconds=0.0) as session:
        session.view("optional", query("optional"))
        change(session, random.Random(8))
        session.compact()
    with sparqlive.open(tmp_path / "store") as session:
        assert [delta.reset for delta in session.views["optional"].changes(since=0)] == [True]


def test_a_view_that_is_younger_than_asked_for(tmp_path: Path) -> None:
    rng = random.Random(9)
    with sparqlive.open(tmp_path / "store") as session:
        session.view("optional", query("optional"))
        change(session, rng)
        session.view("again", query("optional"))  # shares its content
        change(session, rng)
    with sparqlive.open(tmp_path / "store") as session:
        assert [delta.reset for delta in session.views["again"].changes(since=0)] == [True]
        assert not any(delta.reset for delta in session.views["again"].changes(since=1))
        assert not any(delta.reset for delta in session.views["optional"].changes(since=0))


def test_a_part_that_another_view_uses_outlives_its_product(tmp_path: Path) -> None:
    part = "PREFIX : <http://example.org/> SELECT ?x { ?x :q :n1 }"
    with sparqlive.open(tmp_path / "store") as session:
        session.view("product", query("product"))
        session.view("part", part)
        session.drop("product")
        session.apply(insert=[ox.Quad(*(ox.NamedNode(f"http://example.org/{n}") for n in ("n4", "q", "n1")))])
    with sparqlive.open(tmp_path / "store") as session:
        session.check()
        assert len(session.views["part"]) == 1
