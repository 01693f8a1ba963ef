"""`session.check()` by both ways: the reference evaluator, and a backend that did not carry the view."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from sparqlive.engine import check
from sparqlive.engine.carry import Strategies, Strategy
from sparqlive.runtime.tuning import DEFAULT
from tests.engine.test_columns import EX, random_quad
from tests.waiting import wait_until

QUERIES = {
    "join": "SELECT ?s ?o { ?s :p0 ?m . ?m :p1 ?o }",
    "optional": "SELECT * { ?s :p0 ?o OPTIONAL { ?o :p2 ?v } }",
    "groups": "SELECT ?o (SUM(?v) AS ?t) (GROUP_CONCAT(STR(?v)) AS ?c) { ?s :p0 ?o ; :p2 ?v } GROUP BY ?o",
    "distinct": "SELECT DISTINCT ?s { ?s ?p ?o }",
    "path": "SELECT ?s ?o { ?s :p1+ ?o }",
    "computed": "SELECT ?s ?t { ?s :p2 ?v BIND(CONCAT('text ', STR(?v)) AS ?t) }",
    "ordered": "SELECT ?s { ?s :p2 ?v } ORDER BY DESC(STRLEN(STR(?v))) ?v",
    "ordered and distinct": "SELECT DISTINCT ?v ?s { ?s :p2 ?v } ORDER BY DESC(?v)",
    "window": "SELECT ?s ?v { ?s :p2 ?v } ORDER BY ?v LIMIT 7",
    "product": "SELECT ?s ?t { ?s :p0 :n1 . ?t :p1 :n2 }",
    "ordered product": "SELECT ?s ?t { ?s :p0 :n1 . ?t :p1 :n2 } ORDER BY DESC(?t) ?s",
    "ask": "ASK { ?s :p0 ?o . ?o :p0 ?s }",
    "graph": "CONSTRUCT { ?o :inverse ?s } { ?s :p0 ?o }",
    "graphs": "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
    "over a view": "SELECT ?o (COUNT(*) AS ?n) { GRAPH <view:graph> { ?o :inverse ?s } } GROUP BY ?o",
    **{f"family {n}": f"SELECT ?s {{ ?s :p0 :n{n} . ?s :p2 ?v }}" for n in range(9)},
}
BY_BACKENDS = replace(DEFAULT, reference_quads=-1)
WAYS = {"reference": 10**9, "backends": -1}


def text(name: str) -> str:
    return f"PREFIX : <{EX}> {QUERIES[name]}"


def check_both(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for quads in WAYS.values():
        monkeypatch.setattr(session._writer, "tuning", replace(DEFAULT, reference_quads=quads))
        session.check()


def register(session: sparqlive.Session, strategy: Strategy) -> None:
    for name in QUERIES:
        session.view(name, text(name), strategy=strategy)
    session.view("late", text("ordered"), refresh="manual", strategy=strategy)
    session.view("late join", text("join"), refresh="manual", strategy=strategy)
    session.view("~temporary", text("computed"), temporary=True)


@pytest.mark.parametrize(("kept", "default_graph"), [(False, "union"), (True, "strict")])
def test_right_views_pass_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool, default_graph: Any
) -> None:
    """Whatever carried them, before and after a refresh, in a store opened again, and in a reader."""
    rng = random.Random(1)
    path = tmp_path / "store" if kept else None
    with sparqlive.open(path, default_graph=default_graph) as session:
        session.apply(insert=[random_quad(rng) for _ in range(80)])
        register(session, "duckdb")
        check_both(session, monkeypatch)
        strategies: tuple[Strategy, ...] = ("live", "duckdb", "rebuild", "auto")
        for strategy in strategies:
            gone = rng.sample(sorted(session.quads(), key=str), 12)
            session.apply(insert=[random_quad(rng) for _ in range(12)], delete=gone, strategy=strategy)
            before = set(session.quads())
            check_both(session, monkeypatch)
            assert set(session.quads()) == before
        session.views["late"].refresh()
        check_both(session, monkeypatch)
    if path is not None:
        with sparqlive.open(path) as session:
            check_both(session, monkeypatch)
            with sparqlive.open(path, read_only=True) as reader:
                check_both(reader, monkeypatch)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strategy", ["live", "duckdb"])
@pytest.mark.parametrize("name", ["join", "groups", "distinct", "ordered", "product", "family 3", "late"])
def test_a_wrong_row_is_found(name: str, strategy: Strategy, way: str) -> None:
    rng = random.Random(2)
    with sparqlive.Session(tuning=replace(DEFAULT, reference_quads=WAYS[way])) as session:
        session.apply(insert=[random_quad(rng) for _ in range(150)])
        if name == "late":
            session.view("late", text("join"), refresh="manual", strategy=strategy)
            session.apply(insert=[random_quad(rng) for _ in range(20)])
        for query in [query for query in QUERIES if query.split()[0] == name.split()[0]]:
            session.view(query, text(query), strategy=strategy)
        session.check()
        content = next(iter(session.views[name]._state.content.stored_parts()))
        assert content.compiled is not None
        rows = content.compiled.top_state() if content.rows is None else content.rows
        row, weight = max(rows.items())
        for change in (-weight, weight + 1) if content.rows is not None else (-weight,):
            rows.stage({row: change})
            rows.commit()
            with pytest.raises(sparqlive.CheckFailed, match=f"View '{name}' differs .* in [0-9]+ rows"):
                session.check()
        rows.stage({row: weight if content.rows is None else -1})
        rows.commit()
        session.check()


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_order_is_found(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    rng = random.Random(3)
    with sparqlive.Session(tuning=replace(DEFAULT, reference_quads=WAYS[way])) as session:
        session.apply(insert=[random_quad(rng) for _ in range(80)])
        view = session.view("ordered", text("ordered"))
        session.check()
        listed = view.solutions()
        monkeypatch.setattr(view, "solutions", lambda: listed[::-1])
        with pytest.raises(
            sparqlive.CheckFailed, match="differs from its recomputation in its order: solution"
        ):
            session.check()


def test_a_wrong_hidden_sort_key_is_found() -> None:
    """It changes neither the rows that are shown nor, here, their order."""
    with sparqlive.Session(tuning=BY_BACKENDS) as session:
        session.apply(insert=f'<{EX}s> <{EX}p2> "text" .')
        view = session.view("ordered", text("ordered"))
        rows = view._state.content.rows
        assert rows is not None
        [(row, _)] = rows.items()
        rows.stage({row: -1, (*row[:-1], row[0]): 1})
        rows.commit()
        with pytest.raises(
            sparqlive.CheckFailed, match="View 'ordered' differs from its recomputation in 2 rows"
        ):
            session.check()


def test_the_other_backend_recomputes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    used: list[str] = []
    contents_on, compute = Strategies.contents_on, check.compute_rewritten

    def by_duckdb(*arguments: Any) -> Any:
        used.append("duckdb")
        return contents_on(*arguments)

    def live(*arguments: Any) -> Any:
        used.append("live")
        return compute(*arguments)

    rng = random.Random(4)
    with sparqlive.Session(tmp_path / "store", tuning=BY_BACKENDS) as session:
        session.apply(insert=[random_quad(rng) for _ in range(40)])
        session.view("live", text("join"), strategy="live")
        monkeypatch.setattr(Strategies, "contents_on", by_duckdb)
        monkeypatch.setattr(check, "compute_rewritten", live)

        def recomputed() -> list[str]:
            used.clear()
            session.check()
            return list(used)

        assert recomputed() == ["duckdb"]
        session.apply(insert=[random_quad(rng) for _ in range(40)], strategy="duckdb")
        assert recomputed() == ["live"]
        session.apply(insert=[random_quad(rng) for _ in range(40)], strategy="rebuild")
        ran = session.views["live"]._state.content.compiled
        assert ran is not None
        assert recomputed() == ["duckdb" if ran.evaluator == "live" else "live"]
        session.apply(insert=[random_quad(rng) for _ in range(40)], strategy="live")
        assert recomputed() == ["duckdb"]
        session.drop("live")
        session.view("columns", text("optional"), strategy="duckdb")
        assert recomputed() == ["live"]
    with sparqlive.Session(tmp_path / "store", tuning=BY_BACKENDS) as session:
        assert recomputed() == ["duckdb", "live"], "a store does not say what carried its views"


def test_terms_of_a_compacted_store_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged files of terms have another type of text than the terms in memory."""
    rng = random.Random(5)
    with sparqlive.open(tmp_path / "store") as session:
        session.view("computed", text("computed"))
        for _ in range(3):
            session.apply(insert=[random_quad(rng) for _ in range(20)])
            session.compact()
        session.apply(insert=[random_quad(rng) for _ in range(20)], strategy="duckdb")
        check_both(session, monkeypatch)


def test_terms_that_move_to_files_while_duckdb_rests(tmp_path: Path) -> None:
    """After a compaction, memory has as many new terms as old ones before: they are not mistaken for them."""
    query = "SELECT ?s ?t { ?s <x:p> ?o BIND(CONCAT(STR(?o), '!') AS ?t) }"
    with sparqlive.open(tmp_path / "store") as session:
        view = session.view("view", query)
        for number in range(3):
            values = range(10 * number, 10 * number + 10 * (number + 1))
            session.apply(insert="".join(f'<x:s{v}> <x:p> "{v}" .\n' for v in values), strategy="duckdb")
            session.check()
            session.compact()
            assert view.failure is None


def test_a_reader_whose_writer_compacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader keeps terms in memory that the files have, too."""
    rng = random.Random(6)
    with sparqlive.open(tmp_path / "store") as session:
        session.view("computed", text("computed"))
        session.apply(insert=[random_quad(rng) for _ in range(20)])
        with sparqlive.open(tmp_path / "store", read_only=True) as reader:
            for _ in range(3):
                session.apply(insert=[random_quad(rng) for _ in range(20)])
                session.compact()
                wait_until(lambda: reader.epoch == session.epoch)
                check_both(reader, monkeypatch)


def test_terms_that_are_in_memory_and_in_loaded_files(tmp_path: Path) -> None:
    """A session knows the term `true` before it loads a file that has it."""
    true = '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'
    (tmp_path / "data.nt").write_text(f'<x:s> <x:p> {true} .\n<x:t> <x:p> "z" .\n')
    with sparqlive.open(tmp_path / "store") as session:
        session.load(tmp_path / "data.nt", on_error="skip")  # goes straight into runs
        query = "SELECT ?s ?t { ?s <x:p> ?o BIND(CONCAT(STR(?o), '!') AS ?t) }"
        view = session.view("view", query, strategy="duckdb")
        assert len(view) == 2
        session.check()
