"""The W3C update evaluation tests through the session, with views that are kept meanwhile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from tests.conftest import W3C, W3C_ABSENT
from tests.oracle import Weights, add, assert_same, show
from tests.w3c import UpdateTest, isomorphic, known_failures, read_update_tests

pytestmark = pytest.mark.w3c

ROOT = W3C / "sparql"
TESTS = list(read_update_tests(ROOT)) if ROOT.is_dir() else []
VIEWS = {
    "triples": "SELECT * { ?s ?p ?o }",
    "quads": "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    "joined": "SELECT ?a ?c { ?a ?p ?b . ?b ?q ?c }",
    "named only": "SELECT * { GRAPH ?g { ?s ?p ?o } FILTER NOT EXISTS { ?s ?p ?o } }",
    "both": "SELECT * { ?s ?p ?o OPTIONAL { GRAPH ?g { ?s ?q ?r } } }",
}


def as_rows(quads: list[ox.Quad]) -> Weights:
    return dict(
        Counter(
            (*q.triple, None if isinstance(q.graph_name, ox.DefaultGraph) else q.graph_name) for q in quads
        )
    )


def test_the_suite_is_complete() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(TESTS) == len({test.name for test in TESTS}) == (93 if known_failures(ROOT) else 94)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
@pytest.mark.parametrize("place", ["in memory", "in a store"])
def test_update(test: UpdateTest, place: str, tmp_path: Path) -> None:
    before, after = test.quads(test.before), as_rows(test.quads(test.after))
    path = tmp_path / "store" if place == "in a store" else None
    with sparqlive.open(path) as session:
        session.load(before)
        views = {name: session.view(name, text) for name, text in VIEWS.items()}
        contents = {name: view.weights() for name, view in views.items()}
        start = session.epoch
        epoch = session.update(test.request, base=test.base)
        session.check()
        assert epoch.number == session.epoch == start + bool(epoch.inserted or epoch.deleted)
        for name, view in views.items():
            total = add(contents[name], epoch.deltas[name].weights())
            assert_same(total, view.weights(), f"{test.name}: the delta of {name}")
        actual = as_rows(list(session.quads()))
    if path is not None:
        with sparqlive.open(path) as session:
            assert as_rows(list(session.quads())) == actual
            session.check()
    assert isomorphic(actual, after), (
        f"{test.name}\n{test.request}\n  actual:   {show(actual)}\n  expected: {show(after)}"
    )
