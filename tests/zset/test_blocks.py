"""Blocks list the same rows as everything else, in order where there is one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.live.terms import Terms
from sparqlive.live.window import in_order, order_of
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Var
from sparqlive.zset.blocks import blocks_of, rows_in
from sparqlive.zset.relation import Relation
from tests.nasty_terms import TERMS


@pytest.mark.parametrize("seed", range(6))
def test_a_relation_lists_its_rows_in_blocks(seed: int) -> None:
    """Rows of the run that the overlay changes, removes or repeats occur once, with their weight."""
    chance = random.Random(seed)
    width = chance.choice([1, 2, 3])

    def row() -> tuple[int, ...]:
        return tuple(chance.randrange(-40, 40) for _ in range(width))

    relation = Relation(width, {row(): chance.randrange(1, 4) for _ in range(chance.choice([0, 50, 9_000]))})
    relation.merge()
    for _ in range(chance.choice([0, 5, 400])):
        known = dict(relation.items())
        delta = {row(): 1}
        if known and chance.random() < 0.6:
            gone = chance.choice(list(known))
            delta[gone] = delta.get(gone, 0) - known[gone]
        relation.stage({one: weight for one, weight in delta.items() if weight})
        relation.commit()
    listed = list(rows_in(relation.blocks()))
    assert dict(listed) == dict(relation.items())
    assert len(listed) == len(dict(listed)) == len(relation)
    assert all(0 < len(block.weights) <= DEFAULT.block_rows for block in relation.blocks())


def test_rows_without_columns_have_blocks() -> None:
    assert list(rows_in(blocks_of([((), 3)], 0))) == [((), 3)]
    assert list(rows_in(Relation(0, {(): 2}).blocks())) == [((), 2)]


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_sorted_like_rows(seed: int) -> None:
    chance = random.Random(seed)
    dictionary = Dictionary()
    terms = Terms(dictionary)
    ids = [UNDEF, *(dictionary.id_of(term) for term in TERMS)]
    variables = [Var(name) for name in "abc"]
    rows = list({tuple(chance.choice(ids) for _ in variables): 1 for _ in range(300)}.items())
    order = tuple((variable, chance.random() < 0.5) for variable in chance.sample(variables, 1 + seed % 3))
    columns = [np.array([row[place] for row, _ in rows]) for place in range(3)]
    found = [rows[place] for place in order_of(columns, variables, order, terms).tolist()]
    assert found == in_order(rows, variables, order, terms)


def test_a_view_with_a_hidden_order_lists_its_solutions() -> None:
    session = sparqlive.open()
    p, q = NamedNode("http://x/p"), NamedNode("http://x/q")
    for number, term in enumerate(term for term in TERMS if not isinstance(term, tuple)):
        subject = NamedNode(f"http://x/{number}")
        session.apply(insert=[Quad(subject, p, term), Quad(subject, q, NamedNode(f"http://x/{number % 5}"))])
    text = "SELECT ?g { ?s <http://x/p> ?o ; <http://x/q> ?g } ORDER BY DESC(?o) ?s"
    view = session.view("v", text)
    assert view.solutions() == session.query(text).solutions()
    assert len(view.solutions()) == len(view)
