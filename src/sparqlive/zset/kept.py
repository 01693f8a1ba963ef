"""What an operator stores of its source, for a backend that computes its change by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparqlive.zset.run import Column


class Kept:
    """The rows of an operator's source before the epoch, and running totals of them.

    `columns` returns the rows as columns, the weights last; `rows` is about how many they are. `totals` are
    what a backend left in `after` in an earlier epoch, or None; `unseen` has the rows that changed since, as
    columns. The operator takes `after` as its totals after the epoch, if the epoch is committed.
    """

    __slots__ = ("after", "columns", "rows", "totals", "unseen")

    def __init__(
        self,
        columns: Callable[[], Sequence[Column]],
        rows: int,
        totals: Any = None,
        unseen: Sequence[Column] = (),
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.totals = totals
        self.unseen = unseen
        self.after: Any = None
