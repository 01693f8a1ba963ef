"""Estimates costs, to order the lookups of a join.

The estimate of a part is the number of solutions that a probe with the bound variables returns: a measured
fan-out if there is data, else a rule of thumb based on the bound positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var

FanOut = Callable[[op.Scan, frozenset[Var]], float | None]
_UNKNOWN = 1e8


def cheapest(parts: Sequence[op.Operator], bound: frozenset[Var], fan_out: FanOut) -> int:
    """Returns the index of the part to look up next."""
    estimates = [(estimate(part, bound, fan_out), number) for number, part in enumerate(parts)]
    return min(estimates)[1]


def estimate(part: op.Operator, bound: frozenset[Var], fan_out: FanOut) -> float:
    """Estimates how many solutions a lookup returns."""
    if bound.issuperset(part.variables):
        if isinstance(part, op.Scan):  # a test that ties two variables fails more often than one of a class
            return 0.0 if len(part.variables) > 1 else 0.1
        return 0.5
    match part:
        case op.Scan():
            measured = fan_out(part, bound)
            return measured if measured is not None else _rule_of_thumb(part, bound)
        case op.Names(op.OneGraph()):
            return 0.0
        case op.Table(_, rows):
            return float(len(rows)) if not bound.intersection(part.variables) else 1.0
        case op.Nodes() | op.Names():
            return 1e7
        case op.Parameters():
            return 0.1 if bound.intersection(part.variables) else 1e5
        case op.Closure(_, keys, start, end) if not bound.intersection(part.variables):
            fixed = not (isinstance(start, Var) and isinstance(end, Var))
            return 1000.0 if fixed and not keys else _UNKNOWN
    if bound.intersection(part.variables):
        return 20.0
    return _whole(part, bound, fan_out)


def _whole(part: op.Operator, bound: frozenset[Var], fan_out: FanOut) -> float:
    """Estimates the solutions of an operator over others, with none of its variables bound."""

    def of(source: op.Operator) -> float:
        return estimate(source, bound, fan_out)

    match part:
        case op.Window(source, keys, _, _, limit):
            return of(source) if limit is None or keys else min(float(limit), of(source))
        case op.Group(_, ()):
            return 1.0
        case op.Closure() | op.Template() | op.Shared():  # below a shared part, others may be shared again
            return _UNKNOWN
        case op.Join(()):
            return 1.0
        case op.Join(parts):  # the first loop is the cheapest; how many rows the others add is not known
            return min(map(of, parts))
        case op.Union(parts):
            return sum(map(of, parts))
        case op.LeftJoin(left) | op.Semi(left) | op.Mark(left):
            return of(left)
        case op.Filter(_, source) | op.Extend(source) | op.Project(source) | op.Keeping(source):
            return of(source)
    return _UNKNOWN


def _rule_of_thumb(scan: op.Scan, bound: frozenset[Var]) -> float:
    """Estimates without data: a subject has few objects, an object many subjects, a graph very many quads."""

    def fixed(term: object) -> bool:
        return not isinstance(term, Var) or term in bound

    if fixed(scan.subject):
        return 2.0 if fixed(scan.predicate) else 8.0
    if fixed(scan.object):
        return 50.0 if isinstance(scan.object, Var) else 1000.0
    return 1e6 if fixed(scan.predicate) else 1e7
