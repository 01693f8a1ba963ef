"""The order of rows, and which rows a window contains.

Every executor uses this order, for windows and for listing rows. A row becomes one byte string: the ids of
its key, its rank in the order, its other ids. The bytes compare like the rows, so comparing rows looks up no
terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import TypeAlias

import numpy as np

from sparqlive.plan import operators as op
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.ordering import descending as inverted
from sparqlive.zset.run import Column

Row: TypeAlias = tuple[int, ...]
OrderOf: TypeAlias = Callable[[int], tuple[bytes, bytes]]
"""The rank of a term's id, and the tie-breaker among terms of the same rank."""
OrdersOf: TypeAlias = Callable[[Column], tuple[Sequence[bytes], Sequence[bytes]]]
"""The same for a column of ids: their ranks, and their tie-breakers."""


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

    def rank(self, row: Row) -> bytes:
        """Returns the start of an entry without keys: the rank of the row, without tie-breakers."""
        place, parts = self._order, []
        for position, descending in self._ranks:
            rank = place(row[position])[0]
            parts.append(inverted(rank) if descending else rank)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def entry(self, row: Row) -> bytes:
        place = self._order
        parts = [self._key_ids.pack(*[row[p] for p in self._keys]), self.rank(row)]
        for position, ranked in self._ties:
            rank, rest = place(row[position])
            parts += (rest,) if ranked else (rank, rest)
        parts.append(self._other_ids.pack(*[row[p] for p in self._others]))
        return b"".join(parts)

    def entries(self, columns: Sequence[Column], orders_of: OrdersOf) -> Iterator[bytes]:
        """The entries of rows that are given as columns."""
        orders = [orders_of(column) for column in columns]
        parts = [_packed([columns[p] for p in self._keys])] if self._keys else []
        for position, descending in self._ranks:
            ranks = orders[position][0]
            parts.append(map(inverted, ranks) if descending else ranks)
        for position, ranked in self._ties:
            ranks, rests = orders[position]
            parts += (rests,) if ranked else (ranks, rests)
        if self._others:
            parts.append(_packed([columns[p] for p in self._others]))
        return map(b"".join, zip(*parts, strict=True))

    def row(self, entry: bytes) -> Row:
        others = entry[len(entry) - self._other_ids.size :]
        ids = self._key_ids.unpack_from(entry) + self._other_ids.unpack(others)
        return tuple([ids[place] for place in self._back])


def _packed(columns: Sequence[Column]) -> Iterable[bytes]:
    """The ids of each row, as `Struct` packs them."""
    packed, width = np.column_stack(columns).astype(">i8").tobytes(), 8 * len(columns)
    return [packed[start : start + width] for start in range(0, len(packed), width)]


class Cut:
    """The window of an operator: its offset and end, and the order of its rows."""

    def __init__(self, operator: op.Window, order_of: OrderOf, spare: int = DEFAULT.spare_rows) -> None:
        """`spare`: how many rows beside those of the window are held."""
        self._spare = spare
        self.places = Places(operator.variables, operator.order, order_of, operator.keys)
        self.offset = operator.offset
        self.end = None if operator.limit is None else operator.offset + operator.limit

    def of(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        """Yields the rows of the window, given all rows in any order."""
        total: dict[bytes, int] = {}
        most, last = None, None
        if self.end is not None and not self.places.key_width:
            most = 2 * self.end + self._spare
            rows = self._near(rows, self.end, most)
        for row, weight in rows:
            entry = self.places.entry(row)
            if last is not None and entry > last:
                continue
            total[entry] = total.get(entry, 0) + weight
            if most is not None and len(total) > most:  # those after the window's end are not needed
                first = sorted(total)[: self.end]
                total, last = {entry: total[entry] for entry in first}, first[-1] if first else b""
        return self.cut((entry, total[entry]) for entry in sorted(total))

    def _near(self, rows: Iterable[tuple[Row, int]], end: int, most: int) -> Iterator[tuple[Row, int]]:
        """Returns the rows before the end of the window, all rows tied with the last one, and maybe others.

        Compares ranks only, because most rows come far behind the window and need no tie-breakers. Holds
        about `most` rows.
        """
        rank_of = self.places.rank
        ranks: dict[Row, bytes] = {}
        total: dict[Row, int] = {}
        last: bytes | None = None
        remaining = iter(rows)
        for row, weight in remaining:
            if row not in ranks:
                rank = rank_of(row)
                if last is not None and rank > last:
                    continue
                ranks[row] = rank
            total[row] = total.get(row, 0) + weight
            if len(total) > most:
                last = _last_rank(ranks, end)
                ranks = {row: rank for row, rank in ranks.items() if rank <= last}
                total = {row: total[row] for row in ranks}
                if len(total) > most // 2:  # too many ties: the tie-breakers have to decide
                    break
        if len(total) > end:
            last = _last_rank(ranks, end)
        for row, weight in total.items():
            if last is None or ranks[row] <= last:
                yield row, weight
        for row, weight in remaining:
            if last is None or rank_of(row) <= last:
                yield row, weight

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


def _last_rank(ranks: Mapping[Row, bytes], end: int) -> bytes:
    """The rank of the last row before the end of a window."""
    return sorted(ranks.values())[end - 1] if end else b""
