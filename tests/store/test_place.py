"""Runs that are elsewhere: in another directory, and on a file system of pyarrow's; the catalog stays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import Job
from sparqlive.pipeline.progress import Progress
from sparqlive.store import place
from sparqlive.store import store as store_module
from tests.oracle import Oracle
from tests.store.test_failures import damage
from tests.store.test_history import contents
from tests.store.test_readers import same_epoch
from tests.store.test_store import QUERIES, quad, query
from tests.tuned import tune
from tests.waiting import wait_until


@pytest.fixture(params=["local", "remote"])
def runs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address; the code for other file systems works on pyarrow's local one here."""
    tune(monkeypatch, catalog_rows=2)
    if request.param == "remote":
        monkeypatch.setattr(store_module, "place_at", place.RemotePlace)
        monkeypatch.setattr(place, "sync", None)
        monkeypatch.setattr(place.LocalPlace, "path", None)
    return (tmp_path / "far away").as_uri()


def files(tmp_path: Path, pattern: str = "*.parquet") -> list[Path]:
    return sorted((tmp_path / "far away").rglob(pattern))


def test_everything_is_there_again(tmp_path: Path, runs: str) -> None:
    rng = random.Random(11)
    data: set[ox.Quad] = set()
    for round_ in range(6):
        # Only the first says where the runs are, and the last says it again.
        with sparqlive.open(tmp_path / "store", runs=None if 0 < round_ < 5 else runs) as session:
            assert set(session.quads()) == data
            session.check()
            for name in list(QUERIES)[: round_ + 1]:
                session.view(name, query(name))
            for _ in range(3):
                come = {quad(rng) for _ in range(6)} - data
                gone = set(rng.sample(sorted(data, key=str), min(3, len(data))))
                session.apply(insert=come, delete=gone)
                data = (data - gone) | come
            for name, view in session.views.items():
                assert view.weights() == Oracle(data).weights(query(name), view.variables)
            if round_ % 2:
                session.compact()
                session.check()
    assert files(tmp_path, "quads*.parquet")
    assert files(tmp_path, "*-rows-*.parquet")
    assert not (tmp_path / "store" / "runs").exists()


def test_replaced_and_unnamed_files_are_removed(tmp_path: Path, runs: str) -> None:
    """Those of this store: another one may have its runs at the same address."""
    with sparqlive.open(tmp_path / "other", runs=runs) as other:
        other.load([quad(random.Random(1)) for _ in range(5)])
        other.compact()
        others = files(tmp_path)
        with sparqlive.open(tmp_path / "store", runs=runs) as session:
            session.load([quad(random.Random(seed)) for seed in range(5)])
            session.compact()
            first = set(files(tmp_path)) - {*others}
            session.apply(insert=[quad(random.Random(seed)) for seed in range(5, 20)])
            session.compact()
            assert not any(file.exists() for file in first if file.name.startswith("quads-0"))
            attempt = next(file for file in files(tmp_path) if file not in others).parent
        left = attempt.with_name(f"{attempt.name.partition('-')[0]}-1a-2-3")
        for orphan in (left / "ingest" / "x.parquet", attempt / "x.parquet"):
            orphan.parent.mkdir(parents=True, exist_ok=True)
            orphan.write_bytes(b"half written")
        with sparqlive.open(tmp_path / "store") as session:
            assert not files(tmp_path, "x.parquet")
            assert not left.exists()
            session.check()
        assert all(file.exists() for file in others)
    with sparqlive.open(tmp_path / "other") as other:
        other.check()


def test_a_reader_follows(tmp_path: Path, runs: str) -> None:
    rng = random.Random(4)
    with sparqlive.open(tmp_path / "store", runs=runs) as session:
        session.load([quad(rng) for _ in range(20)])
        session.view("distinct", query("distinct"))
        session.compact()
        with sparqlive.open(tmp_path / "store", read_only=True) as reader:
            assert contents(reader) == contents(session)
            session.apply(insert=[quad(rng) for _ in range(10)])
            session.compact()
            wait_until(same_epoch(reader, session))
            assert contents(reader) == contents(session)
            assert set(reader.quads()) == set(session.quads())
            reader.check()


@pytest.mark.parametrize("harm", [damage, Path.unlink, lambda file: file.write_bytes(b"PAR1")])
def test_a_damaged_run_is_named_and_repaired(tmp_path: Path, runs: str, harm: object) -> None:
    with sparqlive.open(tmp_path / "store", runs=runs) as session:
        session.load([quad(random.Random(seed)) for seed in range(30)])
        session.view("optional", query("optional"))
        session.compact()
        expected = contents(session)
    for file in files(tmp_path, "*-rows-0*.parquet"):
        harm(file)  # type: ignore[operator]
    with sparqlive.open(tmp_path / "store") as session:
        with pytest.raises(sparqlive.StoreFailed, match=r"far.*away/sparqlive-.*-rows-00000") as told:
            session.check()
        assert "--repair" in str(told.value)
    with sparqlive.open(tmp_path / "store") as session:
        assert session.repair()
        assert contents(session) == expected
        session.check()
    files(tmp_path, "quads-0*.parquet")[0].unlink()
    with pytest.raises(sparqlive.StoreFailed, match=r"quads-00000\.parquet"):
        sparqlive.open(tmp_path / "store")


def test_a_store_keeps_to_where_its_runs_are(tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "store", runs=tmp_path / "one").close()
    sparqlive.open(tmp_path / "store", runs=f"{(tmp_path / 'one').as_uri()}/").close()
    for read_only in (False, True):
        with pytest.raises(sparqlive.StoreFailed, match=r"its runs at file://.*/one, not at file://.*/two"):
            sparqlive.open(tmp_path / "store", runs=tmp_path / "two", read_only=read_only)
    sparqlive.open(tmp_path / "plain").close()
    with pytest.raises(sparqlive.StoreFailed, match="its runs in its directory, not at"):
        sparqlive.open(tmp_path / "plain", runs=tmp_path / "one")
    sparqlive.open(tmp_path / "plain").close()


def test_what_is_no_place_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(sparqlive.Error, match="no file system supports this address"):
        sparqlive.open(tmp_path / "store", runs="nowhere://host/runs")
    with pytest.raises(sparqlive.Error, match="must be followed by an absolute path"):
        sparqlive.open(tmp_path / "store", runs="file://runs")
    for address in (
        "s3a://key:secret@bucket/x",
        "s3a://bucket/x?endpoint_override=host",
        "s3a://bucket/a%20b",
    ):
        with pytest.raises(sparqlive.Error, match=r"must be scheme://place/path, without '[:?%]'"):
            sparqlive.open(tmp_path / "store", runs=address)
    with pytest.raises(sparqlive.Error, match="runs needs a store"):
        sparqlive.open(runs=tmp_path / "runs")
    with pytest.raises(sparqlive.Unsupported, match=r"local disk.*for its runs"):
        sparqlive.open("s3a://bucket/store")
    assert not list(tmp_path.iterdir())


def test_the_address_is_s3a_for_spark_and_s3_for_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bucket: what is asked for is seen, and what Spark would be told."""
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[object, str]:
        asked.append(uri)
        return place.fs.LocalFileSystem(), "bucket"

    monkeypatch.setattr(place.fs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(from_uri)}))
    there = place.place_at(place.address_of("s3a://bucket/shop/"), "f")
    place._connected.cache_clear()  # the next test is to get a real one
    assert asked == ["s3://bucket"]
    assert there.uri("f/a/quads-0.parquet") == "s3a://bucket/shop/f/a/quads-0.parquet"
    assert there.path("f/a/quads-0.parquet") == "bucket/shop/f/a/quads-0.parquet"


def test_a_pipeline_says_where_the_runs_are(tmp_path: Path) -> None:
    (tmp_path / "data.nt").write_text("<urn:a> <urn:p> <urn:b> .\n")
    (tmp_path / "pipeline.toml").write_text('store = "store"\nruns = "far"\n[load]\ndata = "data.nt"\n')
    with Job(read_pipeline(tmp_path / "pipeline.toml"), Progress(StringIO())) as job:
        job.prepare()
        job.session.compact()
    assert list((tmp_path / "far").rglob("quads*.parquet"))


def test_views_in_the_store_are_carried_by_duckdb_where_runs_are_elsewhere(tmp_path: Path) -> None:
    """On a file system that is not this machine's: one of pyarrow's, in memory."""
    rng = random.Random(9)
    data = {quad(rng) for _ in range(40)}
    with sparqlive.open(tmp_path / "store", runs="mock://server/runs", memory=0) as session:
        session.load(data)
        session.compact()  # into files
        for name in QUERIES:
            session.view(name, query(name))
        for strategy in ("duckdb", "rebuild"):
            come = {quad(rng) for _ in range(6)} - data
            gone = set(rng.sample(sorted(data, key=str), 3))
            session.apply(insert=come, delete=gone, strategy=strategy)  # type: ignore[arg-type]
            data = (data - gone) | come
        for name, view in session.views.items():
            assert view.weights() == Oracle(data).weights(query(name), view.variables)
        session.check()
    place._connected.cache_clear()


def test_a_place_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(self: object) -> list[str]:
        raise OSError("connection refused")

    monkeypatch.setattr(place.RemotePlace, "folders", unreachable)
    with pytest.raises(sparqlive.StoreFailed, match=r"at mock://server/runs/.* cannot be listed: connection"):
        sparqlive.open(tmp_path / "store", runs="mock://server/runs")
    place._connected.cache_clear()
