"""Evaluates UNION: writes the code that follows once per part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Env, Function, Point
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    env = point.env

    def each(f2: Function, e: Env, weight: str) -> None:
        point.then(f2, {**env, **e}, weight)

    for child in node.children:
        inner = {v: env[v] for v in child.operator.variables if v in env}
        compiler.down(f, child, state, point.within(inner, each))


def up(compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    point.then(f, point.env, point.weight)
