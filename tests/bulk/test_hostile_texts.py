"""Texts that mean something to SQL, to Spark or to DuckDB are nothing but texts in every place of a query."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.dialect import DuckDbSql
from tests.bulk.test_duckdb import plan_of
from tests.hostile_texts import DECOYS, FOLDERS, QUERIES, TEXTS, WHOLE, data, query
from tests.on_duckdb import DuckDbWork
from tests.oracle import Oracle, Weights, assert_same

DATA = data()


def expected(name: str) -> Weights:
    """By pyoxigraph, which knows neither of the two."""
    variables = [variable.name for variable in plan_of(query(name)).variables]
    if name == "template":
        return dict(Counter(Oracle(DATA).rows(query(name), ())))
    return Oracle(DATA).weights(query(name), variables)


@pytest.fixture(scope="module")
def work() -> DuckDbWork:
    return DuckDbWork()


@pytest.mark.parametrize("name", QUERIES)
def test_places_of_queries(work: DuckDbWork, name: str) -> None:
    assert_same(work.evaluate(plan_of(query(name)), DATA), expected(name), name)


def test_each_text_is_what_comes_back() -> None:
    texts = (*TEXTS, WHOLE)
    written = ", ".join(map(DuckDbSql().text, texts))
    with duckdb.connect() as connection:
        assert connection.sql(f"SELECT {written}").fetchall() == [texts]


def written(folder: Path) -> dict[str, int]:
    """A file in each folder, by its address, with the number in it; those that are decoys have others."""
    found = {}
    for number, name in enumerate(dict.fromkeys((*FOLDERS, *DECOYS))):
        path = folder / name / "run.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"s": [number + 100], "o": [number + 100]}), path)
        if name in FOLDERS:
            found[path.as_uri()] = number + 100
    return found


def test_files_in_folders_with_odd_names(tmp_path: Path) -> None:
    """A name is neither a pattern nor a partition."""
    for address, number in written(tmp_path).items():
        with DuckDb() as backend:
            rows = backend.rows(backend.files([address], ("s", "o")))
        assert rows.to_pylist() == [{"s": number, "o": number}], address
