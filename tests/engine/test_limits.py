"""No work without a limit: what exceeds it is stopped, and everything else goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import sparqlive
from sparqlive.engine.carry import Strategy
from sparqlive.engine.limits import LOADED_DOCUMENTS, QUERY_CHARACTERS, UPDATE_OPERATIONS, Limits
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from tests.conftest import times

# What stops a query may come inside a finalizer, where Python drops it with a word; then it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROWS = 700
JOINED = "?a <x:p> ?b . ?c <x:p> ?d . ?e <x:p> ?f"
APART = "FILTER(?a != ?d && ?c != ?f && ?e != ?b)"
EXPENSIVE = {
    "counted": f"SELECT (COUNT(*) AS ?n) {{ {JOINED} {APART} }}",
    "rows": f"SELECT * {{ {JOINED} {APART} }}",
    "distinct": f"SELECT DISTINCT ?a ?c ?e {{ {JOINED} {APART} }}",
    "optional": f"SELECT ?a {{ ?a <x:p> ?b OPTIONAL {{ ?c <x:p> ?d . ?e <x:p> ?f {APART} }} }}",
    "not exists": """SELECT ?a { ?a <x:p> ?b
        FILTER NOT EXISTS { ?c <x:p> ?d . ?e <x:p> ?f FILTER(STR(?c) = STR(?f) && ?a != ?d) } }""",
    "a query inside": f"SELECT ?a ?n {{ ?a <x:p> ?b {{ SELECT (COUNT(*) AS ?n) {{ {JOINED} {APART} }} }} }}",
}
CHEAP = "SELECT ?a ?b { ?a <x:p> ?b FILTER(?a != ?b) }"


def pairs(start: int, stop: int) -> str:
    return "\n".join(f"<x:a{i}> <x:p> <x:b{i % 97}> ." for i in range(start, stop))


@pytest.mark.parametrize("name", EXPENSIVE)
@pytest.mark.parametrize("temporary", [False, True])
def test_a_view_that_makes_an_epoch_slow_fails_alone(name: str, temporary: bool) -> None:
    with sparqlive.open() as session:
        session.limits = Limits(epoch_seconds=0.2, temporary_seconds=0.2, temporary_seconds_per_change=0)
        slow = session.view("slow", EXPENSIVE[name], temporary=temporary)
        cheap, other = session.view("cheap", CHEAP), session.view("other", CHEAP + " LIMIT 9", temporary=True)
        for start in range(0, ROWS, 50):
            epoch = session.apply(insert=pairs(start, start + 50))
        assert (epoch.number, epoch.inserted) == (ROWS // 50, 50)
        assert slow.failure is not None
        assert "limit" in slow.failure
        with pytest.raises(sparqlive.ViewFailed, match="limit"):
            slow.weights()
        assert len(cheap) == ROWS
        assert len(other) == 9
        session.apply(delete=pairs(0, 10))
        assert len(cheap) == ROWS - 10
        session._writer.quads.check()
        session.drop("slow")
        session.check()


@pytest.mark.parametrize("name", ["not exists", "counted", "distinct"][: times(1, 3)])
@pytest.mark.parametrize("strategy", ["duckdb", "rebuild"])
def test_a_slow_query_of_duckdb_fails_its_view_alone(name: str, strategy: Strategy) -> None:
    """The limit interrupts DuckDB, in a delta and in a rebuild; before that, the view was right."""
    by_duckdb = replace(DEFAULT, live_rows=0, looked_up_rows=0)  # a rebuild too
    with Session(tuning=by_duckdb) as session:
        slow, cheap = session.view("slow", EXPENSIVE[name]), session.view("cheap", CHEAP)
        session.apply(insert=pairs(0, 5), strategy=strategy)
        session.limits = Limits(epoch_seconds=1)
        began = time.monotonic()
        epoch = session.apply(insert=pairs(5, 20_000), strategy=strategy)
        assert time.monotonic() - began < 60
        assert (epoch.number, epoch.inserted, epoch.strategy) == (2, 19_995, strategy)
        assert slow.failure is not None
        assert "Timeout: an epoch exceeded its limit of 1 s" in slow.failure
        assert cheap.failure is None
        assert len(cheap) == 20_000
        session.limits = Limits()
        session.drop("slow")
        session.apply(delete=pairs(0, 19_900), strategy=strategy)
        assert len(cheap) == 100
        session.check()


def test_the_most_expensive_of_many_temporary_views_are_ended() -> None:
    with sparqlive.open() as session:
        session.limits = Limits(temporary_seconds=0.05, temporary_seconds_per_change=0)
        session.apply(insert=pairs(0, 300))
        slow = [
            session.view(f"slow{i}", f"SELECT * {{ ?a <x:p> ?b . ?c <x:p> ?d FILTER(?a != ?d && ?b < {i}) }}",
                         temporary=True)
            for i in range(3)
        ]  # fmt: skip
        cheap = session.view("cheap", CHEAP, temporary=True)
        for start in range(1000, 1600, 100):
            session.apply(insert=pairs(start, start + 100))
        assert all(view.failure is not None for view in slow)
        assert cheap.failure is None
        assert len(cheap) == 900


def test_the_change_of_a_product_has_a_bound() -> None:
    with sparqlive.open() as session:
        session.limits = Limits(temporary_changed_rows=1000, temporary_seconds=100)
        product = session.view("product", "SELECT * { ?a <x:p> ?b . ?c <x:q> ?d }", temporary=True)
        part = session.view("part", "SELECT * { ?a <x:p> ?b }", temporary=True)
        session.apply(insert="<x:s> <x:q> <x:o> .")
        session.apply(insert=pairs(0, 900))
        assert product.failure is None
        assert len(product) == 900
        session.apply(insert="<x:t> <x:q> <x:o> .\n<x:u> <x:q> <x:o> .")
        assert product.failure is not None
        assert "1,000 rows" in product.failure
        assert len(part) == 900


@pytest.mark.parametrize("name", EXPENSIVE)
@pytest.mark.parametrize("options", [{}, {"temporary": True}, {"refresh": "manual"}], ids=str)
def test_a_view_that_takes_too_long_is_not_registered(name: str, options: dict[str, object]) -> None:
    with sparqlive.open() as session:
        session.apply(insert=pairs(0, ROWS))
        began = time.monotonic()
        with pytest.raises((sparqlive.Timeout, sparqlive.TooLarge), match="stopped"):
            session.view("slow", EXPENSIVE[name], timeout_seconds=0.3, **options)  # type: ignore[arg-type]
        assert time.monotonic() - began < 30
        assert not session.views
        assert not session._writer.net_changes
        session.apply(insert="<x:n> <x:p> <x:m> .")
        assert len(session.view("cheap", CHEAP)) == ROWS + 1
        session._writer.quads.check()
        session.check()


def test_epochs_go_on_while_a_view_is_computed() -> None:
    """The lock is free: many epochs are committed before the view is there."""
    with sparqlive.open() as session:
        session.apply(insert=pairs(0, ROWS))
        begun, failures = threading.Event(), []

        def register() -> None:
            begun.set()
            try:
                session.view("slow", EXPENSIVE["counted"], timeout_seconds=5)
            except sparqlive.Timeout as error:
                failures.append(error)

        registering = threading.Thread(target=register)
        registering.start()
        begun.wait()
        before = session.epoch
        for number in range(30):
            session.apply(insert=f"<x:n{number}> <x:p> <x:m> .")
        assert registering.is_alive()
        assert session.epoch == before + 30
        registering.join()
        assert failures


VIEWS = [
    "SELECT ?a ?b { ?a <x:p> ?b }",
    "SELECT ?b (COUNT(*) AS ?n) (GROUP_CONCAT(STR(?a)) AS ?t) { ?a <x:p> ?b . ?c <x:p> ?b } GROUP BY ?b",
    "SELECT DISTINCT ?b { ?a <x:p> ?b . ?c <x:p> ?b FILTER(?a != ?c) }",
    "SELECT ?a ?c { ?a <x:r>+ ?c }",
    "SELECT ?a ?t { ?a ?p <x:b1> BIND(CONCAT('t', STR(?a)) AS ?t) } ORDER BY ?t LIMIT 20",
    "SELECT * { ?a <x:p> ?b . ?c <x:r> <x:a1> }",
    "SELECT * { ?a <x:p> ?b OPTIONAL { ?a <x:r> ?c FILTER NOT EXISTS { ?c <x:p> <x:b2> } } }",
    "SELECT ?g ?s { GRAPH ?g { ?s <x:p> ?o } }",
    "SELECT ?s FROM <x:g1> FROM <x:g2> { ?s <x:p> ?o }",
    "CONSTRUCT { ?b <x:of> [ <x:is> ?a ] } { ?a <x:p> ?b }",
    *(f"SELECT ?a {{ ?a <x:p> <x:b{i}> . ?a <x:r> ?c }}" for i in range(10)),
]


@pytest.mark.parametrize("stored", [False, True])
def test_views_are_right_that_are_computed_while_others_write(stored: bool, tmp_path: Path) -> None:
    rng = random.Random(5)

    def change() -> str:
        graph = rng.choice(["", "<x:g1> ", "<x:g2> "])
        kind = rng.choice([f"<x:p> <x:b{rng.randrange(12)}>", f"<x:r> <x:a{rng.randrange(60)}>"])
        return f"<x:a{rng.randrange(60)}> {kind} {graph}."

    place = tmp_path / "store" if stored else None
    with sparqlive.open(place) as session:
        session.apply(insert="\n".join(change() for _ in range(400)))
        if stored:
            session.compact()
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                session.apply(insert=change(), delete=change())

        writing = threading.Thread(target=write)
        writing.start()
        try:
            for number, query in enumerate(VIEWS):
                session.view(f"v{number}", query)
                session.view(f"later{number}", query, refresh="manual")
                session.view(f"~{number}", query, temporary=True)
            for number in range(5):
                session.drop(f"~{number}")
        finally:
            stop.set()
            writing.join()
        session._writer.quads.check()
        session.check()
        for view in session.views.values():
            view.refresh()
        session.check()
        assert not session._writer.net_changes
    if place is not None:
        with sparqlive.open(place) as session:
            assert not [name for name in session.views if name.startswith("~")], (
                "temporary views are not stored"
            )
            session.check()


def test_a_temporary_view_leaves_nothing_behind() -> None:
    with sparqlive.open() as session:
        session.apply(insert=pairs(0, 50))
        known = len(session.dictionary)
        view = session.view("~", "SELECT (CONCAT('t', STR(?a)) AS ?t) { ?a <x:p> ?b }", temporary=True)
        session.apply(insert=pairs(50, 60))
        assert len(view) == 60
        assert len(session.dictionary) == known + 20
        assert {term.value for (term,) in view.weights()} >= {"tx:a0", "tx:a59"}
        session.drop("~")
        assert not session._writer.views.temporary.is_used


def test_sizes_have_bounds() -> None:
    with sparqlive.open() as session:
        long = "SELECT * { ?s ?p ?o } #" + "x" * QUERY_CHARACTERS
        for ask in (session.query, session.explained, lambda query: session.view("v", query)):
            with pytest.raises(sparqlive.TooLarge, match="characters"):
                ask(long)
        with pytest.raises(sparqlive.TooLarge, match="operations"):
            session.update("CLEAR DEFAULT;" * (UPDATE_OPERATIONS + 1))
        with pytest.raises(sparqlive.TooLarge, match="documents"):
            session.update(
                ";".join(f"LOAD SILENT <http://x.example/{i}>" for i in range(LOADED_DOCUMENTS + 1))
            )
        assert session.epoch == 0


# Memory

CROSS = "?a ?b ?c . ?d ?e ?f . ?g ?h ?i"
HUGE = {
    "rows": f"SELECT * {{ {CROSS} }}",
    "distinct": f"SELECT DISTINCT ?a ?d ?g {{ {CROSS} }}",
    "order": f"SELECT * {{ {CROSS} }} ORDER BY ?a ?f OFFSET 1000000 LIMIT 5",
    "groups": f"SELECT ?a ?d ?g (COUNT(*) AS ?n) {{ {CROSS} }} GROUP BY ?a ?d ?g",
    "concatenated": f"SELECT (GROUP_CONCAT(CONCAT(STR(?a), STR(?d))) AS ?n) {{ {CROSS} }}",
    "terms": f"SELECT ?x {{ {CROSS} BIND(CONCAT(STR(?a), STR(?e), STR(?i), STR(?d), STR(?g)) AS ?x) }}",
    "a graph": f"CONSTRUCT {{ ?a ?e ?i . ?d ?h ?c }} {{ {CROSS} }}",
    "optional": "SELECT * { ?a ?b ?c OPTIONAL { ?d ?e ?f OPTIONAL { ?g ?h ?i } } }",
    "paths": "SELECT * { ?a <x:r>+ ?b . ?c <x:r>+ ?d FILTER(?a != ?d) }",
}
IN_LITTLE_MEMORY = """
import resource, sys
import sparqlive
from sparqlive.runtime import memory
with sparqlive.open() as session:
    session.apply(insert="\\n".join(
        f"<x:a{i}> <x:p> <x:b{i % 37}> .\\n<x:a{i}> <x:r> <x:a{(i * 7 + 1) % 1500}> ." for i in range(1500)
    ))
    session.query("SELECT * { ?s ?p ?o } LIMIT 1")
    resource.setrlimit(resource.RLIMIT_AS, (memory.usage()[0] + (400 << 20),) * 2)
    query, how = sys.argv[1:]
    try:
        if how == "query":
            print(len(session.query(query, timeout_seconds=10)))
        elif how == "update":
            where = query[query.index("{"):]
            print(session.update("INSERT { ?a <x:new> ?d } WHERE " + where, timeout_seconds=10))
        else:
            view = session.view("v", query, timeout_seconds=10, temporary=how == "temporary")
            print(len(view.now(1_000_000).solutions()))
    except (sparqlive.TooLarge, sparqlive.Timeout) as error:
        print("refused:", error)
    session.apply(insert="<x:n> <x:p> <x:m> .")
    assert len(session.query("SELECT * { ?s <x:p> ?o }")) == 1501
    session.check() if "v" not in session.views else None
"""


STOPPED = [  # the first of them is enough for most runs: each takes a process
    ("a graph", "query"), ("distinct", "query"), ("paths", "query"), ("rows", "view"), ("rows", "update"),
    ("groups", "temporary"), ("concatenated", "query"), ("terms", "query"), ("order", "query"),
    ("groups", "query"), ("optional", "query"), ("rows", "query"), ("groups", "view"), ("optional", "view"),
    ("optional", "temporary"), ("rows", "temporary"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), STOPPED[: times(2, len(STOPPED))])
def test_what_takes_too_much_memory_is_stopped(name: str, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, HUGE[name], how],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("refused:"), done.stdout[:200]
