"""Views that are refreshed later than their data changes: what they show, when, and after what."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from tests.conftest import examples
from tests.oracle import add, assert_same
from tests.random_queries import RandomQuery, batches, graphs, queries
from tests.test_laws import Batch, after, apply, kept

EX = "http://example.org/"
P = ox.NamedNode(EX + "p")
QUERY = f"SELECT ?s ?o WHERE {{ ?s <{EX}p> ?m . ?m <{EX}p> ?o }}"
DISTINCT = f"SELECT DISTINCT ?s WHERE {{ ?s <{EX}p> ?o }}"


def quad(subject: str, object_: str) -> ox.Quad:
    return ox.Quad(ox.NamedNode(EX + subject), P, ox.NamedNode(EX + object_))


def rows(view: sparqlive.View) -> set[tuple[str, ...]]:
    return {tuple(str(term)[len(EX) + 1 : -1] for term in row) for row in view.weights()}


def test_a_manual_view_stands_where_it_is_until_it_is_refreshed() -> None:
    with sparqlive.open() as session:
        view = session.view("later", QUERY, refresh="manual")
        at_once = session.view("now", QUERY)
        first = session.apply(insert=[quad("a", "b"), quad("b", "c")])
        second = session.apply(insert=[quad("c", "d")])
        assert first.deltas["later"].weights() == {}
        assert (view.epoch, rows(view), rows(at_once)) == (0, set(), {("a", "c"), ("b", "d")})
        session.check()

        delta = view.refresh()
        assert (delta.epoch, view.epoch) == (second.number, second.number)
        assert delta.weights() == at_once.weights() == view.weights()
        assert [change.epoch for change in view.changes(since=0)] == [2]
        assert not view.refresh()
        session.check()


def test_changes_that_cancel_each_other_are_never_carried() -> None:
    with sparqlive.open() as session:
        view = session.view("later", QUERY, refresh="manual")
        session.apply(insert=[quad("a", "b"), quad("b", "c")])
        assert view.stats()["unseen_changes"] == 2
        session.apply(delete=[quad("a", "b"), quad("b", "c")])
        assert view.stats()["unseen_changes"] == 0
        assert view.epoch == session.epoch == 2
        assert not view.refresh()


def test_a_lag_is_kept_without_being_asked() -> None:
    with sparqlive.open() as session:
        view = session.view("soon", QUERY, refresh=0.2)
        found: list[sparqlive.Delta] = []
        reader = threading.Thread(target=lambda: found.extend(_first(view, 1)))
        reader.start()
        for number in range(3):
            session.apply(insert=[quad(f"a{number}", "b"), quad("b", f"c{number}")])
        assert rows(view) == set()
        reader.join(120)
        assert [delta.epoch for delta in found] == [3]
        assert (view.epoch, len(view.weights())) == (3, 9)


def _first(view: sparqlive.View, count: int) -> list[sparqlive.Delta]:
    found = []
    for delta in view.changes(since=0, follow=True):
        found.append(delta)
        if len(found) == count:
            break
    return found


def test_following_a_view_that_does_not_change_costs_nothing() -> None:
    with sparqlive.open() as session:
        view = session.view("quiet", QUERY)
        reader = threading.Thread(target=lambda: list(view.changes(since=0, follow=True)))
        reader.start()
        session.apply(insert=[quad("a", "b")])
        before = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - before < 0.15
        session.close()
        reader.join(120)
        assert not reader.is_alive()


@pytest.mark.parametrize("query", [QUERY, DISTINCT])
def test_a_store_keeps_what_a_view_has_not_seen(tmp_path: Path, query: str) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.apply(insert=[quad("a", "b"), quad("b", "c")])
        view = session.view("later", query, refresh="manual")
        session.view("now", query)
        seen = view.weights()
        session.apply(insert=[quad("c", "d")], delete=[quad("a", "b")])
        session.apply(insert=[quad("d", "e")])
    for step in ("reopen", "compact", "reopen again"):
        with sparqlive.open(tmp_path / "s") as session:
            view = session.views["later"]
            assert (view.epoch, view.weights()) == (1, seen), step
            session.check()
            if step == "compact":
                session.compact()
                session.check()
    with sparqlive.open(tmp_path / "s") as session:
        view = session.views["later"]
        assert view.refresh().epoch == 3
        assert view.weights() == session.views["now"].weights()
        session.check()
    with sparqlive.open(tmp_path / "s") as session:
        assert session.views["later"].weights() == session.views["now"].weights()
        session.check()
        session.drop("later")
        session.apply(insert=[quad("e", "f")])


def test_a_lag_goes_on_after_the_store_is_opened_again(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.view("soon", QUERY, refresh=0.2)
        session.apply(insert=[quad("a", "b"), quad("b", "c")])
    with sparqlive.open(tmp_path / "s") as session:
        view = session.views["soon"]
        assert view.epoch == 0
        assert [delta.epoch for delta in _first(view, 1)] == [1]
        session.check()


def test_another_setting_is_another_view() -> None:
    with sparqlive.open() as session:
        view = session.view("later", QUERY, refresh="manual")
        session.apply(insert=[quad("a", "b"), quad("b", "c")])
        assert session.view("later", QUERY, refresh="manual") is view
        with pytest.raises(sparqlive.ViewExists, match="refresh"):
            session.view("later", QUERY, refresh=5)
        replaced = session.view("later", QUERY, refresh=5, replace=True)
        assert (replaced.epoch, rows(replaced)) == (1, {("a", "c")})


@pytest.mark.parametrize("refresh", ["never", 0, -1, True, float("nan")])
def test_what_is_no_setting_is_refused(refresh: object) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match='"manual" or a number of seconds'):
        session.view("view", QUERY, refresh=refresh)  # type: ignore[arg-type]


@examples(30)
@given(graphs, queries().filter(kept), st.lists(st.tuples(batches, st.booleans(), st.booleans()), max_size=5))
def test_refreshing_gives_what_following_gives(
    data: list[ox.Quad], query: RandomQuery, steps: list[tuple[Batch, bool, bool]]
) -> None:
    """A view that is refreshed now and then is, then, the same as one that follows every epoch."""
    with sparqlive.open() as session:
        session.load(data)
        now, later = session.view("now", query.text), session.view("later", query.text, refresh="manual")
        total = dict(later.weights())
        current = set(data)
        for batch, refreshed, checked in steps:
            current = after(current, batch)
            apply(session, batch)
            if refreshed:
                total = add(total, later.refresh().weights())
                assert later.weights() == now.weights() == total
                assert_same(total, query.expected(current), f"{query}: refreshed")
            if checked:
                session.check()
