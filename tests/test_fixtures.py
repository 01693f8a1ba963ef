"""Each fixture through a session: deltas, their sum, the view and the oracle must agree after every epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.engine.carry import Strategy
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from tests.conftest import FULL
from tests.fixture_format import Change, Epoch, Fixture, Row, Weights, last_words
from tests.oracle import Oracle, add, assert_same, subtract
from tests.test_fixture_format import FIXTURES
from tests.w3c import assert_alike

ANY_ROWS = ("limit-without-order",)
"""Queries whose LIMIT leaves open which rows it takes."""
KEPT = [fixture for fixture in FIXTURES if fixture.kind in ("snapshot", "ordered", "ask")]
REFUSED = [fixture for fixture in FIXTURES if fixture.kind == "error"]


def test_every_kind_of_fixture_is_run() -> None:
    assert len(KEPT) + len(REFUSED) == len(FIXTURES)


class Run:
    """One session with the fixture's view, and what it should hold by now."""

    def __init__(self, fixture: Fixture, session: sparqlive.Session, view: sparqlive.View) -> None:
        self.fixture, self.session, self.view = fixture, session, view
        self.quads: set[ox.Quad] = set()
        self.sum: Weights = {}

    def weights(self) -> Weights:
        return reorder(self.view.weights(), self.view.variables, self.fixture.variables)

    def apply(
        self, changes: Iterable[Change], expected: Weights | None, when: str, strategy: Strategy = "auto"
    ) -> None:
        """One batch: compare its delta, the sum of deltas, the view and the oracle."""
        insert, delete = last_words(list(changes))
        before, self.quads = self.quads, (self.quads - set(delete)) | set(insert)
        epoch = self.session.apply(insert=insert, delete=delete, strategy=strategy)
        delta = reorder(epoch.deltas["view"].weights(), self.view.variables, self.fixture.variables)
        if before == self.quads:
            assert delta == {}, f"{when}: nothing changed"
        if expected is not None:
            assert_alike(delta, expected, f"{when}: the delta")
        self.sum = add(self.sum, delta)
        self.compare(when)

    def compare(self, when: str) -> None:
        assert set(self.session.quads()) == self.quads, f"{when}: the graph"
        assert_same(self.weights(), self.sum, f"{when}: the view and the sum of its deltas")
        oracle = Oracle(self.quads, union=self.fixture.default_graph == "union")
        recomputed = oracle.weights(self.fixture.oracle_text, self.fixture.variables)
        assert_alike(self.sum, recomputed, f"{when}: the view and its re-evaluation")
        if self.fixture.kind == "ordered":
            ordered = oracle.rows(self.fixture.oracle_text, self.fixture.variables)
            assert listed(self.view, self.fixture.variables) == ordered, f"{when}: the order"
        self.session.check()


def listed(result: sparqlive.View | sparqlive.Answer, variables: tuple[str, ...]) -> list[Row]:
    """The solutions as rows, in their order."""
    return [tuple(solution.get(name) for name in variables) for solution in result.solutions()]


def reorder(weights: Weights, actual: tuple[str, ...], expected: tuple[str, ...]) -> Weights:
    """Rows in the fixture's order of columns (`SELECT *` fixes none)."""
    assert sorted(actual) == sorted(expected)
    columns = [actual.index(name) for name in expected]
    return {tuple(row[column] for column in columns): weight for row, weight in weights.items()}


def start(
    fixture: Fixture, session: sparqlive.Session, *, data_first: bool, strategy: Strategy = "auto"
) -> Run:
    """Load and register, in either order, and compare the first snapshot."""
    if data_first:
        session.load(fixture.data)
        run = Run(fixture, session, session.view("view", fixture.text, strategy=strategy))
        run.sum = run.weights()
    else:
        run = Run(fixture, session, session.view("view", fixture.text))
        run.sum = run.weights()
        before = run.view.weights()
        epoch = session.load(fixture.data)
        assert_same(add(before, epoch.deltas["view"].weights()), run.view.weights(), "the delta of the load")
        run.sum = run.weights()
    run.quads = set(fixture.data)
    assert_alike(run.sum, fixture.snapshot, "the first snapshot")
    if fixture.kind == "ordered":
        assert listed(run.view, fixture.variables) == fixture.rows, "the order of the first snapshot"
    run.compare("at first")
    return run


@pytest.mark.parametrize("data_first", [True, False], ids=["late-view", "early-view"])
@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_epoch_by_epoch(fixture: Fixture, data_first: bool) -> None:
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        run = start(fixture, session, data_first=data_first)
        for number, epoch in enumerate(fixture.epochs, 1):
            run.apply(epoch.changes, epoch.delta, f"epoch {number} ({epoch.title})")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "by_columns"),
    [
        pytest.param(fixture, by_columns, id=f"{fixture.name}-{'columns' if by_columns else 'rows'}")
        for number, fixture in enumerate(KEPT)
        if FULL or number % 2 == 0
        for by_columns in ((False, True) if FULL else (number % 4 == 0,))
    ],
)
def test_strategies_take_turns(fixture: Fixture, by_columns: bool) -> None:
    """By columns or row by row, on DuckDB and live: each goes on from what the others left."""
    tuning = replace(DEFAULT, reference_quads=-1, column_rows=10**6, smallest_run_rows=10**6)
    if by_columns:
        tuning = replace(tuning, column_rows=1, smallest_run_rows=1, copied_to_staged_rows=10**6)
    turns: Iterator[Strategy] = cycle(("duckdb", "live", "duckdb", "rebuild"))
    with Session(default_graph=fixture.default_graph, tuning=tuning) as session:
        run = start(fixture, session, data_first=True, strategy="duckdb")
        for number, epoch in enumerate(fixture.epochs, 1):
            run.apply(epoch.changes, epoch.delta, f"epoch {number} ({epoch.title})", next(turns))
            session.check()
        first = set(fixture.data)
        back = [Change("-", quad) for quad in run.quads - first] + [Change("+", quad) for quad in first]
        run.apply(back, None, "everything undone", next(turns))
        assert_alike(run.weights(), fixture.snapshot, "everything undone")


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_all_epochs_in_one_batch(fixture: Fixture) -> None:
    total: Weights = {}
    for epoch in fixture.epochs:
        total = add(total, epoch.delta)
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        run = start(fixture, session, data_first=True)
        run.apply([change for epoch in fixture.epochs for change in epoch.changes], total, "all at once")


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_change_by_change_and_back(fixture: Fixture) -> None:
    """Every change a batch of its own; then everything is undone, and the first snapshot must be back."""
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        run = start(fixture, session, data_first=False)
        for epoch in fixture.epochs:
            single_changes(run, epoch)
        first = set(fixture.data)
        for quad in sorted(run.quads - first, key=str):
            run.apply([Change("-", quad)], None, f"undo of {quad}")
        for quad in sorted(first - run.quads, key=str):
            run.apply([Change("+", quad)], None, f"return of {quad}")
        assert_alike(run.weights(), fixture.snapshot, "everything undone")


def single_changes(run: Run, epoch: Epoch) -> None:
    before = run.sum
    for change in epoch.changes:
        run.apply([change], None, f"{epoch.title}: {change.sign} {change.quad}")
    whole = subtract(run.sum, before)
    assert_alike(whole, epoch.delta, f"{epoch.title}: split into single changes")


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_query_answers_like_the_view(fixture: Fixture) -> None:
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        session.load(fixture.data)
        answer = session.query(fixture.text)
        rows = reorder(answer.weights(), answer.variables, fixture.variables)
        if fixture.name in ANY_ROWS:  # a view takes the first rows by all columns, a query any rows
            everything = session.query(re.sub(r"(LIMIT|OFFSET) \d+", "", fixture.text)).weights()
            assert sum(rows.values()) == sum(fixture.snapshot.values()), "the number of rows"
            assert all(everything.get(row, 0) >= weight for row, weight in answer.weights().items())
            return
        assert_alike(rows, fixture.snapshot, "the one-off query")
        if fixture.kind == "ordered":
            assert listed(answer, fixture.variables) == fixture.rows, "the order of the one-off query"


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_explain_shows_plan_and_rules(fixture: Fixture) -> None:
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        session.load(fixture.data)
        text = session.view("view", fixture.text).explain()
    assert "Δ" in text, text


@pytest.mark.parametrize("fixture", REFUSED, ids=lambda f: f.name)
def test_refused(fixture: Fixture) -> None:
    with sparqlive.open(default_graph=fixture.default_graph) as session:
        session.load(fixture.data)
        with pytest.raises(getattr(sparqlive, fixture.error)) as caught:
            session.view("view", fixture.text)
        sentence = str(caught.value)
        assert len(sentence.split()) >= 3, f"not a sentence: {sentence!r}"
        for part in fixture.error_says:
            assert part.lower() in sentence.lower(), sentence
        assert "view" not in session.views
        assert set(session.quads()) == set(fixture.data)
