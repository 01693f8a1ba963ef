"""The example that `make run` runs, small: generated data, the paper's views, a stream, and the check."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparqlive
from examples.ecommerce.__main__ import main
from examples.ecommerce.products import product
from examples.ecommerce.stream import Shop
from sparqlive.rdf.change_columns import read_batches
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session

pytestmark = pytest.mark.spark


def test_the_example_runs_and_can_go_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = replace(DEFAULT, small_batch=10, spark_rows=30)
    monkeypatch.setattr("sparqlive.pipeline.job.open_session", partial(Session, tuning=tuning))
    options = ["--products", "60", "--batches", "2", "--directory", str(tmp_path)]
    for goes_on in (False, True):
        assert main([*options, "--master", "local[2]"]) == 0
        out = capsys.readouterr().out
        assert "recomputing every view: 5 views equal their recomputation by reference" in out
        assert "sparqlive serve --store" in out
        epochs = [line for line in out.splitlines() if line.startswith("epoch ")]
        assert bool(epochs) is not goes_on
        assert all(line.endswith(")") for line in epochs), "each line has its reason"
        assert any("spark is the cheapest" in line for line in epochs) is not goes_on


def test_a_view_that_differs_fails_the_example(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_: sparqlive.Session) -> None:
        raise sparqlive.CheckFailed("View 'hop' differs from its recomputation in 1 rows: …")

    monkeypatch.setattr(sparqlive.Session, "check", check)
    options = ["--products", "20", "--batches", "1", "--directory", str(tmp_path)]
    assert main([*options, "--master", "local[2]"]) == 1
    assert "View 'hop' differs" in capsys.readouterr().err


def test_every_change_of_the_stream_changes_something(tmp_path: Path) -> None:
    products, shop = 30, Shop(30, 7)
    there = {line for number in range(products) for line in product(number, products, 7)}
    file = tmp_path / "some.changes"
    for batch in [shop.batch] * 40 + [shop.price_list, shop.new_feature] + [shop.batch] * 10:
        lines = list(batch())
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for line in lines:
            assert (line[2:] in there) is (line[0] == "-"), line
            there.symmetric_difference_update({line[2:]})
        assert len(list(read_batches(file, {}))) <= 1
