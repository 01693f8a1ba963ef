"""The garbage collector does not run while a batch becomes an epoch."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Lists the generation of each collection; they come often."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10, 2, 2)
    yield found
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(note)


def test_a_batch_is_encoded_and_carried_without_collections(collections: list[int]) -> None:
    nodes = [NamedNode(f"urn:{number}") for number in range(1_000)]
    quads = [Quad(node, NamedNode("urn:p"), node) for node in nodes]
    with sparqlive.open() as session:
        session.view("all", "SELECT ?s { ?s <urn:p> ?o }")
        assert collections
        collections.clear()
        epoch = session.apply(insert=quads)
        during = list(collections)
        assert epoch.inserted == 1_000
        assert len(during) <= 1, "at most one, after it"
        assert gc.isenabled()
