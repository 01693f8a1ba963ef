"""Deltas of views that stay in files read the rows that they meet, whatever the files look like."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from bench.orders import PREFIX, VIEWS, Catalogue
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.store import layout, runs
from sparqlive.store.runs import Verified
from tests.conftest import times
from tests.tuned import tune

pytestmark = pytest.mark.usefixtures("in_files")

SHAPES = {
    "join": "SELECT ?a ?b ?c { ?a :p ?b . ?b :p ?c }",
    "star": "SELECT ?a ?b ?v { ?a :p ?b . ?a :v ?v }",
    "named": "SELECT ?g ?a ?v { GRAPH ?g { ?a :v ?v . ?a :p ?b } }",
    "any": "SELECT ?p ?o { ?a :p ?b . ?b ?p ?o }",
    "fixed": "SELECT ?o ?v { :n1 :p ?o . ?o :v ?v }",
    "optional": "SELECT ?a ?b ?v { ?a :p ?b OPTIONAL { ?b :v ?v FILTER(?v > 2) } }",
    "missing": "SELECT ?a ?b { ?a :p ?b FILTER NOT EXISTS { ?b :v ?v } }",
    "distinct": "SELECT DISTINCT ?b ?v { ?a :p ?b . ?a :v ?v }",
    "totals": "SELECT ?b (SUM(?v) AS ?sum) (COUNT(*) AS ?n) (AVG(?v) AS ?mean) { ?a :p ?b . ?a :v ?v } "
    "GROUP BY ?b",
    "total": "SELECT (SUM(?v) AS ?sum) (COUNT(?b) AS ?n) { ?a :v ?v OPTIONAL { ?a :p ?b } }",
    "least": "SELECT ?b (MIN(?v) AS ?least) { ?a :p ?b . ?a :v ?v } GROUP BY ?b",
    "text": "SELECT ?a (CONCAT(STR(?v), '!') AS ?t) { ?a :v ?v FILTER(?v != 3) }",
}
_TYPE = "http://www.w3.org/2001/XMLSchema#"
VALUES = [
    *(f'"{n}"^^<{_TYPE}integer>' for n in (1, 2, 3, 2**63 - 1, -(2**63))),
    f'"2.5"^^<{_TYPE}decimal>',
    f'"1e0"^^<{_TYPE}double>',
    '"x"',
]


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and row groups of a few rows: a subject's quads may be in two of them."""
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", 7)
    monkeypatch.setattr(runs, "TERMS_PER_GROUP", 5)
    tune(monkeypatch, catalog_rows=10, file_rows=20, rows_per_search=0)


def quads(chance: random.Random, count: int) -> list[str]:
    """Random quads as lines, many of one subject and of one object."""

    def node(usual: str) -> str:
        return f"<{PREFIX}{chance.choice([usual, f'n{chance.randrange(30)}'])}>"

    found = []
    for _ in range(count):
        graph = chance.choice(["", "", f" <{PREFIX}g>", f" <{PREFIX}h>"])
        name, object_ = ("p", node("n2")) if chance.random() < 0.6 else ("v", chance.choice(VALUES))
        found.append(f"{node('n1')} <{PREFIX}{name}> {object_}{graph} .\n")
    return found


@pytest.mark.parametrize("default_graph", ["union", "strict"][: times(1, 2)])
def test_the_same_as_held_views(
    default_graph: Any, tmp_path: Path, small_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    there: set[str] = set()
    with (
        sparqlive.open(tmp_path / "store", memory=0, default_graph=default_graph) as session,
        sparqlive.open(default_graph=default_graph) as held,
    ):
        first = quads(chance, 150)
        for one in (session, held):
            one.apply(insert="".join(first))
        there.update(first)
        session.compact()
        for name, query in SHAPES.items():
            for one in (session, held):
                one.view(name, f"PREFIX : <{PREFIX}> {query}")
            assert not session.views[name]._state.content.is_held
        scans = counted(monkeypatch)
        for epoch in range(4):
            gone = chance.sample(sorted(there), 4)
            count = 6 if epoch % 2 else 25  # many changes stay in files of the log
            new = [quad for quad in quads(chance, count) if quad not in gone]
            for one in (session, held):
                one.apply(insert="".join(new), delete="".join(gone))
            there = (there - set(gone)) | set(new)
            for name in SHAPES:
                assert weights(session, name) == weights(held, name), (epoch, name)
            if epoch == 1:
                session.compact()
        session.check()
        assert scans["looked up"] > 20


def test_totals_of_a_repaired_view_are_not_those_before(tmp_path: Path, small_files: None) -> None:
    chance = random.Random(7)
    with sparqlive.open(tmp_path / "store", memory=0) as session:
        session.apply(insert="".join(quads(chance, 300)))
        view = session.view("totals", f"PREFIX : <{PREFIX}> {SHAPES['totals']}")
        store = session._writer.persistence.store  # type: ignore[union-attr]
        for run in store.catalog.runs(view._state.content.name):
            Path(store.place.path(run.path)).write_bytes(b"")
        assert session.repair() == ["totals"]
        assert not view._state.content.is_held
        for _ in range(2):
            session.check()
            session.apply(insert="".join(quads(chance, 8)))
        session.check()


def weights(session: sparqlive.Session, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for solution in session.views[name].solutions():
        key = str(sorted((str(variable), str(term)) for variable, term in solution.items()))
        found[key] = found.get(key, 0) + 1
    return found


def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts lookups of quads."""
    from sparqlive.bulk.lookup import Lookup

    counts = {"looked up": 0}
    original = Lookup.quads

    def count(*arguments: Any) -> Any:
        counts["looked up"] += 1
        return original(*arguments)

    monkeypatch.setattr(Lookup, "quads", count)
    return counts


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[tuple[sparqlive.Session, Catalogue]]:
    """A store whose quads are in files, with the three views of the benchmark, none of them held."""
    catalogue = Catalogue(30_000)
    catalogue.write(tmp_path / "orders.nt")
    with sparqlive.open(tmp_path / "store", memory=0) as session:
        session.load(str(tmp_path / "orders.nt"))
        for name, query in VIEWS.items():
            session.view(name, f"PREFIX : <{PREFIX}> {query}")
        session.compact()
        session.apply(insert=catalogue.new_orders(2, 1))
        yield session, catalogue


def test_a_small_batch_reads_no_predicate(
    orders: tuple[sparqlive.Session, Catalogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, catalogue = orders
    rows: list[int] = []
    read_groups = Verified.read_groups

    def count(self: Verified, groups: Any, names: Any) -> Any:
        table = read_groups(self, groups, names)
        if "term" not in names:
            rows.append(table.num_rows)
        return table

    def refuse(self: DuckDb, paths: Any, columns: Any) -> Any:
        raise AssertionError(f"a small batch scans {columns} of {paths}")

    monkeypatch.setattr(Verified, "read_groups", count)
    monkeypatch.setattr(DuckDb, "files", refuse)
    epoch = session.apply(insert=catalogue.new_orders(4, 7), delete=catalogue.new_orders(1, 2))
    assert {choice.strategy for choice in epoch.choices.values()} == {"duckdb"}
    assert sum(rows) == 0
    monkeypatch.undo()
    session.check()


def test_aggregates_without_totals_read_the_groups_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entity(n: int) -> str:
        return f'<urn:x{n}> <urn:p> <urn:y{n % 50}> .\n<urn:x{n}> <urn:v> "{n}"^^<{_TYPE}integer> .\n'

    with sparqlive.open(tmp_path / "store", memory=0) as session:
        session.apply(insert="".join(map(entity, range(500))))
        for name in ("MIN", "MAX", "SAMPLE", "GROUP_CONCAT", "COUNT(DISTINCT"):
            argument = f"{name} ?v)" if "(" in name else f"{name}(?v)"
            query = f"SELECT ?y ({argument} AS ?r) {{ ?x <urn:p> ?y . ?x <urn:v> ?v }} GROUP BY ?y"
            session.view(name.partition("(")[0], query)
        session.compact()
        with monkeypatch.context() as patch:
            patch.setattr(DuckDb, "files", lambda *_: pytest.fail("a small batch scans files"))
            epoch = session.apply(insert=entity(501) + entity(502), delete=entity(3))
        assert len(epoch.deltas["MIN"].weights()) == 2, "one extreme goes, and two values come above others"
        session.check()


def test_files_of_another_layout_are_read_too(
    orders: tuple[sparqlive.Session, Catalogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, catalogue = orders
    monkeypatch.setattr("sparqlive.store.seeking.has_layout", lambda metadata: False)
    assert layout.ROWS_PER_GROUP > 0
    session.apply(insert=catalogue.new_orders(4, 7))
    session.check()
