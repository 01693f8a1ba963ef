"""Views whose rows and state are mapped: right after any changes, strategies, compactions and restarts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from sparqlive.zset import relation

EX = "http://example.org/"
VIEWS = {
    "join": f"SELECT ?x ?y ?z {{ ?x <{EX}p> ?y . ?y <{EX}q> ?z }}",
    "bag": f"SELECT ?y {{ ?x <{EX}p> ?y }}",
    "distinct": f"SELECT DISTINCT ?y {{ ?x <{EX}p> ?y }}",
    "groups": f"SELECT ?y (COUNT(?x) AS ?n) (MAX(?x) AS ?m) (COUNT(DISTINCT ?z) AS ?d) "
    f"{{ ?x <{EX}p> ?y . ?x <{EX}q> ?z }} GROUP BY ?y",
    "sum": f"SELECT (SUM(?v) AS ?s) (MIN(?v) AS ?m) {{ ?x <{EX}v> ?v }}",
    "absent": f"SELECT ?x {{ ?x <{EX}p> ?y FILTER NOT EXISTS {{ ?x <{EX}q> ?z }} }}",
    "first": f"SELECT ?x ?v {{ ?x <{EX}v> ?v }} ORDER BY ?v ?x LIMIT 3",
}


SMALL = replace(DEFAULT, catalog_rows=4, smallest_merge_rows=6, run_to_overlay=4, groups_kept=3)
"""A few rows are in files, are merged, and are more groups than may be kept."""


def node(number: int) -> ox.NamedNode:
    return ox.NamedNode(f"{EX}n{number}")


def some_quads(chance: random.Random, count: int) -> list[ox.Quad]:
    found = []
    for _ in range(count):
        name = chance.choice("ppqqv")
        value = ox.Literal(chance.randrange(4)) if name == "v" else node(chance.randrange(9))
        found.append(ox.Quad(node(chance.randrange(9)), ox.NamedNode(EX + name), value))
    return found


def mapped(session: sparqlive.Session) -> list[relation.Relation]:
    found = []
    for view in session.views.values():
        rows = [rows for _, _, rows in view._state.content.relations() if isinstance(rows, relation.Relation)]
        found += [one for one in rows if one.run is not None and one.run.is_mapped]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_any_changes_strategies_compactions_and_restarts(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "store"
    session = Session(path, memory=chance.choice((0, "1GB")), tuning=SMALL)
    session.apply(insert=some_quads(chance, 60))
    waiting, is_mapped = list(VIEWS.items()), False
    try:
        for _ in range(20):
            if waiting and chance.random() < 0.5:
                assert session.view(*waiting.pop())._state.content.is_held
            quads = some_quads(chance, chance.choice((1, 1, 3, 40)))
            strategy = chance.choice(("auto", "live", "duckdb", "rebuild"))
            session.apply(insert=quads[::2], delete=[*quads[1::2], *some_quads(chance, 3)], strategy=strategy)
            match chance.randrange(8):
                case 0:
                    session.compact()
                case 1 | 2:
                    session.close()
                    session = Session(path, memory=chance.choice((0, "1GB")), tuning=SMALL)
                    assert all(view._state.content.is_held for view in session.views.values())
                case 3:
                    session.check()
            is_mapped = is_mapped or bool(mapped(session))
        session.check()
        assert is_mapped
    finally:
        session.close()


def test_parts_that_are_alike_are_computed_from_files_once(tmp_path: Path) -> None:
    """The query has two parts without variables, which are the same plan."""
    query = (
        f"ASK {{ FILTER(!BOUND(?a)) OPTIONAL {{ <{EX}n0> <{EX}p>? ?b . ?c <{EX}p> <{EX}n1> FILTER(?a > 1) }} "
        f"FILTER(!BOUND(?a)) }}"
    )
    with Session(tmp_path / "store", memory=0, tuning=SMALL) as session:
        session.apply(insert=some_quads(random.Random(1), 20))
        view = session.view("twice", query)
        assert view.weights() == {(): 1}
        session.apply(insert=[ox.Quad(node(0), ox.NamedNode(f"{EX}p"), node(1))])
        session.check()
