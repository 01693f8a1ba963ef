"""Views that stay in the store, carried by Spark: the driver gets names of files, and few rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparqlive
from sparqlive.bulk.backends.spark import backend
from sparqlive.bulk.ingest.effective import ChangeFiles
from sparqlive.rdf.change_columns import read_batches
from sparqlive.rdf.dictionary import hash_of
from sparqlive.runtime.tuning import DEFAULT
from tests.conftest import times
from tests.tuned import tune

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_files")]

BY_COLUMNS = replace(DEFAULT, column_bytes=0)
MOST = 40
"""Rows that the driver may take in at once in these tests, in place of 10,000."""
NUMBERS = (1, -3, 2**63 - 1, -(2**63), 7)
VIEWS = {
    "join": "SELECT ?x ?y ?v { ?x <urn:p> ?z . ?z <urn:q> ?y . ?x <urn:v> ?v }",
    "totals": "SELECT ?y (SUM(?v) AS ?t) (COUNT(*) AS ?n) "
    "{ ?x <urn:p> ?z . ?z <urn:q> ?y . ?x <urn:v> ?v } GROUP BY ?y",
    "open": "SELECT ?x { ?x <urn:p> ?z FILTER NOT EXISTS { ?x <urn:done> ?d } }",
}


def orders(start: int, stop: int) -> str:
    lines = [f"<urn:x{n}> <urn:p> <urn:z{n % 7}> ." for n in range(start, stop)]
    lines += [
        f'<urn:x{n}> <urn:v> "{NUMBERS[n % 5]}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
        for n in range(start, stop)
    ]
    lines += [f"<urn:x{n}> <urn:done> <urn:yes> ." for n in range(start, stop, 2)]
    return "\n".join(lines)


@pytest.fixture
def bounded(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fails when the driver takes in, or hands out, more than so many rows at once; lists how many it did."""
    tune(monkeypatch, catalog_rows=MOST, partition_rows=MOST // 2, file_rows=30)
    counts: list[int] = []

    def counted(count: int) -> None:
        counts.append(count)
        assert count <= MOST, f"{count} rows at once in the driver"

    kind = type(spark.range(1))

    def wrapped(name: str, size: Callable[[Any], int]) -> None:
        original = getattr(kind, name)

        def call(self: DataFrame, *arguments: Any) -> Any:
            found = original(self, *arguments)
            counted(size(found))
            return found

        monkeypatch.setattr(kind, name, call)

    wrapped("collect", len)
    wrapped("toArrow", lambda table: table.num_rows)
    created = type(spark).createDataFrame

    def create(self: SparkSession, data: Any, *arguments: Any, **named: Any) -> DataFrame:
        counted(data.num_rows)
        return created(self, data, *arguments, **named)

    monkeypatch.setattr(type(spark), "createDataFrame", create)
    return counts


def _by_workers(session: sparqlive.Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load and a batch of changes: this process reads no row of them."""

    def read(self: ChangeFiles) -> None:
        raise AssertionError("the driver reads the changes of an epoch")

    monkeypatch.setattr(ChangeFiles, "rows", read)
    before, new = set(session.quads()), _quads(orders(150, 260))
    (folder / "more.nt").write_text(orders(150, 260))
    epoch = session.load(folder / "more.nt")
    assert (epoch.inserted, epoch.strategy) == (len(new - before), "duckdb")
    delete, insert = orders(200, 250), orders(240, 280)
    signed = [f"- {line}\n" for line in delete.splitlines()] + [f"+ {line}\n" for line in insert.splitlines()]
    (folder / "more.changes").write_text("".join(signed))
    (batch,) = read_batches(folder / "more.changes", {}, text_bytes=0, tuning=BY_COLUMNS)
    epoch = session.apply_batch(batch, strategy="spark")
    assert epoch.strategy == "spark"
    assert set(session.quads()) == ((before | new) - _quads(delete)) | _quads(insert)


def _quads(text: str) -> set[ox.Quad]:
    return set(ox.parse(text.encode(), ox.RdfFormat.N_QUADS))


def test_no_rows_pass_through_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounded: list[int]
) -> None:
    tune(monkeypatch, reference_quads=-1)
    with sparqlive.open(tmp_path, spark=spark, memory=0) as session:
        values = "".join(f"<urn:z{n}> <urn:q> <urn:y{n % 3}> .\n" for n in range(7))
        session.apply(insert=values + orders(0, 100))
        session.compact()
        for name, query in [*VIEWS.items()][: times(2, 3)]:
            session.view(name, query, strategy="spark")
        assert len(session.views["join"]) == 100
        epoch = session.apply(insert=orders(100, 103), delete=orders(0, 2), strategy="spark")
        assert {choice.strategy for choice in epoch.choices.values()} == {"spark"}
        session.apply(insert=orders(103, 200), delete=orders(2, 50), strategy="spark")
        session.apply(delete=orders(50, 55), strategy="rebuild")
        session.apply(delete=orders(55, 60), strategy="duckdb")
        assert len(session.views["join"]) == 140
        _by_workers(session, tmp_path, monkeypatch)
        store = session._writer.persistence.store  # type: ignore[union-attr]
        by_ranges = replace(store.tuning, range_rows=100, fold_here_rows=0, term_files=2)
        monkeypatch.setattr(store, "tuning", by_ranges)
        files = len(store.term_runs())
        session.compact()
        assert len(store.term_runs()) < files
        strategies = session._writer.strategies
        with monkeypatch.context() as patch:
            patch.setattr(strategies, "_file_backend", lambda *_: ("duckdb", ""))
            session.check()
        catalog, content = session._writer.persistence.store.catalog, session.views["join"]._state.content  # type: ignore[union-attr]
        row, _ = next(content.items())
        with catalog.transaction():
            catalog.add_delta(content.name, session.epoch + 1, 3, {row: 1})
        monkeypatch.setattr(strategies, "_file_backend", lambda *_: ("spark", ""))
        with pytest.raises(sparqlive.CheckFailed, match=r"in 1 rows: .*occurs 1 times too often"):
            session.check()
    assert bounded


def test_no_computed_terms_pass_through_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounded: list[int]
) -> None:
    """Workers write them, and find those whose ids clash."""
    tune(monkeypatch, few_changes=MOST)
    entered: list[int] = []
    query = 'SELECT ?x ?n { ?x <urn:p> ?z BIND(CONCAT("name of ", STR(?x)) AS ?n) }'
    with sparqlive.open(tmp_path, spark=spark, memory=0) as session:
        dictionary = session.dictionary
        taken = hash_of('"name of urn:x2"')
        dictionary._claim(taken, "<urn:owner>")
        dictionary.load_exceptions({"<urn:owner>": taken})
        session.apply(insert=orders(0, 100))
        session.compact()
        enter = dictionary.enter_together

        def counted(numbers: Any, texts: Any) -> Any:
            entered.append(len(numbers))
            return enter(numbers, texts)

        monkeypatch.setattr(dictionary, "enter_together", counted)
        session.view("named", query, strategy="spark")
        assert entered, "a clash makes this process take in the terms that share an id"
        assert sum(entered) <= MOST
        (tmp_path / "more.nt").write_text(orders(100, 200))
        session.load(tmp_path / "more.nt")
        assert sum(entered) <= MOST
        found = {(str(row["x"]), str(row["n"])) for row in session.views["named"].solutions()}
        assert found == {(f"<urn:x{n}>", f'"name of urn:x{n}"') for n in range(200)}
        session.check()
    assert bounded


def test_large_work_has_more_partitions(spark: SparkSession) -> None:
    own = spark.conf.get("spark.sql.shuffle.partitions")
    with backend.SparkBackend(spark, quads=100_000_000):
        during = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    assert during >= 25
    assert spark.conf.get("spark.sql.shuffle.partitions") == own
