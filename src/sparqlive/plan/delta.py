"""The delta rules, derived symbolically. They are defined only here.

A rule is a sum with one term per input of an operator. The term contains the change of that input (Δ) and the
old or new content of the others. Executors evaluate these expressions; they do not choose states themselves.
With A' = A + ΔA:

| operator | ΔP | theorem |
|---|---|---|
| join | Σᵢ A₁' ⋈ … ⋈ ΔAᵢ ⋈ … ⋈ Aₙ | 4.3, 4.5 |
| filter, extend, project, union | applied to the delta | 3.1 |
| semi (⊖ ⋉) | (ΔA ⊖ B) + (A' ⋈ flips(B, ΔB)) | 4.6 |
| left join | (ΔA ⟕ B) + (A' ⋈ (ΔB + flips(B, ΔB))) | 4.5, 4.6 |
| distinct | signs(A, ΔA) | |
| keyed | redone(A, ΔA) | |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Expression as Condition


class State(Enum):
    """The state of an operator's content: old, new or changed."""

    OLD = ""
    NEW = "′"
    DELTA = "Δ"


@dataclass(frozen=True)
class Of:
    """The old or new content of an operator, or its change."""

    state: State
    operator: op.Operator


@dataclass(frozen=True)
class Times:
    """⋈: compatible solutions, weights multiplied."""

    factors: tuple[Rule, ...]


@dataclass(frozen=True)
class Plus:
    terms: tuple[Rule, ...]


@dataclass(frozen=True)
class Apply:
    """A linear operator (filter, extend, project, union, or storing) applied to one input's delta."""

    operator: op.Operator
    argument: Of


@dataclass(frozen=True)
class Outer:
    """⟕: each left solution with its right matches, or alone."""

    left: Of
    right: Of
    condition: Condition | None


@dataclass(frozen=True)
class Tested:
    """Left solutions kept (⋉), dropped (⊖) or marked, depending on whether a right one matches."""

    operator: op.Semi | op.Mark
    left: Of
    right: Of


@dataclass(frozen=True)
class Flips:
    """Changes of whether a left solution has a match on the right.

    For a left join and ⊖: +1 where the last match disappears, -1 where the first one appears. For ⋉ the signs
    are reversed. For a mark: minus the old mark, plus the new one.
    """

    operator: op.LeftJoin | op.Semi | op.Mark


@dataclass(frozen=True)
class Signs:
    """+1 where a count becomes positive, -1 where it stops being positive."""

    operator: op.Distinct
    argument: Of


@dataclass(frozen=True)
class Redone:
    """For each key in the change: minus the old rows, plus the new rows."""

    operator: op.Keyed
    argument: Of


Rule: TypeAlias = Of | Times | Plus | Apply | Outer | Tested | Flips | Signs | Redone


def delta_rule(operator: op.Operator) -> Plus:
    """Returns ΔP. The i-th term has the change of the i-th input. A leaf changes by the Δ of its quads."""
    match operator:
        case op.Join(parts):
            return Plus(tuple(_join_term(parts, changed) for changed in range(len(parts))))
        case op.LeftJoin(left, right, condition):
            from_left = Outer(Of(State.DELTA, left), Of(State.OLD, right), condition)
            from_right = Plus((Of(State.DELTA, right), Flips(operator)))
            return Plus((from_left, Times((Of(State.NEW, left), from_right))))
        case op.Semi(left, right, _, _) | op.Mark(left, right, _):
            tested = Tested(operator, Of(State.DELTA, left), Of(State.OLD, right))
            return Plus((tested, Times((Of(State.NEW, left), Flips(operator)))))
        case op.Distinct(source):
            return Plus((Signs(operator, Of(State.DELTA, source)),))
        case op.Keyed():
            return Plus((Redone(operator, Of(State.DELTA, operator.source)),))
        case (
            op.Filter() | op.Extend() | op.Project() | op.Template() | op.Union() | op.Stored() | op.Shared()
        ):
            return Plus(tuple(Apply(operator, Of(State.DELTA, child)) for child in operator.children))
        case _:
            assert not operator.children, f"no delta rule for {type(operator).__name__}"
            return Plus(())


def delta_term(operator: op.Operator, changed: int) -> Rule:
    """Returns one term of the rule: the one for the change of one input."""
    if isinstance(operator, op.Join):  # a join of many parts has many long terms
        return _join_term(operator.parts, changed)
    return delta_rule(operator).terms[changed]


def _join_term(parts: tuple[op.Operator, ...], changed: int) -> Times:
    """Inputs before the changed one are read in their new state, those after it in their old state."""
    states = [State.NEW] * changed + [State.DELTA] + [State.OLD] * (len(parts) - changed - 1)
    return Times(tuple(Of(state, part) for state, part in zip(states, parts, strict=True)))
