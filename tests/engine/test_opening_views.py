"""Views of a store that opens: nothing acts before it is open; a wrong content is noticed and repaired."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.store.store import REFRESHES
from tests.random_histories import check_history
from tests.waiting import wait_until

EX = "http://example.org/"
QUERY = f"SELECT ?x ?y {{ ?x <{EX}p> ?y }}"
DISTINCT = f"SELECT DISTINCT ?x {{ ?x <{EX}p> ?y }}"
A, B, C, P = (ox.NamedNode(EX + name) for name in "abcp")
ROW = {(A, B): 1}


def catalog(session: sparqlive.Session) -> sparqlive.store.catalog.Catalog:
    assert session.store is not None
    return session.store.catalog


def assert_right(session: sparqlive.Session, name: str = "late") -> None:
    view = session.views[name]
    wait_until(lambda: view.epoch == session.epoch)
    assert view.weights() == ROW
    session.check()


def test_a_view_that_falls_due_while_its_store_opens(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.view("late", QUERY, refresh=0.001)
        session.view("other", DISTINCT, refresh=0.001)
        for number in range(3):
            session.view(f"v{number}", f"SELECT ?x {{ ?x <{EX}{number}> ?y }}")
        with session.reading():  # the timer cannot refresh it before the session is closed
            session.apply([ox.Quad(A, P, B)])
            session._writer.refresher.stop()
    with sparqlive.open(tmp_path / "s", progress=lambda done, of: time.sleep(0.02)) as session:
        assert_right(session)
        assert session.repair() == []
        session.apply(delete=[ox.Quad(A, P, B)])
        wait_until(lambda: session.views["late"].epoch == 2)
        assert session.views["late"].weights() == {}
        session.check()


def test_a_timer_of_a_replaced_view_changes_nothing(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        old = session.view("late", QUERY, refresh=0.001)
        with session.reading():
            session.apply([ox.Quad(A, P, B)])
            due = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
            time.sleep(0.02)  # the timer ends, and waits for the lock
            session.view("late", QUERY, refresh=3600, replace=True)
        for timer in due:
            timer.join()
        assert not old.refresh()
        assert_right(session)
    with sparqlive.open(tmp_path / "s") as session:
        assert_right(session)


@pytest.mark.parametrize("query", [QUERY, DISTINCT])
@pytest.mark.parametrize("refresh", ["immediate", "manual"])
@pytest.mark.parametrize("stored", [True, False])
def test_no_read_shows_a_negative_weight(tmp_path: Path, query: str, refresh: str, stored: bool) -> None:
    with sparqlive.open(tmp_path / "s" if stored else None) as session:
        view = session.view("late", query, refresh=refresh)  # type: ignore[arg-type]
        session.apply([ox.Quad(A, P, B)])
        view.refresh()
        right = view.weights()
        content = view._state.content
        held = content.rows if content.rows is not None else content._top()
        held.add(dict.fromkeys(dict(held.items()), -2))
        reads = (
            view.weights, lambda: len(view), lambda: list(view), lambda: list(view.solutions()),
            view.to_arrow, lambda: view.first(3), lambda: list(view.changes(since=-1)),
            lambda: view.preview(3, 0),
        )  # fmt: skip
        for read in reads:
            with pytest.raises(sparqlive.ViewFailed, match="check --repair"):
                read()
        assert view.stats()["failure"]
        with pytest.raises(sparqlive.CheckFailed, match="negative weight"):
            session.check()
        assert session.repair() == ["late"]
        assert (view.failure, view.weights()) == (None, right)
        session.check()
        session.apply(delete=[ox.Quad(A, P, B)])
        view.refresh()
        assert view.weights() == {}
    if stored:
        with sparqlive.open(tmp_path / "s") as session:
            assert session.views["late"].weights() == {}
            session.check()


@pytest.mark.parametrize("refresh", ["immediate", "manual", 3600])
def test_what_check_finds_is_repaired(tmp_path: Path, refresh: str) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        view = session.view("late", QUERY, refresh=refresh)  # type: ignore[arg-type]
        other = session.view("other", f"SELECT * {{ ?x <{EX}p> ?y . ?y <{EX}p> ?z }}")
        session.apply([ox.Quad(A, P, B), ox.Quad(B, P, C)])
        view.refresh()
        right = view.weights()
        content = view._state.content
        content.add({row: 1 for row, _ in content.items()})
        with pytest.raises(sparqlive.CheckFailed, match="check --repair"):
            session.check()
        assert session.repair() == ["late"]
        session.check()
        assert session.repair() == []
        assert view.weights() == right
        assert len(other) == 1
    with sparqlive.open(tmp_path / "s") as session:
        session.check()
        assert session.views["late"].weights() == right


@pytest.mark.parametrize("lost", ["changes", "all changes", "refresh", "older version", "later content"])
def test_a_content_that_is_not_of_its_epoch_is_computed_again(
    tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.view("late", QUERY, refresh=3600)
        session.apply([ox.Quad(C, P, B)])
        session.apply([ox.Quad(A, P, B)], [ox.Quad(C, P, B)])
        tables = catalog(session)
        with tables.transaction():
            if lost == "changes":
                tables._sealed.delete("deltas", "relation = ? AND epoch = ?", ("gathered/late", 2))
            elif lost == "all changes":
                tables.forget_relation("gathered/late", 2)
            elif lost == "refresh":
                tables.set_meta("refreshed/late", "7")
            elif lost == "older version":  # a view was refreshed while its store opened
                tables.forget_relation("gathered/late", 2)
                tables.set_base("gathered/late", 2, 4, {})
                tables.set_meta("refreshed/late", "2")
                tables._sealed.delete("meta", "key = ?", (REFRESHES,))
            else:
                name = session.views["late"]._state.content.name
                tables.add_delta(name, 2, 2, {})
    with sparqlive.open(tmp_path / "s") as session:
        assert_right(session)
        assert "was computed again" in caplog.text
    caplog.clear()
    with sparqlive.open(tmp_path / "s") as session:
        assert_right(session)
        assert not caplog.text


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    check_history(seed, tmp_path, steps=16)
    assert "was computed again" not in caplog.text


def test_products_with_other_refreshes_have_their_own_history(tmp_path: Path) -> None:
    product = f"SELECT * {{ ?x <{EX}p> ?y . ?v <{EX}q> ?w }}"
    q = ox.NamedNode(EX + "q")
    with sparqlive.open(tmp_path / "s") as session:
        for name in ("first", "second"):
            session.view(name, product, refresh="manual")
        session.apply([ox.Quad(A, P, B), ox.Quad(A, q, B)])
        session.views["first"].refresh()
    with sparqlive.open(tmp_path / "s") as session:
        assert [delta.epoch for delta in session.views["first"].changes(since=0)] == [1]
        assert list(session.views["second"].changes(since=0)) == []
        session.check()
