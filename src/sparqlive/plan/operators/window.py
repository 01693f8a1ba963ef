from __future__ import annotations

from dataclasses import dataclass

from sparqlive.plan.operators.base import FanOut, Order
from sparqlive.plan.operators.keyed import Keyed
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Window(Keyed):
    """OFFSET and LIMIT: for each key, the solutions from `offset` on, at most `limit` (None: all).

    They are ordered by the ranks of `order`, then by all columns, ascending, in the total order of terms. So
    only equal solutions have the same position.
    """

    order: Order
    offset: int
    limit: int | None

    letter = "W"

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        below = self.source.estimate(bound, fan_out)
        return below if self.limit is None or self.keys else min(float(self.limit), below)

    def words(self, words: Words) -> str:
        count = "all" if self.limit is None else f"the first {self.limit:,}"
        after = f" after the first {self.offset:,}" if self.offset else ""
        marked = words.marker(self.maybe)
        keys = [f"{marked(v)}{' descending' if descending else ''}" for v, descending in self.order]
        by = f", ordered by {', '.join(keys)}" if keys else ", in term order"
        each = f", for each {words.text_of_list(self.keys, self.maybe)}" if self.keys else ""
        return f"{count}{after}{by}{each}"

    def stored_words(self, words: Words) -> str:
        return "the input solutions, in order"
