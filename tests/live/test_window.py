"""The rows of a window: the state that many rows make by columns is the one they make one by one."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyoxigraph as ox
import pytest

from sparqlive.live.terms import Terms
from sparqlive.live.window import OrderedRows
from sparqlive.plan import operators as op
from sparqlive.plan.sort_keys import Places
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Var
from sparqlive.zset.zset import add_into
from tests.conftest import times
from tests.nasty_terms import TERMS

A, B, C = Var("a"), Var("b"), Var("c")


def random_rows(terms: Terms, count: int) -> dict[tuple[int, ...], int]:
    pick = random.Random(5)
    ids = [UNDEF, *map(terms.dictionary.id_of, TERMS)]
    return {
        (pick.choice(ids), pick.choice(ids), pick.choice(ids)): pick.choice([1, 1, 3]) for _ in range(count)
    }


@pytest.mark.parametrize("keys", [(), (B,), (C, A), (B, C, A)])
@pytest.mark.parametrize(
    "order", [(), ((A, False),), ((B, True), (A, False)), ((C, True), (A, True), (B, True))]
)
def test_entries_by_columns(keys: tuple[Var, ...], order: op.Order) -> None:
    terms = Terms(Dictionary())
    rows = list(random_rows(terms, 1_000))
    places = Places((A, B, C), order, terms.order, keys)
    by_columns = list(places.entries([*np.array(rows, dtype=np.int64).T], terms.orders))
    assert by_columns == [places.entry(row) for row in rows]
    assert [places.row(entry) for entry in by_columns] == rows


def test_many_rows_at_once_and_one_by_one() -> None:
    terms = Terms(Dictionary())
    rows = random_rows(terms, 2_000)
    operator = op.Window(op.Table((A, B, C), ()), (), ((B, True), (A, False)), 3, 40)
    at_once, one_by_one = OrderedRows(operator, terms), OrderedRows(operator, terms)
    at_once.load(rows)
    for row, weight in rows.items():
        one_by_one.carry({row: weight})
        one_by_one.commit()
    assert list(at_once.content()) == list(one_by_one.content())
    assert dict(at_once.items()) == dict(one_by_one.items())
    assert len(at_once) == len(rows)


ORDERS: tuple[op.Order, ...] = (((A, False),), ((B, True), (A, False)))
EXACT = [*map(ox.Literal, (*range(-30, 30), 2**60, 2**60 + 1)), *(ox.Literal(n / 4) for n in range(40))]


@pytest.mark.parametrize("limits", [(0, 5), (3, 4), (6, None)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("values", [TERMS, EXACT], ids=["all kinds", "numbers"])
def test_a_head_is_read_again(
    limits: tuple[int, int | None], order: op.Order, values: list[ox.Literal]
) -> None:
    """Changes use a small head up, make it grow, and are rolled back; the window is that of all rows."""
    tuning = replace(DEFAULT, spare_rows=4, sorting_rows=16)
    terms, pick = Terms(Dictionary(tuning=tuning)), random.Random(7)
    ids = [*map(terms.dictionary.id_of, values)]
    operator = op.Window(op.Table((A, B, C), ()), (), order, *limits)
    kept, rows = OrderedRows(operator, terms), dict[tuple[int, ...], int]()
    heads = set[bool]()

    def new(count: int) -> dict[tuple[int, ...], int]:
        return {
            (pick.choice(ids), pick.choice(ids), pick.choice(ids)): pick.choice([1, 1, 4])
            for _ in range(count)
        }

    for step in range(times(60, 300)):
        how, shown = step % 6, sorted(kept.content())
        gone = rows if step % 29 == 28 else dict(pick.sample(sorted(rows.items()), len(rows) // 8))
        if how == 1:
            gone = {row: rows[row] for row, _ in shown if row in rows}
        delta = {row: -weight for row, weight in gone.items()}
        delta |= {row: weight for row, weight in new(pick.choice([0, 2, 40])).items() if row not in rows}
        after = dict(rows)
        add_into(after, delta)
        if how == 5:
            kept.load(after)
        else:
            if how != 4:
                change = dict(shown)
                add_into(change, kept.carry(delta))
                assert change == dict(kept.evaluate(after.items()))
                assert sorted(kept.content()) == shown
            if how == 3:
                kept.rollback()
                assert sorted(kept.content()) == shown
                kept.carry(delta)
            if how == 4:
                kept.stage(delta)
            kept.commit()
        rows = after
        heads.add(kept._head.last is None)
        assert dict(kept.content()) == dict(kept.evaluate(rows.items()))
        assert dict(kept.items()) == rows
    assert heads == {True, False}
