"""The language of the delta rules, which are derived symbolically.

Each operator gives its rule in its file in `plan/operators/`, and nothing else does. A rule is a sum with one
term per input of the operator. The term contains the change of that input (Δ) and the old or new content of
the others. Executors evaluate these expressions; they do not choose states themselves.
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
from typing import TYPE_CHECKING, TypeAlias

from sparqlive.sparql.algebra import Expression as Condition

if TYPE_CHECKING:
    from sparqlive.plan import operators as op


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

    operator: op.TwoSided
    left: Of
    right: Of


@dataclass(frozen=True)
class Flips:
    """Changes of whether a left solution has a match on the right.

    For a left join and ⊖: +1 where the last match disappears, -1 where the first one appears. For ⋉ the signs
    are reversed. For a mark: minus the old mark, plus the new one.
    """

    operator: op.TwoSided


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


def linear(operator: op.Operator) -> Plus:
    """ΔP(A, B, …) = P(ΔA) + P(ΔB) + …, for a linear operator."""
    return Plus(tuple(Apply(operator, Of(State.DELTA, child)) for child in operator.children))
