"""EXISTS inside an expression: a hidden boolean on each left solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import semi
from sparqlive.live.code import Continue, Env, Function, Local, times
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def attach(
    compiler: Compiler, f: Function, node: Node, state: State, env: Env, weight: str, then: Continue
) -> None:
    operator = node.operator
    assert isinstance(operator, op.Mark)
    name = f.fresh()
    true, false = _booleans(compiler)
    f.line(f"{name} = {true} if {semi.tester(compiler, node, state, env)} else {false}")
    f.unless_too_deep({**env, operator.variable: Local(name, True)}, weight, then)


def flipped(compiler: Compiler, f: Function, node: Node, env: Env, weight: str) -> None:
    """A flipped left solution leaves with its old mark and enters with the new one."""
    operator = node.operator
    assert isinstance(operator, op.Mark)
    true, false = _booleans(compiler)
    name, sign = f.fresh(), f.fresh("w")
    marks = f"(({true} if was else {false}, -1), ({true} if now else {false}, 1))"
    with f.block(f"for {name}, {sign} in {marks}"):
        compiler.up(f, node, {**env, operator.variable: Local(name, True)}, times(weight, sign))


def _booleans(compiler: Compiler) -> tuple[str, str]:
    return compiler.program.constant(compiler.terms.true), compiler.program.constant(compiler.terms.false)
