"""Shapes: plans that differ only in constants, so that one plan can maintain many views.

The constants of subjects, objects and comparisons become variables, bound by a parameter table with one row
per member. Predicates stay constant, because indexes and dispatch depend on them.
"""

from __future__ import annotations

from dataclasses import replace

from sparqlive.plan import operators as op
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Term, Var

_COMPARISONS = frozenset({"=", "!=", "<", ">", "<=", ">="})


def shape_of(plan: op.Operator) -> tuple[op.Operator, tuple[Term, ...]] | None:
    """Returns the shape and the constants of a plan.

    Returns None if the plan is not a single join of patterns, or has no constants. The first columns of the
    shape are the parameters, in the order of the constants.
    """
    lifter = _Lifter()
    columns = plan.variables
    if not isinstance(plan, op.Project):
        plan = op.Project(plan, columns)
    body = lifter.lift(plan.source)
    if body is None or not lifter.constants:
        return None
    parameters = op.Parameters(tuple(lifter.parameters))
    return op.Project(_joined(body, parameters), (*parameters.columns, *columns)), tuple(lifter.constants)


class _Lifter:
    def __init__(self) -> None:
        self.constants: list[Term] = []
        self.parameters: list[Var] = []

    def _parameter(self, term: Term) -> Var:
        self.constants.append(term)
        self.parameters.append(Var(f".parameter{len(self.parameters)}"))
        return self.parameters[-1]

    def lift(self, plan: op.Operator) -> op.Operator | None:
        match plan:
            case op.Filter(condition, source):
                inner = self.lift(source)
                return None if inner is None else op.Filter(self._expression(condition), inner)
            case op.Project(source, columns):
                inner = self.lift(source)
                if inner is None:
                    return None
                return op.Project(inner, (*columns, *(v for v in inner.variables if v in self.parameters)))
            case op.Join(parts) if all(isinstance(part, op.Scan) for part in parts):
                return op.Join(tuple(self._scan(part) for part in parts if isinstance(part, op.Scan)))
            case op.Scan():
                return self._scan(plan)
        return None

    def _scan(self, scan: op.Scan) -> op.Scan:
        subject = scan.subject if isinstance(scan.subject, Var) else self._parameter(scan.subject)
        object_ = scan.object if isinstance(scan.object, Var) else self._parameter(scan.object)
        return replace(scan, subject=subject, object=object_)

    def _expression(self, expression: al.Expression) -> al.Expression:
        match expression:
            case al.Call(name, arguments) if name in _COMPARISONS:
                lifted = (
                    self._parameter(a.term) if isinstance(a, al.Constant) else self._expression(a)
                    for a in arguments
                )
                return al.Call(name, tuple(lifted))
            case al.Call("&&" | "||" | "!" as name, arguments):
                return al.Call(name, tuple(self._expression(argument) for argument in arguments))
        return expression


def _joined(body: op.Operator, parameters: op.Parameters) -> op.Operator:
    """Joins the parameter table at the bottom of a plan, where filters can read it."""
    match body:
        case op.Filter(condition, source):
            return op.Filter(condition, _joined(source, parameters))
        case op.Project(source, columns):
            inner = _joined(source, parameters)
            return op.Project(inner, op.ordered_union(columns, parameters.columns))
        case op.Join(parts):
            return op.Join((*parts, parameters))
    return op.Join((body, parameters))
