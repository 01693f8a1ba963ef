"""Quads in whole sorted orders: the same as sets of tuples, whatever their graphs, predicates and hubs."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.rdf.dictionary import Dictionary, hash_of
from sparqlive.store import maps, runs
from sparqlive.store.compaction import Writer
from sparqlive.store.maps import Map
from sparqlive.store.quad_map_building import COLUMNS, Order
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.runs import QUADS
from sparqlive.store.store import Store
from sparqlive.zset.run import Run, directory_of
from tests.conftest import examples
from tests.store.test_store import EX
from tests.tuned import tune
from tests.zset.test_run import columns, lookups

Row = tuple[int, ...]
WHOLE: list[Order] = ["spo", "osp", "gpso", "gpos"]
BY_PREDICATE: list[Order] = ["pso", "pos"]
TABLE = ("predicates", "starts", "graphs", "several", "directory_starts")
ORDERS: tuple[Order, ...] = get_args(Order)
DEFAULT = Dictionary().id_of(ox.DefaultGraph())


@contextmanager
def small_parts() -> Iterator[None]:
    """Bases have many files, files many row groups, maps many blocks, and small runs have directories."""
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, file_rows=40)
        patch.setattr(runs, "ROWS_PER_GROUP", 16)
        patch.setattr(maps, "BLOCK", 512)
        patch.setattr(maps, "_BUCKET_BITS", 3)
        patch.setattr(maps, "FEWEST_FOR_DIRECTORY", 8)
        yield


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> Iterator[None]:
    with small_parts():
        yield


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(EX + name)


def quad(s: int, p: int, o: int, g: int) -> ox.Quad:
    """Graph 0 is the unnamed one."""
    return ox.Quad(node(f"n{s}"), node(f"p{p}"), node(f"n{o}"), node(f"g{g}") if g else ox.DefaultGraph())


def ids(quads: Iterable[ox.Quad]) -> set[Row]:
    """The ids of quads, as s, p, o, g."""
    return {
        (
            *(hash_of(str(term)) for term in (quad.subject, quad.predicate, quad.object)),
            DEFAULT if quad.graph_name == ox.DefaultGraph() else hash_of(str(quad.graph_name)),
        )
        for quad in quads
    }


def fill(path: Path, *batches: Collection[ox.Quad]) -> set[Row]:
    """A store with a base; each batch after the first is folded into the files of those before it."""
    with sparqlive.open(path) as session:
        for batch in batches:
            session.load(batch)
            session.compact()
        session.compact(maps=True)  # each test creates those that it needs
    return ids(quad for batch in batches for quad in batch)


def opened(path: Path, **more: int) -> QuadMaps:
    store = Store(path, read_only=True)
    try:
        base = store.catalog.runs(QUADS)
        assert store.catalog.change_rows(store.quads_epoch()) == 0
        return QuadMaps(path, store.place, base, **more)
    finally:
        store.close()


def in_order(rows: Iterable[Row], order: Order) -> list[Row]:
    return sorted(tuple(row["spog".index(name)] for name in COLUMNS[order]) for row in rows)


def part_of(rows: Collection[Row], order: Order, predicate: int) -> list[Row]:
    own = [row for row in rows if row[1] == predicate]
    found = in_order(own, order)
    return found if len({row[3] for row in own}) > 1 else [row[:2] for row in found]


def check_run(found: Run, expected: Sequence[Row]) -> None:
    """All lookups, those of rows that are not there included."""
    width = len(found.views)
    probes = [*expected[:: max(1, len(expected) // 6)], expected[-1]]
    probes += [(*row[:-1], row[-1] + 1) for row in probes] + [(7,) * width]
    right = Run(columns([*expected], width))
    assert list(lookups(found, probes)) == list(lookups(right, probes))


def check(found: QuadMaps, rows: Collection[Row]) -> None:
    """Everything that can be read."""
    assert found.size == len(rows)
    predicates = sorted({row[1] for row in rows})
    assert found.predicates().tolist() == predicates
    for order in BY_PREDICATE:
        for predicate in predicates:
            graphs = {row[3] for row in rows if row[1] == predicate}
            assert found.graph_of(predicate) == (graphs.pop() if len(graphs) == 1 else None)
            run = found.part(order, predicate)
            assert run is not None
            check_run(run, part_of(rows, order, predicate))
        assert found.part(order, 5) is None
    assert found.graph_of(5) is None
    for order in WHOLE:
        check_run(found.whole(order), in_order(rows, order))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "maps").iterdir())}


@st.composite
def bases(draw: st.DrawFn) -> list[set[ox.Quad]]:
    """Batches of quads: with few or many graphs and predicates, and hubs."""
    chance = random.Random(draw(st.integers(0, 999)))
    predicates, graphs, hub = (draw(st.sampled_from(each)) for each in ((1, 3, 60), (0, 2, 60), (0, 0.9)))
    sizes = draw(st.lists(st.sampled_from((1, 8, 150)), min_size=1, max_size=3))
    at_subject = draw(st.booleans())

    def one() -> ox.Quad:
        busy = 3 if chance.random() < hub else chance.randrange(80)
        ends = (busy, chance.randrange(80)) if at_subject else (chance.randrange(80), busy)
        # A predicate of half of the quads, and one that is in the unnamed graph only.
        predicate = 0 if chance.random() < 0.5 else chance.randrange(predicates)
        return quad(ends[0], predicate, ends[1], 0 if predicate == 1 else chance.randint(0, graphs))

    return [{one() for _ in range(size)} for size in sizes]


@examples(24)
@given(batches=bases(), directory_rows=st.sampled_from((1, 9, 4096)))
def test_the_same_as_sets(
    tmp_path_factory: pytest.TempPathFactory, batches: list[set[ox.Quad]], directory_rows: int
) -> None:
    path = tmp_path_factory.mktemp("law") / "store"
    rows = fill(path, *batches)
    found = opened(path, directory_rows=directory_rows)
    check(found, rows)
    check(opened(path), rows)  # of what is there now
    whole = files(path)
    assert sorted(name.partition("-")[0] for name in whole) == sorted(ORDERS)
    # A row at a time, some, and about half of them.
    for memory in (0, 10_000) if len(rows) < 50 else (1_000, 20_000):
        for name in whole:
            (path / "maps" / name).unlink()
        opened(path, memory=memory, directory_rows=directory_rows).prepare(ORDERS)
        assert files(path) == whole


@pytest.mark.parametrize("by_ranges", [False, True])
def test_bases_after_any_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ranges: bool) -> None:
    """Only files that a change falls into are written again."""
    if by_ranges:
        tune(monkeypatch, range_rows=60)
    path, chance, data = tmp_path / "store", random.Random(8), set[ox.Quad]()
    with sparqlive.open(path) as session:
        for step in range(5):
            new, old = some_quads(150, seed=step) - data, chance.sample(sorted(data, key=str), len(data) // 3)
            session.apply(insert=new, delete=old)
            data = (data - {*old}) | new
            session.compact()
            found = opened(path, memory=chance.choice((1_000, 10_000, 1_000_000)))
            check(found, ids(data))
            found.remove_others()
        session.update("DELETE WHERE { ?s ?p ?o }")
        session.update("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }")
        session.compact()
    assert opened(path).size == 0


@pytest.mark.parametrize("seed", range(4))
def test_files_whose_predicates_interleave(tmp_path: Path, seed: int) -> None:
    """As workers write them: a large predicate has files of its own, and smaller ones share files."""
    path, chance = tmp_path / "store", random.Random(seed)
    rows = fill(path, some_quads(), {quad(n, 5 + n % 9, n % 5, n % 4 * (n % 9 < 4)) for n in range(90)})
    store = Store(path, read_only=True)
    with_graphs, base = chance.random() < 0.5, list[runs.RunFile]()
    writers = [Writer(store.target("runs"), QUADS, 4, f"-{seed}-{n}") for n in range(3)]
    shares: dict[Row, list[Row]] = {}
    for s, p, o, g in rows:
        shares.setdefault((p, g) if with_graphs else (p,), []).append((p, g, s, o))
    for key in sorted(shares):
        chance.choice(writers).add(columns(sorted(shares[key]), 4))
    for writer in writers:
        writer.flush()
        base += writer.runs
    store.close()
    chance.shuffle(base)
    for memory in (1_000, 10_000_000):
        check(QuadMaps(path, store.place, base, memory=memory, directory_rows=9), rows)
        QuadMaps(path, store.place, ()).remove_others()


def test_an_empty_base(tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "store").close()
    found = opened(tmp_path / "store")
    found.prepare(ORDERS)
    assert (found.size, found.predicates().tolist()) == (0, [])
    assert found.graph_of(1) is found.part("pso", 1) is found.part("pos", 1) is None
    for order in WHOLE:
        assert found.whole(order).range((1,)) == (0, 0)
        assert [*found.whole(order).rows()] == []
    assert not (tmp_path / "store" / "maps").exists()
    found.remove_others()


def some_quads(size: int = 400, seed: int = 1) -> set[ox.Quad]:
    """Quads of a few predicates, of which some are in several graphs, with a hub."""
    chance = random.Random(seed)
    found = set[ox.Quad]()
    while len(found) < size:
        object_ = 0 if chance.random() < 0.3 else chance.randrange(100)
        predicate = chance.choice((0, 0, 0, 1, 2, 3))
        found.add(quad(chance.randrange(200), predicate, object_, chance.randrange(3) * (predicate < 2)))
    return found


# Many predicates and graphs


def test_a_part_among_many_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening reads the header and the tables, and a part the blocks that it is in."""
    monkeypatch.undo()
    for name, value in (("BLOCK", 1 << 18), ("_BUCKET_BITS", 13), ("FEWEST_FOR_DIRECTORY", 256)):
        monkeypatch.setattr(maps, name, value)
    tune(monkeypatch, file_rows=1_000_000)
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", 131_072)
    path, count = tmp_path / "store", 20_000
    lines = [
        f"<{EX}n{n % 999}> <{EX}p{n % count}> <{EX}n{n % 1001}> <{EX}g{n % (count + 1)}> ."
        for n in range(5 * count)
    ]
    (tmp_path / "many.nq").write_text("\n".join(lines))
    with sparqlive.open(path) as session:
        session.load(tmp_path / "many.nq")
        session.compact()
    opened(path).prepare(["pso", "pos", "gpso"])
    reads, read = list[int](), Map._read
    monkeypatch.setattr(
        Map, "_read", lambda self, size, offset: reads.append(size) or read(self, size, offset)
    )
    found = opened(path)
    assert len(found.predicates()) == count
    # Of one file: 20 bytes for each of its 400 blocks and less, and 36 bytes per predicate.
    assert sum(reads) < 1_000_000
    for order in BY_PREDICATE:
        found.prepare([order])
        reads.clear()
        run = found.part(order, hash_of(f"<{EX}p77>"))
        assert run is not None
        assert run.length == 5
        assert len(reads) <= 4
        assert sum(view.nbytes for view in run.views) == 5 * 24
    whole = found.whole("gpso")
    reads.clear()
    low, high = whole.range_one(hash_of(f"<{EX}g77>"))
    assert high - low == 5
    assert len(reads) <= 10
    del found._open["pos"]
    assert not [name for name, kept in vars(found).items() if hasattr(kept, "__len__") and len(kept) > 20]


def test_directories_are_those_of_runs_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads(2000))
    found = opened(path, directory_rows=10, memory=5_000)
    for predicate in found.predicates().tolist():
        run = found.part("pos", predicate)
        assert run is not None
        directory = directory_of(run.columns[0]).tolist()
        assert [run._directory[bucket] for bucket in range(len(run._directory))] == directory
    assert found.size == len(rows)
