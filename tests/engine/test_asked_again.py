"""One-off queries whose text was asked before: their plan and code are kept, and nothing else is."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.live import compiler as compiling
from sparqlive.quads.snapshot import Snapshot
from sparqlive.sparql.algebra import Dataset
from tests.oracle import Oracle, assert_same

PREFIX = "PREFIX : <http://example.org/> "
QUERIES = (
    "SELECT ?p ?o { :a0 ?p ?o }",
    "SELECT ?s { ?s :p :a1 }",
    "SELECT * { ?s ?p ?o }",
    "SELECT ?s ?y { ?s :p ?x . ?x :q ?y }",
    "SELECT ?s ?y { ?s :p :a2 . ?s :q ?y FILTER(?y != :a1) }",
    "SELECT ?s ?y { ?s :p ?x OPTIONAL { ?x :late ?y } }",
    "SELECT ?s { ?s :p ?x FILTER NOT EXISTS { ?x :late :new } }",
    "SELECT ?s (EXISTS { ?s :late ?x } AS ?e) { ?s :p ?o }",
    "SELECT ?s { ?s :p ?x MINUS { ?s :q ?x } }",
    "SELECT ?o (COUNT(*) AS ?n) { ?s :p ?o } GROUP BY ?o",
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    "SELECT ?o (COUNT(?s) AS ?n) { ?s :p ?o } GROUP BY ?o ORDER BY DESC(?n) ?o LIMIT 2",
    "SELECT DISTINCT ?p { ?s ?p ?o }",
    "SELECT ?x { :a0 :p+ ?x }",
    "SELECT ?x { ?x (:p|:late)+ :new }",
    "SELECT ?s ?x { VALUES ?s { :a0 :new } ?s :p ?x }",
    "SELECT ?x { VALUES ?x { :new :a1 } }",
    'SELECT ?s ?z { ?s :p ?x BIND(CONCAT(STR(?x), "!") AS ?z) }',
    "SELECT ?s { ?s :late :new }",
    "SELECT ?p { ?s ?p ?o FILTER(?p IN (:late, :q)) }",
    "SELECT ?g { GRAPH ?g { ?s :p ?o } }",
    "SELECT ?s { GRAPH :g { ?s :p ?o } }",
    "SELECT ?s { GRAPH :later { ?s :p ?o } }",
    "SELECT ?s ?o FROM :g FROM :later { ?s :p ?o }",
    "SELECT ?s ?g FROM NAMED :later { GRAPH ?g { ?s ?p ?o } }",
    "ASK { ?s :late ?o }",
    "ASK { :a0 :p :a1 }",
    "CONSTRUCT { ?s :made :new } { ?s :p :a1 }",
)


def name(local: str) -> NamedNode:
    return NamedNode(f"http://example.org/{local}")


def random_quad(pick: random.Random, late: bool) -> Quad:
    nodes = [*(f"a{number}" for number in range(5)), *(["new"] if late else [])]
    predicates = ["p", "p", "q", *(["late"] if late else [])]
    graph = pick.choice([None, None, "g", *(["later"] if late else [])])
    parts = [name(pick.choice(nodes)), name(pick.choice(predicates)), name(pick.choice(nodes))]
    return Quad(*parts) if graph is None else Quad(*parts, name(graph))


@pytest.mark.parametrize("default_graph", ["union", "strict"])
def test_the_same_texts_follow_data_terms_and_graphs(default_graph: Any) -> None:
    """Terms, predicates and graphs of the queries appear only after they were first asked, and go again."""
    pick = random.Random(7)
    with sparqlive.open(default_graph=default_graph) as session:
        for late in (False, False, True, True, False):
            gone = list(session.quads())
            gone = gone if not late and session.epoch > 2 else pick.sample(gone, len(gone) // 3)
            session.apply(delete=gone)
            session.apply(insert=[random_quad(pick, late) for _ in range(15)])
            oracle = Oracle(session.quads(), union=default_graph == "union")
            for query in QUERIES:
                text = PREFIX + query
                answer = session.query(text)
                expected = oracle.weights(text, answer.variables)
                assert_same(answer.weights(), expected, f"epoch {session.epoch}: {query}")
                assert_same(session.query(text).weights(), expected, f"again, epoch {session.epoch}: {query}")


def test_the_dataset_of_a_request_is_part_of_what_is_asked() -> None:
    text = "SELECT ?o { <x:s> <x:p> ?o }"
    with sparqlive.open() as session:
        session.update(
            "INSERT DATA { <x:s> <x:p> 1 GRAPH <x:g> { <x:s> <x:p> 2 } GRAPH <x:h> { <x:s> <x:p> 3 } }"
        )
        for _ in range(3):
            for graph, value in (("x:g", "2"), ("x:h", "3")):
                dataset = Dataset((NamedNode(graph),), ())
                (solution,) = session.query(text, dataset=dataset).solutions()
                assert solution["o"].value == value  # type: ignore[union-attr]
            assert len(session.query(text)) == 1


def test_an_escaped_now_is_the_time_of_each_request() -> None:
    with sparqlive.open() as session:
        text = r"SELECT (N\u004FW() AS ?n) {}"
        assert session.query(text).solutions() != session.query(text).solutions()


def test_volatile_functions_have_new_values_for_each_request() -> None:
    text = "SELECT (UUID() AS ?u) (RAND() AS ?r) (NOW() AS ?n) (BNODE() AS ?b) {}"
    with sparqlive.open() as session:
        rows = [session.query(text).solutions()[0] for _ in range(3)]
    assert all(len({str(row[column]) for row in rows}) == 3 for column in ("u", "r", "n"))


def test_what_is_kept_holds_no_quads(monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[weakref.ref[Snapshot]] = []
    create = Snapshot.__init__

    def remember(self: Snapshot, *arguments: Any) -> None:
        lent.append(weakref.ref(self))
        create(self, *arguments)

    monkeypatch.setattr(Snapshot, "__init__", remember)
    with sparqlive.open() as session:
        session.apply(insert=[random_quad(random.Random(1), True) for _ in range(30)])
        for query in QUERIES:
            session.query(PREFIX + query).weights()
            next(iter(session.query(PREFIX + query)), None)
        kept = [planned.runnable._idle for planned in session._registration.planning._planned.values()]
        sizes = [len(one.program.namespace) for idle in kept for one in idle]
        for query in QUERIES:
            session.query(PREFIX + query).weights()
        assert sizes == [len(one.program.namespace) for idle in kept for one in idle], "nothing is added"
        assert len(sizes) == len(QUERIES)
        gc.collect()
        session.apply(insert=[random_quad(random.Random(2), True)])  # the session keeps the last one
        assert lent
        assert not [one for one in lent if one() is not None]


def test_loops_are_ordered_again_when_sizes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    create = compiling.Compiler.__init__

    def count(self: Any, *arguments: Any, **named: Any) -> None:
        written.append(self)
        create(self, *arguments, **named)

    monkeypatch.setattr(compiling.Compiler, "__init__", count)
    text = "SELECT ?s ?x ?y { ?s <x:p> ?x . ?s <x:q> ?y }"
    with sparqlive.open() as session:
        session.apply(
            insert="".join(f'<x:{n}> <x:p> "{n}" .\n<x:{n % 20}> <x:q> "{n}" .\n' for n in range(100))
        )
        for expected in (1, 1, 1):
            assert len(session.query(text).solutions()) == 100
            assert len(written) == expected
        session.apply(insert="".join(f'<x:{n}> <x:p> "{n}" .\n' for n in range(100, 120)))
        session.query(text).solutions()
        assert len(written) == 1, "a fifth more changes nothing"
        session.apply(insert="".join(f'<x:{n}> <x:p> "{n}" .\n' for n in range(120, 2000)))
        assert len(session.query(text).solutions()) == 100
        assert len(written) == 2


def test_one_text_is_asked_by_many_at_once_beside_a_writer() -> None:
    text = "SELECT ?s ?n { ?s <x:p> ?n OPTIONAL { ?s <x:q> ?m } FILTER(?n = ?m) }"
    failures: list[str] = []

    def ask(session: sparqlive.Session) -> None:
        for _ in range(60):
            rows = [tuple(sorted(map(str, row.values()))) for row in session.query(text)]
            numbers = {row[0] for row in rows}
            if len(rows) != 20 or len(numbers) != 1:
                failures.append(f"{len(rows)} rows of {numbers}")

    def data(number: int) -> str:
        return "".join(f'<x:s{n}> <x:{p}> "{number}" .\n' for n in range(20) for p in "pq")

    with sparqlive.open() as session:
        session.apply(insert=data(0))
        readers = [threading.Thread(target=ask, args=(session,)) for _ in range(4)]
        for reader in readers:
            reader.start()
        number = 0
        while any(reader.is_alive() for reader in readers):
            session.apply(delete=data(number), insert=data(number + 1))
            number += 1
        for reader in readers:
            reader.join()
    assert not failures


def test_a_failed_run_is_not_kept() -> None:
    """What a limit has stopped may be half done; the next request starts from the plan."""
    text = "SELECT * { ?a <x:p> ?b . ?c <x:p> ?d . ?e <x:p> ?f }"
    with sparqlive.open() as session:
        session.apply(insert="".join(f'<x:{n}> <x:p> "{n}" .\n' for n in range(60)))
        for _ in range(3):
            with pytest.raises(sparqlive.TooLarge):
                session.query(text, row_limit=100)
            assert len(session.query(text + " LIMIT 7").solutions()) == 7
        session.apply(delete="".join(f'<x:{n}> <x:p> "{n}" .\n' for n in range(2, 60)))
        assert len(session.query(text, row_limit=100).solutions()) == 8
