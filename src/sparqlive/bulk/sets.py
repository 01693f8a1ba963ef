"""Decides which plans produce each solution in exactly one row, so that their content needs no final sum."""

from __future__ import annotations

from sparqlive.plan import operators as op


def is_set(plan: op.Operator) -> bool:
    """Returns whether a plan, with all of its variables, has one row of weight one per solution."""
    match plan:
        case op.Scan() | op.Names() | op.Nodes() | op.Distinct() | op.Group() | op.Closure():
            return True
        case op.Join(parts):
            return all(is_set(part) and part.always.issuperset(part.variables) for part in parts)
        case op.Filter(_, source) | op.Extend(source):
            return is_set(source)
        case op.Semi(left) | op.Mark(left):
            return is_set(left)
        case op.Project(source, columns):
            return is_set(source) and frozenset(columns).issuperset(source.variables)
    return False
