"""What an operator stores of its source, for a backend that computes its change by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparqlive.zset.run import Column


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored rows before the epoch: of an operator's source, or the totals of groups.

    `parts` returns the rows in parts, as columns with the weights last: the weights of a row that is in
    several parts add up. `rows` is about how many they are.
    """

    parts: Callable[[], Sequence[Sequence[Column]]]
    rows: int
    are_totals: bool = False
