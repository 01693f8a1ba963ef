"""Each strategy gives the same deltas and leaves the same state; the choice is recorded with its reason."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.engine import carry as strategies
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from sparqlive.store import place, store
from tests.conftest import times
from tests.on_spark import LONG
from tests.store.test_store import quad, query
from tests.tuned import tune

pytestmark = pytest.mark.spark

FEW = replace(DEFAULT, small_batch=5)


@pytest.mark.parametrize("place", ["store", "memory"][: times(1, 2)])
def test_strategies_take_turns(spark: SparkSession, tmp_path: Path, place: str) -> None:
    kept = place == "store"
    rng = random.Random(5)
    with sparqlive.open(tmp_path / "store" if kept else None, spark=spark) as session:
        data = {quad(rng) for _ in range(15)}
        session.load(data)
        for name in ("distinct", "computed", "stored")[: times(2, 3)]:
            # A view that Spark computes stays in the store, where live does not carry it.
            session.view(name, query(name), strategy="live" if kept else "spark")
        session.check()
        for step in range(3):
            come = {quad(rng) for _ in range(8)} - data
            gone = set(rng.sample(sorted(data, key=str), min(4, len(data))))
            strategy = ("live", "spark", "rebuild")[step]
            epoch = session.apply(insert=come, delete=gone, strategy=strategy)  # type: ignore[arg-type]
            data = (data - gone) | come
            assert epoch.strategy == strategy
            session.check()
    if kept:
        with sparqlive.open(tmp_path / "store") as session:
            assert set(session.quads()) == data
            session.check()


def test_the_choice_is_explained() -> None:
    rng = random.Random(6)
    with Session(tuning=FEW) as session:
        session.view("optional", query("optional"))
        few = session.apply(insert=[quad(rng) for _ in range(3)])
        assert few.choices == {}
        assert few.strategy == "live"
        epoch = session.apply(insert=[quad(rng) for _ in range(60)])
        choice = epoch.choices["optional"]
        assert choice.strategy == "live"
        assert choice.reason.startswith("live is the cheapest for ")
        assert choice.reason.endswith(" changed rows: at most 20,000.")
        assert choice.seconds > 0
        session.check()


def test_explain_and_stats_tell_the_last_choice() -> None:
    rng = random.Random(8)
    with Session(tuning=FEW) as session:
        view = session.view("optional", query("optional"))
        assert "none yet" in view.explain()
        assert view.stats()["strategy"] == "live"
        epoch = session.apply(insert=[quad(rng) for _ in range(60)], strategy="rebuild")
        choice = epoch.choices["optional"]
        assert view.stats()["strategy"] == "rebuild"
        told = view.explain().partition("last strategy choice\n")[2]
        assert f"epoch {epoch.number}: rebuild" in told
        assert choice.reason in told
        session.apply(insert="<urn:one> <urn:p> <urn:more> .")
        assert f"epoch {epoch.number}: rebuild" in view.explain(), "a small batch leaves nothing to choose"
        deferred = session.view("later", query("optional"), refresh="manual")
        session.apply(insert=[quad(rng) for _ in range(60)])
        deferred.refresh()
        assert f"epoch {session.epoch}:" in deferred.explain()
        session.check()


@pytest.mark.parametrize("few", [0, pytest.param(10**6, marks=LONG)], ids=["joined", "broadcast"])
def test_large_batches_on_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Many changes are read from files, and joined without being broadcast: the deltas are the same."""
    tune(monkeypatch, catalog_rows=3, few_changes=few)
    rng = random.Random(10)
    with sparqlive.open(spark=spark) as session:
        data = {quad(rng) for _ in range(30)}
        session.load(data)
        for name in ("optional", "stored"):
            session.view(name, query(name))
        for how in ("spark", "live", "spark"):
            come = {quad(rng) for _ in range(10)} - data
            gone = set(rng.sample(sorted(data, key=str), 6))
            session.apply(insert=come, delete=gone, strategy=how)  # type: ignore[arg-type]
            data = (data - gone) | come
            session.check()


def test_an_unknown_strategy_is_refused() -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="strategy"):
        session.apply(insert=[quad(random.Random(1))], strategy="magic")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "graph"),
    [
        ("<urn:s> <urn:p> <view:v> <view:v> .", None),
        ("<urn:s> <urn:p> <urn:o> <sparqlive:links> .", None),
        ("<urn:s> <sparqlive:describedBy> <urn:o> .", None),
        ("<urn:s> <urn:p> <urn:o> .", "view:v"),
    ],
)
def test_spark_loads_nothing_under_reserved_names(
    line: str, graph: str | None, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "data.nq"
    file.write_text(f"<urn:s> <urn:p> <urn:o> <urn:g> .\n{line}\n<urn:t> <urn:p> <view:v> .\n")
    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        with pytest.raises(sparqlive.InvalidChange, match="Cannot write"):
            session.load(file, graph)
        assert (session.epoch, len(session)) == (0, 0)
        file.write_text("<urn:t> <urn:p> <view:v> .\n")
        assert session.load(file).strategy == "spark"
        assert len(session) == 1


def test_an_empty_store_is_loaded_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f"<urn:s{n % 50}> <urn:p{n % 3}> <urn:o{n}> ." for n in range(500)]
    lines[100] = "<urn:broken> <urn:p1> ."
    file = tmp_path / "data.nt"
    file.write_text("\n".join(lines) + "\n")
    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        with pytest.raises(sparqlive.SyntaxError, match="101"):
            session.load(file)
        assert session.epoch == 0
        epoch = session.load(file, on_error="skip")
        again = session.load(file, on_error="skip")
        assert (again.number, again.inserted, again.rejected) == (1, 0, 1), "nothing is new"
        assert (epoch.inserted, epoch.rejected, epoch.strategy) == (499, 1, "spark")
        view = session.view("v", "SELECT ?s ?o { ?s <urn:p1> ?o }")
        expected = set(ox.parse("\n".join(lines[:100] + lines[101:]), ox.RdfFormat.N_TRIPLES))
        assert set(session.quads()) == expected
        session.apply(insert="<urn:s1> <urn:p1> <urn:new> .")
        session.check()
        rows = view.weights()
    with sparqlive.open(tmp_path / "store") as session:
        assert session.views["v"].weights() == rows
        assert len(session) == 500
        session.check()


def test_when_spark_fails_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    with Session(bulk="spark", tuning=replace(FEW, spark_rows=1)) as session:
        view = session.view("distinct", query("distinct"))
        session.apply(insert=[quad(rng) for _ in range(20)], strategy="live")
        rows, epoch = view.weights(), session.epoch

        def gone(_: object) -> strategies.Carrier:
            raise ConnectionError("the cluster is gone")

        monkeypatch.setitem(session._writer.strategies.carriers, "spark", gone)
        with pytest.raises(sparqlive.SparkFailed, match="the cluster is gone"):
            session.apply(insert=[quad(rng) for _ in range(20)], strategy="spark")
        assert (view.weights(), session.epoch) == (rows, epoch)
        session.check()
        carried = session.apply(insert=[quad(rng) for _ in range(20)])
        assert carried.strategy == "live"
        assert "the cluster is gone" in carried.choices["distinct"].reason
        session.check()


def test_when_duckdb_fails_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with sparqlive.open() as session:
        view = session.view("distinct", query("distinct"))

        def broken(_: object) -> strategies.Carrier:
            raise MemoryError("out of memory")

        monkeypatch.setitem(session._writer.strategies.carriers, "duckdb", broken)
        with pytest.raises(sparqlive.BulkFailed) as caught:
            session.apply(insert=[quad(random.Random(7))], strategy="duckdb")
        assert str(caught.value) == "DuckDB failed: MemoryError: out of memory"
        assert not isinstance(caught.value, sparqlive.SparkFailed)
        assert (len(view), session.epoch) == (0, 0)


@pytest.mark.parametrize("kind", [pytest.param(place.LocalPlace, marks=LONG), place.RemotePlace])
def test_runs_are_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """Loaded, read and carried by Spark where the store was told to have its runs."""
    if kind is place.RemotePlace:
        monkeypatch.setattr(store, "place_at", kind)
    rng = random.Random(12)
    data = {quad(rng) for _ in range(15)}
    (tmp_path / "data.nq").write_text("".join(f"{one} .\n" for one in data))
    with sparqlive.open(tmp_path / "store", spark=spark, runs=(tmp_path / "far").as_uri()) as session:
        assert session.load(str(tmp_path / "data.nq")).strategy == "spark"
        assert {file.parent.name for file in (tmp_path / "far").rglob("*.parquet")} == {"quads", "terms"}
        session.view("distinct", query("distinct"), strategy="spark")
        come = {quad(rng) for _ in range(8)} - data
        assert session.apply(insert=come, strategy="spark").strategy == "spark"
        session.check()
        session.compact()
        session.apply(delete=come, strategy="rebuild")
        session.check()
    assert not (tmp_path / "store" / "runs").exists()
    with sparqlive.open(tmp_path / "store") as session:
        assert set(session.quads()) == data
        session.check()


def test_a_store_at_another_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sparqlive.Unsupported, match="local disk"):
        sparqlive.open("hdfs://host/store")
    with sparqlive.open((tmp_path / "store").as_uri()) as session:
        session.apply(insert="<urn:a> <urn:p> <urn:b> .")
    assert (tmp_path / "store" / "catalog.sqlite").exists()


def test_the_temporary_store_goes_with_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads a session in memory from files, and writes files, which are gone after a failure too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tune(monkeypatch, catalog_rows=3, partition_rows=1)
    rng = random.Random(13)
    with sparqlive.open(spark=spark) as session:
        session.load([quad(rng) for _ in range(30)])
        view = session.view("stored", query("distinct"), strategy="spark")
        (folder,) = tmp_path.iterdir()
        assert not [*(folder / "runs").rglob("*-content-*")], "what is read was mapped, or read by columns"
        assert not [*folder.rglob("rows-*.map")]
        rows = view.weights()
        with monkeypatch.context() as patch:
            patch.setattr("sparqlive.bulk.in_store.InStore.delta", _fails)
            with pytest.raises(sparqlive.SparkFailed, match="the cluster is gone"):
                session.apply(insert=[quad(rng) for _ in range(20)], strategy="spark")
        assert view.weights() == rows
        session.apply(insert=[quad(rng) for _ in range(20)], strategy="spark")
        assert not [*(folder / "runs").rglob("*-delta-*")]
        session.check()
    assert not [*tmp_path.iterdir()]


def _fails(*_: object) -> None:
    raise ConnectionError("the cluster is gone")
