"""Leaves whose rows do not come from the quads: inline rows, and the constants of plans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import FanOut, Leaf, WithColumns
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Term, Var

_MOST_ROWS = 3
"""The largest number of rows of a table that an explanation shows."""


@dataclass(frozen=True)
class Table(WithColumns, Leaf):
    """Inline rows; None means unbound. One row without columns is the identity of Join."""

    columns: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]

    letter = "V"
    if_some_bound = 1.0

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset(
            column
            for number, column in enumerate(self.columns)
            if all(row[number] is not None for row in self.rows)
        )

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return float(len(self.rows))

    def words(self, words: Words) -> str:
        if not self.columns:
            return f"{len(self.rows)} empty solution{'' if len(self.rows) == 1 else 's'}"
        rows = [
            " ".join("UNDEF" if term is None else words.position(term) for term in row)
            for row in self.rows[:_MOST_ROWS]
        ]
        left = len(self.rows) - len(rows)
        more = f" … {left} more" if left else ""
        return f"values {words.text_of_list(self.columns, self.maybe)} {{ {', '.join(rows)}{more} }}"


UNIT = Table((), ((),))


@dataclass(frozen=True)
class Parameters(WithColumns, Leaf):
    """The constants of plans that differ only in these: one row per plan, changed between epochs."""

    columns: tuple[Var, ...]

    letter = "V"
    if_some_bound = 0.1

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return 1e5

    def words(self, words: Words) -> str:
        return "parameters"
