"""The zset: a collection whose elements have integer weights (the K-set of the counting paper).

Owns the addition of weights. Invariant: no element has weight zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Row = TypeVar("Row", bound=Hashable)


def without_zeros(weights: dict[Row, int]) -> dict[Row, int]:
    """Returns the same dict if it contains no zero, else a copy without zeros."""
    if 0 in weights.values():
        return {row: weight for row, weight in weights.items() if weight}
    return weights


def add_into(target: dict[Row, int], delta: Mapping[Row, int]) -> None:
    """Computes target += delta in place, removing zeros."""
    add = target.setdefault
    known = len(target)
    for row, weight in delta.items():
        old = add(row, weight)
        if len(target) != known:  # a new row, which is the common case
            known += 1
        elif old + weight:
            target[row] = old + weight
        else:
            del target[row]
            known -= 1


def difference(new: Mapping[Row, int], old: Mapping[Row, int]) -> dict[Row, int]:
    """Returns new - old, without zeros."""
    delta = {row: weight - old.get(row, 0) for row, weight in new.items() if weight != old.get(row, 0)}
    delta.update({row: -weight for row, weight in old.items() if row not in new})
    return delta
