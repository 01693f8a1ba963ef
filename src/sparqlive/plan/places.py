"""The order of rows, and which rows a window contains.

Every executor uses this order, for windows and for listing rows. A row becomes one byte string: the ids of
its key, its rank in the order, its other ids. The bytes compare like the rows, so comparing rows looks up no
terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import TypeAlias

from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.ordering import descending as inverted

Row: TypeAlias = tuple[int, ...]
OrderOf: TypeAlias = Callable[[int], tuple[bytes, bytes]]
"""The rank of a term's id, and the tie-breaker among terms of the same rank."""


_SPARE_ROWS = 10_000


class Places:
    """Encodes rows as byte strings that compare like the rows, and decodes them."""

    def __init__(
        self, variables: Sequence[Var], order: op.Order, order_of: OrderOf, keys: Sequence[Var] = ()
    ) -> None:
        others = [v for v in variables if v not in keys]
        self.key_width = 8 * len(keys)
        self._keys = [variables.index(v) for v in keys]
        self._others = [variables.index(v) for v in others]
        self._ranks = [(variables.index(v), descending) for v, descending in order]
        ranked = {v for v, _ in order}
        # Columns with equal ranks can differ only in the tie-breaker.
        self._ties = [(variables.index(v), v in ranked) for v in others]
        arranged = [*keys, *others]
        self._back = [arranged.index(v) for v in variables]
        self._key_ids = Struct(f">{len(keys)}q")
        self._other_ids = Struct(f">{len(others)}q")
        self._order = order_of

    def entry(self, row: Row) -> bytes:
        place = self._order
        parts = [self._key_ids.pack(*[row[p] for p in self._keys])]
        for position, descending in self._ranks:
            rank = place(row[position])[0]
            parts.append(inverted(rank) if descending else rank)
        for position, ranked in self._ties:
            rank, rest = place(row[position])
            parts += (rest,) if ranked else (rank, rest)
        parts.append(self._other_ids.pack(*[row[p] for p in self._others]))
        return b"".join(parts)

    def row(self, entry: bytes) -> Row:
        others = entry[len(entry) - self._other_ids.size :]
        ids = self._key_ids.unpack_from(entry) + self._other_ids.unpack(others)
        return tuple([ids[place] for place in self._back])


class Cut:
    """The window of an operator: its offset and end, and the order of its rows."""

    def __init__(self, operator: op.Window, order_of: OrderOf) -> None:
        self.places = Places(operator.variables, operator.order, order_of, operator.keys)
        self.offset = operator.offset
        self.end = None if operator.limit is None else operator.offset + operator.limit

    def of(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        """Yields the rows of the window, given all rows in any order."""
        total: dict[bytes, int] = {}
        most = None if self.end is None or self.places.key_width else 2 * self.end + _SPARE_ROWS
        last: bytes | None = None
        for row, weight in rows:
            entry = self.places.entry(row)
            if last is not None and entry > last:
                continue
            total[entry] = total.get(entry, 0) + weight
            if most is not None and len(total) > most:  # those after the window's end are not needed
                assert self.end is not None
                first = sorted(total)[: self.end]
                total, last = {entry: total[entry] for entry in first}, first[-1]
        return self.cut((entry, total[entry]) for entry in sorted(total))

    def cut(self, entries: Iterable[tuple[bytes, int]]) -> Iterator[tuple[Row, int]]:
        """Yields the rows of the window, given sorted entries, each once with its weight."""
        width, offset, end = self.places.key_width, self.offset, self.end
        key, before = b"", 0
        for entry, weight in entries:
            if entry[:width] != key:
                key, before = entry[:width], 0
            after = before + weight
            inside = (after if end is None else min(after, end)) - max(before, offset)
            if inside > 0:
                yield self.places.row(entry), inside
            elif not width and before >= offset:
                return
            before = after
