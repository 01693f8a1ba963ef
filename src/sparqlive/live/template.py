"""Evaluates templates: a solution produces the rows of the template, with its values for the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Env, Function, Local, Point, tuple_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var, VarOrTerm

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Writes a loop without pushing keys, because rows of the template are built from source variables."""
    child = node.children[0]

    def each(f2: Function, env: Env, weight: str) -> None:
        fill(compiler, f2, node, Point(env, weight, point.needed, point.then))

    compiler.down(f, child, state, Point({}, point.weight, child.needed, each))


def fill(compiler: Compiler, f: Function, node: Node, point: Point) -> None:
    """Writes a loop over the template's rows for the source solution at the point."""
    operator, env = node.operator, point.env
    assert isinstance(operator, op.Template)

    def name_of(term: VarOrTerm) -> str:
        if isinstance(term, Var):
            return env[term].name if term in env else "0"
        return compiler.program.constant(lambda: compiler.terms.dictionary.id_of(term))

    rows = [tuple_of([name_of(term) for term in row]) for row in operator.rows]
    own = {v: f.fresh() for v in operator.columns}
    with f.block(f"for {tuple_of(list(own.values()))} in {tuple_of(rows)}"):
        bound = {v: Local(name, v in operator.always) for v, name in own.items()}
        f.unless_too_deep(bound, point.weight, point.then)


def up(compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    fill(compiler, f, node, point)
