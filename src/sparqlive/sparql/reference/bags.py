"""Bags of solution mappings, and the operators of SPARQL's algebra on them (SPARQL 1.1 §18.5).

Defines the compatibility of solutions. A bag has variables; a solution is a tuple of terms in their order
(None: unbound), with its number of occurrences. Invariant: a bag is never modified, so that lookups in it can
be cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from sparqlive.sparql.algebra import Term, Var

Row: TypeAlias = tuple[Term | None, ...]
Test: TypeAlias = Callable[[Row], bool]


class Bag:
    """Solutions with their multiplicities."""

    def __init__(self, variables: tuple[Var, ...], rows: Iterable[tuple[Row, int]]) -> None:
        self.variables = variables
        self.rows: dict[Row, int] = {}
        for row, times in rows:
            self.rows[row] = self.rows.get(row, 0) + times
        self._groups: dict[tuple[int, ...], list[tuple[tuple[bool, ...], list[Row]]]] = {}
        self._found: dict[object, dict[Row, list[Row]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def partners(self, columns: tuple[int, ...], values: Row) -> Iterator[Row]:
        """Returns the rows that agree with the values wherever both are bound.

        The rows are grouped by which of the columns they bind; within a group, these columns are the key.
        """
        groups = self._groups.get(columns)
        if groups is None:
            by_bound: dict[tuple[bool, ...], list[Row]] = {}
            for row in self.rows:
                by_bound.setdefault(tuple(row[column] is not None for column in columns), []).append(row)
            groups = self._groups[columns] = list(by_bound.items())
        for bound, rows in groups:
            keys = tuple(n for n, value in enumerate(values) if value is not None and bound[n])
            name = (columns, bound, keys)
            index = self._found.get(name)
            if index is None:
                index = self._found[name] = {}
                for row in rows:
                    index.setdefault(tuple(row[columns[n]] for n in keys), []).append(row)
            yield from index.get(tuple(values[n] for n in keys), ())

    def projected(self, variables: tuple[Var, ...]) -> Bag:
        """Returns the bag with other columns; a variable that it does not have is unbound."""
        if variables == self.variables:
            return self
        place_of = {v: place for place, v in enumerate(self.variables)}
        places = [place_of.get(v) for v in variables]
        return Bag(
            variables,
            ((tuple(None if p is None else row[p] for p in places), n) for row, n in self.rows.items()),
        )

    def filtered(self, holds: Test) -> Bag:
        return Bag(self.variables, ((row, times) for row, times in self.rows.items() if holds(row)))


class Pairs:
    """The compatible pairs of solutions of two bags."""

    def __init__(self, left: Bag, right: Bag) -> None:
        self.left, self.right = left, right
        shared = [v for v in left.variables if v in right.variables]
        self._left = tuple(left.variables.index(v) for v in shared)
        self._right = tuple(right.variables.index(v) for v in shared)
        self._own = tuple(n for n, v in enumerate(right.variables) if v not in left.variables)
        self.variables = (*left.variables, *(right.variables[n] for n in self._own))

    def partners(self, row: Row) -> Iterator[Row]:
        """Yields the rows of the right bag that are compatible with a row of the left one."""
        return self.right.partners(self._right, tuple(row[n] for n in self._left))

    def merged(self, row: Row, other: Row) -> Row:
        if None in row:
            values = list(row)
            for mine, theirs in zip(self._left, self._right, strict=True):
                if values[mine] is None:
                    values[mine] = other[theirs]
            row = tuple(values)
        return (*row, *(other[n] for n in self._own))

    def meet(self, row: Row, other: Row) -> bool:
        """Whether both bind a common variable."""
        return any(
            row[mine] is not None and other[theirs] is not None
            for mine, theirs in zip(self._left, self._right, strict=True)
        )

    def alone(self, row: Row) -> Row:
        return (*row, *(None for _ in self._own))


def join(left: Bag, right: Bag) -> Bag:
    if len(left) > len(right):  # index the larger side, which is reused more often
        left, right = right, left
    pairs = Pairs(left, right)
    return Bag(
        pairs.variables,
        (
            (pairs.merged(row, other), times * right.rows[other])
            for row, times in left.rows.items()
            for other in pairs.partners(row)
        ),
    )


def left_join(left: Bag, right: Bag, holds: Callable[[tuple[Var, ...]], Test] | None) -> Bag:
    """`holds` returns the test of a condition, for solutions with given variables."""
    pairs = Pairs(left, right)
    test = None if holds is None else holds(pairs.variables)

    def rows() -> Iterator[tuple[Row, int]]:
        for row, times in left.rows.items():
            found = False
            for other in pairs.partners(row):
                merged = pairs.merged(row, other)
                if test is None or test(merged):
                    found = True
                    yield merged, times * right.rows[other]
            if not found:
                yield pairs.alone(row), times

    return Bag(pairs.variables, rows())


def union(bags: Iterable[Bag]) -> Bag:
    parts = list(bags)
    variables = tuple(dict.fromkeys(v for part in parts for v in part.variables))
    return Bag(variables, (item for part in parts for item in part.projected(variables).rows.items()))


def minus(left: Bag, right: Bag) -> Bag:
    """Removes the solutions that are compatible with a right one and bind a common variable."""
    pairs = Pairs(left, right)
    return left.filtered(lambda row: not any(pairs.meet(row, other) for other in pairs.partners(row)))


NOTHING = Bag((), [])
