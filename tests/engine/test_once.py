"""One-off queries: stopped in time wherever they are, beside the writer, and without a trace."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.runtime.deadline import seconds_left, within

# What stops a query may come inside a finalizer, where Python drops it with a word; then it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROWS = 300
SLACK_SECONDS = 30.0  # the machine may be busy
CROSS = "?a <x:p> ?b . ?c <x:p> ?d . ?e <x:p> ?f . ?g <x:p> ?h"
SLOW = {
    "a product": f"SELECT (COUNT(*) AS ?n) {{ {CROSS} FILTER(?a != ?d && ?c != ?f && ?e != ?h) }}",
    "rows of a product": f"SELECT * {{ {CROSS} }}",
    "an order": f"SELECT * {{ {CROSS} }} ORDER BY ?a ?d LIMIT 3",
    "groups": f"SELECT ?a ?d (SUM(?n) AS ?m) {{ {CROSS} BIND(STRLEN(STR(?h)) AS ?n) }} GROUP BY ?a ?d",
    "paths": "SELECT (COUNT(*) AS ?n) { ?a (<x:r>|<x:p>|^<x:p>)* ?b . ?b (<x:r>|^<x:r>)* ?c . ?c <x:r>+ ?d }",
    "optional and minus": f"SELECT * {{ {{ {CROSS} }} OPTIONAL {{ ?a <x:r> ?x }} MINUS {{ ?d <x:r> ?h }} }}",
    "exists": (
        f"SELECT (COUNT(*) AS ?n) {{ {CROSS} FILTER(?a != ?d && ?c != ?f && ?e != ?h) "
        f"FILTER NOT EXISTS {{ ?a <x:q> ?d . ?h <x:q> ?a }} }}"
    ),
    "a regular expression": (
        'SELECT ?s { ?s <x:text> ?t FILTER REGEX(?t, "^(([a-z])+.)+[A-Z]([a-z])+\\\\1$") }'
    ),
    "a replacement": 'SELECT (REPLACE(?t, "(.*)(.*)(.*)(.*)(.*)\\\\1[,x]", "$1") AS ?r) { ?s <x:text> ?t }',
    "a construct": f"CONSTRUCT {{ ?a ?b [ <x:q> ?d, ?f ] }} {{ {CROSS} }}",
    "the text itself": f"SELECT * {{ {' '.join('{ ?s ?p ?o } UNION' for _ in range(3000))} {{ ?s ?p ?o }} }}",
}


def filled(session: sparqlive.Session) -> sparqlive.Session:
    data = [f"<x:a{i}> <x:p> <x:b{i % 17}> ." for i in range(ROWS)]
    data += [f"<x:a{i}> <x:r> <x:a{(i * 7 + 1) % ROWS}> ." for i in range(ROWS)]
    data += [f'<x:t> <x:text> "{"a" * 20_000}" .', f'<x:u> <x:text> "{"ab" * 15_000}" .']
    session.apply(insert="\n".join(data))
    return session


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_query_is_stopped(name: str) -> None:
    with filled(sparqlive.open(default_graph="union")) as session:
        began = time.monotonic()
        with pytest.raises(sparqlive.Timeout, match="was stopped"):
            session.query(SLOW[name], timeout_seconds=0.3)
        assert time.monotonic() - began < 0.3 + SLACK_SECONDS
        assert len(session.query("SELECT * { ?s <x:p> ?o }")) == ROWS
        session._writer.quads.check()


def test_what_is_in_time_is_not_stopped() -> None:
    assert within(5, lambda: 7) == 7
    assert seconds_left() is None
    with pytest.raises(KeyError):
        within(5, lambda: {}["x"])
    for _ in range(300):  # the end of the work and of the time meet
        try:
            assert within(0.001, lambda: time.sleep(0.0009)) is None
        except sparqlive.Timeout:
            continue
    assert sum(range(1_000_000)) == 499999500000


def test_what_drops_the_exception_does_not_escape_it() -> None:
    class Finalized:
        def __del__(self) -> None:
            until = time.monotonic() + 0.4
            while time.monotonic() < until:
                pass

    def work() -> None:
        Finalized()
        while True:
            pass

    began = time.monotonic()
    with pytest.raises(sparqlive.Timeout):
        within(0.1, work)
    assert time.monotonic() - began < 30


def test_nobody_waits_for_a_query() -> None:
    with filled(sparqlive.open()) as session:
        view = session.view("v", "SELECT ?s { ?s <x:p> <x:b0> }")
        failures = []

        def ask() -> None:
            try:
                session.query(SLOW["a product"], timeout_seconds=3)
            except sparqlive.Timeout as error:
                failures.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.3)
        before = len(view)
        for number in range(20):
            session.apply(insert=f"<x:n{number}> <x:p> <x:b0> .")
        assert asking.is_alive()
        assert len(view) == before + 20
        asking.join()
        assert len(failures) == 1
        session.check()


def test_a_query_reads_one_epoch_while_others_follow() -> None:
    """Pairs come and go together: no query sees one half."""
    with sparqlive.open() as session:
        session.apply(insert="\n".join(f"<x:s{i}> <x:p> <x:o{i}> ." for i in range(400)))
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                pair = f"<x:l{number % 9}> <x:p> <x:m> .\n<x:r{number % 9}> <x:q> <x:m> ."
                session.apply(insert=pair) if number // 9 % 2 else session.apply(delete=pair)
                number += 1

        writing = threading.Thread(target=write)
        writing.start()
        try:
            query = """SELECT (COUNT(DISTINCT ?l) AS ?left) (COUNT(DISTINCT ?r) AS ?right)
                       { { ?l <x:p> <x:m> } UNION { ?r <x:q> <x:m> } }"""
            for _ in range(40):
                (counts,) = session.query(query).solutions()
                assert counts["left"] == counts["right"]
        finally:
            stop.set()
            writing.join()
        session._writer.quads.check()


@pytest.mark.parametrize("on_disk", [False, True])
def test_many_random_stops_leave_no_trace(on_disk: bool, tmp_path: Path) -> None:
    rng = random.Random(7)
    queries = [
        *(query for name, query in SLOW.items() if name != "the text itself"),
        "SELECT ?a ?b { ?a <x:p> ?b . ?c <x:p> ?b } ORDER BY ?b LIMIT 5",
        "SELECT ?a { ?a ?p <x:b3> }",
        "SELECT ?g ?s { GRAPH ?g { ?s <x:p> ?o } }",
        "SELECT (CONCAT(STR(?a), STR(?b)) AS ?t) { ?a <x:r> ?b }",
        "SELECT (RAND() AS ?r) { ?a <x:r> ?b }",
        "DESCRIBE <x:a1>",
    ]
    place = tmp_path / "store" if on_disk else None
    with sparqlive.open(place, default_graph="union") as made:
        filled(made)
        made.apply(insert="<x:a1> <x:p> <x:b1> <x:g> .\n<x:a2> <x:p> <x:b9> <x:g> .")
        if on_disk:
            made.compact()
        else:
            _stopped_at_random(made, queries, rng)
    if place is not None:
        with sparqlive.open(place) as opened:
            _stopped_at_random(opened, queries, rng)


def _stopped_at_random(session: sparqlive.Session, queries: list[str], rng: random.Random) -> None:
    session.view("joined", "SELECT ?a ?c { ?a <x:p> ?b . ?b ^<x:p> ?c FILTER(?a != ?c) }")
    session.view("reached", "SELECT ?b { <x:a0> <x:r>+ ?b }")
    known, stopped = len(session.dictionary), 0
    for number in range(60):
        try:
            session.query(rng.choice(queries), timeout_seconds=rng.uniform(0.0005, 0.06))
        except sparqlive.Timeout:
            stopped += 1
        if number % 6 == 0:
            change = f"<x:a{rng.randrange(ROWS)}> <x:p> <x:b{rng.randrange(17)}> ."
            session.apply(insert=change) if rng.random() < 0.6 else session.apply(delete=change)
    assert stopped > 10
    assert len(session.dictionary) <= known + 1, "terms that queries made stay behind"
    session._writer.quads.check()
    session.check()
    pairs = session.query("SELECT ?a ?b { ?a <x:p> ?b }")
    assert len(pairs) == len({(q.subject, q.object) for q in session.quads() if q.predicate.value == "x:p"})


def test_an_update_is_stopped_and_changes_nothing() -> None:
    with filled(sparqlive.open()) as session:
        session.view("v", "SELECT ?s ?o { ?s <x:q> ?o }")
        quads, began = set(session.quads()), time.monotonic()
        where = SLOW["a product"].partition("{")[2]
        update = f"INSERT DATA {{ <x:new> <x:q> 1 }} ; INSERT {{ ?a <x:q> ?h }} WHERE {{ {where}"
        with pytest.raises(sparqlive.Timeout):
            session.update(update, timeout_seconds=0.3)
        assert time.monotonic() - began < 0.3 + SLACK_SECONDS
        assert set(session.quads()) == quads
        assert session.epoch == 1
        session._writer.quads.check()
        session.update("INSERT { ?s <x:q> ?t } WHERE { ?s <x:p> <x:b1> BIND(CONCAT('t', STR(?s)) AS ?t) }")
        assert len(session.views["v"]) == 18
        session.check()


def test_queries_of_a_store_read_files_that_a_compaction_replaces(tmp_path: Path) -> None:
    """The files stay until the query has read them."""
    with sparqlive.open(tmp_path) as session:
        session.load(
            [Quad(NamedNode(f"x:s{i}"), NamedNode(f"x:p{i % 50}"), NamedNode("x:o")) for i in range(5000)]
        )
        session.compact()
    with sparqlive.open(tmp_path) as session:
        failures: list[BaseException] = []

        def ask() -> None:
            try:
                for _ in range(30):
                    assert (
                        session.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }").solutions()[0]["n"].value
                        >= "5000"
                    )
            except BaseException as error:
                failures.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        for number in range(10):
            session.apply(insert=f"<x:n{number}> <x:p{number}> <x:o> .")
            session.compact()
        asking.join()
        assert not failures
        assert len(list((tmp_path / "leases").glob("*"))) <= 1  # kept for the next query
    assert not list((tmp_path / "leases").glob("*"))


def test_more_rows_than_allowed_are_an_error_and_stop_the_work() -> None:
    with filled(sparqlive.open()) as session:
        began = time.monotonic()
        with pytest.raises(sparqlive.TooLarge, match="more than 1,000 rows"):
            session.query(f"SELECT * {{ {CROSS} }}", row_limit=1000)
        assert time.monotonic() - began < SLACK_SECONDS
        assert len(session.query("SELECT ?o { ?s <x:p> ?o }", row_limit=ROWS)) == ROWS
        with pytest.raises(sparqlive.TooLarge):  # few distinct rows, each often
            session.query("SELECT ?o { ?s <x:p> ?o }", row_limit=ROWS - 1)


def test_reading_a_view_that_is_a_large_product_has_limits_and_does_not_block() -> None:
    query = "SELECT * { ?a <x:p> ?b . ?c <x:p> ?d . ?e <x:p> ?f . ?g <x:p> ?h }"
    with sparqlive.open() as session:
        session.apply(insert="\n".join(f"<x:s{i}> <x:p> <x:o{i}> ." for i in range(500)))
        session.view("product", query)
        began = threading.Event()
        failures: list[Exception] = []

        def read() -> None:
            began.set()
            try:
                session.query(query, timeout_seconds=3)
            except sparqlive.Error as error:
                failures.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        began.wait()
        epochs = 0
        while reader.is_alive():
            session.apply(insert=f"<x:t{epochs}> <x:q> <x:o> .")
            epochs += 1
        assert epochs > 1
        assert [type(failure) for failure in failures] in ([sparqlive.Timeout], [sparqlive.TooLarge])
        assert session.query("SELECT * { ?a <x:p> ?b }", row_limit=500).weights()


@pytest.mark.parametrize("step", ["spelling_of", "reads_of", "runnable"])
def test_all_of_planning_has_the_time_limit(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(plan: object) -> None:
        while True:
            pass

    with sparqlive.open() as session:
        session.view("v", "SELECT ?s { ?s <x:p> ?o }")
        monkeypatch.setattr(f"sparqlive.engine.planning.{step}", endless)
        with pytest.raises(sparqlive.Timeout):
            session.query("SELECT * { ?s ?p ?o }", timeout_seconds=0.2, from_views=True)


def test_many_variables_cost_their_number() -> None:
    """A query with 20,000 variables was compared with views for half a minute."""
    with sparqlive.open() as session:
        session.view("v", "SELECT ?s { ?s <x:p> ?o }")

        def spent(count: int) -> float:
            text = f"SELECT {' '.join(f'?v{n}' for n in range(count))} {{ ?s ?p ?o }}"
            start = time.process_time()
            session.query(text, from_views=True)
            return time.process_time() - start

        spent(999)  # also builds the parser
        few, many = (min(spent(count + n) for n in range(3)) for count in (1_000, 8_000))
    assert many < 30 * few, "eight times as many would take 64 times as long"
