"""Terms that nothing uses any more are given back, and everything that can still be read has its terms."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.engine import sweeping
from sparqlive.engine.batches import CommittedBatches
from sparqlive.engine.graphs import CapturedGraph
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.leaving import Leaving
from sparqlive.runtime.tuning import DEFAULT
from tests.waiting import wait_until

EX = "u:"


def quad(subject: int, predicate: int, value: object, graph: str | None = None) -> ox.Quad:
    about = ox.NamedNode(f"{EX}s{subject}"), ox.NamedNode(f"{EX}p{predicate}"), ox.Literal(str(value))
    return ox.Quad(*about) if graph is None else ox.Quad(*about, ox.NamedNode(EX + graph))


def sweep(session: sparqlive.Session) -> None:
    gc.collect()  # what compiled a view may be a cycle, and is a request until it is collected
    with session._writer.lock:
        session._writer.sweeper.sweep()


def change_values(session: sparqlive.Session, epochs: int, quads: int = 41) -> None:
    """Epochs that change one value each."""
    now = {number: quad(number, number % 5, "first") for number in range(quads)}
    session.apply(insert=list(now.values()))
    for epoch in range(epochs):
        number = epoch % quads
        new = quad(number, number % 5, f"value {epoch}")
        session.apply(insert=[new], delete=[now[number]])
        now[number] = new


def test_changing_values_leave_no_terms() -> None:
    with sparqlive.open() as session:
        change_values(session, 25_000)
        wait_until(lambda: len(session.dictionary) < 2 * session.tuning.swept_terms)
        assert 100 * len(session.dictionary) < session.memory()[0] < 400 * len(session.dictionary)
        sweep(session)
        assert len(session.dictionary) == 41 + 41 + 5
        assert session.memory()[0] < 50_000
        assert {str(one.object) for one in session.quads()} == {
            f'"value {epoch}"' for epoch in range(25_000 - 41, 25_000)
        }


def test_the_terms_of_views_are_bounded_by_what_they_keep() -> None:
    """Constants, computed terms and aggregates: beside the rows, only the deltas that are kept use terms."""
    with sparqlive.Session(tuning=replace(DEFAULT, retained_deltas=10, swept_terms=500)) as session:
        session.view("texts", f'SELECT ?s ?x {{ ?s <{EX}p1> ?o BIND(CONCAT(?o, "!") AS ?x) }}')
        session.view("most", f"SELECT ?s (MAX(?o) AS ?m) (COUNT(*) AS ?n) {{ ?s <{EX}p2> ?o }} GROUP BY ?s")
        late = session.view("late", f"SELECT * {{ ?s <{EX}p3> ?o }}", refresh="manual")
        short = session.view("~short", f'SELECT (CONCAT(?o, "?") AS ?x) {{ ?s <{EX}p1> ?o }}', temporary=True)
        change_values(session, 6_000)
        wait_until(lambda: len(session.dictionary) < 1_500)
        wait_until(lambda: len(short.dictionary) < 1_500)
        sweep(session)
        assert len(session.dictionary) < 250
        assert len(short.dictionary) < 60
        assert len(session._writer.sweeper.deltas) <= 2 * session.tuning.swept_terms
        late.refresh()
        session.check()


def test_what_somebody_holds_stays_readable() -> None:
    with sparqlive.open() as session:
        view = session.view(
            "v", f'SELECT ?o (CONCAT(?o, "-") AS ?x) {{ ?s <{EX}p1> ?o }}', timeout_seconds=60
        )
        temporary = session.view("~t", f'SELECT (CONCAT(?o, "+") AS ?y) {{ ?s <{EX}p1> ?o }}', temporary=True)
        first = session.apply(insert=[quad(1, 1, "old", "g")])
        first = session.apply(insert=[quad(1, 1, "old")])
        epoch = session.epoch
        held: list[tuple[Callable[[], Any], Any]] = [
            (lambda: first.deltas["v"].weights(), {(ox.Literal("old"), ox.Literal("old-")): 1}),
            (lambda: first.deltas["~t"].weights(), {(ox.Literal("old+"),): 1}),
            (lambda: next(view.changes(epoch - 1)).weights(), {(ox.Literal("old"), ox.Literal("old-")): 1}),
        ]
        answers = [
            view.now(),
            session.query(f'SELECT ?o (CONCAT(?o, "-") AS ?x) {{ ?s <{EX}p1> ?o }}', from_views=False),
            session.query(f'SELECT ?o (CONCAT(?o, "-") AS ?x) {{ ?s <{EX}p1> ?o }}'),
            temporary.now(),
        ]
        held += [(answer.weights, None) for answer in answers]
        quads = session.quads()
        started = next(quads)
        graph = CapturedGraph(session._writer, ox.NamedNode(EX + "g"))
        session.apply(delete=[quad(1, 1, "old"), quad(1, 1, "old", "g")], insert=[quad(1, 1, "new")])
        for _ in range(3):
            sweep(session)
        assert session.dictionary.find(ox.Literal("old")) is not None
        assert '"old"' in "".join(graph.pieces("nt"))
        for read, expected in held[:3]:
            assert read() == expected
        old = ox.Literal("old")
        for answer in answers[:3]:
            assert answer.weights() == {(old, ox.Literal("old-")): 1}
        assert answers[3].weights() == {(ox.Literal("old+"),): 1}
        assert {started.object, *(one.object for one in quads)} == {old}
        assert view.at(epoch).weights() == {(old, ox.Literal("old-")): 1}
        assert [len(delta) for delta in view.changes(epoch)] == [2]


def test_requests_that_never_end_do_not_put_off_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always one, and what leaves waits for it; the next sweep is due as if it did not."""
    monkeypatch.setattr(sweeping.Sweeper, "_start", lambda self: self.sweep())
    with sparqlive.Session(tuning=replace(DEFAULT, swept_terms=200)) as session:
        answer, most, before = None, 0, quad(1, 1, 0)
        session.apply(insert=[quad(number, 2, number) for number in range(100)])
        for epoch in range(1, 20_000):
            if epoch % 100 == 0:
                answer = session.query("SELECT * { ?s ?p ?o }")
            new = quad(1, 1, -epoch)
            session.apply(insert=[new], delete=[before])
            before, most = new, max(most, len(session.dictionary))
        assert answer is not None
        assert most < 1_500


def test_an_answer_that_is_never_read_keeps_no_later_terms() -> None:
    with sparqlive.open() as session:
        change_values(session, 100)
        waiting = session.query("SELECT * { ?s ?p ?o }")
        for epochs in (300, 300, 300):
            change_values(session, epochs)
            later = session.query("SELECT * { ?s ?p ?o }")
            sweep(session)
            assert len(session.dictionary) < 87 + 400
            del later
        assert len(list(waiting.solutions())) == 41
        del waiting
        gc.collect()
        sweep(session)
        assert len(session.dictionary) == 87


def test_terms_that_come_back_have_their_ids() -> None:
    with sparqlive.open() as session:
        view = session.view("v", f"SELECT ?o {{ ?s <{EX}p1> ?o }}")
        session.apply(insert=[quad(1, 1, "a")])
        number = session.dictionary.find(ox.Literal("a"))
        waiting = session.query(f"SELECT ?o {{ ?s <{EX}p1> ?o }}", from_views=False)
        session.apply(delete=[quad(1, 1, "a")])
        view._state.history.deltas.clear()
        sweep(session)
        session.apply(insert=[quad(1, 1, "a")])  # while a request still has it
        sweep(session)
        assert session.dictionary.find(ox.Literal("a")) == number
        del waiting
        sweep(session)
        assert view.weights() == {(ox.Literal("a"),): 1}
        session.check()


def test_constants_of_plans_have_terms_before_the_first_row() -> None:
    with sparqlive.Session(tuning=replace(DEFAULT, retained_deltas=1)) as session:
        queries = {
            "bind": f'SELECT ?s ?c {{ ?s <{EX}p1> ?o BIND("constant" AS ?c) }}',
            "made": f'CONSTRUCT {{ ?s <{EX}is> "made" }} WHERE {{ ?s <{EX}p1> ?o }}',
            "table": f'SELECT * {{ ?s <{EX}p1> ?o VALUES ?v {{ "one" <{EX}two> }} }}',
            "truth": f'SELECT ?s (?o = "x" AS ?t) {{ ?s <{EX}p1> ?o }}',
            "graph": f"SELECT * {{ GRAPH <{EX}g> {{ ?s <{EX}p1> ?o }} }}",
            "path": f"SELECT * {{ <{EX}start> (<{EX}p1>|<{EX}p2>)* ?o }}",
            "count": f"SELECT (COUNT(*) AS ?n) {{ ?s <{EX}p1> ?o }}",
        }
        views = {name: session.view(name, query) for name, query in queries.items()}
        for number in range(12):  # a family of views of one shape
            views[f"f{number}"] = session.view(f"f{number}", f'SELECT ?s {{ ?s <{EX}p1> "{number}" }}')
        sweep(session)
        session.apply(insert=[quad(1, 1, "x"), quad(2, 1, "3"), quad(2, 1, "3", "g"), quad(4, 1, "gone")])
        session.check()
        for view in views.values():
            view.weights()
        session.apply(delete=[quad(1, 1, "x"), quad(2, 1, "3"), quad(2, 1, "3", "g"), quad(4, 1, "gone")])
        for view in views.values():
            view._state.history.deltas.clear()
        sweep(session)
        assert session.dictionary.find(ox.Literal("gone")) is None
        session.apply(insert=[quad(1, 1, "y"), quad(2, 1, "7")])
        session.check()
        assert views["f7"].weights() == {(ox.NamedNode(f"{EX}s2"),): 1}
        assert views["count"].answer is not None
        assert views["bind"].weights()[(ox.NamedNode(f"{EX}s1"), ox.Literal("constant"))] == 1


@pytest.mark.parametrize("modulus", [1, 3])
def test_terms_of_one_hash(modulus: int) -> None:
    """Ids that a collision gave out stay: a term never gets two, and an id never two terms in use."""
    dictionary = Dictionary(lambda text: 100 + len(text) % modulus)
    dictionary.give_back()
    chance = random.Random(modulus)
    texts = [f'"{number}"' for number in range(30)]
    used: dict[str, int] = {}
    for _ in range(200):
        for text in chance.sample(texts, 3):
            number = dictionary.enter(text)
            assert used.setdefault(text, number) == number
            assert dictionary.text(number) == text
        for text in chance.sample(sorted(used), min(4, len(used))):
            del used[text]
        dictionary.sweep(np.unique(np.array(list(used.values()), np.int64)))
        for text, number in used.items():
            assert dictionary.text(number) == text
            assert dictionary.enter(text) == number
    assert isinstance(dictionary._leaving, Leaving)


def test_the_files_for_spark_follow() -> None:
    """A copy of the quads and terms in files is dropped with the terms, and when its log has grown."""
    with sparqlive.Session(tuning=replace(DEFAULT, exported_changes=100)) as session:
        change_values(session, 10)
        data = session._writer._bulk_data
        assert len(data.sources().later.rows) == 0
        change_values(session, 30)
        assert len(data.sources().later.rows) > 0
        sweep(session)
        assert data._temporary is None
        data.sources()
        change_values(session, 200)
        assert len(data.sources().later.rows) <= 102


QUERIES = {
    "plain": f"SELECT ?s ?o {{ ?s <{EX}p0> ?o }}",
    "constant": f'SELECT ?s {{ ?s <{EX}p1> "2" }}',
    "computed": f'SELECT ?s ?x {{ ?s <{EX}p0> ?o . BIND(CONCAT(?o, "-x") AS ?x) FILTER(STRLEN(?x) > 3) }}',
    "joined": f"SELECT ?a ?b {{ ?a <{EX}p0> ?v . ?b <{EX}p1> ?v }}",
    "optional": f"SELECT ?a ?v ?w {{ ?a <{EX}p0> ?v OPTIONAL {{ ?a <{EX}p2> ?w }} }}",
    "groups": f"SELECT ?v (COUNT(*) AS ?n) (MIN(STR(?s)) AS ?m) {{ ?s <{EX}p1> ?v }} GROUP BY ?v",
    "nested": "SELECT ?v ?t { { SELECT ?v (COUNT(*) AS ?n) { ?s ?p ?v } GROUP BY ?v } "
    'BIND(CONCAT("n", STR(?n)) AS ?t) FILTER(?n > 1) }',
    "distinct": f"SELECT DISTINCT ?v {{ ?s <{EX}p0> ?v }}",
    "without": f"SELECT ?s ?v {{ ?s <{EX}p0> ?v FILTER NOT EXISTS {{ ?s <{EX}p2> ?v }} }}",
    "named": f"SELECT ?g ?s ?o {{ GRAPH ?g {{ ?s <{EX}p1> ?o }} }}",
    "template": f'CONSTRUCT {{ ?s <{EX}made> "made" }} WHERE {{ ?s <{EX}p2> ?o }}',
    "top": f"SELECT ?s ?o {{ ?s <{EX}p2> ?o }} ORDER BY ?o ?s LIMIT 3",
}
LATE = ("plain", "computed", "groups")
SHORT = ("computed", "nested", "groups")


@dataclass
class History:
    """A session, its quads, and what is held of it with what it must read as."""

    session: sparqlive.Session
    chance: random.Random
    quads: set[ox.Quad] = field(default_factory=set)
    held: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    store: ox.Store = field(default_factory=ox.Store)
    known: dict[str, dict[Any, int]] = field(default_factory=dict)
    """The rows of each query now, by pyoxigraph."""

    def expected(self, name: str) -> dict[Any, int]:
        query = name.removeprefix("late-").removeprefix("~")
        if query not in self.known:
            found: Any = self.store.query(QUERIES[query])
            if isinstance(found, ox.QueryTriples):
                self.known[query] = dict.fromkeys({tuple(triple) for triple in found}, 1)
            else:
                names = self.session.views[name].variables
                self.known[query] = dict(Counter(tuple(one[name] for name in names) for one in found))
        return self.known[query]

    def some_quad(self) -> ox.Quad:
        chance = self.chance
        value = chance.choice([str(chance.randrange(6)), str(chance.randrange(10**6))])
        return quad(chance.randrange(6), chance.randrange(3), value, chance.choice([None, None, "g", "h"]))

    def change(self) -> None:
        before = {name: self.expected(name) for name in self.session.views if not name.startswith("late")}
        count = self.chance.choice([1, 2, 3, 10])
        gone = set(self.chance.sample(sorted(self.quads, key=str), min(len(self.quads), count)))
        come = {self.some_quad() for _ in range(count)}
        epoch = self.session.apply(
            insert=list(come),
            delete=list(gone),
            strategy=self.chance.choice(["auto"] * 6 + ["live", "duckdb"]),
        )
        self.quads = (self.quads - gone) | come
        self.known = {}
        for one in gone - come:
            self.store.remove(one)
        self.store.extend(come)
        for name, old in before.items():
            new = self.expected(name)
            change = {row: new.get(row, 0) - old.get(row, 0) for row in {*old, *new}}
            delta = epoch.deltas[name]
            if self.chance.random() < 0.2:
                wanted = {row: weight for row, weight in change.items() if weight}
                self.held.append((delta.weights, wanted))

    def hold(self) -> None:
        name = self.chance.choice(sorted(self.session.views))
        view = self.session.views[name]
        if view._state.deferred is not None:
            view.refresh()
        expected = self.expected(name)
        match self.chance.randrange(5):
            case 0:
                answer: Any = view.now()
            case 1:
                answer = self.session.query(view.text)
            case 2:
                answer = self.session.query(view.text, from_views=False)
            case 3:
                answer = self.session.query(view.text, from_views=False, stream=True)
            case _:
                quads: Iterator[ox.Quad] = self.session.quads()
                rest = Counter(self.quads)
                if (first := next(quads, None)) is not None:
                    rest -= Counter([first])
                self.held.append((lambda: Counter(quads), rest))
                return
        self.held.append((answer.weights, expected))

    def read(self, number: int) -> None:
        read, expected = self.held.pop(number)
        assert read() == expected

    def check(self) -> None:
        for name in self.session.views:
            view = self.session.views[name]
            if view._state.deferred is not None and view._state.deferred.gathered:
                continue
            assert view.weights() == self.expected(name), name


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_with_sweeps(seed: int) -> None:
    chance, tuning = random.Random(seed), replace(DEFAULT, retained_deltas=2)  # so that they use few terms
    with sparqlive.Session(tuning=tuning) as session:
        for name, query in QUERIES.items():
            session.view(name, query)
        for name in LATE:
            session.view(f"late-{name}", QUERIES[name], refresh="manual")
        for name in SHORT:
            session.view(f"~{name}", QUERIES[name], temporary=True)
        history = History(session, chance)
        for step in range(100):
            match chance.randrange(10):
                case 0 | 1 | 2 | 3:
                    history.change()
                case 4:
                    history.hold()
                case 5 if history.held:
                    history.read(chance.randrange(len(history.held)))
                case 6:
                    session.views[f"late-{chance.choice(LATE)}"].refresh()
                case 7 if step % 4 == 0:
                    name = chance.choice(sorted(QUERIES))
                    session.drop(name)
                    session.view(name, QUERIES[name])
                case 8:
                    history.check()
                case 9 if step % 3 == 0:
                    while history.held:  # requests keep all terms of their time
                        history.read(0)
                    sweep(session)
                case _:
                    sweep(session)
        while history.held:
            history.read(0)
        history.check()
        session.check()
        since = [list(view.changes(0)) for view in session.views.values()]
        for delta in chain.from_iterable(since):
            assert len(delta.weights()) == len(delta)


def test_the_state_of_operators_has_terms() -> None:
    """Of rows that a view does not show yet, and of rows of groups that a filter drops."""
    number = ox.NamedNode("http://www.w3.org/2001/XMLSchema#integer")
    with sparqlive.open() as session:
        about = ox.NamedNode(EX + "a")
        late = session.view(
            "late",
            f'SELECT ?x ?w {{ {{ SELECT DISTINCT ?a (CONCAT(?o, "-k") AS ?x) {{ ?a <{EX}p0> ?o }} }} '
            f"?a <{EX}p2> ?w }}",
        )
        shown = session.view("shown", f'SELECT ?x {{ ?s <{EX}p0> ?o BIND(CONCAT(?o, "-s") AS ?x) }}')
        large = session.view(
            "large",
            f"SELECT ?a {{ {{ SELECT ?a (SUM(?n) AS ?t) {{ ?a <{EX}n> ?n }} GROUP BY ?a }} "
            f"FILTER(?t > 100) }}",
        )
        values = [ox.Literal(str(one), datatype=number) for one in (41, 42)]
        session.apply(
            insert=[quad(1, 0, "o"), *(ox.Quad(about, ox.NamedNode(EX + "n"), one) for one in values)]
        )
        sweep(session)
        session.apply(
            insert=[
                quad(1, 2, "w"),
                ox.Quad(about, ox.NamedNode(EX + "n"), ox.Literal("50", datatype=number)),
            ]
        )
        assert late.weights() == {(ox.Literal("o-k"), ox.Literal("w")): 1}
        assert large.weights() == {(about,): 1}
        for view in session.views.values():
            view._state.history.deltas.clear()
        sweep(session)
        assert shown.weights() == {(ox.Literal("o-s"),): 1}
        session.check()


@pytest.mark.parametrize("default_graph", ["strict", "union"])
def test_graphs_that_come_and_go(default_graph: Any) -> None:
    """Neither their names stay, nor what was kept for each."""
    with sparqlive.open(default_graph=default_graph) as session:
        view = session.view("all", f"SELECT ?g ?o {{ GRAPH ?g {{ ?s <{EX}p1> ?o }} }}")
        predicates = session.view("any", "SELECT ?s ?p { ?s ?p ?o }")
        before: list[ox.Quad] = []
        for number in range(300):
            new = [quad(number, 1, number, f"g{number}"), quad(number, 2, number, f"g{number}")]
            session.apply(insert=new, delete=before)
            before = new
        for one in (view, predicates):
            one._state.history.deltas.clear()
        sweep(session)
        assert len(session._writer.quads.predicates()) < 3
        assert len(session.dictionary) < 20
        session.apply(insert=[quad(7, 1, 7, "g7"), quad(8, 1, 8, "g298")])
        assert len(view) == 3
        session.check()


def test_batches_of_a_stream_take_no_space() -> None:
    with sparqlive.open() as session:
        for number in range(500):
            session.apply(
                insert=[quad(1, 1, number)], delete=[quad(1, 1, number - 1)], batch=("stream", number)
            )
        assert len(session._writer._committed_batches) == 1
        assert session.apply(insert=[quad(2, 2, 2)], batch=("stream", 250)).inserted == 0
        assert session.apply(insert=[quad(2, 2, 2)], batch=("stream", 500)).inserted == 1


def test_batches_in_any_order() -> None:
    chance, batches, known = random.Random(1), CommittedBatches(), set[tuple[str, int]]()
    for _ in range(2_000):
        batch = chance.choice("ab"), chance.randrange(-5, 300)
        assert (batch in batches) == (batch in known)
        batches.add(batch)
        known.add(batch)
    for one in range(-5, 300):
        batches.add(("a", one))
        assert ("a", one) in batches


def test_what_a_request_finds_stays_for_it() -> None:
    """A term that came after the request began, which it has computed too."""
    none = np.empty(0, np.int64)
    dictionary = Dictionary()
    dictionary.give_back()
    request = dictionary.extended()
    dictionary.sweep(none)
    texts = [f'"{number}"' for number in range(600)]
    numbers = [dictionary.enter(text) for text in texts]
    assert [request.enter(text) for text in texts[:100]] == numbers[:100]
    assert request.id_of(ox.Literal("100")) == numbers[100]
    given = pa.array(texts[200:], pa.large_string())
    assert request.enter_together(np.array(numbers[200:]), given).tolist() == numbers[200:]
    dictionary.sweep(none)
    dictionary.sweep(none)
    assert len(dictionary) == 501
    assert not request.has_own_terms
    for place in (0, 99, 100, 200, 599):
        assert request.text(numbers[place]) == texts[place]
    assert request.column(np.sort(np.array(numbers[300:400]))).to_pylist()
    assert dictionary.enter(texts[5]) == numbers[5]
    del request
    dictionary.sweep(np.array(numbers[5:6]))
    assert list(dictionary.entries()) == [(numbers[5], texts[5])]
