"""The rows that an operator has stored, for a backend that computes the operator's delta on columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparqlive.zset.run import Column


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored rows before the epoch: of an operator's source, or the totals of groups.

    `parts` returns the rows in parts: columns, with the weights last. The weights of a row in several parts
    add up. `rows` is their approximate number.
    """

    parts: Callable[[], Sequence[Sequence[Column]]]
    rows: int
    are_totals: bool = False
