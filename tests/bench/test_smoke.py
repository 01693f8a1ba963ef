"""Each benchmark with the smallest sizes. They stop where a result is wrong.

Others are run in small elsewhere: throughput, regret and bulk_aggregates (tests/engine), crash (tests/store),
soak (tests/sources), subscribers and hostile (tests/agent), paper, peers and ivm (beside this file). bsbm
needs data that is not part of the project; the paper's experiments run its queries on generated data.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import bulk_executor, bulk_expressions, explore, frames, scale, shapes
from bench.suite import BENCHMARKS, module_of, page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = {
    "path3": {"nodes": 60, "edges_a_round": 3, "rounds": 1, "most_rounds": 1},
    "star": {"subjects": 200, "changes_a_round": 5, "rounds": 1},
    "many_views": {"views": 20, "changes_a_round": 5, "rounds": 1},
    "memory": {"triples": 5_000, "predicates": 10},
    "pauses": {"rows": 300, "changes": 50},
    "parse": {"rounds": 1},
    "window": {"rows": 300, "changes": 20},
    "closures": {"concepts": 200, "nodes": 60, "edges": 100, "changes_a_round": 5, "rounds": 1},
    "aggregates": {"groups": 5, "values": 8, "changes_a_round": 5, "rounds": 1},
    "durability": {"changes": 5, "quads": 2_000, "stream": 100},
    "explore": {"triples": 300, "rounds": 1},
    "bulk": {"triples": 3_000, "rounds": 1, "largest": 1_000},
    "http_results": {"rows": 50},
}
ON_SPARK = {"spark_path3", "ingest", "choice", "growth"}
"""Not here: each takes a minute or more at any size. `make bench-spark` runs them."""
ELSEWHERE = {"bsbm", "bulk_aggregates", "throughput", "subscribers"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_benchmark(name: str) -> None:
    module = module_of(name)
    assert SIZES[name].keys() == module.SIZES.keys()
    report = module.run(SIZES[name])
    assert report.figures
    assert name in page("make test", {name: report}, quick=True)


def test_all_are_here() -> None:
    assert {*SIZES, *ON_SPARK, *ELSEWHERE} == set(BENCHMARKS)


@pytest.mark.slow
def test_those_that_are_run_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(shapes, "SHAPES", dict(list(shapes.SHAPES.items())[:1]))
    for module, arguments in (
        (bulk_executor, ["--triples", "3000", "--changes", "50", "--rounds", "1"]),
        (bulk_expressions, ["--terms", "500", "--rounds", "1"]),
        (shapes, ["20"]),
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
