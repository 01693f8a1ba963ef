"""Rewrites: pairs of text before and after, and the laws that none changes a plan's meaning.

A plan is written in the papers' signs: ⋈ join, σ filter, π projection, ε binding, + union, ⟕ left join,
⋉ and ▷ semi-joins that keep and drop, μ mark, δ distinct, `stored[keys](…)`. A scan is `(s p o)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyoxigraph as ox
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sparqlive
from sparqlive.plan import operators as op
from sparqlive.plan.keys import is_copy, pushable
from sparqlive.plan.reference import Reference
from sparqlive.plan.rewrites import REWRITES, rewrite
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.plan.rewrites.push_conditions import push_conditions
from sparqlive.plan.rewrites.push_filters import push_filters
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.sum_early import sum_early
from sparqlive.plan.rewrites.walk import bottom_up, with_children
from sparqlive.plan.translate import translate
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.syntax import parse_query
from sparqlive.zset.zset import ZSet
from tests.oracle import assert_same
from tests.random_queries import LITERALS, NODES, PROLOGUE, RandomQuery, graphs, queries

Rule = Callable[[op.Operator], op.Operator]


# Plans as text


def shown(item: object) -> str:
    match item:
        case Var(name):
            return f"?{name}"
        case Constant(term):
            return shown(term)
        case ox.NamedNode():
            return f":{item.value.rsplit('/', 1)[-1]}"
        case ox.Literal():
            return item.value
        case None:
            return "UNDEF"
        case Call(name, (left, right)) if not name.isalpha():
            return f"{shown(left)} {name} {shown(right)}"
        case Call(name, arguments):
            return f"{name}({', '.join(map(shown, arguments))})"
    raise AssertionError(item)


def names(variables: tuple[Var, ...]) -> str:
    return " ".join(map(shown, variables))


def text(plan: op.Operator) -> str:
    """The plan on one line; an operator between two others has brackets unless it is outermost."""
    shape = _text(plan)
    return (
        shape[1:-1] if shape.startswith("(") and isinstance(plan, op.Join | op.Union | op.LeftJoin) else shape
    )


def _text(plan: op.Operator) -> str:
    match plan:
        case op.Scan(graph, subject, predicate, object_, excluded):
            where = {op.OneGraph(None): ""}.get(graph, "@")
            without = "".join(f" not {shown(name)}" for name in excluded)
            return f"({shown(subject)} {shown(predicate)} {shown(object_)}{without}){where}"
        case op.Names():
            return "graphs"
        case op.Nodes(_, variable):
            return f"nodes({shown(variable)})"
        case op.Table(columns, rows):
            return f"table[{names(columns)}]{len(rows)}"
        case op.Join(parts):
            return f"({' ⋈ '.join(map(_text, parts))})"
        case op.Union(parts):
            return f"({' + '.join(map(_text, parts))})"
        case op.Filter(condition, source):
            return f"σ[{shown(condition)}]{_bracketed(source)}"
        case op.Extend(source, variable, expression):
            return f"ε[{shown(variable)} := {shown(expression)}]{_bracketed(source)}"
        case op.Project(source, columns):
            return f"π[{names(columns)}]{_bracketed(source)}"
        case op.Distinct(source):
            return f"δ{_bracketed(source)}"
        case op.Stored(source, keys):
            return f"stored[{' | '.join(map(names, keys))}]{_bracketed(source)}"
        case op.LeftJoin(left, right, condition):
            return f"({_text(left)} ⟕{f'[{shown(condition)}]' if condition else ''} {_text(right)})"
        case op.Semi(left, right, keep, _):
            return f"({_text(left)} {'⋉' if keep else '▷'} {_text(right)})"
        case op.Mark(left, right, variable):
            return f"({_text(left)} μ[{shown(variable)}] {_text(right)})"
    raise AssertionError(type(plan).__name__)


def _bracketed(plan: op.Operator) -> str:
    inner = _text(plan)
    return inner if inner.startswith("(") and inner.endswith(")") and _one_bracket(inner) else f"({inner})"


def _one_bracket(inner: str) -> bool:
    """Whether the first bracket closes at the end."""
    depth = 0
    for position, sign in enumerate(inner):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return position == len(inner) - 1
    return False


def plan_of(query: str) -> op.Operator:
    return translate(parse_query(PROLOGUE + query, None), False)


def planned(query: RandomQuery) -> op.Operator:
    try:
        return translate(parse_query(query.text, None), False)
    except sparqlive.Unsupported:
        assume(False)
        raise


def check_pair(rule: Rule, query: str, before: str, after: str) -> None:
    plan = plan_of(query)
    assert text(plan) == before
    result = rule(plan)
    assert text(result) == after
    assert result.variables == plan.variables
