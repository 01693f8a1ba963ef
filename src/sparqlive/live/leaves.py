"""Leaves without a quad pattern: graph names, the nodes of a graph, inline tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Function, Local, Point, tuple_of
from sparqlive.live.scan import scope_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.rdf.dictionary import UNDEF
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
    """Writes a loop over a relation of one or two columns, with the first as its key."""
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


def loop_table(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    table, env = node.operator, point.env
    assert isinstance(table, op.Table)

    def rows() -> list[tuple[int, ...]]:
        id_of = compiler.terms.dictionary.id_of
        return [tuple(UNDEF if term is None else id_of(term) for term in row) for row in table.rows]

    names = {v: f.fresh() for v in table.columns}
    key = next((v for v in table.columns if v in env and v in table.always), None)
    if key is None:
        source = compiler.program.made("t", rows)
    else:
        position = table.columns.index(key)

        def index() -> dict[int, list[tuple[int, ...]]]:
            found: dict[int, list[tuple[int, ...]]] = {}
            for row in rows():
                found.setdefault(row[position], []).append(row)
            return found

        source = f"{compiler.program.made('t', index)}.get({env[key].name}, ())"
    tests = []
    for variable, name in names.items():
        if variable in env and variable != key:
            loose = "" if variable in table.always else f"not {name} or "
            tests.append(f"({loose}{name} == {env[variable].name})")
    fresh = {v: Local(name, v in table.always) for v, name in names.items() if v not in env}
    with f.block(f"for {tuple_of(list(names.values()))} in {source}"), f.when(tests):
        point.then(f, {**env, **fresh}, point.weight)
