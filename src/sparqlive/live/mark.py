"""Evaluates EXISTS inside an expression: a hidden boolean on each left solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import two_sided
from sparqlive.live.code import Env, Function, Local, Point, times
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def attach(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Continues with the left solution at the point, extended by its mark."""
    operator = node.operator
    assert isinstance(operator, op.Mark)
    name = f.fresh()
    true, false = _booleans(compiler)
    f.line(f"{name} = {true} if {two_sided.tester(compiler, node, state, point.env)} else {false}")
    f.unless_too_deep({**point.env, operator.variable: Local(name, True)}, point.weight, point.then)


def flips(compiler: Compiler, f: Function, node: Node, left_state: State) -> None:
    two_sided.flips_with(compiler, f, node, left_state, _flip)


def _flip(compiler: Compiler, f: Function, node: Node, env: Env, weight: str) -> None:
    """Removes a flipped left solution with its old mark, and adds it with the new mark."""
    operator = node.operator
    assert isinstance(operator, op.Mark)
    true, false = _booleans(compiler)
    name, sign = f.fresh(), f.fresh("w")
    marks = f"(({true} if was else {false}, -1), ({true} if now else {false}, 1))"
    with f.block(f"for {name}, {sign} in {marks}"):
        compiler.up(f, node, {**env, operator.variable: Local(name, True)}, times(weight, sign))


def _booleans(compiler: Compiler) -> tuple[str, str]:
    constant = compiler.program.constant
    return constant(lambda: compiler.terms.true), constant(lambda: compiler.terms.false)
