"""What a process keeps in memory of a store's files stays within `store/bounds.py`, however many they are."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import bounds, runs, seeking
from sparqlive.store.compaction import Target, Writer
from sparqlive.store.place import LocalPlace
from sparqlive.store.quad_runs import QuadRuns
from sparqlive.store.runs import QUADS, RunFile
from sparqlive.store.seeking import Readers
from sparqlive.store.streaming import StoredParts
from tests.tuned import tune

FILES, TERMS_A_FILE, GROUP = 60, 64, 8
EX = "http://example.org/"


@contextmanager
def without_collector() -> Iterator[None]:
    """As during an epoch."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def footers() -> int:
    return sum(isinstance(found, pq.FileMetaData) for found in gc.get_objects())


def test_quads_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", GROUP)
    monkeypatch.setattr(bounds, "GROUP_ROWS", 3 * GROUP)
    place, subjects = LocalPlace(tmp_path, "."), np.arange(FILES * TERMS_A_FILE)
    writer = Writer(Target(place, ".", tuning=replace(DEFAULT, file_rows=TERMS_A_FILE)), QUADS, 4)
    writer.add((np.full(len(subjects), 5), np.full(len(subjects), 1), subjects, subjects % 3))
    writer.flush()
    assert len(writer.runs) == FILES
    with without_collector():
        before, readers = footers(), Readers(place)
        quads = QuadRuns(readers, writer.runs)
        some = subjects[::TERMS_A_FILE]
        layers = quads.layers((1, 5), 0, len(subjects))
        assert layers is not None
        assert layers.has(readers, some, some % 3).all()
        for run in writer.runs:
            readers.of(run).column("g")
            readers.group(run, 0, "p")
        assert readers._rows == sum(map(len, readers._groups.values())) <= bounds.GROUP_ROWS
        assert footers() == before


@pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("is_log", [False, True], ids=["base", "log"])
def test_many_graphs_in_one_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_mapped: bool, is_log: bool
) -> None:
    """Each graph and predicate is read from row groups that are read once, and keeps none of them."""
    if not is_mapped:
        monkeypatch.setattr(seeking, "has_layout", lambda metadata: False)
    opened, real = list[str](), seeking.verified

    def noted(place: LocalPlace, run: RunFile, *rest: Any) -> Any:
        opened.append(run.path)
        return real(place, run, *rest)

    monkeypatch.setattr(seeking, "verified", noted)
    monkeypatch.setattr(runs, "verified", noted)
    graphs, rows = 1000, 20
    place, writer = (
        LocalPlace(tmp_path, "."),
        Writer(Target(LocalPlace(tmp_path, "."), ".", 1 if is_log else None), QUADS, 4),
    )
    names = np.repeat(np.arange(graphs), rows)
    subjects = np.tile(np.arange(rows), graphs)
    weights = [np.ones_like(names)] if is_log else []
    writer.add((np.full_like(names, 7), names, subjects, names * rows + subjects, *weights))
    writer.flush()
    readers = Readers(place)
    quads = QuadRuns(readers, [], [writer.runs]) if is_log else QuadRuns(readers, writer.runs)
    few = np.array([3, 4])
    opened.clear()
    before = pa.total_allocated_bytes()
    for graph in range(graphs):
        layers = quads.layers((graph, 7), 3, 4)
        assert layers is not None
        assert layers.has(readers, few, few + graph * rows).all()
    assert len(opened) <= 6  # what is known of a column, and the column
    assert pa.total_allocated_bytes() - before <= 9 * sum(map(len, readers._groups.values()))
    assert readers._rows <= 3 * graphs * rows


@pytest.mark.usefixtures("in_files")
def test_an_epoch_that_meets_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a view that stays in files: the footers of all files that it opens are freed before it ends."""
    tune(monkeypatch, catalog_rows=5, file_rows=25)

    def quads(numbers: Sequence[int]) -> list[ox.Quad]:
        return [
            ox.Quad(ox.NamedNode(f"{EX}s{n}"), ox.NamedNode(f"{EX}{p}"), ox.Literal(f"{p}{n % 7}"))
            for n in numbers
            for p in ("p", "q")
        ]

    with sparqlive.open(tmp_path / "store", memory=0) as session:
        session.apply(insert=quads(range(600)))
        session.compact()
        session.view("both", f"SELECT * {{ ?s <{EX}p> ?a ; <{EX}q> ?b }}", strategy="duckdb")
        assert len(list((tmp_path / "store" / "runs").rglob("*.parquet"))) > 60
        session.apply(insert=quads(range(600, 602)), strategy="duckdb")  # what is done once
        with without_collector():
            before = footers()
            session.apply(delete=quads(range(0, 600, 2)), insert=quads(range(602, 900)), strategy="duckdb")
            assert footers() == before
        assert len(session.views["both"]) == 600
        session.check()


def test_a_relation_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow keeps the bytes of the last row group of each open file; the reader keeps no table beside it."""
    rows, group, width = 64_000, 2_000, 3
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", group)
    place, chance = LocalPlace(tmp_path, "."), np.random.default_rng(1)

    def written(numbers: Any, epoch: int | None) -> list[RunFile]:
        writer = Writer(Target(place, ".", epoch), "view/rows", width, f"-{epoch}")
        writer.add([numbers, *chance.integers(1 << 60, size=(width, len(numbers)))])
        writer.flush()
        return writer.runs

    base = written(np.arange(rows), None)
    deltas = [*written(np.arange(0, rows, 3), 1), *written(np.arange(0, rows, 5), 2)]
    parts = StoredParts(place, "view/rows", width, base, deltas, np.empty((0, width + 1), np.int64))
    before, most = pa.total_allocated_bytes(), 0
    for _ in parts.pieces():
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 1.5 * 3 * group * (width + 1) * 8  # of the base and two deltas
    assert pa.total_allocated_bytes() <= before


def test_workers_merge_what_is_not_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside workers, the process that commits a compaction reads no files of relations or terms."""
    tune(monkeypatch, catalog_rows=5, fold_here_rows=20)
    done: list[str] = []

    def each(tasks: Sequence[Any], work: Callable[[Any], Any], what: str) -> list[Any]:
        done.append(what)
        return [work(task) for task in tasks]

    with sparqlive.open(tmp_path / "store") as session:
        session.view("all", f"SELECT DISTINCT ?o {{ ?s <{EX}p> ?o }}")
        session._writer.persistence.compactor.run_by(each)  # type: ignore[union-attr]
        for batch in range(12):
            names = [ox.NamedNode(f"{EX}{batch}-{n}") for n in range(30)]
            session.apply(insert=[ox.Quad(name, ox.NamedNode(f"{EX}p"), name) for name in names])
            session.compact()
        assert "compact terms" in done
        assert "compact quads" in done
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert len(session.views["all"]) == 360
        assert isinstance(session.dictionary, Dictionary)
        session.check()
