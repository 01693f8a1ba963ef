"""Stores whose runs are on S3 and on HDFS: through Spark's own connectors, and through pyarrow."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox
import pytest
from pyarrow import fs

import sparqlive
from sparqlive.store.place import file_system, place_at
from tests.conftest import ROOT
from tests.kills.cluster import Driver
from tests.kills.writer import HELD, IN_STORE, batch, first, inspect, text_of
from tests.oracle import Oracle
from tests.tuned import tune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 5
on_both = pytest.mark.parametrize("place", ["s3", "hdfs"], indirect=True)


def put(uri: str, content: bytes) -> None:
    files, path = file_system(uri)
    files.create_dir(path.rpartition("/")[0], recursive=True)
    with files.open_output_stream(path) as stream:
        stream.write(content)


def files_below(uri: str) -> list[str]:
    files, path = file_system(uri)
    found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info.path for info in found if info.is_file]


def matches(session: sparqlive.Session, data: set[ox.Quad]) -> None:
    """Quads and views are those of pyoxigraph, and of a recomputation."""
    assert set(session.quads()) == data
    for name, view in session.views.items():
        assert view.weights() == Oracle(data).weights(text_of(name), view.variables), name
    session.check()


@on_both
def test_a_store_with_its_runs_there(
    place: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, catalog_rows=5)  # so that contents become files
    data = first(SEED)
    lines = sorted(f"{quad.triple} .\n" for quad in data)
    put(f"{place}/data/one.nt", "".join(lines[:1000]).encode())
    put(f"{place}/data/two.nt", "".join(lines[1000:]).encode())
    store, runs = tmp_path / "store", f"{place}/runs"
    with sparqlive.open(store, runs=runs, spark=spark) as session:
        session.load(f"{place}/data/*.nt")
        for name in HELD:
            session.view(name, text_of(name))
        for name in IN_STORE:
            session.view(name, text_of(name), strategy="spark")
        matches(session, data)
        for strategy in ("spark", "rebuild", "duckdb", "live", "auto"):
            come, gone = batch(SEED, session.epoch + 1, data)
            chosen = strategy if strategy != "live" else "auto"  # views in the store are never live
            session.apply(insert=come, delete=gone, strategy=chosen)  # type: ignore[arg-type]
            data = (data - gone) | come
            matches(session, data)
        with sparqlive.open(store, read_only=True) as reader:
            matches(reader, data)
        before = files_below(runs)
        session.compact()
        assert set(files_below(runs)) - set(before), "compaction has written files there"
        matches(session, data)
        many = {
            ox.Quad(ox.NamedNode(f"urn:{n}"), ox.NamedNode("urn:p"), ox.Literal(n)) for n in range(12_000)
        }
        session.apply(insert=many, strategy="spark")
        data |= many
    assert not (store / "runs").exists()
    with sparqlive.open(store) as session:  # without Spark
        matches(session, data)
        session.apply(delete=many)
        data -= many
        session.compact()
    with sparqlive.open(store, spark=spark) as session:
        matches(session, data)
        named = set(files_below(runs))
    put(f"{runs}/{next(iter(named)).split('/runs/')[1].rpartition('/')[0]}/unnamed.parquet", b"half written")
    with sparqlive.open(store) as session:
        assert not [path for path in files_below(runs) if path.endswith("unnamed.parquet")]
        matches(session, data)


@on_both
def test_a_damaged_and_a_missing_run_are_named(place: str, tmp_path: Path) -> None:
    for harm in ("damage", "remove"):
        store, runs = tmp_path / harm, f"{place}/{harm}"
        with sparqlive.open(store, runs=runs) as session:
            session.load(first(SEED))
            session.compact()
        path = next(path for path in files_below(runs) if "quads" in path)
        files, _ = file_system(runs)
        if harm == "remove":
            files.delete_file(path)
        else:
            with files.open_input_file(path) as stream:
                content = bytearray(stream.read())
            content[len(content) // 2] ^= 1
            with files.open_output_stream(path) as stream:
                stream.write(bytes(content))
        with pytest.raises(sparqlive.StoreFailed, match=r"quads-"), sparqlive.open(store) as session:
            list(session.quads())


@on_both
def test_the_driver_is_killed_again_and_again(
    place: str, spark_settings: dict[str, str], tmp_path: Path
) -> None:
    store, rng = tmp_path / "store", random.Random(2)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    acknowledged = 0
    for kill in range(3):
        command = [sys.executable, "-m", "tests.kills.writer", store, f"{place}/runs", "local[2]", SEED]
        driver = Driver([*map(str, command), str(acknowledged + 20)], environment, tmp_path / "driver.log")
        driver.wait_for("begin" if kill else "open")
        time.sleep(rng.uniform(0, 3))
        driver.kill()
        acknowledged = inspect(store, SEED, max(acknowledged, driver.epoch()))
    driver = Driver([*map(str, command), str(acknowledged + 2)], environment, tmp_path / "driver.log")
    driver.finish()
    assert inspect(store, SEED, acknowledged + 2) == acknowledged + 2


@on_both
def test_files_that_are_not_there_are_named(place: str, spark: SparkSession, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", runs=f"{place}/runs", spark=spark) as session:
        with pytest.raises(sparqlive.Error, match=r"nothing/\*\.nt"):
            session.load(f"{place}/nothing/*.nt")
        assert session.epoch == 0
        put(f"{place}/bad/one.nt", b"<urn:a> <urn:b> <urn:c> .\nnonsense\n")
        with pytest.raises(sparqlive.SyntaxError, match=r"bad/one\.nt, line 2"):
            session.load(f"{place}/bad/one.nt")
        assert session.epoch == 0
        assert not session.sources


def test_keys_do_not_travel_to_workers(s3: str) -> None:
    import pickle

    sent = pickle.dumps(place_at(f"{s3}/runs", "folder"))
    assert os.environ["AWS_SECRET_ACCESS_KEY"].encode() not in sent
    assert pickle.loads(sent).uri("a") == f"{s3}/runs/a"
