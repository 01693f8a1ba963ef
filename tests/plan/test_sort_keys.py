"""Which rows a window contains: the same as of all rows sorted, whatever ties there are."""

from __future__ import annotations

import random

import pytest

from sparqlive.plan import operators as op
from sparqlive.plan import sort_keys
from sparqlive.sparql.algebra import Var

A, B = Var("a"), Var("b")


def order_of(number: int) -> tuple[bytes, bytes]:
    """Ids of one rank differ in what breaks ties."""
    return bytes([1, number // 3]), bytes([1, number % 3])


def window(offset: int, limit: int | None, descending: bool) -> op.Window:
    source = op.Table((A, B), ())
    return op.Window(source, (), ((A, descending),), offset, limit)


@pytest.mark.parametrize("spare", [0, 10_000])
def test_a_window_is_a_part_of_all_rows_in_order(spare: int) -> None:
    pick = random.Random(3)
    for _ in range(300):
        most = pick.choice([1, 2, 9, 30])  # few ids: many ties
        rows = [((pick.randint(1, most), pick.randint(1, most)), pick.randint(1, 3)) for _ in range(60)]
        cut = sort_keys.Cut(
            window(pick.randint(0, 4), pick.choice([0, 1, 5, 20, 200]), pick.random() < 0.5), order_of, spare
        )
        copies = sorted(entry for row, weight in rows for entry in [cut.places.entry(row)] * weight)
        found = [row for row, weight in cut.of(rows) for _ in range(weight)]
        assert found == [cut.places.row(entry) for entry in copies[cut.offset : cut.end]]
