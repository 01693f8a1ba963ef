"""Stores operators that are probed by keys which cannot be pushed into them, so that a probe is a lookup.

An operator is reachable by keys if at least one variable that its partners bind can be pushed down to its
data. If none can (the key is computed or may be unbound, or there is no shared variable), each probe would
evaluate the operator from scratch.
"""

from __future__ import annotations

from functools import lru_cache

from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var


def store_unreachable(plan: op.Operator) -> op.Operator:
    return _once(plan) if isinstance(plan, op.Shared) else _stored(plan)


@lru_cache(maxsize=256)
def _once(plan: op.Shared) -> op.Operator:
    return _stored(plan)


def _stored(plan: op.Operator) -> op.Operator:
    children = [store_unreachable(child) for child in plan.children]
    match plan:
        case op.Join(parts):
            for number, part in enumerate(parts):
                partners = {v for other, p in enumerate(parts) if other != number for v in p.variables}
                children[number] = _reachable(
                    children[number], tuple(v for v in part.variables if v in partners)
                )
        case op.TwoSided():
            children = [_reachable(child, plan.shared) for child in children]
    return plan.with_children(children)


def _reachable(plan: op.Operator, keys: tuple[Var, ...]) -> op.Operator:
    if not plan.children or isinstance(plan, op.Stored | op.Shared) or plan.pushable & frozenset(keys):
        return plan
    if _small(plan):
        return plan
    return op.Stored(plan, (keys,))


def _small(plan: op.Operator) -> bool:
    """Whether a plan costs less to evaluate than to store: linear operators over tables and switches."""
    match plan:
        case op.Table() | op.Names(op.OneGraph()):
            return True
        case op.Filter() | op.Extend() | op.Project() | op.Join() | op.Union():
            return all(_small(child) for child in plan.children)
    return False
