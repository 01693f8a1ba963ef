"""Streams of changes: a micro-batch is an epoch, exactly once, whatever fails in between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from pyspark.sql import DataFrame, SparkSession

import sparqlive

pytestmark = pytest.mark.spark

SCHEMA = "op STRING, s STRING, p STRING, o STRING"


def change(op: str, number: int) -> dict[str, str]:
    return {"op": op, "s": f"<http://x/{number}>", "p": "<http://x/p>", "o": f'"{number}"'}


def quads(*numbers: int) -> set[Quad]:
    p = NamedNode("http://x/p")
    return {Quad(NamedNode(f"http://x/{number}"), p, Literal(str(number))) for number in numbers}


def write(folder: Path, name: str, *rows: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    os.utime(folder / f".{name}", (int(name[0]), int(name[0])))  # Spark takes files in this order
    (folder / f".{name}").rename(folder / name)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def test_a_micro_batch_is_an_epoch_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    """Through a failure after the commit of an epoch, a malformed row, and a restart."""
    folder, store = tmp_path / "in", tmp_path / "store"
    write(folder, "0.json", change("+", 0), change("+", 1))
    write(folder, "1.json", change("-", 0), change("+", 2))
    seen: list[int] = []

    def fail(epoch: sparqlive.Epoch) -> None:
        seen.append(epoch.number)
        raise sparqlive.Error("after the commit")

    def followed(**more: Any) -> sparqlive.Session:
        session = sparqlive.open(store, spark=spark)
        try:
            session.follow(stream(spark, folder), once=True, **more).wait()
        except BaseException:
            session.close()
            raise
        return session

    with pytest.raises(sparqlive.Error, match=r"^after the commit$"):
        followed(on_epoch=fail)
    with followed() as session:
        assert (session.epoch, set(session.quads())) == (2, quads(1, 2))
        view = session.view("all", "SELECT ?s { ?s ?p ?o }")
        write(folder, "2.json", change("-", 0), change("+", 1))  # changes nothing
        write(folder, "3.json", change("+", 3), {**change("+", 4), "o": "4"})
        with pytest.raises(sparqlive.InvalidChange, match=r"^Row 1 .*column 'o': '4' is not a term"):
            session.follow(stream(spark, folder), once=True).wait()
        assert (session.epoch, len(view)) == (2, 2)
        counted = stream(spark, folder).groupBy("op", "s", "p", "o").count()
        with pytest.raises(sparqlive.SparkFailed, match="STREAMING_OUTPUT_MODE"):
            session.follow(counted, name="counted", once=True).wait()
        with pytest.raises(sparqlive.Error, match="streaming DataFrame"):
            session.follow(spark.range(1).selectExpr("'' AS s", "'' AS p", "'' AS o"))
    write(folder, "3.json", change("+", 3))
    with followed() as session:
        assert (session.epoch, set(session.quads())) == (3, quads(1, 2, 3))
        session.check()


def test_an_endless_stream_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    rows = rate.selectExpr("concat('<http://x/', value, '>') AS s", "'<http://x/p>' AS p", "s AS o")
    with sparqlive.open(spark=spark) as session:
        running = session.follow(rows, graph="http://x/g")
        while session.epoch < 2:
            running.wait(0.1)
        running.stop()
        assert running.wait()
        assert len(session) == 2 * session.epoch
