"""Evaluates a plan once, on the current quads, without delta rules.

Owns volatile functions: RAND, UUID, STRUUID and BNODE are called once per solution, even for equal solutions,
however the rest of the plan is evaluated. So bindings and filters that call one are evaluated first, and
replaced by tables in the plan. Rejects volatile functions anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields

from pyoxigraph import BlankNode

from sparqlive.errors import TooLarge, Unsupported
from sparqlive.live.compiler import Compiler
from sparqlive.live.quads import Quads
from sparqlive.live.scan import scope_of
from sparqlive.live.scope import Scope
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.checks import calls_in
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.walk import operators_of, with_children
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.deadline import gathers, paced
from sparqlive.sparql.expressions import (
    Evaluate,
    ExpressionError,
    compile_condition,
    compile_expression,
    volatile_function,
)
from sparqlive.sparql.values import Value
from sparqlive.zset.relation import Row

_Values = list[Value | None]


def snapshot_for(plan: op.Operator, quads: Quads, dictionary: Dictionary, whole: bool = False) -> Quads:
    """A copy of the quads that a plan reads; `whole`: with merged graphs that other plans can use too."""
    scopes: set[Scope] = set()
    predicates: set[int] | None = set()
    for leaf in operators_of(plan):
        if not isinstance(leaf, op.Scan | op.Names | op.Nodes):
            continue
        scopes.add(scope_of(dictionary, leaf.graph))
        if not isinstance(leaf, op.Scan) or isinstance(leaf.predicate, Var):
            predicates = None
        elif predicates is not None:
            predicates.add(dictionary.id_of(leaf.predicate))
    if whole and not all(map(quads.is_merged, scopes)):
        predicates = None
    return quads.snapshot(scopes, None if predicates is None else frozenset(predicates))


class _Bounded(dict[Row, int]):
    """A dict of rows that raises an error beyond a number of rows."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, row: Row, weight: int) -> None:
        super().__setitem__(row, weight)
        if len(self) > self._most:
            raise _too_large(self._most)


def _too_large(most: int) -> TooLarge:
    return TooLarge(
        f"The result has more than {most:,} rows, which is the limit. Add a LIMIT, narrow the query, or "
        f"register it as a view."
    )


def compute_once(
    plan: op.Operator, quads: Quads, terms: Terms, most_rows: int | None = None
) -> dict[Row, int]:
    """Returns the rows of a plan; more than `most_rows` are an error."""
    settled = _Volatile(quads, terms).settle(plan)
    rows = _compute(settled, quads, terms, {} if most_rows is None else _Bounded(most_rows))
    if most_rows is not None and sum(rows.values()) > most_rows:
        raise _too_large(most_rows)
    return rows


def collect(items: Iterable[tuple[Row, int]]) -> dict[Row, int]:
    """Returns rows that a view has, so that they can be limited: it may be a product of any size."""
    rows: dict[Row, int] = {}
    gathers(rows)
    for row, weight in paced(items):
        rows[row] = weight
    return rows


def _compute(plan: op.Operator, quads: Quads, terms: Terms, into: dict[Row, int]) -> dict[Row, int]:
    return compute_rewritten(rewrite(plan), quads, terms, into)


def compute_rewritten(plan: op.Operator, quads: Quads, terms: Terms, into: dict[Row, int]) -> dict[Row, int]:
    """Adds the rows of a rewritten plan without volatile functions to `into`, and returns it."""
    compiler = Compiler(store_unreachable(plan), quads, terms)
    gathers(into)
    for number, state in compiler.states.items():  # operators only read states below them
        content: dict[Row, int] = {}
        gathers(content)
        compiler.content(compiler.nodes[number].children[0])(content)
        state.load(content)
    compiler.content(compiler.root)(into)
    return into


class _Volatile:
    def __init__(self, quads: Quads, terms: Terms) -> None:
        self._quads = quads
        self._terms = terms
        # By identity: the solutions around an EXISTS also occur in its body, with the same values.
        self._tables: dict[int, op.Table] = {}
        self._shared: dict[op.Shared, op.Operator] = {}

    def settle(self, plan: op.Operator) -> op.Operator:
        """Replaces the parts of a plan that call volatile functions by tables."""
        if isinstance(plan, op.Shared):
            if plan not in self._shared:
                self._shared[plan] = with_children(plan, [self.settle(plan.source)])
            return self._shared[plan]
        chain, source = _chain(plan)
        if any(_volatile_in(step) for step in chain):
            if id(plan) not in self._tables:
                self._tables[id(plan)] = self._table(plan, chain, source)
            return self._tables[id(plan)]
        name = _volatile_in(plan)
        if name is not None:
            raise Unsupported(
                f"{name}() is used where it has no single value per solution. "
                f"Bind it to a variable with BIND, and use the variable."
            )
        return with_children(plan, [self.settle(child) for child in plan.children])

    def _table(self, plan: op.Operator, chain: list[op.Filter | op.Extend], source: op.Operator) -> op.Table:
        solutions = _compute(self.settle(source), self._quads, self._terms, {})
        nodes: dict[str, BlankNode] = {}  # per solution, within which BNODE("a") is always the same node
        steps = [_step(step, nodes) for step in chain]
        rows = []
        for row, weight in solutions.items():
            for _ in range(weight):
                nodes.clear()
                values = [self._terms.value(number) for number in row]
                if all(step(values) for step in steps):
                    rows.append(tuple(None if value is None else value.term for value in values))
        return op.Table(plan.variables, tuple(rows))


def _chain(plan: op.Operator) -> tuple[list[op.Filter | op.Extend], op.Operator]:
    """The filters and bindings at the top of a plan, lowest first, and the operator below them."""
    steps = []
    while isinstance(plan, op.Filter | op.Extend):
        steps.append(plan)
        plan = plan.source
    return steps[::-1], plan


def _volatile_in(plan: op.Operator) -> str | None:
    """The volatile function that an operator calls itself."""
    own = tuple(getattr(plan, field.name) for field in fields(plan))  # type: ignore[arg-type]
    parts = tuple(item for item in own if not isinstance(item, op.Operator) and item is not plan.children)
    return next((name for call in calls_in(parts) if (name := volatile_function(call))), None)


def _step(step: op.Filter | op.Extend, nodes: dict[str, BlankNode]) -> Callable[[_Values], bool]:
    """Returns a function that adds a binding to a solution, or tests it."""
    if isinstance(step, op.Filter):
        return compile_condition(step.condition, step.source.variables, blank_nodes=nodes)
    evaluate: Evaluate = compile_expression(step.expression, step.source.variables, blank_nodes=nodes)

    def bind(values: _Values) -> bool:
        try:
            values.append(evaluate(values))
        except ExpressionError:
            values.append(None)
        return True

    return bind
