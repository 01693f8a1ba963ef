"""Rewrites: pairs of text before and after, and the laws that none changes a plan's meaning.

A plan is written in the papers' signs: ⋈ join, σ filter, π projection, ε binding, + union, ⟕ left join,
⋉ and ▷ semi-joins that keep and drop, μ mark, δ distinct, `stored[keys](…)`. A scan is `(s p o)`; a hidden
variable is `?_name`, without its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyoxigraph as ox
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparqlive
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites import REWRITES, rewrite
from sparqlive.plan.rewrites.compare_by_join import compare_by_join
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.plan.rewrites.push_conditions import push_conditions
from sparqlive.plan.rewrites.push_filters import push_filters
from sparqlive.plan.rewrites.split_optional import split_optional
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.sum_early import sum_early
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.plan.translate import translate
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.syntax import parse_query
from tests.conftest import examples
from tests.oracle import assert_same
from tests.plan_reference import Reference
from tests.random_queries import LITERALS, NODES, PROLOGUE, RandomQuery, graphs, queries
from tests.zsets import ZSet

Rule = Callable[[op.Operator], op.Operator]


# Plans as text


def shown(item: object) -> str:
    match item:
        case Var(name) if name.startswith("."):
            return f"?_{name.strip('._0123456789')}"
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
        case op.Template(source, _, rows):
            return f"template[{' . '.join(' '.join(map(shown, row)) for row in rows)}]{_bracketed(source)}"
        case op.Numbered(source):
            return f"numbered{_bracketed(source)}"
        case op.Distinct(source):
            return f"δ{_bracketed(source)}"
        case op.Closure(source, _, start, end):
            return f"paths[{shown(start)} {shown(end)}]{_bracketed(source)}"
        case op.Group(source, keys):
            return f"γ[{names(keys)}]{_bracketed(source)}"
        case op.Window(source, keys):
            return f"window[{names(keys)}]{_bracketed(source)}"
        case op.Shared(source):
            return f"shared{_bracketed(source)}"
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


PAIRS: list[tuple[Rule, str, str, str]] = [
    (
        flatten_joins,
        "SELECT ?a ?d { ?a :p ?b . { ?b :q ?c . ?c :r ?d } }",
        "π[?a ?d]((?a :p ?_b) ⋈ ((?_b :q ?_c) ⋈ (?_c :r ?d)))",
        "π[?a ?d]((?a :p ?_b) ⋈ (?_b :q ?_c) ⋈ (?_c :r ?d))",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p ?b . { ?a :q ?c FILTER(?c > 1) } }",
        "π[?a ?b ?c]((?a :p ?b) ⋈ σ[?c > 1](?a :q ?c))",
        "π[?a ?b ?c](σ[?c > 1]((?a :p ?b) ⋈ (?a :q ?c)))",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p ?b . { ?a :q ?b FILTER(BOUND(?c)) } ?b :r ?c }",
        "π[?a ?b ?c](((?a :p ?b) ⋈ σ[BOUND(?c)](?a :q ?b)) ⋈ (?b :r ?c))",
        "π[?a ?b ?c](σ[BOUND(?c)]((?a :p ?b) ⋈ (?a :q ?b)) ⋈ (?b :r ?c))",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p ?b . { ?a :q ?c BIND(?c AS ?d) } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⋈ ε[?d := ?c](?a :q ?c))",
        "π[?a ?b ?c ?d](ε[?d := ?c]((?a :p ?b) ⋈ (?a :q ?c)))",
    ),
    (
        flatten_joins,
        "SELECT * { ?d :p ?b . { ?b :q ?c BIND(?c AS ?d) } }",
        "π[?d ?b ?c]((?d :p ?b) ⋈ ε[?d := ?c](?b :q ?c))",
        "π[?d ?b ?c]((?d :p ?b) ⋈ ε[?d := ?c](?b :q ?c))",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p ?b . { SELECT ?a { ?a :q ?c } } }",
        "π[?a ?b]((?a :p ?b) ⋈ π[?a](?a :q ?_c))",
        "π[?a ?b](π[?a ?b]((?a :p ?b) ⋈ (?a :q ?_c)))",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p ?b . { SELECT DISTINCT ?a { ?a :q ?c } } }",
        "π[?a ?b]((?a :p ?b) ⋈ δ(π[?a](?a :q ?_c)))",
        "π[?a ?b]((?a :p ?b) ⋈ δ(π[?a](?a :q ?_c)))",
    ),
    (
        flatten_joins,
        "SELECT * { { } ?a :p ?b }",
        "π[?a ?b](?a :p ?b)",
        "π[?a ?b](?a :p ?b)",
    ),
    (
        flatten_joins,
        "SELECT * { ?a :p/:q ?b . ?b :r ?c }",
        "π[?a ?b ?c](π[?a ?b]((?a :p ?_node) ⋈ (?_node :q ?b)) ⋈ (?b :r ?c))",
        "π[?a ?b ?c](π[?a ?b ?c]((?a :p ?_node) ⋈ (?_node :q ?b) ⋈ (?b :r ?c)))",
    ),
    (
        flatten_joins,
        "SELECT * { { ?a :p ?b OPTIONAL { ?b :q ?c } } ?a :r ?d }",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?b :q ?c)) ⋈ (?a :r ?d))",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?b :q ?c)) ⋈ (?a :r ?d))",
    ),
    (
        push_conditions,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c FILTER(?c > 1) } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?c > 1] (?b :q ?c))",
        "π[?a ?b ?c]((?a :p ?b) ⟕ σ[?c > 1](?b :q ?c))",
    ),
    (
        push_conditions,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c FILTER(?c > 1 && ?c > ?a) } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?c > 1 && ?c > ?a] (?b :q ?c))",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?c > ?a] σ[?c > 1](?b :q ?c))",
    ),
    (
        push_conditions,
        "SELECT * { ?a :p ?b OPTIONAL { ?c :q ?d FILTER(?c > ?b) } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕[?c > ?b] (?c :q ?d))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕[?c > ?b] (?c :q ?d))",
    ),
    (
        push_conditions,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c OPTIONAL { ?c :r ?a } FILTER(?a > 1) } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?a > 1] ((?b :q ?c) ⟕ (?c :r ?a)))",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?a > 1] ((?b :q ?c) ⟕ (?c :r ?a)))",
    ),
    (
        push_conditions,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c FILTER(?b > 1) } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕[?b > 1] (?b :q ?c))",
        "π[?a ?b ?c]((?a :p ?b) ⟕ σ[?b > 1](?b :q ?c))",
    ),
    (
        split_optional,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c OPTIONAL { ?a :r ?d } } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕ (?a :r ?d)))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ (((?b :q ?c) ⋈ (?a :r ?d)) + ((?b :q ?c) ▷ (?a :r ?d))))",
    ),
    (
        split_optional,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c OPTIONAL { ?a :r ?d FILTER(?c > 1) } } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕[?c > 1] (?a :r ?d)))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ (σ[?c > 1]((?b :q ?c) ⋈ (?a :r ?d)) "
        "+ σ[COALESCE(!(?c > 1), true)](?b :q ?c) + (σ[?c > 1](?b :q ?c) ▷ (?a :r ?d))))",
    ),
    (
        split_optional,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c OPTIONAL { ?a :r ?d FILTER(?c > ?d) } } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕[?c > ?d] (?a :r ?d)))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕[?c > ?d] (?a :r ?d)))",
    ),
    (
        split_optional,
        "SELECT * { ?a :p ?b OPTIONAL { ?a :q ?c } ?c :r ?d }",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?a :q ?c)) ⋈ (?c :r ?d))",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?a :q ?c)) ⋈ (?c :r ?d))",
    ),
    (
        split_optional,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c OPTIONAL { ?c :r ?d } } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕ (?c :r ?d)))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⟕ ((?b :q ?c) ⟕ (?c :r ?d)))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } FILTER(?b > 1) }",
        "π[?a ?b ?c](σ[?b > 1]((?a :p ?b) ⟕ (?b :q ?c)))",
        "π[?a ?b ?c](σ[?b > 1](?a :p ?b) ⟕ (?b :q ?c))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } FILTER(?c > 1) }",
        "π[?a ?b ?c](σ[?c > 1]((?a :p ?b) ⟕ (?b :q ?c)))",
        "π[?a ?b ?c](σ[?c > 1]((?a :p ?b) ⟕ (?b :q ?c)))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b MINUS { ?b :q ?c } FILTER(?b > 1) }",
        "π[?a ?b](σ[?b > 1]((?a :p ?b) ▷ π[?b](?b :q ?_c)))",
        "π[?a ?b](σ[?b > 1](?a :p ?b) ▷ π[?b](?b :q ?_c))",
    ),
    (
        push_filters,
        "SELECT * { { ?a :p ?b } UNION { ?a :q ?c } FILTER(?b > 1) }",
        "π[?a ?b ?c](σ[?b > 1]((?a :p ?b) + (?a :q ?c)))",
        "π[?a ?b ?c](σ[?b > 1](?a :p ?b) + σ[?b > 1](?a :q ?c))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b BIND(?b AS ?c) FILTER(?b > 1) }",
        "π[?a ?b ?c](σ[?b > 1](ε[?c := ?b](?a :p ?b)))",
        "π[?a ?b ?c](ε[?c := ?b](σ[?b > 1](?a :p ?b)))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b BIND(?b AS ?c) FILTER(?c > 1) }",
        "π[?a ?b ?c](σ[?c > 1](ε[?c := ?b](?a :p ?b)))",
        "π[?a ?b ?c](σ[?c > 1](ε[?c := ?b](?a :p ?b)))",
    ),
    (
        push_filters,
        "SELECT * { { SELECT ?a { ?a :p ?b } } FILTER(?a > 1) }",
        "π[?a](σ[?a > 1](π[?a](?a :p ?_b)))",
        "π[?a](π[?a](σ[?a > 1](?a :p ?_b)))",
    ),
    (
        push_filters,
        "SELECT * { { SELECT DISTINCT ?a { ?a :p ?b } } FILTER(?a > 1) }",
        "π[?a](σ[?a > 1](δ(π[?a](?a :p ?_b))))",
        "π[?a](δ(π[?a](σ[?a > 1](?a :p ?_b))))",
    ),
    (
        push_filters,
        "SELECT * { { SELECT ?a { ?a :p ?b } } FILTER(?a > 1 && BOUND(?b)) }",
        "π[?a](σ[BOUND(?b)](σ[?a > 1](π[?a](?a :p ?_b))))",
        "π[?a](σ[BOUND(?b)](π[?a](σ[?a > 1](?a :p ?_b))))",
    ),
    (
        push_filters,
        "SELECT * { ?a :p ?b FILTER(EXISTS { ?a :q ?c } || ?b > 1) FILTER(?b > 2) }",
        "π[?a ?b](σ[?b > 2](σ[?_exists || ?b > 1]((?a :p ?b) μ[?_exists] π[?a](?a :q ?_c))))",
        "π[?a ?b](σ[?b > 2](σ[?_exists || ?b > 1]((?a :p ?b) μ[?_exists] π[?a](?a :q ?_c))))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b . ?b :q ?c FILTER(?a = :n1) }",
        "π[?a ?b ?c](σ[?a = :n1]((?a :p ?b) ⋈ (?b :q ?c)))",
        "π[?a ?b ?c](π[?a ?b ?c]((:n1 :p ?b) ⋈ (?b :q ?c) ⋈ table[?a]1))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b FILTER(?a = :n1 && :n2 = ?b && ?b != ?a) }",
        "π[?a ?b](σ[?b != ?a](σ[:n2 = ?b](σ[?a = :n1](?a :p ?b))))",
        "π[?a ?b](σ[?b != ?a](π[?a ?b]((:n1 :p :n2) ⋈ table[?a]1 ⋈ table[?b]1)))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b FILTER(?b IN (:n1, :n2, :n1)) }",
        "π[?a ?b](σ[IN(?b, :n1, :n2, :n1)](?a :p ?b))",
        "π[?a ?b]((?a :p ?b) ⋈ table[?b]2)",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b FILTER(?b = :n1 || sameTerm(?b, 1)) }",
        "π[?a ?b](σ[?b = :n1 || SAMETERM(?b, 1)](?a :p ?b))",
        "π[?a ?b]((?a :p ?b) ⋈ table[?b]2)",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b FILTER(?b = 1) FILTER(?b IN (:n1, 1)) FILTER(?a = :n1 || ?b = :n1) }",
        "π[?a ?b](σ[?a = :n1 || ?b = :n1](σ[IN(?b, :n1, 1)](σ[?b = 1](?a :p ?b))))",
        "π[?a ?b](σ[?a = :n1 || ?b = :n1](σ[IN(?b, :n1, 1)](σ[?b = 1](?a :p ?b))))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } FILTER(?c = :n1) }",
        "π[?a ?b ?c](σ[?c = :n1]((?a :p ?b) ⟕ (?b :q ?c)))",
        "π[?a ?b ?c](σ[?c = :n1]((?a :p ?b) ⟕ (?b :q ?c)))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p ?b BIND(?b AS ?c) FILTER(?c = :n1) }",
        "π[?a ?b ?c](σ[?c = :n1](ε[?c := ?b](?a :p ?b)))",
        "π[?a ?b ?c](σ[?c = :n1](ε[?c := ?b](?a :p ?b)))",
    ),
    (
        compare_by_join,
        "SELECT * { { SELECT ?b { ?a :p ?b } } FILTER(?a = :n1) }",
        "π[?b](σ[?a = :n1](π[?b](?_a :p ?b)))",
        "π[?b](σ[?a = :n1](π[?b](?_a :p ?b)))",
    ),
    (
        compare_by_join,
        "SELECT * { ?a :p+ ?b FILTER(?a = :n1) }",
        "π[?a ?b](σ[?a = :n1](paths[?a ?b](?_from :p ?_to)))",
        "π[?a ?b](π[?a ?b](paths[:n1 ?b](?_from :p ?_to) ⋈ table[?a]1))",
    ),
    (
        compare_by_join,
        "SELECT * { BIND(:n1 AS ?a) ?a :p ?b }",
        "π[?a ?b](ε[?a := :n1](table[]1) ⋈ (?a :p ?b))",
        "π[?a ?b](table[?a]1 ⋈ (?a :p ?b))",
    ),
    (
        sum_early,
        "SELECT ?a { ?a :p ?b OPTIONAL { ?b :q ?c } }",
        "π[?a]((?a :p ?_b) ⟕ (?_b :q ?_c))",
        "π[?a](π[?a ?_b ?_c]((?a :p ?_b) ⟕ π[?_b](?_b :q ?_c)))",
    ),
    (
        sum_early,
        "SELECT ?a { ?a :p ?b OPTIONAL { ?b :q ?c . ?c :r ?d } FILTER(?c > 1) }",
        "π[?a](σ[?_c > 1]((?a :p ?_b) ⟕ ((?_b :q ?_c) ⋈ (?_c :r ?_d))))",
        "π[?a](σ[?_c > 1](π[?a ?_b ?_c ?_d]((?a :p ?_b) ⟕ π[?_b ?_c]((?_b :q ?_c) ⋈ (?_c :r ?_d)))))",
    ),
    (
        sum_early,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕ (?b :q ?c))",
        "π[?a ?b ?c]((?a :p ?b) ⟕ (?b :q ?c))",
    ),
    (
        sum_early,
        "SELECT DISTINCT ?a { ?a :p ?b OPTIONAL { ?b :q ?c } }",
        "δ(π[?a]((?a :p ?_b) ⟕ (?_b :q ?_c)))",
        "δ(π[?a](π[?a ?_b ?_c]((?a :p ?_b) ⟕ π[?_b](?_b :q ?_c))))",
    ),
    (
        sum_early,
        "SELECT ?a { ?a :p ?b OPTIONAL { ?b :q ?c } OPTIONAL { ?c :r ?d } }",
        "π[?a](((?a :p ?_b) ⟕ (?_b :q ?_c)) ⟕ (?_c :r ?_d))",
        "π[?a](π[?a ?_b ?_c ?_d](((?a :p ?_b) ⟕ (?_b :q ?_c)) ⟕ π[?_c](?_c :r ?_d)))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕ (?b :q ?c))",
        "π[?a ?b ?c]((?a :p ?b) ⟕ (?b :q ?c))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b . { SELECT DISTINCT ?a { ?a :q ?c } } }",
        "π[?a ?b]((?a :p ?b) ⋈ δ(π[?a](?a :q ?_c)))",
        "π[?a ?b]((?a :p ?b) ⋈ δ(π[?a](?a :q ?_c)))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b . { SELECT DISTINCT ?d { ?d :q ?c } } }",
        "π[?a ?b ?d]((?a :p ?b) ⋈ δ(π[?d](?d :q ?_c)))",
        "π[?a ?b ?d]((?a :p ?b) ⋈ stored[](δ(π[?d](?d :q ?_c))))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b . { ?c :q ?d BIND(?d + 1 AS ?b) } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⋈ ε[?b := ?d + 1](?c :q ?d))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⋈ stored[?b](ε[?b := ?d + 1](?c :q ?d)))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b . { ?c :q ?d BIND(?d AS ?b) } }",
        "π[?a ?b ?c ?d]((?a :p ?b) ⋈ ε[?b := ?d](?c :q ?d))",
        "π[?a ?b ?c ?d]((?a :p ?b) ⋈ ε[?b := ?d](?c :q ?d))",
    ),
    (
        store_unreachable,
        "SELECT * { { ?a :p ?b OPTIONAL { ?b :q ?c } } ?c :r ?d }",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?b :q ?c)) ⋈ (?c :r ?d))",
        "π[?a ?b ?c ?d](stored[?c]((?a :p ?b) ⟕ (?b :q ?c)) ⋈ (?c :r ?d))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b FILTER NOT EXISTS { ?c :q ?d } }",
        "π[?a ?b]((?a :p ?b) ▷ π[](?_c :q ?_d))",
        "π[?a ?b]((?a :p ?b) ▷ stored[](π[](?_c :q ?_d)))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b FILTER NOT EXISTS { ?b :q ?d . ?d :r ?c } }",
        "π[?a ?b]((?a :p ?b) ▷ π[?b]((?b :q ?_d) ⋈ (?_d :r ?_c)))",
        "π[?a ?b]((?a :p ?b) ▷ π[?b]((?b :q ?_d) ⋈ (?_d :r ?_c)))",
    ),
    (
        store_unreachable,
        "SELECT * { ?a :p ?b OPTIONAL { VALUES (?b ?c) { (1 UNDEF) (UNDEF 2) } } }",
        "π[?a ?b ?c]((?a :p ?b) ⟕ table[?b ?c]2)",
        "π[?a ?b ?c]((?a :p ?b) ⟕ table[?b ?c]2)",
    ),
    (
        store_unreachable,
        "SELECT * { { ?a :p ?b OPTIONAL { ?b :q ?c } } OPTIONAL { ?c :r ?d } }",
        "π[?a ?b ?c ?d](((?a :p ?b) ⟕ (?b :q ?c)) ⟕ (?c :r ?d))",
        "π[?a ?b ?c ?d](stored[?c]((?a :p ?b) ⟕ (?b :q ?c)) ⟕ (?c :r ?d))",
    ),
]


@pytest.mark.parametrize(
    ("rule", "query", "before", "after"), PAIRS, ids=[f"{r.__name__}: {q}" for r, q, *_ in PAIRS]
)
def test_pairs(rule: Rule, query: str, before: str, after: str) -> None:
    plan = plan_of(query)
    assert text(plan) == before
    result = rule(plan)
    assert text(result) == after
    assert result.variables == plan.variables
    assert rule(result) == result, "applied again, it changes nothing"


def kept(plan: op.Operator) -> op.Operator:
    """The plan as it is executed: rewritten, and stored where keys do not reach."""
    return store_unreachable(rewrite(plan))


PIPELINE = [
    (
        "SELECT ?a ?d { ?a :p/:q ?b . { ?b :r ?d FILTER(?d > 1) } }",
        "π[?a ?d](π[?a ?_b ?d](σ[?d > 1]((?a :p ?_node) ⋈ (?_node :q ?_b) ⋈ (?_b :r ?d))))",
    ),
    (
        "SELECT ?a { ?a :p ?b OPTIONAL { ?b :q ?c FILTER(?c > 1) } FILTER(?b != :n1) }",
        "π[?a](π[?a ?_b ?_c](σ[?_b != :n1](?a :p ?_b) ⟕ π[?_b](σ[?_c > 1](?_b :q ?_c))))",
    ),
    (
        "SELECT DISTINCT ?a { { ?a :p ?b } UNION { ?a :q ?b } FILTER(?b > 1) MINUS { ?a :r ?c } }",
        "δ(π[?a]((σ[?_b > 1](?a :p ?_b) + σ[?_b > 1](?a :q ?_b)) ▷ π[?a](?a :r ?_c)))",
    ),
    (
        "SELECT ?a { ?a :p ?b OPTIONAL { ?a :q ?c } ?c :r ?d }",
        "π[?a](stored[?_c]((?a :p ?_b) ⟕ (?a :q ?_c)) ⋈ (?_c :r ?_d))",
    ),
]


@pytest.mark.parametrize(("query", "after"), PIPELINE)
def test_the_whole_pipeline(query: str, after: str) -> None:
    assert text(kept(plan_of(query))) == after


# Laws


@pytest.mark.laws
@examples(90)
@given(queries(), graphs)
def test_no_rewrite_changes_the_meaning(query: RandomQuery, data: list[ox.Quad]) -> None:
    """Each rule by itself, and each step of the pipeline."""
    plan = planned(query)
    reference = Reference(data)
    expected = dict(reference.content(plan))
    for rule in dict.fromkeys((*REWRITES, store_unreachable)):
        assert_same(dict(reference.content(rule(plan))), expected, f"{query}: {rule.__name__} alone")
    step = plan
    for rule in (*REWRITES, store_unreachable):
        step = rule(step)
        assert step.variables == plan.variables
        assert_same(dict(reference.content(step)), expected, f"{query}: {rule.__name__} in the pipeline")
    assert step == kept(plan)


@pytest.mark.laws
@examples(50)
@given(queries())
def test_what_is_claimed_of_variables_stays(query: RandomQuery) -> None:
    """A rewrite may learn that a variable is always bound; it never forgets it."""
    plan = planned(query)
    assert kept(plan).always >= plan.always


@pytest.mark.laws
@examples(60)
@given(queries(), graphs)
def test_always_bound_variables_are_bound(query: RandomQuery, data: list[ox.Quad]) -> None:
    reference = Reference(data)
    for plan in every_operator(kept(planned(query))):
        positions = [plan.variables.index(variable) for variable in plan.always]
        for row, _ in reference.content(plan):
            assert all(row[position] is not None for position in positions), text(plan)


def every_operator(plan: op.Operator) -> Iterator[op.Operator]:
    yield plan
    for child in plan.children:
        yield from every_operator(child)


# Storing


def probed(plan: op.Operator) -> Iterator[tuple[op.Operator, frozenset[Var]]]:
    """Each operator that is looked up, with its keys: inputs of joins, both sides of the others."""
    match plan:
        case op.Join(parts):
            for number, part in enumerate(parts):
                others = [v for i, other in enumerate(parts) if i != number for v in other.variables]
                yield part, frozenset(part.variables) & frozenset(others)
        case op.LeftJoin() | op.Semi() | op.Mark():
            for side in plan.children:
                yield side, frozenset(plan.left.variables) & frozenset(plan.right.variables)


def needs_no_index(plan: op.Operator) -> bool:
    """Inline rows and switches, under operators that keep nothing."""
    if not plan.children:
        return isinstance(plan, op.Table) or (isinstance(plan, op.Names) and not plan.variables)
    linear = isinstance(plan, op.Filter | op.Extend | op.Project | op.Join | op.Union)
    return linear and all(needs_no_index(child) for child in plan.children)


@pytest.mark.laws
@examples(100)
@given(queries())
def test_stored_where_a_key_cannot_be_pushed_and_only_there(query: RandomQuery) -> None:
    plan = kept(planned(query))
    stored = set()
    for operator in every_operator(plan):
        for part, keys in probed(operator):
            if isinstance(part, op.Stored):
                stored.add(id(part))
                assert part.source.children, f"a leaf is stored: {text(plan)}"
                assert not part.source.pushable & keys, f"stored although keys reach it: {text(plan)}"
                assert not needs_no_index(part.source), f"stored although it is small: {text(plan)}"
                assert set(part.keys[0]) == keys, f"stored by other keys than it is probed by: {text(plan)}"
            else:
                reached = not part.children or part.pushable & keys or needs_no_index(part)
                assert reached, f"probed from scratch: {text(part)} in {text(plan)}"
    for operator in every_operator(plan):
        assert not isinstance(operator, op.Stored) or id(operator) in stored, (
            f"stored for nothing: {text(plan)}"
        )


# Keys


def restricted(plan: op.Operator, variable: Var, term: ox.NamedNode | ox.Literal) -> op.Operator:
    """The plan with a key pushed down: its leaves keep only what is compatible with the variable's value."""
    if variable not in plan.variables:
        return plan
    match plan:
        case op.Extend(source, bound, Var() as copied) if bound == variable and plan.is_copy:
            return plan.with_children([restricted(source, copied, term)])
        case op.LeftJoin() | op.Semi() | op.Mark():
            return plan.with_children([restricted(plan.children[0], variable, term), plan.children[1]])
        case op.Stored() | op.Scan() | op.Names() | op.Nodes() | op.Table():
            equal = Call("SAMETERM", (variable, Constant(term)))
            compatible: Expression = Call("||", (Call("!", (Call("BOUND", (variable,)),)), equal))
            return op.Filter(compatible, plan)
    return plan.with_children([restricted(child, variable, term) for child in plan.children])


@pytest.mark.laws
@examples(70)
@given(queries(), graphs, st.sampled_from((*NODES, *LITERALS)))
def test_pushable_keys_may_be_pushed(
    query: RandomQuery, data: list[ox.Quad], term: ox.NamedNode | ox.Literal
) -> None:
    """On the solutions compatible with the key, the restricted plan gives what the plan gives."""
    reference = Reference(data)
    for plan in every_operator(kept(planned(query))):
        for variable in plan.pushable:
            place = plan.variables.index(variable)

            def compatible(solutions: ZSet, place: int = place) -> dict:
                return dict(solutions.filter(lambda row: row[place] is None or row[place] == term))

            assert_same(
                compatible(reference.content(restricted(plan, variable, term))),
                compatible(reference.content(plan)),
                f"{text(plan)} with {shown(variable)} = {term}",
            )


PUSHABLE = [
    ("SELECT * { ?a :p ?b . ?b :q ?c }", "?a ?b ?c"),
    ("SELECT ?a { ?a :p ?b }", "?a"),
    ("SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } }", "?a ?b"),
    ("SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } OPTIONAL { ?c :r ?d } }", "?a ?b"),
    ("SELECT * { ?a :p ?b MINUS { ?a :q ?c } }", "?a ?b"),
    ("SELECT * { { ?a :p ?b } UNION { ?a :q ?c } }", "?a ?b ?c"),
    ("SELECT * { { ?a :p ?b } UNION { ?a :q ?c } FILTER(BOUND(?b)) }", "?a ?c"),
    ("SELECT * { ?a :p ?b BIND(?b AS ?c) }", "?a ?b ?c"),
    ("SELECT * { ?a :p ?b BIND(?b + 1 AS ?c) }", "?a ?b"),
    ("SELECT DISTINCT * { ?a :p ?b OPTIONAL { ?b :q ?c } }", "?a ?b"),
    ("SELECT DISTINCT * { VALUES (?a ?b) { (1 UNDEF) (2 3) } }", "?a"),
    ("SELECT * { VALUES (?a ?b) { (1 UNDEF) (2 3) } }", "?a ?b"),
]


@pytest.mark.parametrize(("query", "expected"), PUSHABLE)
def test_pushable(query: str, expected: str) -> None:
    assert names(tuple(sorted(plan_of(query).pushable))) == expected


# Parts


@pytest.mark.laws
@examples(75)
@given(queries(), graphs)
def test_a_plan_is_the_product_of_its_parts(query: RandomQuery, data: list[ox.Quad]) -> None:
    plan = rewrite(planned(query))
    parts = independent_parts(plan)
    variables = [variable for part in parts for variable in part.variables]
    assert len(variables) == len(set(variables)), f"parts share a variable: {text(plan)}"
    reference = Reference(data)
    product = op.Project(op.Join(parts) if len(parts) > 1 else parts[0], plan.variables)
    assert_same(dict(reference.content(product)), dict(reference.content(plan)), text(plan))
    for _ in range(6):  # a part may fall apart again, but not for ever
        parts = tuple(piece for part in parts for piece in independent_parts(part))
    assert all(independent_parts(part) == (part,) for part in parts), text(plan)


PARTS = [
    ("SELECT * { ?a :p ?b . ?b :q ?c }", ["?a ?b ?c"]),
    ("SELECT * { ?a :p ?b . ?c :q ?d }", ["?a ?b", "?c ?d"]),
    ("SELECT * { ?a :p ?b . ?c :q ?d . ?b :r ?c }", ["?a ?b ?c ?d"]),
    ("SELECT * { ?a :p ?b . ?c :q ?d FILTER(?a != ?c) }", ["?a ?b ?c ?d"]),
    ("SELECT * { ?a :p ?b . ?c :q ?d FILTER(?d > 1) }", ["?a ?b", "?c ?d"]),
    ("SELECT * { ?a :p ?b . :n0 :q :n1 . :n0 :r :n2 }", ["", "?a ?b"]),
]


@pytest.mark.parametrize(("query", "expected"), PARTS)
def test_parts(query: str, expected: list[str]) -> None:
    parts = independent_parts(rewrite(plan_of(query)))
    assert sorted(names(part.variables) for part in parts) == expected


# Walking


def test_with_children_keeps_what_does_not_change() -> None:
    plan = plan_of("SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } FILTER(?b > 1) }")
    assert plan.with_children(plan.children) is plan
    assert bottom_up(lambda operator: operator, plan) is plan


def test_bottom_up_visits_children_first() -> None:
    plan = plan_of("SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } }")
    seen: list[op.Operator] = []

    def note(operator: op.Operator) -> op.Operator:
        seen.append(operator)
        return operator

    bottom_up(note, plan)
    assert [type(operator).__name__ for operator in seen] == ["Scan", "Scan", "LeftJoin", "Project"]
