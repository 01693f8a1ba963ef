"""Evaluates the delta rules as SQL: the change of a plan's result as one query.

The rules come from `plan/operators/`; this module does not choose states. A term of a rule starts from the
change, which is broadcast, and joins outward; other inputs are read only where the keys of the change reach
them. Invariant: None stands for a change that is known to be empty before anything runs, so its terms cost
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparqlive.bulk import aggregate, join, scan, table
from sparqlive.bulk.backend import Backend
from sparqlive.bulk.evaluate import (
    Evaluation,
    ResultFrames,
    ResultTables,
    result,
    rows_of_table,
    table_columns,
)
from sparqlive.bulk.operators import OPERATORS
from sparqlive.bulk.solutions import WEIGHT, Solutions, column, united
from sparqlive.bulk.terms import Terms
from sparqlive.plan import delta as rules
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.totals import total_names
from sparqlive.sparql.algebra import Term


def delta(
    plan: op.Operator,
    backend: Backend,
    quads_before: Any,
    changes: Any,
    terms: Any,
    id_of: Callable[[Term], int],
    *,
    changed_predicates: frozenset[int] | None = None,
    parameters: Sequence[Sequence[int]] = (),
    exceptions: Mapping[str, int] | None = None,
    few: bool = True,
    kept: Mapping[op.Operator, Any] | None = None,
    changed: Mapping[op.Operator, Any] | None = None,
    totals: Mapping[op.Group, tuple[Any, Any, bool]] | None = None,
) -> ResultTables:
    """Computes the change of a plan's content.

    changes: s, p, o, g and w, +1 or -1, only effective changes; none for `SessionTables`, which know theirs.
    terms: of the quads before and after. changed_predicates: the predicates of the changes, if known; rule
    terms that start at a pattern with another predicate are skipped. few: the changes, and what they reach,
    can be broadcast. kept: former contents of plans below this one, where operators store them. changed: the
    changes of such plans, if known. Both are tables with the columns of `ResultTables.rows`, each row once;
    `terms` has all of their terms. totals: per group, the totals before, those of the change, and whether
    they cover all numbers (`bulk/stored_totals.py`). Anything not given is computed. The other parameters are
    as in `evaluate`.
    """
    with backend:
        states: scan.Quads
        if isinstance(quads_before, scan.SessionTables):
            states = scan.QuadsByPredicate(backend, quads_before, id_of, few)
        else:
            before = backend.frame(quads_before, scan.QUAD)
            changed_quads = backend.frame(changes, (*scan.QUAD, WEIGHT))
            states = scan.TableOfQuads(
                before, changed_quads, id_of, few_changes=few, changed_predicates=changed_predicates
            )
        known = Terms(backend, terms, plan, id_of, exceptions or {})
        of_groups: dict[op.Operator, aggregate.Totals] = {
            group: _totals(backend, group, *tables) for group, tables in (totals or {}).items()
        }
        evaluation = Evaluation(backend, states, known, parameters, totals=of_groups)
        for state, tables in ((State.OLD, kept), (State.DELTA, changed)):
            for part, table in (tables or {}).items():
                frame = backend.frame(table, table_columns(part))
                evaluation.named[part, state] = rows_of_table(part, frame, are_entered=True)
        return delta_frames(plan, evaluation).tables(backend)


def _totals(backend: Backend, operator: op.Group, old: Any, change: Any, complete: bool) -> aggregate.Totals:
    names = [*map(column, operator.keys), *total_names(operator)]
    return aggregate.Totals(backend.frame(old, names), backend.frame(change, names), complete)


def delta_frames(
    plan: op.Operator,
    evaluation: Evaluation,
    deltas: Mapping[op.Operator, Solutions | None] | None = None,
) -> ResultFrames:
    """Computes the change of a plan's content, inside the backend's `with` block.

    deltas: known changes of some of its operators; None for no change.
    """
    change = _Deltas(evaluation, deltas or {}).compute(plan)
    if change is None:
        change = Solutions(table.frame_of(plan.variables, ()), plan.variables, frozenset())
    elif change.texts:
        change = evaluation.held(change)  # two queries read it: its rows, and its new terms
    return result(plan, change, evaluation.backend)


class _Deltas:
    """The change of each operator; a change with several readers is computed once."""

    def __init__(self, evaluation: Evaluation, known: Mapping[op.Operator, Solutions | None]) -> None:
        self._evaluation = evaluation
        self._deltas: dict[op.Operator, Solutions | None] = dict(known)

    def of(self, plan: op.Operator) -> Solutions | None:
        if plan not in self._deltas:
            known = self._evaluation.named.get((plan, State.DELTA))
            change = self.compute(plan) if known is None else known
            change = None if change is None else self._evaluation.share(change)
            self._deltas[plan] = None if change is None or change.frame.is_empty else change
        return self._deltas[plan]

    def compute(self, plan: op.Operator) -> Solutions | None:
        return self._rule(plan.delta_rule(), plan) if plan.children else self._leaf(plan)

    def _leaf(self, leaf: op.Operator) -> Solutions | None:
        change = OPERATORS[type(leaf)].change
        if change is None or not self._evaluation.quads.concerns(leaf):
            return None
        return change(self._evaluation, leaf)

    def _rule(self, rule: rules.Rule, plan: op.Operator) -> Solutions | None:
        evaluation = self._evaluation
        match rule:
            case rules.Of(State.DELTA, operator):
                return self.of(operator)
            case rules.Plus(terms):
                parts = [part for term in terms if (part := self._rule(term, plan)) is not None]
                return _sum(parts, plan, evaluation.quads.few_changes)
            case rules.Times((_, rules.Flips(operator))) | rules.Times(
                (_, rules.Plus((rules.Of(State.DELTA), rules.Flips(operator))))
            ):
                changed = self.of(operator.right)
                return None if changed is None else _flips(evaluation, operator, changed)
            case rules.Times(factors):
                return self._product(factors, plan)
            case rules.Outer(left, right, _) | rules.Tested(_, left, right):
                changed = self.of(left.operator)
                return None if changed is None else _tested(evaluation, plan, changed, right.state)
            case (
                rules.Apply(operator, argument)
                | rules.Signs(operator, argument)
                | rules.Redone(operator, argument)
            ):
                changed = self.of(argument.operator)
                return None if changed is None else _change(evaluation, operator, changed)
        raise AssertionError(rule)

    def _product(self, factors: tuple[rules.Rule, ...], plan: op.Operator) -> Solutions | None:
        """Writes one term of a join's rule, from its delta outward."""
        start: Solutions | None = None
        others: list[join.Factor] = []
        for factor in factors:
            assert isinstance(factor, rules.Of)
            if factor.state is State.DELTA:
                start = self.of(factor.operator)
            else:
                others.append((factor.operator, factor.state))
        if start is None:
            return None
        return join.outward(self._evaluation, start, others, frozenset(plan.variables))


def _sum(parts: Sequence[Solutions], plan: op.Operator, few: bool) -> Solutions | None:
    """Adds the terms of a rule: the change of an operator, as small as changes are."""
    return replace(united(parts, plan.variables), small=few) if parts else None


def _change(evaluation: Evaluation, operator: op.Operator, changed: Solutions) -> Solutions:
    change = OPERATORS[type(operator)].change
    assert change is not None
    return change(evaluation, operator, changed)


def _tested(evaluation: Evaluation, operator: op.Operator, changed: Solutions, state: State) -> Solutions:
    tested = OPERATORS[type(operator)].tested
    assert tested is not None
    return tested(evaluation, operator, changed, state, frozenset(operator.variables))


def _flips(evaluation: Evaluation, operator: op.TwoSided, changed: Solutions) -> Solutions:
    flips = OPERATORS[type(operator)].flips
    assert flips is not None
    return flips(evaluation, operator, changed)
