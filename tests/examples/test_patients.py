"""The hospital of the counting paper: its Tables 1 to 4, row by row, and as things happen."""

from __future__ import annotations

import io

import pyoxigraph as ox
import pytest
from rich.console import Console

import sparqlive
from examples.patients import EVENTS, GRAPH, HOSPITAL, PREFIX, VIEWS, main, triples
from tests.oracle import Oracle, Weights, add

BEFORE = {
    "table 1": {(":alice", ":diabetes", '"Dr. Carol"'): 1, (":bob", ":hypertension", None): 1},
    "table 2": {('"Dr. Carol"', ":alice", ":diabetes"): 1, ('"Dr. Hyde"', None, None): 1},
    "table 3": {(":alice", ":diabetes", '"Dr. Carol"'): 1, (":bob", ":hypertension", '"Dr. Hyde"'): 1},
    "medicated": {(":alice", ":diabetes"): 2},
    "hop": {(":a", ":c"): 1},
}
# The first event is the paper's: ΔHop and Hop' of Table 4. Nothing else changes.
HOP_DELTA = {(":a", ":c"): -1, (":c", ":c"): 1, (":b", ":b"): 1}
HOP_AFTER = {(":b", ":b"): 1, (":c", ":c"): 1}
DELTAS: tuple[dict[str, dict[tuple[str | None, ...], int]], ...] = (
    {"hop": HOP_DELTA},
    {"medicated": {(":alice", ":diabetes"): 1}},
    {
        "table 1": {(":bob", ":hypertension", None): -1, (":bob", ":hypertension", '"Dr. Hyde"'): 1},
        "table 2": {('"Dr. Hyde"', None, None): -1, ('"Dr. Hyde"', ":bob", ":hypertension"): 1},
    },
    {
        "table 1": {(":alice", ":diabetes", '"Dr. Carol"'): -1, (":alice", ":diabetes", None): 1},
        "table 2": {('"Dr. Carol"', ":alice", ":diabetes"): -1},
        "table 3": {(":alice", ":diabetes", '"Dr. Carol"'): -1},
    },
    {
        "table 1": {(":alice", ":diabetes", '"Dr. Carol"'): 1, (":alice", ":diabetes", None): -1},
        "table 2": {('"Dr. Carol"', ":alice", ":diabetes"): 1},
        "table 3": {(":alice", ":diabetes", '"Dr. Carol"'): 1},
    },
)


def terms(table: dict[tuple[str | None, ...], int]) -> Weights:
    def term(text: str | None) -> ox.NamedNode | ox.Literal | None:
        if text is None:
            return None
        return ox.NamedNode(HOSPITAL + text[1:]) if text[0] == ":" else ox.Literal(text[1:-1])

    return {tuple(map(term, row)): weight for row, weight in table.items()}


@pytest.mark.parametrize("strategy", ["live", "rebuild"])
def test_the_tables_of_the_paper(strategy: str) -> None:
    with sparqlive.open() as session:
        session.load(triples(GRAPH))
        views = {name: session.view(name, PREFIX + query) for name, query in VIEWS.items()}
        for name, table in BEFORE.items():
            assert views[name].weights() == terms(table), name
        assert views["table 3"].weights() != terms({(":alice", ":diabetes", '"Dr. Carol"'): 1}), (
            "that is SQL's"
        )
        expected = {name: view.weights() for name, view in views.items()}
        for (title, insert, delete), deltas in zip(EVENTS, DELTAS, strict=True):
            epoch = session.apply(triples(insert), triples(delete), strategy=strategy)  # type: ignore[arg-type]
            for name, view in views.items():
                delta = terms(deltas.get(name, {}))
                assert epoch.deltas[name].weights() == delta, f"{name}: {title}"
                expected[name] = add(expected[name], delta)
                oracle = Oracle(set(session.quads())).weights(PREFIX + VIEWS[name], view.variables)
                assert view.weights() == expected[name] == oracle
            session.check()
            if epoch.number == 2:
                assert views["hop"].weights() == terms(HOP_AFTER)


def test_the_example_runs() -> None:
    out = io.StringIO()
    main(Console(file=out, width=100))
    text = out.getvalue()
    assert text.endswith("check: 5 views equal their recomputation\n")
    assert "\x1b" not in text
    assert "│ :bob     │ :hypertension │ undefined      │ 1 │" in text
    assert all(title in text for title, _, _ in EVENTS)
