"""The rows of a window: the state that many rows make by columns is the one they make one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sparqlive.live.terms import Terms
from sparqlive.live.window import OrderedRows
from sparqlive.plan import operators as op
from sparqlive.plan.places import Places
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.sparql.algebra import Var
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
    window = op.Window(op.Table((A, B, C), ()), (), ((B, True), (A, False)), 3, 40)
    at_once, one_by_one = OrderedRows(window, terms), OrderedRows(window, terms)
    at_once.load(rows)
    for row, weight in rows.items():
        one_by_one.carry({row: weight})
        one_by_one.commit()
    assert list(at_once.content()) == list(one_by_one.content())
    assert list(at_once.items()) == list(one_by_one.items())
    assert len(at_once) == len(rows)
