"""Views over views: a leaf that reads the graph of a view is replaced by the plan of that view.

Handles the graphs named `view:<name>`. The reader is a plan over quads like any other. So every executor
updates it in the same epoch, and recomputing it does not depend on the view it reads; it stores its own copy
of the state it needs. Only the template rows that a pattern can match are used. Invariant: the reader's
operators see no variable of the view's plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import unquote

from pyoxigraph import NamedNode

from sparqlive.plan import operators as op
from sparqlive.plan.renaming import all_variables, rename
from sparqlive.plan.rewrites.walk import bottom_up, operators_of
from sparqlive.rdf.reserved import VIEW_SCHEME
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var

_SMALL = 50
"""A view with more operators is computed once for all its readers in a query.

So views over views stay as large as their texts together.
"""
_SHARED = ".graph_of_"
"""The prefix of variable names inside it."""

GraphOf = Callable[[str], op.Operator]
"""Returns the plan of a view's graph by the view's name. Its columns are those of a triple."""


def views_read(query: al.Query) -> tuple[str, ...]:
    """Returns the names of the views whose graphs a query reads."""
    return tuple(dict.fromkeys(map(_view_name, filter(_is_view, _graphs_in((query.dataset, query.pattern))))))


def _graphs_in(item: Any) -> Iterator[Any]:
    for part in al.found_in(item, (al.Graph, al.Dataset)):
        yield from (part.name,) if isinstance(part, al.Graph) else (*part.default, *(part.named or ()))


def _is_view(name: Any) -> bool:
    return isinstance(name, NamedNode) and name.value.startswith(VIEW_SCHEME)


def _view_name(name: NamedNode) -> str:
    return unquote(name.value.removeprefix(VIEW_SCHEME))


def unfold(plan: op.Operator, graph_of: GraphOf) -> op.Operator:
    """Replaces the leaves that read views by the plans of these views."""
    numbers = count()

    def fresh(name: NamedNode) -> op.Operator:
        """Returns the plan of a view with unique variable names."""
        view = graph_of(_view_name(name))
        if sum(1 for _ in operators_of(view)) <= _SMALL:
            return _renamed(view, f".view{next(numbers)}_")
        # The same names wherever it is read, also by views that this one reads, so that it is one shared
        # part.
        return _copied(op.Shared(_renamed(view, f"{_SHARED}{_view_name(name)}_")), next(numbers))

    def rule(operator: op.Operator) -> op.Operator:
        return _leaf(operator, fresh) if isinstance(operator, op.Scan | op.Names | op.Nodes) else operator

    return bottom_up(rule, plan)


def _renamed(plan: op.Operator, prefix: str) -> op.Operator:
    """Renames the variables of a plan, except inside parts that views share."""
    own = (v for v in all_variables(plan) if not v.name.startswith(_SHARED))
    return rename(plan, {v: Var(f"{prefix}{v.name.lstrip('.')}") for v in own})


def _copied(plan: op.Operator, number: int) -> op.Operator:
    """Returns the solutions of a plan under unique names; the plan itself stays unchanged."""
    names = {v: Var(f".view{number}_{place}") for place, v in enumerate(plan.variables)}
    copied = plan
    for variable, name in names.items():
        copied = op.Extend(copied, name, variable)
    return op.Project(copied, tuple(names.values()))


def _leaf(leaf: op.Scan | op.Names | op.Nodes, view_of: Callable[[NamedNode], op.Operator]) -> op.Operator:
    match leaf.graph:
        case op.OneGraph(name) if name is not None and _is_view(name):
            return _over(leaf, view_of(name))
        case op.MergedGraphs(names) if names and any(map(_is_view, names)):
            assert isinstance(leaf, op.Scan | op.Nodes)
            rest = tuple(name for name in names if not _is_view(name))
            parts = [_over(leaf, view_of(name)) for name in names if _is_view(name)]
            if rest:
                graph = op.OneGraph(rest[0]) if len(rest) == 1 else op.MergedGraphs(rest)
                parts.append(replace(leaf, graph=graph))
            return op.Distinct(op.Union(tuple(parts)))  # a solution has one triple: the union is a set
        case op.NamedGraphs(variable, names) if names and any(map(_is_view, names)):
            rest = tuple(name for name in names if not _is_view(name))
            parts = [replace(leaf, graph=op.NamedGraphs(variable, rest))] if rest else []
            for name in filter(_is_view, names):
                one = _over(replace(leaf, graph=op.OneGraph(name)), view_of(name))
                parts.append(op.Project(op.Extend(one, variable, al.Constant(name)), leaf.variables))
            return op.Union(tuple(parts)) if len(parts) > 1 else parts[0]
    return leaf


def _over(leaf: op.Scan | op.Names | op.Nodes, view: op.Operator) -> op.Operator:
    """Translates a leaf over the triples of one graph."""
    subject, _, object_ = view.variables
    match leaf:
        case op.Names():
            return op.Distinct(op.Project(view, ()))
        case op.Nodes(_, variable):
            return op.Distinct(op.Template(view, (variable,), ((subject,), (object_,))))
    matching = _matching(view, leaf)
    if matching is None:
        return op.Table(leaf.variables, ())
    conditions: list[al.Expression] = []
    columns: dict[Var, Var] = {}
    for column, term in zip(matching.variables, leaf.positions, strict=True):
        if not isinstance(term, Var):
            conditions.append(al.Call("SAMETERM", (column, al.Constant(term))))
        elif term in columns.values():
            first = next(c for c, v in columns.items() if v == term)
            conditions.append(al.Call("SAMETERM", (column, first)))
        else:
            columns[column] = term
    for predicate in leaf.excluded:
        same = al.Call("SAMETERM", (matching.variables[1], al.Constant(predicate)))
        conditions.append(al.Call("!", (same,)))
    for condition in conditions:
        matching = op.Filter(condition, matching)
    return op.Project(rename(matching, columns), tuple(v for v in leaf.variables if v in columns.values()))


def _matching(view: op.Operator, leaf: op.Scan) -> op.Operator | None:
    """Returns the view's plan with only the template rows that the pattern can match; None if none can."""
    match view:
        case op.Distinct(source) | op.Filter(_, source):
            inner = _matching(source, leaf)
            return None if inner is None else replace(view, source=inner)
        case op.Template(_, _, rows):
            positions = leaf.positions
            able = tuple(
                row
                for row in rows
                if all(
                    isinstance(term, Var) or isinstance(position, Var) or term == position
                    for term, position in zip(row, positions, strict=True)
                )
            )
            return replace(view, rows=able) if able else None
    return view
