"""What an operator stores of its source, for a backend that computes its change by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparqlive.zset.run import Column


class Kept:
    """The rows of an operator's source before the epoch, and running totals of them.

    `parts` returns the rows in parts, as columns with the weights last: the weights of a row that is in
    several parts add up. `rows` is about how many they are. `totals` are
    what a backend left in `after` in an earlier epoch, or None; `unseen` has the rows that changed since, as
    columns. The operator takes `after` as its totals after the epoch, if the epoch is committed.
    """

    __slots__ = ("after", "parts", "rows", "totals", "unseen")

    def __init__(
        self,
        parts: Callable[[], Sequence[Sequence[Column]]],
        rows: int,
        totals: Any = None,
        unseen: Sequence[Column] = (),
    ) -> None:
        self.parts = parts
        self.rows = rows
        self.totals = totals
        self.unseen = unseen
        self.after: Any = None
