"""Decides where a join can replace the substitution of EXISTS (SPARQL 1.1 §18.6).

The question: does a pattern with a term substituted for a variable have the same solutions as the pattern
with the variable, restricted to those that agree with the term? It does not if the pattern reads the variable
where it does not always bind it: in a filter, under OPTIONAL or MINUS, in a group or a window. Pure functions
over the algebra. "No" may be too cautious; "yes" is always right.
"""

from __future__ import annotations

from sparqlive.plan.expressions import variables_in
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


def is_join(pattern: al.Pattern, variable: Var, around: frozenset[Var], always: bool) -> bool:
    """Whether joining with the values of a variable is the same as substituting them.

    `around` are the variables of the solutions around the EXISTS; `always`: whether all of these bind the
    variable.
    """

    def same(inner: al.Pattern) -> bool:
        return is_join(inner, variable, around, always)

    def reads(item: al.Expression | al.Pattern | None) -> bool:
        return item is not None and variable in variables_in(item)

    if not reads(pattern):
        return True
    match pattern:
        case al.BasicPattern(patterns):
            # A zero-length path matches a substituted term even if the graph does not contain it.
            return always or not any(_has_no_steps_at(part, variable) for part in patterns)
        case al.Values():
            return True
        case al.Join(left, right) | al.Union(left, right):
            return same(left) and same(right)
        case al.Filter(condition, inner):
            return same(inner) and (not reads(condition) or variable in always_bound(inner))
        case al.LeftJoin(left, right, condition):
            if not reads(right) and not reads(condition):
                return same(left)
            return variable in always_bound(left) and same(left) and same(right)
        case al.Minus(left, right):
            if not reads(right):
                return same(left)
            # A substituted variable does not count as a common variable of both sides.
            common = (always_bound(left) & always_bound(right)) - around
            return bool(common) and variable in always_bound(left) and same(left) and same(right)
        case al.Extend(inner, target, expression):
            known = not reads(expression) or variable in always_bound(inner)
            return same(inner) and known and (target != variable or target in always_bound(pattern))
        case al.Graph(_, inner):
            return same(inner)
        case al.Project(inner) | al.Distinct(inner) | al.Reduced(inner) | al.OrderBy(inner):
            return same(inner)
        case al.Group() | al.Slice() | al.Service():
            return False


def always_bound(pattern: al.Pattern) -> frozenset[Var]:
    """Returns the variables that every solution of a pattern binds."""
    match pattern:
        case al.BasicPattern():
            return variables_in(pattern)
        case al.Values(variables, rows):
            return frozenset(v for n, v in enumerate(variables) if all(row[n] is not None for row in rows))
        case al.Join(left, right):
            return always_bound(left) | always_bound(right)
        case al.Union(left, right):
            return always_bound(left) & always_bound(right)
        case al.LeftJoin(left) | al.Minus(left):
            return always_bound(left)
        case al.Extend(inner, variable, expression):
            known = always_bound(inner)
            return known | {variable} if isinstance(expression, al.Constant) or expression in known else known
        case al.Graph(name, inner):
            return always_bound(inner) | ({name} if isinstance(name, Var) else frozenset())
        case al.Filter(_, inner) | al.OrderBy(inner) | al.Distinct(inner) | al.Reduced(inner):
            return always_bound(inner)
        case al.Slice(inner):
            return always_bound(inner)
        case al.Project(inner, variables):
            return always_bound(inner) & frozenset(variables)
        case al.Group(inner, keys):
            return always_bound(inner) & frozenset(v for v, key in keys if v == key)
        case al.Service():
            return frozenset()


def may_have_no_steps(path: al.Path) -> bool:
    """Whether a path has a zero-length part, whose ends are then looked up among the nodes of the graph."""
    match path:
        case al.ZeroOrMore() | al.ZeroOrOne():
            return True
        case al.Inverse(inner) | al.OneOrMore(inner):
            return may_have_no_steps(inner)
        case al.Sequence(first, second) | al.Alternative(first, second):
            return may_have_no_steps(first) or may_have_no_steps(second)
        case _:
            return False


def _has_no_steps_at(part: al.Triple | al.PathPattern, variable: Var) -> bool:
    if isinstance(part, al.Triple) or variable not in (part.subject, part.object):
        return False
    return may_have_no_steps(part.path)
