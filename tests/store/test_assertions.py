"""What sources assert, in a store: one relation, kept through epochs, compaction and older formats."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.engine.assertions import ASSERTED, LOCAL, WIDTH
from sparqlive.engine.older_assertions import whole_relation
from sparqlive.rdf.dictionary import hash_of
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sources.manager import Source
from sparqlive.sources.watcher import Content
from sparqlive.store.catalog import FORMAT
from sparqlive.store.commits import Commit
from sparqlive.store.store import Store
from sparqlive.zset.run import Run
from tests.store.test_files import files
from tests.tuned import tune

NAMES = ("urn:a", "urn:b", "urn:c")


class Watching:
    """Watches nothing."""

    async def watch(self, *_: Any) -> None:
        pass


def quad(number: int) -> Quad:
    return Quad(*(NamedNode(f"urn:{part}{number // 3}") for part in "sp"), NamedNode(f"urn:o{number}"))


def report(session: sparqlive.Session, name: str, quads: Iterable[Quad]) -> None:
    """Has a source report its content; adds it if it is not there."""
    manager = session._manager
    source = session.sources.get(name)
    if source is None:
        source = manager.add(Source(manager, name, "file", "nowhere.nq", {}), Watching())
    placed = [Quad(*one.triple, NamedNode("urn:g")) for one in quads]
    manager._commit(source, Content(placed, {"seen": True}))


class Modelled:
    """A session, and what its sources and its users assert."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session = self.opened()
        self.local: set[int] = set()
        self.of: dict[str, set[int]] = {}

    def opened(self) -> sparqlive.Session:
        return sparqlive.open(self.path, watch=False)

    def step(self, rng: random.Random) -> None:
        some = {rng.randrange(12) for _ in range(rng.randrange(6))}
        match rng.randrange(6):
            case 0 | 1:
                name = rng.choice(NAMES)
                report(self.session, name, map(quad, some))
                self.of[name] = some
            case 2:
                gone = {rng.randrange(12) for _ in range(3)} - some
                insert, delete = (
                    [Quad(*quad(n).triple, NamedNode("urn:g")) for n in ns] for ns in (some, gone)
                )
                self.session.apply(insert=insert, delete=delete)
                self.local = (self.local - gone) | some
            case 3 if self.of:
                name = rng.choice(sorted(self.of))
                before = self.session.epoch
                self.session.sources[name].remove()
                assert self.session.epoch <= before + 1
                del self.of[name]
            case 4:
                self.session.compact()
            case _:
                self.session.close()
                self.session = self.opened()

    def check(self) -> None:
        expected = self.local.union(*self.of.values())
        assert {one.triple for one in self.session.quads()} == {quad(n).triple for n in expected}
        assert set(self.session.sources) == self.of.keys()
        assertions = self.session._writer.assertions
        for name, own in self.of.items():
            assert assertions.count_after(name, {}) == len(own)
            found = self.session.dictionary.quads(assertions.quads(name))
            assert {one.triple for one in found} == {quad(n).triple for n in own}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("small", [0, 10_000], ids=["in files", "in the catalog"])
def test_sources_and_users_assert_the_same_quads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, small: int
) -> None:
    tune(monkeypatch, catalog_rows=small)
    modelled, rng = Modelled(tmp_path / "store"), random.Random(seed)
    with_view = modelled.session.view("all", "SELECT ?s ?o { GRAPH <urn:g> { ?s ?p ?o } }")
    assert with_view.epoch == 0
    for _ in range(25):
        modelled.step(rng)
        modelled.check()
    modelled.session.check()
    modelled.session.close()
    with sparqlive.open(tmp_path / "store", read_only=True) as reader:
        expected = modelled.local.union(*modelled.of.values())
        assert len(reader) == len(expected)


def test_the_catalog_has_one_relation_for_all_sources(tmp_path: Path) -> None:
    def relations() -> set[str]:
        store = session.store
        assert store is not None
        catalog = store.catalog
        return (
            catalog.bases().keys() | catalog.delta_relations() | {run.relation for run in catalog.all_runs()}
        )

    with sparqlive.open(tmp_path / "store", watch=False, durability="relaxed") as session:
        report(session, "urn:first", [quad(0)])
        before = relations()
        for number in range(2_000):
            report(session, f"urn:source:{number}", [quad(number)])
        assert relations() == before
        session.compact()
        assert {name for name in relations() if name.startswith("source")} == {ASSERTED}
        assert not set(session.store.catalog.delta_epochs(ASSERTED, -1))  # type: ignore[union-attr]
    with sparqlive.open(tmp_path / "store", watch=False, durability="relaxed") as session:
        assert session.sources["urn:source:7"].status()["quads"] == 1
        session.sources["urn:source:7"].remove()
        assert len(session) == 1_999
        assert relations() >= {ASSERTED}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A store of format 5: each source has a relation, with a base, or deltas, or files, or no row."""
    path = tmp_path / "store"
    with sparqlive.open(path, watch=False) as session:
        report(session, "urn:a", map(quad, range(8)))
        report(session, "urn:b", map(quad, range(4, 9)))
        report(session, "urn:c", map(quad, [1]))
        session.apply(insert=[Quad(*quad(1).triple, NamedNode("urn:g"))])
        report(session, "urn:c", [])
        session.view("all", "SELECT ?s ?o { GRAPH <urn:g> { ?s ?p ?o } }")
    store = Store(path, tuning=replace(DEFAULT, catalog_rows=6))  # those of `urn:a` go to a file
    run = whole_relation(store, ASSERTED)
    assert run is not None
    assert whole_relation(store, LOCAL) is not None
    epoch, catalog = store.catalog.epoch(), store.catalog
    rows = {name: _rows_of(run, name) for name in NAMES}
    assert [len(found) for found in rows.values()] == [8, 5, 0]
    bases = {f"source/{name}": (4, rows[name]) for name in ("urn:a", "urn:c")}
    store.write(Commit(epoch, bases=bases, forgotten=[ASSERTED]))
    assert files(path, "*source-urn-a*")
    with catalog.transaction():
        catalog.begin("source/urn:b", 4)
        catalog.add_delta("source/urn:b", 2, 4, rows["urn:b"])
        catalog.set_meta("format", "5")
    store.close()
    return path


def _rows_of(run: Run, name: str) -> dict[tuple[int, ...], int]:
    source, *rest = run.columns
    own = np.flatnonzero(source == hash_of(name))
    return {tuple(int(column[place]) for column in rest): 1 for place in own}


def test_sources_of_an_older_store(older: Path) -> None:
    check_older(older)


def check_older(older: Path) -> None:
    with sparqlive.open(older, read_only=True) as reader:
        assert len(reader) == 9
        assert {name: one.status()["quads"] for name, one in reader.sources.items()} == {
            "urn:a": 8,
            "urn:b": 5,
            "urn:c": 0,
        }
    with sparqlive.open(older, watch=False) as session:
        store = session.store
        assert store is not None
        assert store.catalog.meta("format") == str(FORMAT)
        assert {name for name in store.catalog.bases() if name.startswith("source")} == {ASSERTED, LOCAL}
        session.sources["urn:a"].remove()
        assert {one.triple for one in session.quads()} == {quad(n).triple for n in (1, *range(4, 9))}
        session.compact()
        session.check()
    with sparqlive.open(older, watch=False) as session:
        session.sources["urn:b"].remove()
        session.sources["urn:c"].remove()
        assert {one.triple for one in session.quads()} == {quad(1).triple}, "a user asserts it"


def test_an_older_store_that_could_not_be_written(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_name", fails)
        with pytest.raises(sparqlive.Error, match="disk full"):
            sparqlive.open(older, watch=False)
    check_older(older)


def test_what_sources_assert_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a compaction and when a store is opened; reports go on at any time."""
    tune(monkeypatch, catalog_rows=10)
    path = tmp_path / "store"
    held = {name: set[int]() for name in NAMES}
    chance = random.Random(3)

    def reported(session: sparqlive.Session) -> None:
        for _ in range(6):
            name = chance.choice(NAMES)
            held[name] = set(chance.sample(range(300), 120))
            report(session, name, map(quad, held[name]))
        session.check()
        assert {one.triple for one in session.quads()} == {
            quad(n).triple for n in set().union(*held.values())
        }
        assert {name: one.status()["quads"] for name, one in session.sources.items()} == {
            name: len(own) for name, own in held.items()
        }

    for _ in range(3):
        with sparqlive.open(path, watch=False) as session:
            for name in NAMES:
                report(session, name, map(quad, held[name]))
            reported(session)
            session.compact()
            assert session._writer.assertions.nbytes == 0, "all is mapped"
            reported(session)
    with sparqlive.open(path, watch=False) as session:
        session.compact()
        assert len(files(path, "*sources-quads*")) == 1
        for name in NAMES:
            session.sources[name].remove()
        assert len(session) == 0
        session.check()


def test_values_that_recur_are_compressed(tmp_path: Path) -> None:
    """A file of assertions is read as a whole, so its columns need not be searchable."""
    random_ids = np.random.default_rng(7)
    ids = random_ids.integers(-(2**63), 2**63, (3, 40_000))
    source, predicate = np.repeat(ids[0, :2_000], 20), np.tile(ids[1, :5], 8_000)
    columns = [source, np.repeat(ids[1, :8_000], 5), predicate, ids[2], source]
    rows = Run.sort(columns, np.ones(40_000, np.int64))
    with sparqlive.open(tmp_path / "store") as session:
        store = session.store
        assert store is not None
        store.write(Commit(0, bases={ASSERTED: (WIDTH, rows)}))
        (file,) = store.catalog.runs(ASSERTED)
        assert file.bytes < 18 * file.rows
        found = whole_relation(store, ASSERTED)
        assert found is not None
        assert all(map(np.array_equal, found.columns, rows.columns))


REPORTING = """
import random, sys
import sparqlive
from tests.store.test_assertions import quad, report
rng = random.Random(int(sys.argv[2]))
with sparqlive.open(sys.argv[1], watch=False) as session:
    while True:
        name = f"urn:{rng.randrange(9)}"
        if name in session.sources and rng.random() < 0.2:
            session.sources[name].remove()
        elif rng.random() < 0.03:
            session.compact()
        else:
            report(session, name, map(quad, {rng.randrange(30) for _ in range(rng.randrange(9))}))
        print(session.epoch, flush=True)
"""


@pytest.mark.parametrize("epochs", [7, 40])
def test_a_killed_writer_leaves_sources_and_quads_at_one_epoch(tmp_path: Path, epochs: int) -> None:
    path = tmp_path / "store"
    command = [sys.executable, "-c", REPORTING, str(path), str(epochs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = 0
        while acknowledged < epochs:
            acknowledged = int(writer.stdout.readline())
        writer.kill()
    with sparqlive.open(path, watch=False) as session:
        assert session.epoch >= acknowledged
        assertions, found = session._writer.assertions, set[Quad]()
        for name, source in session.sources.items():
            own = set(session.dictionary.quads(assertions.quads(name)))
            assert len(own) == source.quads == assertions.count_after(name, {})
            found |= own
        assert found == set(session.quads())
