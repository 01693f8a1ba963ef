"""Evaluates the paths `+` and `*`: the nodes that the steps of one key reach, by a search from each start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sparqlive.bulk import keyed
from sparqlive.bulk.definition import Definition, Made, Row, ValueOf
from sparqlive.bulk.solutions import Solutions, before_and_after
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Term, Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

_Steps = Mapping[int, Sequence[int]]


def _definition(operator: op.Closure, id_of: Callable[[Term], int]) -> Definition:
    start, end = (None if isinstance(term, Var) else id_of(term) for term in (operator.start, operator.end))

    def evaluate(rows: Sequence[tuple[Row, int]], _: ValueOf) -> Iterable[tuple[Made, int]]:
        key = rows[0][0][2:]
        return [((*ends, *key), 1) for ends in _ends(rows, start, end)]

    return Definition((), frozenset(), evaluate)


def redo(evaluation: Evaluation, operator: op.Closure, old: Solutions | None, added: Solutions) -> Solutions:
    source = before_and_after(operator.source.variables, old, added)
    return keyed.by_python(evaluation, operator, _definition(operator, evaluation.quads.id_of), source)


def _ends(rows: Sequence[tuple[Row, int]], start: int | None, end: int | None) -> Iterator[Row]:
    """Yields the values of a path's variable ends."""
    turned = start is None and end is not None
    steps: dict[int, list[int]] = {}
    for (one, other, *_), _weight in rows:
        a, b = (other, one) if turned else (one, other)
        steps.setdefault(a, []).append(b)
    if start is not None:
        reached = _reached(steps, start)
        if end is None:
            yield from ((node,) for node in reached)
        elif end in reached:
            yield ()
    elif end is not None:
        yield from ((node,) for node in _reached(steps, end))
    else:
        for node in steps:
            yield from ((node, other) for other in _reached(steps, node))


def _reached(steps: _Steps, start: int) -> set[int]:
    """Returns the nodes at the end of one or more steps."""
    nodes: set[int] = set()
    waiting = [start]
    while waiting:
        for node in steps.get(waiting.pop(), ()):
            if node not in nodes:
                nodes.add(node)
                waiting.append(node)
    return nodes
