"""Evaluates leaves without a quad pattern: graph names, and the nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Function, Local, Point, tuple_of
from sparqlive.live.scan import scope_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

_STATES = {State.OLD: "before", State.NEW: "after"}


def loop_nodes(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    operator = node.operator
    assert isinstance(operator, op.Nodes)
    compiler.quads.watch(scope_of(compiler.terms.dictionary, operator.graph))
    relation = compiler.program.made(
        "r", lambda: compiler.quads.nodes(scope_of(compiler.terms.dictionary, operator.graph))
    )
    _rows(f, relation, operator.variables, _STATES[state], point)


def loop_names(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    operator, when = node.operator, _STATES[state]
    assert isinstance(operator, op.Names)
    graph = operator.graph
    compiler.quads.watch(scope_of(compiler.terms.dictionary, graph))
    relation = compiler.program.made(
        "r", lambda: compiler.quads.names(scope_of(compiler.terms.dictionary, graph))
    )
    if isinstance(graph, op.NamedGraphs):
        _rows(f, relation, (graph.variable,), when, point)
        return

    def only_graph() -> int:
        graphs = scope_of(compiler.terms.dictionary, graph).graphs
        assert graphs is not None
        return next(iter(graphs))

    name = compiler.program.constant(only_graph)
    with f.when([f"{relation}.has_{when}({name}, ())"]):
        point.then(f, point.env, point.weight)


def _rows(f: Function, relation: str, variables: tuple[Var, ...], when: str, point: Point) -> None:
    """Writes a loop over a relation of one or two columns, whose first column is the key."""
    env, weight, then = point.env, point.weight, point.then
    first, *others = variables
    second = others[0] if others else None
    if first in env and (second is None or second in env):
        value = "()" if second is None else env[second].name
        with f.when([f"{relation}.has_{when}({env[first].name}, {value})"]):
            then(f, env, weight)
    elif first in env:
        assert second is not None
        name = f.fresh()
        with f.block(f"for {name} in {relation}.{when}({env[first].name}) or ()"):
            then(f, {**env, second: Local(name, True)}, weight)
    else:
        names = {v: f.fresh() for v in variables}
        tests = [f"{names[second]} == {env[second].name}"] if second is not None and second in env else []
        fresh = {v: Local(name, True) for v, name in names.items() if v not in env}
        with f.block(f"for {tuple_of(list(names.values()))} in {relation}.rows_{when}()"), f.when(tests):
            then(f, {**env, **fresh}, weight)
