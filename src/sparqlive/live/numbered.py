"""Numbers the occurrences of equal solutions, which otherwise differ only in their weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyoxigraph import Literal

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.zset.relation import Relation, Row


class Occurrences(Relation):
    """The number of occurrences of each solution of the source."""

    def __init__(self, operator: op.Numbered, dictionary: Dictionary) -> None:
        super().__init__(len(operator.source.variables))
        self._dictionary = dictionary

    def carry(self, delta: Mapping[Row, int]) -> dict[Row, int]:
        """Adds or removes the highest numbers and keeps the others. Cost: one lookup per changed solution."""
        self.stage(delta)
        result: dict[Row, int] = {}
        for row, weight in delta.items():
            old = self.weight_before(row)
            for number in range(min(old, old + weight), max(old, old + weight)):
                result[self._numbered(row, number)] = 1 if weight > 0 else -1
        return result

    def content(self) -> Iterator[tuple[Row, int]]:
        return self.evaluate(self.items())

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        """Yields the occurrences of solutions; a solution may be listed several times."""
        weights: dict[Row, int] = {}
        for row, weight in rows:
            weights[row] = weights.get(row, 0) + weight
        for row, weight in weights.items():
            for number in range(weight):
                yield self._numbered(row, number), 1

    def _numbered(self, row: Row, number: int) -> Row:
        return (*row, self._dictionary.id_of(Literal(number)))


def state(operator: op.Numbered, terms: Terms) -> Occurrences:
    return Occurrences(operator, terms.dictionary)
