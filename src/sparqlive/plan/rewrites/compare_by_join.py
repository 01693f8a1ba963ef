"""Turns filters that compare a variable with IRIs into joins with a table of these IRIs.

σ_{?x = a ∨ ?x = b}(A) = A ⋈ {a, b}, if a pattern of A binds ?x: IRIs are equal if they are the same term. A
filter reads all of A, and a join looks up what it needs. With one IRI, the patterns match it in place of ?x.
`sameTerm` compares any terms that way, and BIND of a constant is such a table too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyoxigraph import NamedNode

from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.flatten_joins import ordered, projected
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Call, Constant, Expression, Term, Var, VarOrTerm

_PATTERNS = (op.Scan, op.Nodes, op.Closure)


def compare_by_join(plan: op.Operator) -> op.Operator:
    return bottom_up(_rewritten, plan)


def _rewritten(plan: op.Operator) -> op.Operator:
    match plan:
        case op.Filter(condition, source):
            compared = _comparison(condition)
            joined = None if compared is None else _joined(*compared, source)
            return plan if joined is None else joined
        case op.Extend(op.Table(columns, rows), variable, Constant(term)):
            return op.Table((*columns, variable), tuple((*row, term) for row in rows))
    return plan


def _joined(variable: Var, terms: Sequence[Term], source: op.Operator) -> op.Operator | None:
    """Restricts a variable to some terms by a join; None if no pattern can look them up."""
    match source:
        case op.Filter(condition, inner):
            found = _joined(variable, terms, inner)
            return None if found is None else op.Filter(condition, found)
        case op.Project(inner, columns) if variable in columns:
            found = _joined(variable, terms, inner)
            return None if found is None else projected(found, columns)
    parts = source.parts if isinstance(source, op.Join) else (source,)
    if not any(isinstance(part, _PATTERNS) and variable in part.variables for part in parts):
        return None
    match terms:
        case [NamedNode() as iri]:
            parts = tuple(_fixed(variable, iri, part) for part in parts)
    table = op.Table((variable,), tuple((term,) for term in dict.fromkeys(terms)))
    return ordered(op.Join((*parts, table)), source)


def _fixed(variable: Var, iri: NamedNode, part: op.Operator) -> op.Operator:
    """Replaces a variable of a pattern by an IRI, except as the name of a graph."""

    def fixed(term: VarOrTerm) -> VarOrTerm:
        return iri if term == variable else term

    match part:
        case op.Scan(graph, subject, predicate, object_, excluded):
            return op.Scan(graph, fixed(subject), fixed(predicate), fixed(object_), excluded)
        case op.Closure():
            return replace(part, start=fixed(part.start), end=fixed(part.end))
    return part


def _comparison(condition: Expression) -> tuple[Var, tuple[Term, ...]] | None:
    """Returns a variable and terms if the condition only says that it is one of these terms."""
    match condition:
        case Call("=" | "SAMETERM", (Constant() as constant, Var() as variable)):
            return _comparison(Call(condition.name, (variable, constant)))
        case Call("=" | "IN", (Var() as variable, *others)):
            terms = [other.term for other in others if isinstance(other, Constant)]
            iris = tuple(term for term in terms if isinstance(term, NamedNode))
            return (variable, iris) if iris and len(iris) == len(others) else None
        case Call("SAMETERM", (Var() as variable, Constant(term))):
            return variable, (term,)
        case Call("||", (left, right)):
            match _comparison(left), _comparison(right):
                case (first, some), (second, more) if first == second:
                    return first, (*some, *more)
    return None
