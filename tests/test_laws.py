"""Laws that hold for every query and every stream of changes, searched for violations with Hypothesis.

The invariant of the state machine is the product's promise: after every epoch each view equals an independent
re-evaluation of its query over the current quads, and so does the sum of its deltas.
"""

from __future__ import annotations

import re

import pyoxigraph as ox
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sparqlive
from tests.conftest import examples
from tests.fixture_format import Change, last_words
from tests.oracle import Weights, add, assert_same
from tests.random_queries import RandomQuery, batches, graphs, quads, queries
from tests.w3c import assert_alike

pytestmark = pytest.mark.laws

Batch = list[tuple[str, ox.Quad]]


def apply(session: sparqlive.Session, batch: Batch) -> sparqlive.Epoch:
    insert, delete = last_words([Change(sign, quad) for sign, quad in batch])
    return session.apply(insert=insert, delete=delete)


def kept(query: RandomQuery) -> bool:
    """Whether the session keeps such a query: what it refuses is no violation of a law."""
    with sparqlive.open() as session:
        try:
            session.view("view", query.text)
        except sparqlive.Unsupported:
            return False
    return True


def after(data: set[ox.Quad], batch: Batch) -> set[ox.Quad]:
    """The set semantics of a batch, in its own words."""
    data = set(data)
    for sign, quad in batch:
        (data.add if sign == "+" else data.discard)(quad)
    return data


class Views(RuleBasedStateMachine):
    """A session whose graph and views change in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.session = sparqlive.open()
        self.data: set[ox.Quad] = set()
        self.queries: dict[str, RandomQuery] = {}
        self.sums: dict[str, Weights] = {}
        self.count = 0

    @initialize(data=graphs, early=queries(), late=queries())
    def load(self, data: list[ox.Quad], early: RandomQuery, late: RandomQuery) -> None:
        self.add_view(early)
        self.change([("+", quad) for quad in data])
        self.add_view(late)

    @precondition(lambda self: len(self.queries) < 4)
    @rule(query=queries())
    def add_view(self, query: RandomQuery) -> None:
        if not kept(query):
            return
        self.count += 1
        name = f"view{self.count}"
        self.sums[name] = self.session.view(name, query.text).weights()
        self.queries[name] = query

    @precondition(lambda self: self.queries)
    @rule(choice=st.integers(0, 3))
    def drop_view(self, choice: int) -> None:
        name = sorted(self.queries)[choice % len(self.queries)]
        self.session.drop(name)
        del self.queries[name], self.sums[name]
        assert set(self.session.views) == set(self.queries)

    @rule(quad=quads)
    def insert(self, quad: ox.Quad) -> None:
        self.change([("+", quad)])

    @precondition(lambda self: self.data)
    @rule(choice=st.integers(0, 99))
    def delete(self, choice: int) -> None:
        self.change([("-", sorted(self.data, key=str)[choice % len(self.data)])])

    @rule(batch=batches)
    def batch(self, batch: Batch) -> None:
        self.change(batch)

    @precondition(lambda self: self.data)
    @rule(share=st.integers(0, 3))
    def delete_many(self, share: int) -> None:
        ordered = sorted(self.data, key=str)
        self.change([("-", quad) for quad in ordered[share :: share + 1]])

    def change(self, batch: Batch) -> None:
        before, self.data = self.data, after(self.data, batch)
        epoch = apply(self.session, batch)
        for name in self.queries:
            delta = epoch.deltas[name].weights()
            assert before != self.data or delta == {}, "nothing changed, but there is a delta"
            self.sums[name] = add(self.sums[name], delta)

    @invariant()
    def views_equal_their_re_evaluation(self) -> None:
        assert set(self.session.quads()) == self.data
        for name, query in self.queries.items():
            view = self.session.views[name]
            assert view.variables == query.variables
            expected = query.expected(self.data)
            assert_alike(view.weights(), expected, f"{query}: the view and its re-evaluation")
            assert_alike(self.sums[name], expected, f"{query}: the sum of the deltas and the re-evaluation")

    @invariant()
    def the_session_agrees_with_itself(self) -> None:
        self.session.check()

    def teardown(self) -> None:
        self.session.close()


class TestViews(Views.TestCase):  # type: ignore[name-defined,misc]
    settings = examples(40, stateful_step_count=12)


@examples(150)
@given(query=queries(), data=graphs, stream=st.lists(batches, min_size=1, max_size=4))
def test_every_epoch_equals_the_re_evaluation(
    query: RandomQuery, data: list[ox.Quad], stream: list[Batch]
) -> None:
    """The state machine's invariant for one view, over many more queries."""
    assume(kept(query))
    current = set(data)
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", query.text)
        total = view.weights()
        assert_alike(total, query.expected(current), f"{query}: at first")
        for number, batch in enumerate(stream, 1):
            current = after(current, batch)
            total = add(total, apply(session, batch).deltas["view"].weights())
            expected = query.expected(current)
            assert_alike(total, expected, f"{query}: the sum of the deltas after batch {number}")
            assert_alike(view.weights(), expected, f"{query}: the view after batch {number}")
        session.check()


@examples(50)
@given(query=queries(), data=graphs, extra=st.lists(quads, min_size=1, max_size=6, unique=True))
def test_insert_then_delete_leaves_no_trace(
    query: RandomQuery, data: list[ox.Quad], extra: list[ox.Quad]
) -> None:
    assume(kept(query))
    extra = [quad for quad in extra if quad not in data]
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", query.text)
        before = view.weights()
        there = session.apply(insert=extra).deltas["view"].weights()
        back = session.apply(delete=extra).deltas["view"].weights()
        assert_same(add(there, back), {}, f"{query}: the deltas cancel")
        assert_same(view.weights(), before, f"{query}: the view is as before")
        assert set(session.quads()) == set(data)


@examples(50)
@given(query=queries(), data=graphs, batch=batches, cut=st.integers(0, 8))
def test_split_batch_is_whole_batch(query: RandomQuery, data: list[ox.Quad], batch: Batch, cut: int) -> None:
    assume(kept(query))
    totals = []
    for parts in ([batch], [batch[:cut], batch[cut:]], [[change] for change in batch]):
        with sparqlive.open() as session:
            session.load(data)
            view = session.view("view", query.text)
            before, total = view.weights(), {}
            for part in parts:
                total = add(total, apply(session, part).deltas["view"].weights())
            assert_same(add(before, total), view.weights(), f"{query}: the deltas add up")
            totals.append(total)
    assert_same(totals[1], totals[0], f"{query}: in two parts and whole")
    assert_same(totals[2], totals[0], f"{query}: one by one and whole")
    assert_alike(add(before, totals[0]), query.expected(after(set(data), batch)), f"{query}: and right")


@examples(35)
@given(query=queries(), data=graphs, first=batches, second=batches)
def test_batches_on_different_quads_commute(
    query: RandomQuery, data: list[ox.Quad], first: Batch, second: Batch
) -> None:
    assume(kept(query))
    touched = {quad for _, quad in first}
    second = [change for change in second if change[1] not in touched]
    results = []
    for order in ((first, second), (second, first)):
        with sparqlive.open() as session:
            session.load(data)
            view = session.view("view", query.text)
            for batch in order:
                apply(session, batch)
            results.append(view.weights())
    assert_same(results[0], results[1], f"{query}: both orders")


@examples(50)
@given(query=queries(), data=graphs, batch=batches)
def test_late_view_is_early_view(query: RandomQuery, data: list[ox.Quad], batch: Batch) -> None:
    assume(kept(query))
    with sparqlive.open() as session:
        early = session.view("early", query.text)
        session.load(data)
        middle = session.view("middle", query.text)
        apply(session, batch)
        late = session.view("late", query.text)
        assert_same(early.weights(), late.weights(), f"{query}: before the data and after it")
        assert_same(middle.weights(), late.weights(), f"{query}: before the batch and after it")
        assert_same(session.query(query.text).weights(), late.weights(), f"{query}: the one-off query")


@examples(50)
@given(query=queries(), other=queries(), data=graphs, batch=batches)
def test_a_query_in_another_spelling_is_read_from_the_view(
    query: RandomQuery, other: RandomQuery, data: list[ox.Quad], batch: Batch
) -> None:
    """Hidden variables have other names. Another query is read from the view only if it is the same."""
    assume(kept(query) and kept(other) and "_:" not in query.head)
    shown = () if query.head.startswith(("ASK", "CONSTRUCT")) else query.variables
    spelt = re.sub(r"\?(\w+)", lambda found: found[0] if found[1] in shown else f"?z{found[1]}", query.text)
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", query.text)
        apply(session, batch)
        for text in (query.text, spelt, other.text):
            read, once = session.query(text, from_views=True), session.query(text)
            assert read.view == "view" or text == other.text, f"{text}: not read from the view"
            assert once.view is None
            assert_same(read.weights(), once.weights(), f"{text}: read from the view, and evaluated")
            assert read.solutions() == once.solutions() or "ORDER BY" not in text
        assert_same(session.query(spelt).weights(), view.weights(), f"{query}: in another spelling")


@examples(30)
@given(texts=st.lists(queries(), min_size=2, max_size=5), data=graphs, batch=batches)
def test_views_do_not_disturb_each_other(texts: list[RandomQuery], data: list[ox.Quad], batch: Batch) -> None:
    """Views that share work in one session give the deltas that each gives alone."""
    assume(all(kept(query) for query in texts))
    alone = []
    for query in texts:
        with sparqlive.open() as session:
            session.load(data)
            session.view("view", query.text)
            alone.append(apply(session, batch).deltas["view"].weights())
    with sparqlive.open() as session:
        session.load(data)
        for number, query in enumerate(texts):
            session.view(f"view{number}", query.text)
        epoch = apply(session, batch)
        for number, query in enumerate(texts):
            together = epoch.deltas[f"view{number}"].weights()
            assert_same(together, alone[number], f"{query}: in company and alone")


def test_few_queries_are_refused() -> None:
    """The laws would hold for a session that refuses everything."""
    outcomes: list[bool] = []

    @examples(75)
    @given(query=queries())
    def register(query: RandomQuery) -> None:
        outcomes.append(kept(query))

    register()
    assert sum(outcomes) > 0.9 * len(outcomes), f"{sum(outcomes)} of {len(outcomes)} random queries are kept"
