"""Templates: a solution gives the rows of the template, with what it binds in the places of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Continue, Env, Function, Local, tuple_of
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var, VarOrTerm

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def fill(compiler: Compiler, f: Function, node: Node, env: Env, weight: str, then: Continue) -> None:
    """Writes a loop over the rows of the template; `env` is what a solution of the source binds."""
    operator = node.operator
    assert isinstance(operator, op.Template)
    id_of = compiler.terms.dictionary.id_of

    def name_of(term: VarOrTerm) -> str:
        if isinstance(term, Var):
            return env[term].name if term in env else "0"
        return compiler.program.constant(id_of(term))

    rows = [tuple_of([name_of(term) for term in row]) for row in operator.rows]
    own = {v: f.fresh() for v in operator.columns}
    with f.block(f"for {tuple_of(list(own.values()))} in {tuple_of(rows)}"):
        bound = {v: Local(name, v in operator.always) for v, name in own.items()}
        f.unless_too_deep(bound, weight, then)
