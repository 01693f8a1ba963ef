"""Filters and bindings, applied as soon as their variables are bound (Theorem 3.1: both are linear)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparqlive.live.code import UNBOUND, Env, Function, Local
from sparqlive.live.terms import Keep
from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Expression, Var
from sparqlive.sparql.column_tests import ColumnTest
from sparqlive.sparql.expressions import compile_condition, compile_expression

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


@dataclass(frozen=True)
class Item:
    """A filter, or a binding if it has a variable. `reads`: its variables that the source can bind."""

    expression: Expression
    variable: Var | None
    reads: frozenset[Var]
    always: bool = False


def item_of(operator: op.Filter | op.Extend) -> Item:
    """Returns a filter or a binding without its source."""
    expression = operator.condition if isinstance(operator, op.Filter) else operator.expression
    variable = operator.variable if isinstance(operator, op.Extend) else None
    reads = mentioned(expression) & frozenset(operator.source.variables)
    return Item(expression, variable, reads, variable in operator.always)


def items_below(node: Node) -> tuple[Node, list[Item]]:
    """Returns the operator below a chain of filters and bindings, and the chain, lowest first."""
    items = []
    while isinstance(node.operator, op.Filter | op.Extend):
        items.append(item_of(node.operator))
        node = node.children[0]
    return node, items[::-1]


def items_above(node: Node) -> tuple[Node, list[Item]]:
    """Returns the top of the chain of filters and bindings directly above an operator, and the chain."""
    items = []
    while not node.gathers and node.parent and isinstance(node.parent.operator, op.Filter | op.Extend):
        node = node.parent
        assert isinstance(node.operator, op.Filter | op.Extend)
        items.append(item_of(node.operator))
    return node, items


def with_copies(items: Sequence[Item], env: Env) -> Env:
    """Extends a key on a copied variable to the original variable."""
    result = dict(env)
    for item in reversed(items):
        if item.variable in result and isinstance(item.expression, Var):
            result.setdefault(item.expression, result[item.variable])
    return result


def apply(compiler: Compiler, f: Function, item: Item, env: Env) -> tuple[list[str], Env]:
    """Writes a binding, or returns the test of a filter."""
    if item.variable is None:
        return [_condition(compiler, item, env)], env
    if isinstance(item.expression, Var):
        local = env.get(item.expression, Local(UNBOUND, False))
        if item.variable in env:  # a key on the copy; `with_copies` makes it the same local
            same = env[item.variable].name == local.name
            return [] if same else [f"{env[item.variable].name} == {local.name}"], env
        return [], {**env, item.variable: local}
    variables = sorted(v for v in item.reads if v in env)
    evaluate = compile_expression(item.expression, variables)
    function = compiler.program.made("e", lambda: compiler.terms.binding(item.expression, evaluate))
    name = f.fresh()
    f.line(f"{name} = {function}({', '.join(env[v].name for v in variables)})")
    return [], {**env, item.variable: Local(name, item.always)}


def _condition(compiler: Compiler, item: Item, env: Env) -> str:
    variables = sorted(v for v in item.reads if v in env)
    holds = compile_condition(item.expression, variables)

    def test() -> Callable[..., bool]:
        made = compiler.terms.condition(item.expression, variables, holds)
        return compiler.terms.remembering(made) if compiler.lazy and len(variables) == 1 else made

    function = compiler.program.made("f", test)
    return f"{function}({', '.join(env[v].name for v in variables)})"


def by_columns(compiler: Compiler, item: Item, test: ColumnTest) -> tuple[Var, Callable[[], Keep]]:
    """Returns the variable of a filter, and a factory of its test by columns."""
    (variable,) = item.reads
    holds = compile_condition(item.expression, [variable])

    def make() -> Keep:
        return compiler.terms.by_columns(test, compiler.terms.condition(item.expression, [variable], holds))

    return variable, make


def condition(compiler: Compiler, expression: Expression, env: Env) -> str:
    """Writes the test of an expression in an environment that binds all variables in scope."""
    return _condition(compiler, Item(expression, None, mentioned(expression) & frozenset(env)), env)
