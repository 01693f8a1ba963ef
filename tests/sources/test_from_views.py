"""Sources given by views: they come and go with its values, over restarts, and when the view goes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import sparqlive
from tests.waiting import wait_until

ROOMS = "SELECT ?room { <a:me> <a:in> ?room }"
GUESTS = "SELECT ?room { <a:guest> <a:in> ?room }"


@pytest.fixture
def rooms(tmp_path: Path) -> list[str]:
    """Addresses of three documents of one triple each."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.nt").write_text(f"<a:{name}> <a:p> <a:{name}> .\n")
    return [f"file://{tmp_path}/{name}.nt" for name in ("a", "b", "c")]


def enter(*rooms: str, who: str = "me") -> str:
    return "\n".join(f"<a:{who}> <a:in> <{room}> ." for room in rooms)


def there(session: sparqlive.Session, *rooms: str) -> None:
    """Waits until the sources are these, and their triples with them."""

    def seen() -> bool:
        known = {one.address for one in session.sources.values() if one.last_seen is not None}
        return known == set(rooms) == {one.address for one in session.sources.values()}

    wait_until(seen)
    said = [quad for quad in session.quads() if quad.predicate.value == "a:p"]
    assert len(said) == len(rooms)


def test_they_go_on_when_a_store_is_opened_again(tmp_path: Path, rooms: list[str]) -> None:
    a, b, c = rooms
    store = tmp_path / "s"
    with sparqlive.open(store) as session:
        session.view("rooms", ROOMS)
        session.sources_from("rooms", "room", kind="file", when_missing="clear")
        session.apply(insert=enter(a, b))
        there(session, a, b)
    with sparqlive.open(store, watch=False) as session:
        session.apply(insert=enter(c), delete=enter(a))
        assert len(session.sources) == 2, "nobody watches"
    with sparqlive.open(store) as session:
        there(session, b, c)
        assert session.sources[c].options == {"when_missing": "clear"}
        session.apply(delete=enter(b))
        there(session, c)
        linked = session.sources_from("rooms", "room", kind="file", when_missing="clear")
        linked.remove()
        assert not session.sources
        with pytest.raises(sparqlive.Error, match="already been removed"):
            linked.remove()
        session.apply(insert=enter(a))
    with sparqlive.open(store) as session:
        assert not session.sources
        names = {"sparqlive-sources-from"}
        wait_until(lambda: names.isdisjoint(thread.name for thread in threading.enumerate()))


def test_the_same_again_and_other_options(rooms: list[str]) -> None:
    with sparqlive.open() as session:
        session.view("rooms", ROOMS)
        linked = session.sources_from("rooms", "room", kind="file")
        assert session.sources_from("rooms", "room", kind="file") is linked
        with pytest.raises(sparqlive.Error, match="different options"):
            session.sources_from("rooms", "room", kind="file", when_missing="clear")
        assert repr(linked) == "SourcesFromView('rooms', 'room', kind='file')"


def test_a_source_that_two_views_give(tmp_path: Path, rooms: list[str]) -> None:
    a, b, _ = rooms
    with sparqlive.open(tmp_path / "s") as session:
        session.view("rooms", ROOMS)
        session.view("guests", GUESTS)
        session.sources_from("rooms", "room", kind="file")
        session.sources_from("guests", "room", kind="file")
        session.apply(insert=enter(a) + "\n" + enter(a, b, who="guest"))
        there(session, a, b)
        wait_until(lambda: len(session.sources[a].given_by) == 2)
        session.apply(delete=enter(a))
        wait_until(lambda: len(session.sources[a].given_by) == 1)
    with sparqlive.open(tmp_path / "s") as session:
        there(session, a, b)
        session.apply(delete=enter(a, who="guest"))
        there(session, b)


def test_a_source_that_somebody_named_stays_theirs(rooms: list[str]) -> None:
    a, b, _ = rooms
    with sparqlive.open() as session:
        session.view("rooms", ROOMS)
        session.source("file", a, when_missing="clear")
        linked = session.sources_from("rooms", "room", kind="file")
        session.apply(insert=enter(a, b))
        there(session, a, b)
        session.source("file", b)
        session.apply(delete=enter(a, b))
        wait_until(lambda: not linked._present)
        there(session, a, b)


def test_one_that_was_removed_by_hand_does_not_come_back_at_once(rooms: list[str]) -> None:
    a, b, _ = rooms
    with sparqlive.open() as session:
        session.view("rooms", ROOMS)
        session.sources_from("rooms", "room", kind="file")
        session.apply(insert=enter(a))
        there(session, a)
        session.sources[a].remove()
        session.apply(insert=enter(b))
        there(session, b)
        session.apply(delete=enter(a, b))
        there(session)
        session.apply(insert=enter(a))
        there(session, a)


def test_a_view_that_is_dropped_or_replaced(tmp_path: Path, rooms: list[str]) -> None:
    a, b, c = rooms
    with sparqlive.open(tmp_path / "s") as session:
        session.view("rooms", ROOMS)
        session.sources_from("rooms", "room", kind="file")
        session.apply(insert=enter(a, b) + "\n" + enter(b, c, who="guest"))
        there(session, a, b)
        session.view("rooms", GUESTS, replace=True)
        there(session, b, c)
        session.drop("rooms")
        there(session)
        session.view("rooms", ROOMS)
        there(session, a, b)
    with sparqlive.open(tmp_path / "s", watch=False) as session:
        session.drop("rooms")
    with sparqlive.open(tmp_path / "s") as session:
        there(session)


def test_a_reader_adds_nothing(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.view("rooms", ROOMS)
        with (
            sparqlive.open(tmp_path / "s", read_only=True) as reader,
            pytest.raises(sparqlive.Error, match="read"),
        ):
            reader.sources_from("rooms", "room", kind="file")
