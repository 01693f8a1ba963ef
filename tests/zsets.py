"""Zsets as values, with the operations of the counting paper, for what the tests compute by definition."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from sparqlive.zset.zset import without_zeros

Row = TypeVar("Row", bound=Hashable)
Other = TypeVar("Other", bound=Hashable)


class ZSet(Generic[Row]):
    """An immutable zset. `a + b`, `a - b`, `-a`; `weights` is read-only by convention."""

    __slots__ = ("weights",)

    def __init__(self, pairs: Iterable[tuple[Row, int]] = ()) -> None:
        weights: dict[Row, int] = {}
        for row, weight in pairs:
            weights[row] = weights.get(row, 0) + weight
        self.weights: Mapping[Row, int] = without_zeros(weights)

    @classmethod
    def of(cls, weights: Mapping[Row, int]) -> ZSet[Row]:
        """A zset that shares `weights`, which must not contain a zero."""
        zset = cls()
        zset.weights = weights
        return zset

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return iter(self.weights.items())

    def __len__(self) -> int:
        return len(self.weights)

    def __contains__(self, row: object) -> bool:
        return row in self.weights

    def __getitem__(self, row: Row) -> int:
        return self.weights.get(row, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZSet) and self.weights == other.weights

    def __hash__(self) -> int:
        return hash(frozenset(self.weights.items()))

    def __add__(self, other: ZSet[Row]) -> ZSet[Row]:
        return ZSet((*self, *other))

    def __neg__(self) -> ZSet[Row]:
        return ZSet((row, -weight) for row, weight in self)

    def __sub__(self, other: ZSet[Row]) -> ZSet[Row]:
        return self + -other

    def __repr__(self) -> str:
        return f"ZSet({dict(self.weights)!r})"

    def map(self, function: Callable[[Row], Other]) -> ZSet[Other]:
        """Linear: adds up the weights of rows with the same image."""
        return ZSet((function(row), weight) for row, weight in self)

    def filter(self, condition: Callable[[Row], bool]) -> ZSet[Row]:
        """Linear: Theorem 3.1 (1)."""
        return ZSet((row, weight) for row, weight in self if condition(row))

    def distinct(self) -> ZSet[Row]:
        """Each element of positive weight, with weight one."""
        return ZSet((row, 1) for row, weight in self if weight > 0)
