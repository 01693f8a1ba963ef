"""What a notebook shows: tables with escaped text, and a table that follows its view."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from tests.conftest import ROOT
from tests.waiting import wait_until

PRICE = NamedNode("http://x/price")


def price(name: str, value: object) -> Quad:
    return Quad(NamedNode(f"http://x/{name}"), PRICE, Literal(value))  # type: ignore[arg-type]


@pytest.fixture
def session() -> sparqlive.Session:
    return sparqlive.open()


def test_results(session: sparqlive.Session) -> None:
    session.load([price("tea", 4), price("cake", "<script>alert(1)</script>")])
    view = session.view("prices", "SELECT ?item ?price { ?item <http://x/price> ?price }")
    shown = view._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "2 solutions" in shown
    assert "<a href='http://x/tea'>" in shown
    answer = session.query("CONSTRUCT { ?s ?p 1 } { ?s ?p ?o }")
    assert "2 triples" in answer._repr_html_()
    assert "true" in session.query("ASK { ?s ?p ?o }")._repr_html_()
    epoch = session.apply(insert=[price("jam", 2)], delete=[price("tea", 4)])
    assert "+1 −1 quads" in epoch._repr_html_()
    delta = epoch.deltas["prices"]._repr_html_()
    assert delta.index("<td") > 0
    assert {">+<", ">−<"} <= {delta[i : i + 3] for i in range(len(delta))}
    assert "prices" in session._repr_html_()
    plan = view.explained()._repr_html_()
    assert "\n  T1  ?item &lt;http://x/price&gt; ?price\n      ΔT1 = T1(ΔG)\n" in plan


def test_only_the_first_rows_are_shown(session: sparqlive.Session) -> None:
    session.load([price(f"n{number}", number) for number in range(50)])
    shown = session.query("SELECT * { ?s ?p ?o }")._repr_html_()
    assert shown.count("<tr>") == 21
    assert "More than 20 solutions" in shown


def test_views_iterate_over_solutions(session: sparqlive.Session) -> None:
    session.load([price("tea", 4), price("cake", 9)])
    view = session.view("prices", "SELECT ?price { ?item <http://x/price> ?price } ORDER BY ?price")
    assert [solution["price"].value for solution in view] == ["4", "9"]


def test_a_live_table_follows_its_view(session: sparqlive.Session) -> None:
    InteractiveShell.instance()
    try:
        view = session.view("prices", "SELECT ?item { ?item <http://x/price> ?price }")
        with capture_output() as captured, view.live() as table:
            drawn: list[str] = []
            table._handle.update = lambda shown: drawn.append(shown.data)
            session.apply(insert=[price("tea", 4)])
            wait_until(lambda: bool(drawn))
        assert "0 solutions" in captured.outputs[0].data["text/html"]
        assert "http://x/tea" in drawn[-1]
    finally:
        InteractiveShell.clear_instance()


def test_the_tutorial_runs() -> None:
    import json

    notebook = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    InteractiveShell.instance()
    try:
        names: dict[str, object] = {}
        for cell in cells:
            exec(compile(cell, str(Path("tutorial")), "exec"), names)
    finally:
        InteractiveShell.clear_instance()
