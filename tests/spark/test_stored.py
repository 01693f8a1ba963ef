"""What Spark's workers read of a store, read here: snapshots of all epochs, changes and quads."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

import sparqlive
from sparqlive.spark.stored import EPOCH, WEIGHT, Plan, Planner
from sparqlive.store.locks import leased_epochs, lend
from tests.tuned import tune

VIEWS = {
    "pairs": "SELECT ?s ?n { ?s <u:n> ?n }",
    "twice": "SELECT ?n { ?s <u:n> ?n }",
    "distinct": "SELECT DISTINCT ?n { ?s <u:n> ?n }",
    "ordered": "SELECT ?s ?n { ?s <u:n> ?n } ORDER BY DESC(?n) ?s",
    "product": "SELECT ?n ?l { ?s <u:n> ?n . ?t <u:l> ?l }",
    "optional": "SELECT ?s ?l { ?s <u:n> ?n OPTIONAL { ?s <u:l> ?l } }",
}


def quad(number: int, graph: Any = None) -> Quad:
    subject = NamedNode(f"http://x/{number}")
    return Quad(subject, NamedNode("u:n"), Literal(number % 5), graph or DefaultGraph())


def rows(plan: Plan, typed: bool = True, weights: bool = False) -> pa.Table:
    kinds = [found.arrow for found in plan.types()] if typed else None
    batches = [
        batch
        for piece in plan.pieces
        for batch in plan.batches(piece, kinds, weights=weights, epochs=weights)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in plan.names})


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("compacted", [False, True])
def test_a_store_is_read_as_its_session_reads_it(
    tmp_path: Path, compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, file_rows=7)  # several files for a few rows
    with sparqlive.open(tmp_path / "store") as session:
        views = {name: session.view(name, query) for name, query in VIEWS.items()}
        session.apply(insert=[quad(number) for number in range(20)])
        labels = [Quad(NamedNode("http://x/1"), NamedNode("u:l"), Literal(text)) for text in ("a", "b")]
        graph = NamedNode("u:g")
        session.apply(insert=[*labels, quad(30, graph)], delete=[quad(3)])
        if compacted:
            session.compact()
        session.apply(insert=[quad(number) for number in range(40, 45)], delete=[quad(4), quad(30, graph)])
        with Planner(str(tmp_path / "store")) as planner:
            for name, view in views.items():
                for epoch in (1, 2, 3):
                    plan = planner.snapshot(name, epoch)
                    expected = view.at(epoch)
                    assert counted(rows(plan)) == counted(expected.to_arrow()), (name, epoch)
                    assert counted(rows(plan, False)) == counted(expected.to_arrow(typed=False))
                    types = [found.arrow for found in plan.types()]
                    assert types == expected.to_arrow().schema.types
                assert [piece.view for piece in planner.snapshot("ordered").pieces] == ["ordered"]
                if name == "ordered":
                    assert rows(planner.snapshot(name)).to_pylist() == view.to_arrow().to_pylist()
                changes = rows(planner.changes(name, 1), False, weights=True).to_pylist()
                found = Counter({tuple(row.values())[:-1]: row[WEIGHT] for row in changes if row[WEIGHT]})
                assert found == {
                    (*(None if term is None else str(term) for term in row), delta.epoch): weight
                    for delta in view.changes(since=1)
                    for row, weight in delta.weights().items()
                }, name
                assert not rows(planner.changes(name, 3)).num_rows
            found_quads = {tuple(row.values()) for row in rows(planner.quads(), False).to_pylist()}
            assert found_quads == {
                (str(q.subject), str(q.predicate), str(q.object), None) for q in session.quads()
            }
            with pytest.raises(sparqlive.HistoryGone, match="does not exist yet"):
                planner.snapshot("pairs", 9)
            with pytest.raises(sparqlive.UnknownView):
                planner.snapshot("none")
        assert EPOCH in rows_with_marks(tmp_path)


def rows_with_marks(tmp_path: Path) -> list[str]:
    with Planner(str(tmp_path / "store")) as planner:
        return rows(planner.snapshot("pairs"), weights=True).column_names


def test_a_loan_keeps_files_until_its_time(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path):
        lend(tmp_path, 7, 60)
        lend(tmp_path, 5, -2)
        assert list(leased_epochs(tmp_path)) == [7]
        assert len(os.listdir(tmp_path / "leases")) == 1
