"""Sorts rows of 64-bit integers: the lexicographic order of columns.

Ids are hashes, so the top bits of a column decide almost every comparison. Each column is sorted as one array
of keys. A key combines the row's group by the previous columns, the top bits of its value, and its position.
NumPy sorts such an array several times faster than `lexsort` orders columns. Rows with equal top bits are
compared in full, so the order is correct for any integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sparqlive.runtime.tuning import DEFAULT

_Column = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Integer = TypeVar("_Integer", bound=np.integer[Any])
_Keys = npt.NDArray[np.uint64]

_VALUE_BITS = 8
"""Minimum bits of a value in a key. With too many rows for that, `lexsort` sorts them."""
_SIGN = np.uint64(1 << 63)


def lexicographic(
    columns: Sequence[_Column], fewest_rows: int = DEFAULT.column_rows
) -> tuple[_Column, _Mask]:
    """The row positions in sorted order, and which rows differ from the previous one.

    Equal rows keep their order. Below `fewest_rows`, a single `lexsort` call is faster.
    """
    length = len(columns[0])
    if length and is_sorted(columns):
        return np.arange(length), _fresh(*columns)
    place_bits = length.bit_length()
    if length < fewest_rows or 2 * place_bits + _VALUE_BITS > 64:
        by_columns = np.lexsort(tuple(reversed(columns)))
        return by_columns, _fresh(*(column[by_columns] for column in columns))
    order: _Column | None = None
    fresh: _Mask | None = None
    groups, group_count = np.zeros(1, dtype=np.uint64), 1
    for column in columns:
        order, fresh = _by_keys(column, order, groups, group_count, place_bits)
        groups = np.cumsum(fresh, dtype=np.uint64) - np.uint64(1)
        group_count = int(groups[-1]) + 1
        if group_count == length:
            break
    assert order is not None and fresh is not None
    return order, fresh


def _by_keys(
    column: _Column, order: _Column | None, groups: _Keys, group_count: int, place_bits: int
) -> tuple[_Column, _Mask]:
    """Refines an order by one more column; also returns which rows differ from the previous one."""
    values = column if order is None else column[order]
    keys = _keys(groups, (group_count - 1).bit_length(), values, place_bits)
    keys.sort()
    places = (keys & np.uint64((1 << place_bits) - 1)).view(np.int64)
    order = places if order is None else order[places]
    values = values[places]
    keys >>= np.uint64(place_bits)
    _order_alike(keys, values, order)
    return order, _fresh(keys.view(np.int64), values)


def _keys(groups: _Keys, group_bits: int, values: _Column, place_bits: int) -> _Keys:
    """The group of each row, the top bits of its value, and its position."""
    keys = (values.view(np.uint64) ^ _SIGN) >> np.uint64(group_bits)
    if group_bits:
        keys |= groups << np.uint64(64 - group_bits)
    keys >>= np.uint64(place_bits)
    keys <<= np.uint64(place_bits)
    keys |= np.arange(len(values), dtype=np.uint64)
    return keys


def _order_alike(keys: _Keys, values: _Column, order: _Column) -> None:
    """Sorts the few rows whose values differ only in bits that are not in their keys."""
    same = keys[1:] == keys[:-1]
    wrong = same & (values[1:] < values[:-1])
    if not wrong.any():
        return
    runs = np.append(0, np.cumsum(~same))
    chosen = np.flatnonzero(np.isin(runs, runs[1:][wrong]))
    right = chosen[np.lexsort((values[chosen], runs[chosen]))]
    values[chosen], order[chosen] = values[right], order[right]


def _fresh(*columns: npt.NDArray[_Integer]) -> _Mask:
    """Which rows of sorted columns differ from the previous one."""
    fresh = np.zeros(len(columns[0]), dtype=bool)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """The sorted distinct values, like `np.unique`, whose first call spends 10 ms on an import."""
    ordered = np.sort(values)
    return ordered[_fresh(ordered)]


def is_sorted(columns: Sequence[_Column]) -> bool:
    """Whether rows are in lexicographic order."""
    undecided = np.ones(len(columns[0]) - 1, dtype=bool)
    for column in columns:
        before, after = column[:-1], column[1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
    return True
