"""A quad is there while at least one source asserts it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparqlive.engine.assertions import Assertions

Quad = tuple[int, int, int, int]
quads = st.integers(1, 3).map(lambda n: (n, n, n, n))
wishes = st.dictionaries(quads, st.sampled_from([1, -1]), max_size=3)


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), wishes), max_size=12))
def test_the_graph_is_what_anybody_asserts(steps: list[tuple[str | None, dict[Quad, int]]]) -> None:
    assertions = Assertions()
    for name in ("a", "b"):
        assertions.add(name, {})
    graph: set[Quad] = set()
    model: dict[str | None, set[Quad]] = {None: set(), "a": set(), "b": set()}
    for source, wanted in steps:
        changes = assertions.resolve(source, wanted, graph.intersection)
        assertions.commit()
        for quad, weight in changes.items():
            (graph.add if weight > 0 else graph.discard)(quad)
        for quad, weight in wanted.items():
            (model[source].add if weight > 0 else model[source].discard)(quad)
        assert graph == model[None] | model["a"] | model["b"]
        assert all(set(assertions.quads(name)) == model[name] for name in ("a", "b"))
