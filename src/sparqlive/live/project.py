"""Evaluates projections: keeps some variables of the source. Equal solutions are summed later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Env, Function, Point
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    operator, env = node.operator, point.env
    assert isinstance(operator, op.Project)
    columns = operator.columns

    def each(f2: Function, e: Env, weight: str) -> None:
        point.then(f2, {**env, **{v: e[v] for v in columns if v in e}}, weight)

    inner = {v: env[v] for v in columns if v in env}
    needed = point.needed & frozenset(columns)
    compiler.down(f, node.children[0], state, Point(inner, point.weight, needed, each))


def up(compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    point.then(f, {v: point.env[v] for v in node.operator.variables if v in point.env}, point.weight)
