"""Compares views with their recomputation, for `Session.check`.

The reference evaluator recomputes each view from scratch, from its query and the quads of the view's epoch.
It shares no code with planning and maintenance. Invariant: checking changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparqlive.engine.results import TermRow
from sparqlive.engine.view import View
from sparqlive.errors import CheckFailed
from sparqlive.live.quads import Quads
from sparqlive.plan.operators import Listing
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.reference import Reference


def check(views: Mapping[str, View], epoch: int, quads: Quads, dictionary: Dictionary, union: bool) -> None:
    """Recomputes views and compares them; raises CheckFailed with the view and the rows that differ.

    `union`: whether a query's default graph is the union of all graphs.
    """

    def reference(numbers: Iterable[tuple[int, int, int, int]]) -> Reference:
        return Reference(dictionary.quads(numbers), union=union, query_of=lambda name: views[name].query)

    current = reference(quads)
    quads.check()
    for view in views.values():
        if view.failure is None:
            stands = current if view.epoch == epoch else reference(_quads_of(view, quads))
            if isinstance(view.plan, Listing):
                listed = stands.listed(view.query)
                _compare(view, Counter(listed))
                _compare_order(view, listed)
            else:
                _compare(view, stands.weights(view.query))


def _quads_of(view: View, quads: Quads) -> Iterator[tuple[int, int, int, int]]:
    """The quads as of the epoch of a deferred view."""
    assert view.deferred is not None
    unseen = view.deferred.gathered
    yield from (quad for quad in quads if quad not in unseen)
    yield from (quad for quad, weight in unseen.items() if weight < 0)


def _compare(view: View, expected: Mapping[Any, int]) -> None:
    weights = view.weights()
    if weights == expected:
        return
    rows = [row for row in {*weights, *expected} if weights.get(row, 0) != expected.get(row, 0)]
    shown = "; ".join(
        f"({', '.join('UNDEF' if term is None else str(term) for term in row)}) "
        f"occurs {weights.get(row, 0)} times instead of {expected.get(row, 0)}"
        for row in rows[:5]
    )
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise CheckFailed(
        f"View {view.name!r} differs from its recomputation in {len(rows)} rows: {shown}{more}."
    )


def _compare_order(view: View, expected: Sequence[TermRow]) -> None:
    listed = [tuple(solution.get(name) for name in view.variables) for solution in view.solutions()]
    for place, (row, other) in enumerate(zip(listed, expected, strict=True), 1):
        if row != other:
            shown = [", ".join("UNDEF" if term is None else str(term) for term in r) for r in (row, other)]
            raise CheckFailed(
                f"View {view.name!r} differs from its recomputation in its order: "
                f"solution {place} is ({shown[0]}) instead of ({shown[1]})."
            )
