"""Evaluates EXISTS, NOT EXISTS and MINUS: left solutions that pass a test, and those whose test changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import two_sided
from sparqlive.live.code import Env, Function, Point, times
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def attach(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Continues with the left solution at the point if it passes the test."""
    operator = node.operator
    assert isinstance(operator, op.Semi)
    test = two_sided.tester(compiler, node, state, point.env)
    with f.when([test if operator.keep else f"not {test}"]):
        f.unless_too_deep(point.env, point.weight, point.then)


def flips(compiler: Compiler, f: Function, node: Node, left_state: State) -> None:
    two_sided.flips_with(compiler, f, node, left_state, _flip)


def _flip(compiler: Compiler, f: Function, node: Node, env: Env, weight: str) -> None:
    """Adds or removes a flipped left solution."""
    operator = node.operator
    assert isinstance(operator, op.Semi)
    sign = "(1 if now else -1)" if operator.keep else "(-1 if now else 1)"
    compiler.up(f, node, env, times(weight, sign))
