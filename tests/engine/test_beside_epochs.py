"""Queries and views that are read while an epoch is carried: they see the epoch before it, whole, at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparqlive import Session
from tests.waiting import PATIENCE_SECONDS

EX = "http://example.org/"
COUNT = f"SELECT (COUNT(*) AS ?n) {{ ?s <{EX}left> ?o }}"
ROWS = f"SELECT ?s ?o {{ ?s <{EX}left> ?o }}"


def insert(numbers: range) -> str:
    """Each number has one pair of each of two predicates."""
    pairs = "".join(f"<{EX}{n}> <{EX}left> {n % 7} . <{EX}{n}> <{EX}right> {n % 5} . " for n in numbers)
    return f"INSERT DATA {{ {pairs} }}"


@contextmanager
def held_up(session: Session, change: Callable[[], object]) -> Iterator[None]:
    """Makes a change in another thread; within the block, its epoch is being carried and does not get on."""
    carry = session._writer.strategies.carry
    begun, released = threading.Event(), threading.Event()

    def slow(*args: object, **options: object) -> object:
        result = carry(*args, **options)  # type: ignore[arg-type]
        begun.set()
        assert released.wait(PATIENCE_SECONDS)
        return result

    session._writer.strategies.carry = slow  # type: ignore[assignment]
    with ThreadPoolExecutor(1) as threads:
        changing = threads.submit(change)
        try:
            assert begun.wait(PATIENCE_SECONDS)
            yield
        finally:
            released.set()
            session._writer.strategies.carry = carry  # type: ignore[method-assign]
            changing.result()


def counted(session: Session) -> tuple[int, int]:
    answer = session.query(COUNT)
    return answer.epoch, int(next(iter(answer))["n"].value)


@pytest.mark.parametrize("added", [1, 400])
def test_a_query_reads_the_epoch_before_the_one_that_is_carried(added: int) -> None:
    with Session() as session:
        session.update(insert(range(10)))
        session.view("rows", ROWS)
        with held_up(session, lambda: session.update(insert(range(10, 10 + added)))):
            assert counted(session) == (1, 10)
            assert not session.query(f"ASK {{ <{EX}10> ?p ?o }}").answer()
            assert len(list(session.query(ROWS))) == 10
        assert counted(session) == (2, 10 + added)


def test_deleted_quads_are_there_until_the_epoch_is_committed() -> None:
    with Session() as session:
        session.update(insert(range(10)))
        session.view("rows", ROWS)
        with held_up(session, lambda: session.update(f"DELETE WHERE {{ ?s <{EX}left> ?o }}")):
            assert counted(session) == (1, 10)
        assert counted(session) == (2, 0)


def test_a_view_is_read_as_of_the_epoch_before() -> None:
    with Session() as session:
        session.update(insert(range(10)))
        rows, distinct = (
            session.view("rows", ROWS),
            session.view("distinct", ROWS.replace("?s ?o", "DISTINCT ?o")),
        )
        with held_up(session, lambda: session.update(insert(range(10, 30)))):
            assert (rows.now().epoch, len(list(rows.now(1_000)))) == (1, 10)
            assert (distinct.now().epoch, len(list(distinct.now(1_000)))) == (1, 7)
            answer = session.query(ROWS, from_views=True)
            assert (answer.epoch, answer.view, len(list(answer))) == (1, "rows", 10)
        assert (rows.now().epoch, len(list(rows.now()))) == (2, 30)


def test_a_query_that_equals_a_closure_is_computed_meanwhile() -> None:
    """A closure is changed in place while an epoch is carried."""
    path = f"SELECT ?a ?b {{ ?a <{EX}next>+ ?b }}"
    with Session() as session:
        session.update(f"INSERT DATA {{ <{EX}a> <{EX}next> <{EX}b> . <{EX}b> <{EX}next> <{EX}c> }}")
        session.view("path", path)
        assert session.query(path, from_views=True).view == "path"
        with held_up(session, lambda: session.update(f"INSERT DATA {{ <{EX}c> <{EX}next> <{EX}a> }}")):
            answer = session.query(path, from_views=True)
            assert (answer.epoch, answer.view, len(list(answer))) == (1, None, 3)
        assert len(list(session.query(path))) == 9


def test_an_epoch_that_is_rolled_back_was_never_seen() -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError("the disk is full")

    with Session() as session:
        session.update(insert(range(10)))
        session.view("rows", ROWS)
        save = session._writer._save
        session._writer._save = fail  # type: ignore[method-assign]

        def change() -> None:
            with pytest.raises(OSError, match="the disk is full"):
                session.update(insert(range(10, 20)))

        with held_up(session, change):
            assert counted(session) == (1, 10)
        session._writer._save = save  # type: ignore[method-assign]
        assert counted(session) == (1, 10)
        session.update(insert(range(10, 20)))
        assert counted(session) == (2, 20)


def test_pairs_that_an_epoch_loads_from_disk_are_lent_before_and_after(tmp_path: Path) -> None:
    every = "SELECT ?s ?p ?o { ?s ?p ?o }"
    with Session(tmp_path / "store") as session:
        session.update(insert(range(50)))
    with Session(tmp_path / "store") as session:
        session.view("left", ROWS)
        with held_up(session, lambda: session.update(insert(range(50, 60)))):
            assert len(list(session.query(every))) == 100
            session._writer.quads.pairs(0, session._writer.terms.dictionary.id_of(_iri("right")))
            assert len(list(session.query(every))) == 100
        assert len(list(session.query(every))) == 120


def _iri(name: str) -> object:
    from pyoxigraph import NamedNode

    return NamedNode(EX + name)


@pytest.mark.parametrize("strategy", ["live", "duckdb", "rebuild"])
def test_no_reader_sees_a_part_of_an_epoch(strategy: str) -> None:
    """Each epoch adds as many pairs of one predicate as of the other, and removes some of both."""
    both = f"SELECT (COUNT(*) AS ?n) {{ ?s <{EX}left> ?o . ?s <{EX}right> ?p }}"
    ends = threading.Event()
    with Session() as session:
        session.update(insert(range(2_000)))
        rows = session.view("rows", ROWS)
        session.view("joined", f"SELECT ?s ?o ?p {{ ?s <{EX}left> ?o . ?s <{EX}right> ?p }}")
        sizes = {session.epoch: 2_000}

        def read(text: str) -> list[tuple[int, int]]:
            seen = []
            while not ends.is_set():
                answer = session.query(text)
                seen.append((answer.epoch, int(next(iter(answer))["n"].value)))
                captured = rows.now(10_000_000)
                seen.append((captured.epoch, sum(1 for _ in captured)))
            return seen

        with ThreadPoolExecutor(2) as threads:
            reading = [threads.submit(read, text) for text in (COUNT, both)]
            try:
                for number in range(15):
                    gone = f"DELETE DATA {{ {insert(range(number * 10, number * 10 + 5))[13:-1]} }}"
                    first = 2_000 + 400 * number
                    text = f"{gone}; {insert(range(first, first + 400))}"
                    epoch = session.update(text, strategy=strategy)
                    sizes[epoch.number] = sizes[epoch.number - 1] + 395
            finally:
                ends.set()
        found = {seen for one in reading for seen in one.result()}
    assert found
    assert all(sizes[epoch] == size for epoch, size in found)
