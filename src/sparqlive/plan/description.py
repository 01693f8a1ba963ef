"""The plan of a DESCRIBE: the concise bounded description of some resources.

These are the triples of a graph whose subject is one of the resources, or a blank node that such triples lead
to. A view computes them as a join with a path; a query that is evaluated once follows the resources instead.
"""

from __future__ import annotations

from pyoxigraph import Literal

from sparqlive.plan import operators as op
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var

TRIPLE = (Var("subject"), Var("predicate"), Var("object"))
_ROOT = Literal("described")
"""The start of the path to the resources: a literal, so that no triple starts here."""


def description(
    resources: op.Operator, graph: op.GraphChoice, start: Var, predicate: Var, end: Var
) -> op.Operator:
    """The triples that describe the values of `end`, the only column of the resources."""
    first = op.Filter(al.Call("!", (al.Call("ISLITERAL", (end,)),)), resources)
    further = op.Scan(graph, start, predicate, end)
    steps = (
        op.Extend(first, start, al.Constant(_ROOT)),
        op.Filter(al.Call("ISBLANK", (end,)), further),
    )
    source = op.Union(tuple(op.Project(step, (start, end)) for step in steps))
    described = op.Closure(source, (), _ROOT, TRIPLE[0])
    return op.Project(op.Join((described, op.Scan(graph, *TRIPLE))), TRIPLE)


def described_by(plan: op.Operator) -> tuple[op.Operator, op.GraphChoice] | None:
    """Returns the resources that a plan describes, and their graph; None if it is not a DESCRIBE."""
    match plan:
        case op.Project(op.Join((op.Closure(op.Union((op.Project(first), op.Project(further)))), _))):
            match first, further:
                case (
                    op.Extend(op.Filter(_, resources), start),
                    op.Filter(_, op.Scan(graph, _, Var() as predicate, Var() as end)),
                ) if plan == description(resources, graph, start, predicate, end):
                    return resources, graph
    return None
