"""Small data on the Spark session of the tests: evaluations and deltas, gathered and run as one job."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyoxigraph as ox
import pytest
from pyspark.sql import DataFrame, SparkSession

from sparqlive.bulk.backends.spark.backend import SparkBackend
from sparqlive.bulk.backends.spark.start import QUIET, frame_of
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import Dictionary, hash_of, term_of
from tests.conftest import FULL
from tests.oracle import Term, Weights

# Plans of tests are small and run once: generating and optimising code for them costs more than it saves.
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": f"{QUIET} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


LONG = pytest.mark.skipif(
    not FULL and "SPARQLIVE_SPARK" not in os.environ, reason="long on Spark: make test-spark runs it"
)
CLASSIC_ONLY = pytest.mark.skipif(
    os.environ.get("SPARQLIVE_SPARK") == "connect", reason="needs what Spark Connect does not show"
)


def connect_session() -> SparkSession:
    """A session of Spark Connect, and the server that it needs, which ends with this process."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    from sparqlive.bulk.backends.spark.java import use_java
    from tests.cluster import free_port

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # SPARK_TESTING would do the same, but it also has Spark check its own rules, some of which do not pass.
    port = free_port()
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    builder = SparkSession.builder.remote("local[2]")
    more = {"spark.connect.grpc.binding.port": str(port), "spark.sql.session.timeZone": "UTC"}
    for name, value in {**SETTINGS, **more, "spark.ui.enabled": "false"}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set")  # again in the client, what the server has already
        return builder.getOrCreate()


def representative(names: Sequence[str], count: int) -> set[str]:
    """All names in a full run, else some, spread evenly."""
    if FULL or len(names) <= count:
        return set(names)
    return {names[number * len(names) // count] for number in range(count)}


@dataclass
class Work:
    """Evaluations and deltas over small sets of quads, gathered and run as one job."""

    spark: SparkSession
    dictionary: Dictionary = field(default_factory=Dictionary)
    texts: dict[int, str] = field(default_factory=dict)
    results: list[tuple[str, ResultTables, int]] = field(default_factory=list)

    def id_of(self, term: Term) -> int:
        number = self.dictionary.id_of(term)
        self.texts[number] = str(term)
        return number

    def quads(self, quads: Iterable[ox.Quad]) -> DataFrame:
        ids = [tuple(map(self.id_of, quad)) for quad in quads]
        return frame_of(self.spark, _table("spog", ids))

    def changes(self, before: set[ox.Quad], after: set[ox.Quad]) -> DataFrame:
        signed = [(quad, 1) for quad in after - before] + [(quad, -1) for quad in before - after]
        rows = [(*map(self.id_of, quad), weight) for quad, weight in signed]
        return frame_of(self.spark, _table("spogw", rows))

    def terms(self, quads: Iterable[ox.Quad]) -> DataFrame:
        """The dictionary of these quads, and of nothing else that this test has seen."""
        found = {term for quad in quads for term in quad if not isinstance(term, ox.DefaultGraph)}
        names = {"id": [self.id_of(term) for term in found], "term": [str(t) for t in found]}
        schema = pa.schema([("id", pa.int64()), ("term", pa.string())])
        return frame_of(self.spark, pa.table(names, schema=schema))

    def evaluate(self, name: str, plan: op.Operator, quads: set[ox.Quad]) -> None:
        result = evaluate(plan, SparkBackend(self.spark), self.quads(quads), self.terms(quads), self.id_of)
        self.results.append((name, result, len(plan.variables)))

    def delta(self, name: str, plan: op.Operator, before: set[ox.Quad], after: set[ox.Quad]) -> None:
        changes, terms = self.changes(before, after), self.terms(before | after)
        result = delta(plan, SparkBackend(self.spark), self.quads(before), changes, terms, self.id_of)
        self.results.append((name, result, len(plan.variables)))

    def run(self) -> dict[str, Weights]:
        """The weights of each piece of work by its name."""
        texts = self._new_terms()
        frame: DataFrame | None = None
        for name, result, width in self.results:
            row = f"array({', '.join(f'c{number}' for number in range(width))})"
            row = row if width else "CAST(array() AS ARRAY<BIGINT>)"
            part = result.rows.selectExpr(f"'{name}' AS name", f"{row} AS row", "w")
            frame = part if frame is None else frame.union(part)
        found: dict[str, Weights] = {name: {} for name, _, _ in self.results}
        assert frame is not None
        for name, row, weight in zip(*frame.toArrow().to_pydict().values(), strict=True):
            terms = tuple(None if number == 0 else term_of(texts[number]) for number in row)
            assert weight != 0, f"{name}: a zero weight"
            assert terms not in found[name], f"{name}: {terms} is there twice"
            found[name][terms] = weight
        self.results.clear()
        return found

    def _new_terms(self) -> Mapping[int, str]:
        frames = [result.new_terms for _, result, _ in self.results if result.new_terms is not None]
        texts = dict(self.texts)
        if frames:
            frame = frames[0]
            for other in frames[1:]:
                frame = frame.union(other)
            columns = frame.toArrow().to_pydict()
            for number, text in zip(columns["id"], columns["term"], strict=True):
                assert texts.setdefault(number, text) == text
                assert hash_of(text) == number, "the id is the hash of the text"
        return texts


def _table(names: str, rows: Sequence[Sequence[int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(values, pa.int64()) for name, values in zip(names, columns, strict=True)})
