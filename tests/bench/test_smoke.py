"""Each benchmark with the smallest sizes. They stop where a result is wrong.

Others are run in small elsewhere: throughput, regret and bulk_aggregates (tests/engine), crash (tests/store),
soak (tests/sources), subscribers and hostile (tests/agent), paper, peers, ivm, wide and beyond_memory (beside
this file). The data of bsbm is not part of the project; here it runs on a few products.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import bsbm, bulk_executor, bulk_expressions, explore, frames, scale, spark_path3
from bench.bsbm_data import VOCABULARY
from bench.suite import BENCHMARKS, module_of, page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = {
    "path3": {"nodes": 60, "edges_a_round": 3, "rounds": 1, "most_rounds": 1},
    "star": {"subjects": 200, "changes_a_round": 5, "rounds": 1},
    "batches": {"subjects": 100, "largest": 100, "changes": 100},
    "many_views": {"views": 20, "changes_a_round": 5, "rounds": 1},
    "memory": {"triples": 5_000, "predicates": 10},
    "pauses": {"rows": 300, "changes": 50},
    "parse": {"rounds": 1},
    "window": {"rows": 300, "changes": 20},
    "closures": {"concepts": 200, "nodes": 60, "edges": 100, "changes_a_round": 5, "rounds": 1},
    "aggregates": {"groups": 5, "values": 8, "changes_a_round": 5, "rounds": 1},
    "durability": {"changes": 5, "quads": 2_000, "stream": 100},
    "explore": {"triples": 300, "rounds": 1},
    "shapes": {"rows": 20, "changes": 1},
    "bulk": {"triples": 3_000, "rounds": 1, "largest": 1_000},
    "http_results": {"rows": 50},
}
BSBM = "http://example.org/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ON_SPARK = {
    "spark_path3": {"nodes": 20, "one_in": 5, "rounds": 1},
    "ingest": {"triples": 500},
    "choice": {
        "triples": 600,
        "largest": 1,
        "dense_nodes": 20,
        "dense_one_in": 5,
        "dense_largest": 0,
        "rounds": 1,
    },
    "growth": {"smallest": 300, "sizes": 1, "changes": 5, "rounds": 0},
}
ELSEWHERE = {"bulk_aggregates", "throughput", "subscribers", "hostile", "wide", "beyond_memory"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_benchmark(name: str) -> None:
    module = module_of(name)
    assert SIZES[name].keys() == module.SIZES.keys()
    report = module.run(SIZES[name])
    assert report.figures
    assert name in page("make test", {name: report}, quick=True)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPARK)
def test_benchmark_on_spark(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the session of all tests, which the benchmark must not stop; of several views only one."""
    module = module_of(name)
    if hasattr(module, "VIEWS"):
        monkeypatch.setattr(module, "VIEWS", {"star": module.VIEWS["star"]})
    monkeypatch.setattr(module, "local_spark", lambda memory: nullcontext(spark))
    monkeypatch.setattr(spark_path3, "alone", lambda measured, sizes: measured(sizes))
    assert ON_SPARK[name].keys() == module.SIZES.keys()
    assert module.run(ON_SPARK[name]).figures


def test_bsbm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triples = [triple for number in range(6) for triple in _product(number)]
    triples += [f"<{BSBM}feature{number}> <{LABEL}> 'feature'" for number in range(5)]
    with gzip.open(tmp_path / "bsbm-1000.nt.gz", "wt") as file:
        file.writelines(f"{triple} .\n".replace("'", '"') for triple in triples)
    monkeypatch.setenv("SPARQLIVE_DATA", str(tmp_path))
    report = bsbm.run({"most_rounds": 1, "query_milliseconds": 1})
    assert len(report.details) == 1 + 5 * 4


def _product(number: int) -> Iterator[str]:
    """The triples of a product. The first lacks the most common features, the one in the middle the last."""
    product, maker = f"<{BSBM}product{number}>", f"<{BSBM}maker{number % 2}>"
    for kind in (f"{VOCABULARY}Product", f"{BSBM}kind", f"{BSBM}kind{number % 2}"):
        yield f"{product} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{kind}>"
    for feature in range(0 if number else 4, 4 if number == 3 else 5):
        yield f"{product} <{VOCABULARY}productFeature> <{BSBM}feature{feature}>"
    for place in range(1, 4):
        value = f"'{100 + place}'^^<http://www.w3.org/2001/XMLSchema#integer>"
        yield f"{product} <{VOCABULARY}productPropertyNumeric{place}> {value}"
        yield f"{product} <{VOCABULARY}productPropertyTextual{place}> 'text {place}'"
    yield f"{product} <{LABEL}> 'product {number}'"
    yield f"{product} <http://www.w3.org/2000/01/rdf-schema#comment> 'comment {number}'"
    yield f"{product} <{VOCABULARY}producer> {maker}"
    yield f"{product} <http://purl.org/dc/elements/1.1/publisher> {maker}"
    if number < 2:
        yield f"{maker} <{LABEL}> 'maker {number}'"


def test_all_are_here() -> None:
    assert {*SIZES, *ON_SPARK, *ELSEWHERE, "bsbm"} == set(BENCHMARKS)


@pytest.mark.slow
def test_those_that_are_run_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module, arguments in (
        (bulk_executor, ["--triples", "3000", "--changes", "50", "--rounds", "1"]),
        (bulk_expressions, ["--terms", "500", "--rounds", "1"]),
    ):
        monkeypatch.setattr("sys.argv", ["python -m bench", *arguments])
        module.main()
        assert capsys.readouterr().out
    few = ["--triples", "3000", "--batches", "100", "--repeat", "1", "--check", "--folder", str(tmp_path)]
    scale.main(scale.parsed(few))
    assert "batch of 100" in capsys.readouterr().out


def test_explore_writes_a_page_of_several_sizes(tmp_path: Path) -> None:
    explore.main(["--triples", "300", "400", "--rounds", "1", "--output", str(tmp_path / "explore.md")])
    page = (tmp_path / "explore.md").read_text()
    assert "- command: `python -m bench.explore --triples 300 400 --rounds 1`" in page
    for size in ("300", "400"):
        assert f"| {size} triples: classes with counts |" in page


@pytest.mark.spark
@pytest.mark.slow
def test_frames(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frames, "start_session", lambda master: spark)
    sizes = ["--rows", "300", "--view", "100", "--changes", "10", "--partitions", "2"]
    frames.main(frames.parsed([*sizes, "--output", str(tmp_path / "frames.md")]))
    page = (tmp_path / "frames.md").read_text()
    assert "| apply 10 rows |" in page
    assert "Wanted: less than 400 MB" in page
