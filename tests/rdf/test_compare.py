"""Two versions of a document: what is the same up to labels and order is no change."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from sparqlive.rdf.compare import matched, renamed

P, Q, R = (NamedNode(f"http://example.org/{name}") for name in "pqr")
nodes = st.one_of(
    st.integers(0, 7).map(lambda n: BlankNode(f"n{n}")), st.sampled_from([P, Q]), st.just(Literal("x"))
)
documents = st.lists(
    st.builds(
        Quad,
        nodes.filter(lambda term: not isinstance(term, Literal)),
        st.sampled_from([P, Q]),
        nodes,
        st.sampled_from([ox.DefaultGraph(), R, BlankNode("n0")]),
    ),
    max_size=14,
)


def shuffled(quads: list[Quad], seed: int = 0) -> list[Quad]:
    """The same document with other labels, in another order."""
    names: dict[BlankNode, BlankNode] = {}
    for quad in quads:
        for term in quad:
            if isinstance(term, BlankNode):
                names.setdefault(term, BlankNode())
    again = [renamed(quad, names) for quad in quads]
    random.Random(seed).shuffle(again)
    return again


def same_up_to_labels(left: list[Quad], right: list[Quad]) -> bool:
    datasets = [ox.Dataset(left), ox.Dataset(right)]
    for dataset in datasets:
        dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return datasets[0] == datasets[1]


@given(documents, st.integers())
def test_reading_the_same_again_changes_nothing(document: list[Quad], seed: int) -> None:
    assert set(matched(document, shuffled(document, seed))) == set(document)


@given(documents, documents)
def test_the_result_is_the_new_version(old: list[Quad], new: list[Quad]) -> None:
    assert same_up_to_labels(matched(old, new), new)


@given(documents, documents)
def test_what_did_not_change_keeps_its_nodes(kept: list[Quad], added: list[Quad]) -> None:
    """Parts that share no blank node with the change are recognised."""
    own = [quad for quad in kept if quad.graph_name != BlankNode("n0")]
    new = shuffled(own) + [renamed(q, {BlankNode(f"n{n}"): BlankNode() for n in range(8)}) for q in added]
    assert set(own) <= set(matched(own, new))


def test_long_lists_and_many_alike_are_no_trouble() -> None:
    chain = [BlankNode() for _ in range(1_000)]
    document = [Quad(a, P, b) for a, b in pairwise(chain)]
    document += [Quad(node, Q, Literal(number)) for number, node in enumerate(chain)]
    document += [Quad(BlankNode(), R, Literal("alike")) for _ in range(1_000)]
    start = time.process_time()
    assert set(matched(document, shuffled(document))) == set(document)
    assert time.process_time() - start < 20


def test_a_first_version_is_not_compared_with_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of many nodes in an empty graph took minutes."""

    def colour(*documents: object) -> None:
        raise AssertionError("there is nothing to match")

    monkeypatch.setattr("sparqlive.rdf.compare._colour", colour)
    new = [Quad(BlankNode("a"), P, BlankNode("b")), Quad(BlankNode("b"), P, Literal("c")), Quad(R, P, Q)]
    for old in ([], [Quad(R, P, Q)]):
        found = matched(old, new)
        assert same_up_to_labels(found, new)
        assert BlankNode("a") not in {quad.subject for quad in found}, "labels are those of the document only"


def test_a_document_made_to_be_hard_costs_a_bounded_time() -> None:
    """A strongly regular graph and a copy that differs in one edge: colours tell nothing apart."""
    size = 9
    cells = {(i, j): BlankNode() for i in range(size) for j in range(size)}
    document = [
        Quad(cells[a], P, cells[b])
        for a in cells
        for b in cells
        if a != b and (a[0] == b[0] or a[1] == b[1] or (a[0] + a[1] - b[0] - b[1]) % size == 0)
    ]
    other = shuffled(document)
    start = time.process_time()
    assert same_size(matched(document, other), document)
    swapped = [*other[1:], Quad(other[0].object, Q, other[0].subject)]  # type: ignore[arg-type]
    assert same_size(matched(document, swapped), document)
    assert time.process_time() - start < 60


def same_size(left: list[Quad], right: list[Quad]) -> bool:
    return len(set(left)) == len(set(right))
