"""Evaluates plans as SQL: the content of every operator, complete or restricted to keys.

`bulk/operators.py` lists the file of each operator. Nothing runs here: the result is lazy, and the caller
runs it. Invariant: content restricted by keys is correct for solutions that agree with a key. Other solutions
may be missing or incomplete, so a caller that restricts by keys must also join with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparqlive.bulk import scan
from sparqlive.bulk.aggregate import Totals
from sparqlive.bulk.backend import Backend
from sparqlive.bulk.dialect import ZERO, total
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.operators import OPERATORS
from sparqlive.bulk.sets import is_set
from sparqlive.bulk.solutions import (
    WEIGHT,
    Keys,
    Solutions,
    column,
    reached,
    summed,
    text,
    united,
)
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.sparql.algebra import Term, Var
from sparqlive.zset.run import Column


@dataclass(frozen=True)
class ResultFrames:
    """The parts of a `ResultTables` as frames that have not run yet."""

    rows: Frame
    new_terms: Frame | None

    def tables(self, backend: Backend) -> ResultTables:
        new_terms = None if self.new_terms is None else backend.query(self.new_terms)
        return ResultTables(backend.query(self.rows), new_terms)


@dataclass(frozen=True)
class ResultTables:
    """The rows of a plan, and the computed terms in them, as tables of the backend's own kind.

    rows: `c0` … in the order of the plan's variables, 0 for unbound, and `w`; each row once, no zero weights.
    new_terms: `id`, `term` of computed terms, which the dictionary may lack; None if there can be none.
    """

    rows: Any
    new_terms: Any


def evaluate(
    plan: op.Operator,
    backend: Backend,
    quads: Any,
    terms: Any,
    id_of: Callable[[Term], int],
    *,
    parameters: Sequence[Sequence[int]] = (),
    exceptions: Mapping[str, int] | None = None,
    made: Mapping[op.Operator, Any] | None = None,
) -> ResultTables:
    """Computes the content of a plan.

    quads, terms: tables of the backend, with the columns s, p, o, g and id, term; or `SessionTables`. `id_of`
    returns the ids of constants; `exceptions` maps terms to ids that are not their hash; `parameters` are the
    rows of the plan's table of parameters. made: existing contents of plans below this one, as tables with
    the columns of `ResultTables.rows`; `terms` has all of their terms.
    """
    with backend:
        states: scan.Quads
        if isinstance(quads, scan.SessionTables):
            states = scan.QuadsByPredicate(backend, quads, id_of)
        else:
            named = backend.frame(quads, scan.QUAD)
            states = scan.TableOfQuads(named, None, id_of)
        known = Terms(backend, terms, plan, id_of, exceptions or {})
        evaluation = Evaluation(backend, states, known, parameters)
        for part, table in (made or {}).items():
            frame = backend.frame(table, table_columns(part))
            evaluation.named[part, State.NEW] = rows_of_table(part, frame, are_entered=True)
        return content_frames(plan, evaluation).tables(backend)


def content_frames(plan: op.Operator, evaluation: Evaluation) -> ResultFrames:
    """Computes the content of a plan, inside the backend's `with` block."""
    content = evaluation.content(plan, State.NEW, frozenset(plan.variables), None)
    return result(plan, content, evaluation.backend, once=is_set(plan))


@dataclass(frozen=True)
class StoredSource:
    """Stored rows of a source; a row may occur several times."""

    whole: Callable[[], Solutions]
    having: Callable[[Column], Solutions | None]
    """The rows whose first variable has one of the values; None if reading all rows is cheaper."""


@dataclass(frozen=True)
class Evaluation:
    """The input of all operators: the quads of both states, the dictionary, the parameters."""

    backend: Backend
    quads: scan.Quads
    terms: Terms
    parameters: Sequence[Sequence[int]]
    named: dict[tuple[op.Operator, State], Solutions] = field(default_factory=dict)
    """Contents that are stored or already computed, by state. Each row occurs once."""
    kept: Mapping[op.Keeping, StoredSource] = field(default_factory=dict)
    """Source rows that operators stored before the change."""
    totals: Mapping[op.Operator, Totals] = field(default_factory=dict)
    """The totals of groups before the change, and of the change, if known."""

    def content(
        self, plan: op.Operator, state: State, needed: frozenset[Var], keys: Keys | None
    ) -> Solutions:
        """Returns the content of an operator, with at least the needed variables.

        Keys restrict the content as far as they can be pushed down; what they reach is small.
        """
        keys = None if keys is None else keys.only(plan.pushable)
        known = self._known(plan, state, keys)
        if known is not None:
            return known
        return OPERATORS[type(plan)].content(self, plan, state, needed, keys)

    def _known(self, plan: op.Operator, state: State, keys: Keys | None) -> Solutions | None:
        """Returns the content of a plan if it exists, or existed before a change that is known."""
        named = self.named.get((plan, state))
        if named is not None:
            return named if keys is None else reached(named, keys)
        if state is not State.NEW:
            return None
        old, changed = self.named.get((plan, State.OLD)), self.named.get((plan, State.DELTA))
        if old is None or changed is None:
            return None
        parts = [old, changed] if keys is None else [reached(part, keys) for part in (old, changed)]
        return summed(united(parts, plan.variables))

    def before(self, operator: op.Keeping, keys: Keys | None) -> Solutions:
        """Returns what an operator stored of its source before the change; keys restrict as in `content`.

        Stored rows are not restricted: callers do that themselves.
        """
        kept = self.kept.get(operator)
        if kept is not None:
            rows = None
            if operator.source.variables and self.quads.lookup is not None:
                values = self.values(keys, operator.source.variables[0])
                rows = None if values is None else kept.having(values)
            return kept.whole() if rows is None else rows
        stored = self.named.get((operator.source, State.OLD))
        if stored is not None:
            return stored
        return self.content(operator.source, State.OLD, frozenset(operator.source.variables), keys)

    def held(self, solutions: Solutions) -> Solutions:
        """Computes the solutions now, if they are few and their matches are looked up."""
        if not solutions.small or self.quads.lookup is None:
            return solutions
        return solutions.of(self.backend.held(solutions.frame)[0])

    def values(self, keys: Keys | None, variable: Var) -> Column | None:
        """Returns the distinct values of a variable in keys, sorted; None if they are many or unknown."""
        if keys is None or not keys.small or variable not in keys.variables:
            return None
        table = self.backend.held(keys.frame)[1]
        return None if table is None else np.unique(table.column(column(variable)).to_numpy())

    def share(self, solutions: Solutions) -> Solutions:
        """Prepares solutions for several uses in one query; solutions that are not small stay unchanged."""
        if not solutions.small:
            return solutions
        frame, is_small = self.backend.share(solutions.frame)
        return replace(solutions, frame=frame, small=is_small)


def table_columns(plan: op.Operator) -> tuple[str, ...]:
    """Returns the columns of a table with rows of a plan."""
    return (*(f"c{number}" for number in range(len(plan.variables))), WEIGHT)


def rows_of_table(plan: op.Operator, table: Frame, *, are_entered: bool = False) -> Solutions:
    """Returns the solutions in a table with rows of a plan.

    `are_entered`: the dictionary has all of their terms; otherwise it may lack computed terms.
    """
    names = table_columns(plan)[:-1]
    ids = [f"{name} AS {column(v)}" for name, v in zip(names, plan.variables, strict=True)]
    plain = plan.always if are_entered else plan.always - computed(plan)
    return Solutions(table.select(*ids, WEIGHT), plan.variables, always=plan.always, plain=plain)


def computed(plan: op.Operator) -> frozenset[Var]:
    """Returns the variables that operators of a plan bind to terms that are not in the data."""
    return frozenset().union(*(operator.computed for operator in operators_of(plan)))


def result(plan: op.Operator, solutions: Solutions, backend: Backend, *, once: bool = False) -> ResultFrames:
    """Computes the final sum and its new terms. `once`: each solution already has exactly one row."""
    names = {v: f"c{number}" for number, v in enumerate(plan.variables)}
    own = frozenset(solutions.variables)
    if any(v in solutions.texts for v in plan.variables):
        solutions = solutions.of(backend.materialize(solutions.frame))
    columns = [f"{column(v)} AS {name}" if v in own else f"{ZERO} AS {name}" for v, name in names.items()]
    rows = solutions.frame.select(*columns, WEIGHT)
    if not once:
        rows = rows.grouped(list(names.values()), total(WEIGHT)).where(f"{WEIGHT} <> 0")
    computed = [
        solutions.frame.where(f"{text(v)} IS NOT NULL").select(f"{column(v)} AS id", f"{text(v)} AS term")
        for v in plan.variables
        if v in solutions.texts
    ]
    new_terms = computed[0].union(*computed[1:]).distinct() if computed else None
    return ResultFrames(rows, new_terms)
