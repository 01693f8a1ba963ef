"""Stored totals of groups stay right through everything that happens to a store."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparqlive
from sparqlive.store.catalog import Catalog
from tests.conftest import times
from tests.engine.test_lookups import small_files
from tests.oracle import Oracle
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("in_files")

__all__ = ["small_files"]

QUERIES = {
    "totals": "SELECT ?y (SUM(?v) AS ?sum) (COUNT(*) AS ?n) (AVG(?v) AS ?mean) "
    "{ ?x <urn:p> ?y . ?x <urn:v> ?v } GROUP BY ?y",
    "same": "SELECT ?y (SUM(?v) AS ?sum) (COUNT(*) AS ?n) (AVG(?v) AS ?mean) "
    "{ ?x <urn:p> ?y . ?x <urn:v> ?v } GROUP BY ?y",
    "above": "SELECT ?y (SUM(?v) AS ?s) { ?x <urn:p> ?y . ?x <urn:v> ?v } GROUP BY ?y HAVING (COUNT(*) > 2)",
    "nested": "SELECT ?n (COUNT(?y) AS ?times) "
    "{ { SELECT ?y (COUNT(?x) AS ?n) { ?x <urn:p> ?y } GROUP BY ?y } } GROUP BY ?n",
    "all": "SELECT (SUM(?v) AS ?sum) (COUNT(?x) AS ?n) { ?x <urn:v> ?v }",
}


def quads(*numbers: int) -> str:
    """Each number is an entity of a group, with a value."""
    return "".join(
        f"<urn:x{n}> <urn:p> <urn:y{n % 5}> .\n"
        f'<urn:x{n}> <urn:v> "{n * 7 % 11}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        for n in numbers
    )


def register(session: sparqlive.Session) -> None:
    for name, query in QUERIES.items():
        session.view(name, query)


def check(session: sparqlive.Session) -> None:
    """By two recomputations: ours, which also compares the totals, and another engine."""
    session.check()
    oracle = Oracle(session.quads())
    for name, view in session.views.items():
        assert view.weights() == oracle.weights(QUERIES[name], view.variables), name


def stored_totals(session: sparqlive.Session) -> set[str]:
    assert session._writer.persistence is not None
    return {name for name in session._writer.persistence.store.catalog.bases() if "/totals/" in name}


@pytest.fixture
def store(tmp_path: Path, small_files: None) -> Path:
    """A store whose views stay in files, with 40 entities in 5 groups."""
    with sparqlive.open(tmp_path / "store", memory=0) as session:
        session.apply(insert=quads(*range(40)))
        register(session)
        assert len(stored_totals(session)) == 5, "two views share theirs, one has two groups"
    return tmp_path / "store"


def test_restarts_compactions_strategies_and_groups_that_end(store: Path) -> None:
    group = [n for n in range(40) if n % 5 == 3]
    with sparqlive.open(store, memory=0) as session:
        session.apply(delete=quads(*group), strategy="duckdb")
        check(session)
        session.compact()
        session.apply(insert=quads(*group[:2], 99), strategy="rebuild")
        check(session)
    with sparqlive.open(store, memory="1GB") as session:
        assert len(stored_totals(session)) == 5, "views that are held have the same"
        session.apply(insert=quads(50, 51), delete=quads(99), strategy="live")
        session.compact()
        check(session)
    with sparqlive.open(store, memory=0, read_only=True) as reader:
        assert not reader.views["totals"]._state.content.is_held
        check(reader)
        with sparqlive.open(store, memory=0) as session:
            assert len(stored_totals(session)) == 5
            since = session.epoch
            for n in (52, 53):
                session.apply(insert=quads(n), delete=quads(n - 2))
            session.drop("same")
            check(session)
            session.drop("totals")
            assert len(stored_totals(session)) == 4
            session.view("totals", QUERIES["totals"])
            session.apply(delete=quads(*range(40), 52, 53))
            check(session)
            assert len(session.views["totals"]) == 0
            assert len(session.views["all"]) == 1
            assert not any(delta.reset for delta in session.views["above"].changes(since=since))


@pytest.mark.parametrize("step", [4, 1, 9][: times(1, 3)])
def test_an_epoch_that_fails_leaves_the_totals_before(
    store: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sparqlive.open(store, memory=0) as session:
        left = step
        original = Catalog.add_delta

        def fail(*given: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise sparqlive.StoreFailed("The disk is full.")
            original(*given)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "add_delta", fail)
            with pytest.raises(sparqlive.StoreFailed, match="disk is full"):
                session.apply(insert=quads(60, 61), delete=quads(3))
        check(session)
        session.apply(insert=quads(62), delete=quads(8))
        check(session)


# Rows that totals leave out

DOUBLE = '"0.25"^^<http://www.w3.org/2001/XMLSchema#double>'


def rows_left_out(session: sparqlive.Session) -> int:
    persistence = session._writer.persistence
    assert persistence is not None
    names = persistence.store.catalog.bases()
    assert not any("/state/" in name for name in names), "the rows of groups are not stored"
    found = [persistence.store.relation(name) for name in names if "/others/" in name]
    return sum(len(one.rows()) for one in found if one is not None)


def test_only_rows_that_totals_leave_out_are_stored(store: Path) -> None:
    with sparqlive.open(store, memory=0) as session:
        assert rows_left_out(session) == 0
        session.apply(insert=f"<urn:x1> <urn:w> {DOUBLE} .")
        session.view("mean", "SELECT ?x (AVG(?v) AS ?mean) { ?x <urn:w> ?v } GROUP BY ?x")
        assert rows_left_out(session) == 1
        session.apply(insert=f"<urn:x1> <urn:v> {DOUBLE} .")
        assert rows_left_out(session) == 4, "'same' shares its state, 'nested' and 'above' have others"
        session.check()
    for memory in ("1GB", 0):
        with sparqlive.open(store, memory=memory) as session:
            session.apply(insert=quads(41), delete=f"<urn:x1> <urn:v> {DOUBLE} .")
            assert rows_left_out(session) == 1
            session.apply(insert=f"<urn:x1> <urn:v> {DOUBLE} .")
            session.check()


def test_a_float_that_comes_later_is_added_exactly(store: Path) -> None:
    with sparqlive.open(store, memory=0) as session:
        for change in ("insert", "delete", "insert"):
            session.apply(**{change: f"<urn:x3> <urn:v> {DOUBLE} .\n<urn:x4> <urn:v> {DOUBLE} ."})  # type: ignore[arg-type]
            check(session)
        session.apply(delete=quads(3), insert=quads(100))
        check(session)
    with sparqlive.open(store, memory="1GB") as session:
        check(session)


def test_a_view_that_becomes_held_keeps_its_history(store: Path) -> None:
    with sparqlive.open(store, memory=0) as session:
        since = session.epoch
        session.apply(insert=quads(41, 42))
    with sparqlive.open(store, memory="1GB") as session:
        assert session.views["totals"]._state.content.is_held
        session.apply(insert=quads(43), delete=quads(7), strategy="live")
        check(session)
        for name in QUERIES:
            assert not any(delta.reset for delta in session.views[name].changes(since=since)), name
    with sparqlive.open(store, memory=0) as session:
        assert not session.views["totals"]._state.content.is_held
        session.apply(insert=quads(44), delete=quads(43))
        check(session)
        session.drop("same")
        session.drop("totals")
        assert len(stored_totals(session)) == 4


@pytest.mark.parametrize("memory", [0, "1GB"])
def test_a_reader_follows(store: Path, memory: int | str) -> None:
    with sparqlive.open(store, memory=memory, read_only=True) as reader:
        check(reader)
        with sparqlive.open(store, memory=0) as session:
            session.apply(insert=quads(45), delete=quads(9))
            expected = session.views["totals"].weights()
        wait_until(lambda: reader.views["totals"].weights() == expected)
        check(reader)


@pytest.fixture
def wrong(store: Path) -> Iterator[sparqlive.Session]:
    """A store with totals that are not those of its quads, although no file is damaged."""
    with sparqlive.open(store, memory=0) as session:
        session.apply(insert=quads(41))
        assert session._writer.persistence is not None
        catalog = session._writer.persistence.store.catalog
        name = next(name for name in session.views["totals"]._state.content.totals.values())  # type: ignore[attr-defined]
        (stored,) = [rows for _, rows in catalog.deltas(name, 0)]
        row = tuple(int(number) for number in stored[0, :-1])
        with catalog.transaction():
            catalog.add_delta(name, session.epoch + 1, len(row), {row: 1})
        yield session


def test_wrong_totals_are_noticed_and_repaired(wrong: sparqlive.Session) -> None:
    since = wrong.views["totals"].since
    with pytest.raises(sparqlive.CheckFailed, match=r"'totals' stores .* \w+/totals/\d; differing rows: 1"):
        wrong.check()
    assert wrong.repair() == ["totals", "same"]
    assert wrong.views["totals"].since == since, "its rows were right"
    assert not wrong.views["totals"]._state.content.is_held
    check(wrong)
    wrong.apply(insert=quads(70), delete=quads(2))
    check(wrong)
    assert wrong.repair() == []


def test_files_that_compaction_deletes_are_not_mapped_any_more(store: Path) -> None:
    with sparqlive.open(store, memory=0) as session:
        session.compact()
        with sparqlive.open(store, memory=0, read_only=True) as reader:
            session.apply(insert=quads(80), delete=quads(5))
            assert any(str(store) in line for line in mapped()), "quads are read from mapped files"
            session.compact()
            check(session)
        session.compact()
        session.apply(insert=quads(81))
        assert not reader.views["all"].failure
        gc.collect()
        wait_until(
            lambda: not [line for line in mapped() if str(store) in line and line.endswith("(deleted)")]
        )


def mapped() -> list[str]:
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("the mapped files of a process are listed in /proc")
    return Path("/proc/self/maps").read_text().splitlines()
