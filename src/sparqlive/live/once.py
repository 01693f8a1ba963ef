"""Evaluates a plan once, on the current quads, without delta rules.

Owns volatile functions: RAND, UUID, STRUUID and BNODE are called once per solution, even for equal solutions,
however the rest of the plan is evaluated. Bindings and filters that call one are therefore evaluated first,
and the plan reads their results from tables. Rejects volatile functions in any other place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyoxigraph import BlankNode

from sparqlive.errors import Unsupported
from sparqlive.live.compiler import Compiler
from sparqlive.live.description import described
from sparqlive.live.lazy import Bulk
from sparqlive.live.scan import scope_of
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.checks import calls_in
from sparqlive.plan.description import described_by
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.follow_steps import follow_steps
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.quads.current import Quads
from sparqlive.quads.scope import OBJECT, PREDICATE, SUBJECT
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.deadline import gathers
from sparqlive.sparql.algebra import Term, Var, parts_of
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


def reads_of(plan: op.Operator) -> frozenset[tuple[op.GraphChoice, Term | None]]:
    """Returns the graphs and predicates that a plan reads; None stands for all predicates."""
    read: set[tuple[op.GraphChoice, Term | None]] = set()
    for leaf in operators_of(plan):
        if isinstance(leaf, op.QuadLeaf):
            predicate = leaf.predicate if isinstance(leaf, op.Scan) else None
            read.add((leaf.graph, None if isinstance(predicate, Var) else predicate))
    return frozenset(read)


@dataclass(frozen=True)
class Runnable:
    """A plan as it is evaluated. `is_settled`: it has no volatile functions, and is already rewritten."""

    plan: op.Operator
    is_settled: bool
    described_in: op.GraphChoice | None = None
    """For DESCRIBE: the graph in which the resulting resources are described."""
    _idle: list[Compiler] = field(default_factory=list, compare=False, repr=False)
    """At most one compiler, with its functions but without quads and terms. A query removes it while it runs.
    """

    def take(self, quads: Snapshot, terms: Terms, bulk: Bulk | None) -> Compiler:
        """Returns a compiler for the plan, for this request alone."""
        try:
            compiler = self._idle.pop()
        except IndexError:
            pass
        else:
            if compiler.renew(quads, terms, bulk):
                return compiler
        return Compiler(self.plan, quads, terms, lazy=True, bulk=bulk)

    def put_back(self, compiler: Compiler) -> None:
        if not self._idle and len(compiler.nodes) <= compiler.terms.tuning.kept_operators:
            compiler.release()
            self._idle.append(compiler)


def runnable(plan: op.Operator) -> Runnable:
    """Prepares a plan for one or several evaluations."""
    if any(_volatile_in(part) for part in operators_of(plan)):
        return Runnable(plan, False)
    plan, graph = described_by(plan) or (plan, None)
    return Runnable(follow_steps(store_unreachable(rewrite(plan))), True, graph)


def stream_once(
    prepared: Runnable, quads: Snapshot, terms: Terms, first: bool = False, bulk: Bulk | None = None
) -> Iterator[tuple[Row, int]]:
    """Yields the rows of a plan as they are found; a row may occur several times.

    `first`: the caller needs the first rows as early as possible, and may stop after them. `bulk` computes
    groups with many rows.
    """
    if not prepared.is_settled:
        prepared = runnable(_Volatile(quads, terms).settle(prepared.plan))
    compiler = prepared.take(quads, terms, bulk)
    try:
        rows = compiler.stream(compiler.root, first)()
        if prepared.described_in is not None:
            rows = _described(rows, prepared.described_in, quads, compiler)
        yield from rows
    except GeneratorExit:  # the caller needs no more rows
        prepared.put_back(compiler)
        raise
    prepared.put_back(compiler)


def _described(
    resources: Iterator[tuple[Row, int]], graph: op.GraphChoice, quads: Snapshot, compiler: Compiler
) -> Iterator[tuple[Row, int]]:
    dictionary = compiler.terms.dictionary
    index = quads.index(scope_of(dictionary, graph), None, (SUBJECT, PREDICATE, OBJECT), 1)
    return described(resources, index.before, dictionary, compiler.program.check)


def compute_once(plan: op.Operator, quads: Snapshot, terms: Terms) -> dict[Row, int]:
    """Computes the rows of a plan."""
    rows: dict[Row, int] = {}
    gathers(rows)
    for row, weight in stream_once(runnable(plan), quads, terms):
        rows[row] = rows.get(row, 0) + weight
    return rows


def compute_rewritten(
    plan: op.Operator, quads: Quads | Snapshot, terms: Terms, into: dict[Row, int]
) -> dict[Row, int]:
    """Adds the rows of a rewritten plan without volatile functions to `into`, and returns it."""
    compiler = Compiler(store_unreachable(plan), quads, terms)
    gathers(into)
    for number, state in compiler.states.items():  # operators only read states of operators below them
        content: dict[Row, int] = {}
        gathers(content)
        compiler.content(compiler.nodes[number].children[0])(content)
        state.load(content)
    compiler.content(compiler.root)(into)
    return into


class _Volatile:
    def __init__(self, quads: Snapshot, terms: Terms) -> None:
        self._quads = quads
        self._terms = terms
        # By identity: the solutions around an EXISTS also occur in its body, with the same values.
        self._tables: dict[int, op.Table] = {}
        self._shared: dict[op.Shared, op.Operator] = {}

    def settle(self, plan: op.Operator) -> op.Operator:
        """Replaces the parts of a plan that call volatile functions by tables."""
        if isinstance(plan, op.Shared):
            if plan not in self._shared:
                self._shared[plan] = plan.with_children([self.settle(plan.source)])
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
        return plan.with_children([self.settle(child) for child in plan.children])

    def _table(self, plan: op.Operator, chain: list[op.Filter | op.Extend], source: op.Operator) -> op.Table:
        solutions = compute_once(self.settle(source), self._quads, self._terms)
        nodes: dict[str, BlankNode] = {}  # per solution; BNODE("a") is the same node throughout a solution
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
    """Returns the filters and bindings at the top of a plan, lowest first, and the operator below them."""
    steps = []
    while isinstance(plan, op.Filter | op.Extend):
        steps.append(plan)
        plan = plan.source
    return steps[::-1], plan


def _volatile_in(plan: op.Operator) -> str | None:
    """Returns the name of a volatile function that an operator itself calls, if there is one."""
    own = parts_of(plan)
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
