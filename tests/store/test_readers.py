"""Readers beside the writer: another process follows the writer's epochs, each whole."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import locks
from tests.store.test_history import change, contents
from tests.store.test_store import QUERIES, quad, query
from tests.tuned import tune
from tests.waiting import wait_until

WRITER = """
import random, sys
from dataclasses import replace
import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from tests.store.test_history import change
from tests.store.test_store import QUERIES, query
from tests.tuned import tune
tuning = replace(DEFAULT, compacted_rows=50, catalog_rows=4)
with sparqlive.Session(sys.argv[1], history_epochs=int(sys.argv[3]), tuning=tuning) as session:
    rng = random.Random(1)
    for name in QUERIES:
        session.view(name, query(name))
    for _ in range(int(sys.argv[2])):
        change(session, rng)
    print(session.epoch)
"""


def same_epoch(one: sparqlive.Session, other: sparqlive.Session) -> Callable[[], bool]:
    return lambda: one.epoch == other.epoch and set(one.views) == set(other.views)


@pytest.mark.parametrize("history", [10_000, 10])
def test_a_reader_in_another_process_is_always_at_a_whole_epoch(tmp_path: Path, history: int) -> None:
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        session.apply(insert=[quad(random.Random(0))])
        for name in QUERIES:
            session.view(name, query(name))
    arguments = [sys.executable, "-c", WRITER, str(path), "40", str(history)]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    seen = set()
    with sparqlive.open(path, read_only=True) as reader:
        total = {name: (view.epoch, view.weights()) for name, view in reader.views.items()}
        while writer.poll() is None:
            with reader.reading():
                seen.add(reader.epoch)
                reader.check()
                for name, view in reader.views.items():
                    since, weights = total[name]
                    for delta in view.changes(since=since):
                        weights = {} if delta.reset else weights
                        assert delta.reset or delta.epoch > since
                        since = delta.epoch
                        for row, weight in delta.weights().items():
                            weights[row] = weights.get(row, 0) + weight
                    weights = {row: weight for row, weight in weights.items() if weight}
                    assert weights == view.weights()
                    total[name] = (view.epoch, weights)
            time.sleep(0.01)
        assert writer.stdout is not None
        last = int(writer.stdout.read())
        writer.stdout.close()
        assert writer.returncode == 0
        wait_until(lambda: reader.epoch == last)
        reader.check()
        read = contents(reader)
    assert len(seen) > 3
    with sparqlive.open(path) as session:
        assert contents(session) == read


def test_following_views_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, catalog_rows=2)
    rng = random.Random(3)
    path = tmp_path / "store"
    with sparqlive.open(path) as session, sparqlive.open(path, read_only=True) as reader:
        session.view("later", query("optional"), refresh="manual")
        for name in QUERIES:
            session.view(name, query(name))
            change(session, rng)
            wait_until(same_epoch(reader, session))
            assert contents(reader) == contents(session)
            reader.check()
        session.compact()
        session.views["later"].refresh()
        wait_until(lambda: reader.views["later"].epoch == session.epoch)
        assert contents(reader) == contents(session)
        kept = reader.views["distinct"]
        session.drop("distinct")
        wait_until(same_epoch(reader, session))
        with pytest.raises(sparqlive.ViewFailed, match="dropped"):
            kept.weights()
        change(session, rng)
        wait_until(same_epoch(reader, session))
        assert set(reader.quads()) == set(session.quads())
        reader.check()


def test_following_changes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        session.view("optional", query("optional"))
        with sparqlive.open(path, read_only=True) as reader:
            followed = reader.views["optional"].changes(follow=True)
            for number in range(3):
                node = ox.NamedNode(f"http://example.org/x{number}")
                made = session.apply(insert=[ox.Quad(node, ox.NamedNode("http://example.org/p"), node)])
                delta = next(followed)
                assert delta.epoch == made.number
                assert delta.weights() == made.deltas["optional"].weights()


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with pytest.raises(sparqlive.StoreFailed, match="no store"):
        sparqlive.open(path, read_only=True)
    with sparqlive.open(path) as session:
        session.view("optional", query("optional"))
        session.apply(insert=[quad(random.Random(1))])
    with sparqlive.open(path, read_only=True) as reader:
        before = contents(reader)
        for attempt in (
            lambda: reader.apply(insert=[quad(random.Random(2))]),
            lambda: reader.view("more", query("distinct")),
            lambda: reader.drop("optional"),
            lambda: reader.update("INSERT DATA { <urn:a> <urn:b> <urn:c> }"),
            reader.compact,
        ):
            with pytest.raises(sparqlive.StoreFailed, match="read-only"):
                attempt()
        assert contents(reader) == before
        assert set(reader.views) == {"optional"}
        reader.check()


def test_replaced_files_stay_while_somebody_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sparqlive.Session(path, tuning=replace(DEFAULT, compacted_rows=10**9)) as session:
        session.load([quad(random.Random(seed)) for seed in range(30)])
        session.compact()
        first = list((path / "runs").rglob("quads*"))
        with sparqlive.open(path, read_only=True) as reader:
            with reader.reading():  # it cannot go on
                session.apply(insert="<urn:a> <urn:b> <urn:c> .")
                session.compact()
                assert all(file.exists() for file in first)
                assert len(list(reader.quads())) == len(session) - 1
            wait_until(same_epoch(reader, session))
        session.apply(insert="<urn:a> <urn:b> <urn:d> .")
        session.compact()
        assert not any(file.exists() for file in first)


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_files_are_read_also_where_no_lease_can_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """On a full disk, or in a directory that may not be written."""
    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(seed)) for seed in range(30)])
        session.compact()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with sparqlive.open(tmp_path / "store", read_only=read_only) as session:
        monkeypatch.setattr(locks, "open_private", full)
        everywhere = "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
        assert len(session.query(everywhere).weights()) == len(session)
