"""Plans on DuckDB: every fixture, every W3C evaluation test and random queries, at once and by deltas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
import pytest
from hypothesis import given

from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.frame import Frame
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from sparqlive.store.place import LocalPlace
from sparqlive.store.saving import Target
from sparqlive.store.streaming import pieces_of_saved
from tests.bulk.w3c_plans import CASES, assert_expected, assert_most_are_covered, data, plan_of_test
from tests.conftest import examples, times
from tests.fixture_format import Fixture, last_words
from tests.on_duckdb import DuckDbWork
from tests.oracle import Weights, add, assert_same
from tests.plan_reference import Reference
from tests.random_queries import RandomQuery, batches, graphs, queries
from tests.test_fixtures import KEPT, reorder
from tests.w3c import EvaluationTest, assert_alike


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": "1"}) as opened:
        yield opened


def plan_of(text: str, *, union: bool = False, base: str | None = None) -> Operator:
    return rewrite(translate(parse_query(text, base), union))


@pytest.mark.parametrize("fixture", KEPT, ids=lambda fixture: fixture.name)
def test_fixture(fixture: Fixture, connection: duckdb.DuckDBPyConnection) -> None:
    """The snapshot, each epoch's delta, and all epochs as one."""
    plan = plan_of(fixture.text, union=fixture.default_graph == "union")
    names = tuple(variable.name for variable in plan.variables)
    work = DuckDbWork(connection)

    def compare(found: Weights, expected: Weights, when: str) -> None:
        assert_alike(reorder(found, names, fixture.variables), expected, f"{fixture.name}, {when}")

    quads = first = set(fixture.data)
    compare(work.evaluate(plan, first), fixture.snapshot, "the snapshot")
    total: Weights = {}
    for number, epoch in enumerate(fixture.epochs, 1):
        insert, delete = last_words(epoch.changes)
        before, quads = quads, (quads - set(delete)) | set(insert)
        compare(work.delta(plan, before, quads), epoch.delta, f"epoch {number}")
        total = add(total, epoch.delta)
    if len(fixture.epochs) > 1:
        compare(work.delta(plan, first, quads), total, "all epochs")


@pytest.mark.w3c
def test_most_of_the_suites_is_covered() -> None:
    assert_most_are_covered()


@pytest.mark.w3c
@pytest.mark.parametrize("test", CASES, ids=lambda test: test.name)
def test_w3c(test: EvaluationTest, connection: duckdb.DuckDBPyConnection) -> None:
    """At once; a quarter of them, or all, as a delta from a part of the data to all of it, and some back."""
    plan, (quads, part) = plan_of_test(test), data(test)
    work = DuckDbWork(connection)
    whole = work.evaluate(plan, quads)
    assert_expected(test, plan, whole)
    chance = crc32(test.name.encode())
    if chance % times(4, 1) == 0:
        of_part = work.evaluate(plan, part)
        assert_same(add(of_part, work.delta(plan, part, quads)), whole, f"{test.name}: the delta of the rest")
        if chance % times(8, 1) == 0:
            assert_same(add(whole, work.delta(plan, quads, part)), of_part, f"{test.name}: the delta back")


@examples(25)
@given(queries(), graphs, batches)
def test_random_queries(query: RandomQuery, graph: list[ox.Quad], batch: list[tuple[str, ox.Quad]]) -> None:
    """Content and change by this executor and by the definitions."""
    plan, old = plan_of(query.text), set(graph)
    new = (old - {quad for sign, quad in batch if sign == "-"}) | {q for sign, q in batch if sign == "+"}
    reference = Reference(old, new)
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        work = DuckDbWork(connection)
        assert_same(work.evaluate(plan, new), dict(reference.content(plan).weights), f"content of {query}")
        assert_same(work.delta(plan, old, new), dict(reference.delta(plan).weights), f"delta of {query}")


def test_a_query_that_runs_out_of_memory_runs_again_with_more() -> None:
    with DuckDb(memory=80 << 20) as backend:
        rows = backend.view(Frame.table("range(6000000)", ["range"]).select("range AS n"))
        listed = rows.grouped([], "len(list(n)) AS size")  # DuckDB cannot put a list on disk
        assert backend.rows(listed).to_pylist() == [{"size": 6_000_000}]
        limit = backend.rows(
            Frame.table("duckdb_settings()", ["name", "value"]).where("name = 'memory_limit'")
        )
    assert limit.column("value").to_pylist() == ["80.0 MiB"]


def test_a_fault_in_duckdb_ends_its_database_not_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, views, functions and the limit on memory are there again in another database."""
    run, faults = DuckDb._run_in_thread, 0

    def with_a_fault(backend: DuckDb, text: str, take: Any) -> Any:
        nonlocal faults
        if "plus_one" in text and not faults:
            faults += 1
            backend._connection.close()
            raise duckdb.InternalException("INTERNAL Error: as a test")
        return run(backend, text, take)

    monkeypatch.setattr(DuckDb, "_run_in_thread", with_a_fault)
    with DuckDb(memory=80 << 20) as backend:
        table = backend.frame(pa.table({"n": pa.array([1, 2], pa.int64())}), ["n"])
        made = backend.materialize(backend.view(table.select("n * 10 AS n")))
        plus_one = backend.function(lambda numbers: pc.add(numbers, 1), pa.int64())
        found = backend.rows(made.select(f"{plus_one}(n) AS plus_one").sorted(["plus_one"]))
        setting = Frame.table("duckdb_settings()", ["name", "value"]).where("name = 'memory_limit'")
        assert backend.rows(setting).column("value").to_pylist() == ["80.0 MiB"]
    assert faults == 1
    assert found.column("plus_one").to_pylist() == [11, 21]
    with DuckDb() as backend:
        assert backend.rows(Frame.table("range(2)", ["range"])).num_rows == 2


@pytest.mark.parametrize("largest", [1 << 61, 1 << 58], ids=["eighths", "sixty-fourths"])
@pytest.mark.parametrize("rows", [3, 30_000])
def test_rows_that_there_is_no_memory_for_are_saved_range_by_range(
    rows: int, largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole ranges of ids do not run, those of at most `largest` ids do."""
    run_once, tried = DuckDb._run_once, []

    def run(backend: DuckDb, text: str, take: Any) -> Any:
        bounds = re.search(r"BETWEEN (-?\d+) AND (-?\d+)", text)
        tried.append(text)
        if bounds is None or int(bounds[2]) - int(bounds[1]) > largest:
            raise duckdb.OutOfMemoryException("Out of Memory Error: as a test")
        return run_once(backend, text, take)

    with DuckDb(memory=80 << 20) as backend:
        table = Frame.table(f"range({rows})", ["range"])
        frame = table.select("CAST(hash(range) // 2 AS BIGINT) * (1 - range % 2 * 2) AS c0", "1 AS w")
        expected = sorted(row["c0"] for row in backend.rows(frame).to_pylist())
        monkeypatch.setattr(DuckDb, "_run_once", run)
        target = Target(LocalPlace(tmp_path, "."), ".")
        saved = backend.save(frame, "view/rows", target)
    found = [number for (column,), _ in pieces_of_saved(target.place, saved) for number in column.tolist()]
    assert found == expected
    assert saved.count == rows
    assert len(tried) > 8
