"""Documents that are made to be hard to compare: the work has a bound, and the result is right."""

from __future__ import annotations

import itertools

import pytest
from pyoxigraph import BlankNode, NamedNode, Quad

from sparqlive.rdf import compare
from sparqlive.rdf.compare import matched

pytestmark = pytest.mark.slow

P, Q = NamedNode("x:p"), NamedNode("x:q")


def crown(size: int, label: str) -> list[Quad]:
    """Nodes that all look alike from near by: two cycles, or one, of the same length in all."""
    nodes = [BlankNode(f"{label}{i}") for i in range(size)]
    return [Quad(nodes[i], P, nodes[(i + step) % size]) for i in range(size) for step in (1, 2, 3)]


def many(count: int, size: int, label: str) -> list[Quad]:
    return [quad for number in range(count) for quad in crown(size, f"{label}{number}x")]


def chain(length: int, label: str) -> list[Quad]:
    nodes = [BlankNode(f"{label}{i}") for i in range(length)]
    return [Quad(node, P, follower) for node, follower in itertools.pairwise(nodes)]


def star(rays: int, label: str) -> list[Quad]:
    """Every try compares many quads."""
    hubs = [BlankNode(f"{label}hub{i}") for i in range(8)]
    return [Quad(hub, NamedNode(f"x:p{ray}"), other) for ray in range(rays) for hub in hubs for other in hubs]


HARD = {
    "many parts": (many(300, 14, "a"), many(300, 14, "b")),
    "a long list": (chain(5_000, "a"), chain(5_001, "b")),
    "many quads of one node": (star(300, "a"), star(300, "b")),
    "one large part": (crown(3_000, "a"), crown(3_000, "b")),
}


@pytest.mark.parametrize("name", HARD)
def test_the_work_has_a_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = HARD[name]
    steps: list[int] = []
    run = compare._Search.run

    def counted(search: compare._Search) -> compare.Renaming | None:
        found = run(search)
        steps.append(search.steps)
        return found

    monkeypatch.setattr(compare._Search, "run", counted)
    result = matched(old, new)
    most = compare.DOCUMENT_STEPS + compare._STEPS_PER_QUAD * (len(old) + len(new))
    longest = max((len(quads) for pair in HARD.values() for quads in pair), default=0)
    assert sum(steps) <= most + compare.SEARCH_STEPS + 2 * longest
    assert len(result) == len(new)
    assert len({node for quad in result for node in (quad.subject, quad.object)}) == len(
        {node for quad in new for node in (quad.subject, quad.object)}
    )


def test_what_is_easy_is_found_in_a_large_document() -> None:
    def document(label: str) -> list[Quad]:
        found = []
        for number in range(20_000):
            node = BlankNode(f"{label}{number}")
            found += [Quad(node, P, NamedNode(f"x:{number}")), Quad(node, Q, NamedNode("x:o"))]
        return found

    old = document("a")
    assert set(matched(old, document("b"))) == set(old)
