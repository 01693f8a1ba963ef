"""A source of kind `spark`: rows of a stream of Spark become epochs, and the sinks follow."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import run_pipeline
from sparqlive.pipeline.progress import Progress

PIPELINE = """
store = "s.store"
[sources.prices]
kind = "spark"
format = "json"
schema = "op STRING, id STRING, price BIGINT"
options = { path = "in", maxFilesPerTrigger = 1 }
select = ["op", "id", "price"]
mapping = { subject = "http://x/{id}", predicates = { price = "http://x/price" } }
[views.prices]
query = "q.rq"
[sinks.prices]
view = "prices"
kind = "json-lines"
path = "out.jsonl"
"""


def write(folder: Path, pipeline: str = PIPELINE) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "q.rq").write_text("SELECT ?p { GRAPH <source:prices> { ?s <http://x/price> ?p } }")
    (folder / "p.toml").write_text(pipeline, encoding="utf-8")
    return folder / "p.toml"


@pytest.mark.spark
def test_rows_become_epochs_and_go_to_the_sinks(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path)
    rows = [{"op": "+", "id": "a", "price": 1}, {"op": "-", "id": "a", "price": 1}]
    for number, row in enumerate(rows):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps(row), encoding="utf-8")
        run_pipeline(read_pipeline(file), Progress(StringIO()), once=True)
    run_pipeline(read_pipeline(file), Progress(StringIO()), once=True)  # nothing new
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(line["epoch"], [change["weight"] for change in line["changes"]]) for line in lines] == [
        (0, []),
        (1, [1]),
        (2, [-1]),
    ]
    with sparqlive.open(tmp_path / "s.store", read_only=True) as session:
        assert (session.epoch, len(session)) == (2, 0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('format = "json"', "", "'format' is missing"),
        ("maxFilesPerTrigger = 1", "x = [1]", "option x must be"),
        ('select = ["op", "id", "price"]', "select = [1]", "list of SQL expressions"),
        ('"http://x/{id}"', '"http://x/"', "template with a column in braces"),
        ("mapping = {", "mapping = { nonsense = 1,", "nonsense"),
    ],
)
def test_what_is_wrong_is_said_before_the_job_starts(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in PIPELINE
    with pytest.raises(sparqlive.Error, match=said):
        read_pipeline(write(tmp_path, PIPELINE.replace(old, new)))
