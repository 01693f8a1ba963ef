"""Kafka: a real broker as a sink of a view's changes, and as a source of changes, through kills."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.sinks import catch_up
from sparqlive.pipeline.sinks.kafka import KafkaSink
from tests.conftest import ROOT
from tests.connectors.kafka_driver import QUERY
from tests.kills.cluster import Driver
from tests.oracle import Oracle

SECONDS = 60.0


def quad(number: int) -> ox.Quad:
    return ox.Quad(ox.NamedNode(f"a:{number}"), ox.NamedNode("a:p"), ox.Literal(number))


def records(address: str, topic: str) -> list[tuple[bytes, dict[str, Any]]]:
    """The committed records of a topic: key and value, partition by partition."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    partitions = consumer.list_topics(topic, SECONDS).topics[topic].partitions
    for number in sorted(partitions):
        consumer.assign([TopicPartition(topic, number, 0)])
        while True:
            record = consumer.poll(SECONDS)
            assert record is not None
            if record.error() is None:
                found.append((record.key(), json.loads(record.value())))
            else:
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                break
    consumer.close()
    return found


def replayed(address: str, topic: str) -> tuple[list[int], Counter[str]]:
    """The epochs of a topic, and what its changes add up to; every epoch must be there whole and once."""
    found = records(address, topic)
    marks = [value for key, value in found if key == b"epoch"]
    epochs = [mark["epoch"] for mark in marks]
    assert epochs == sorted(set(epochs)), "an epoch is there twice, or late"
    rows = Counter(value["epoch"] for key, value in found if key != b"epoch")
    assert {mark["epoch"]: mark["changes"] for mark in marks if mark["changes"]} == dict(rows)
    begin = max((mark["epoch"] for mark in marks if mark["reset"]), default=0)
    total: Counter[str] = Counter()
    for key, value in found:
        if key != b"epoch" and value["epoch"] >= begin:
            total[key.decode()] += value["weight"]
    return epochs, Counter({row: weight for row, weight in total.items() if weight})


def content(view: sparqlive.View) -> Counter[str]:
    """The rows of a view, as keys of records."""
    from sparqlive.sparql.results import json_row

    return Counter(
        {
            json.dumps(
                json_row(dict(zip(view.variables, row, strict=True))),
                ensure_ascii=False,
                separators=(",", ":"),
            ): weight
            for row, weight in view.weights().items()
        }
    )


def test_every_epoch_is_a_transaction(kafka: str) -> None:
    address = f"kafka://{kafka}/deltas"
    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        session.apply(insert=[quad(1), quad(2)])
        sink = KafkaSink(address, view.variables)
        assert sink.last_epoch() is None
        catch_up(sink, view, "sink")
        assert replayed(kafka, "deltas") == ([1], content(view))
        session.apply(insert=[quad(3)], delete=[quad(1)])
        session.apply(insert=[ox.Quad(ox.NamedNode("a:x"), ox.NamedNode("a:other"), ox.Literal("no row"))])
        session.apply(insert=[quad(1)])
        again = KafkaSink(address, view.variables)
        assert again.last_epoch() == 1
        catch_up(again, view, "sink")
        assert again.last_epoch() == 4
        assert replayed(kafka, "deltas") == ([1, 2, 4], content(view))
        with pytest.raises(sparqlive.Error, match="topic deltas cannot be written"):
            sink.write(5, {}, reset=False)  # the second has fenced the first
        many = [quad(number) for number in range(100, 5_000)]
        session.apply(insert=many)
        catch_up(again, view, "sink")
        assert KafkaSink(address, view.variables).last_epoch() == 5
        assert replayed(kafka, "deltas") == ([1, 2, 4, 5], content(view))


def test_an_epoch_that_was_not_committed_is_not_there(kafka: str) -> None:
    """Records of an aborted transaction lie after the last epoch, more than are read at once."""
    sink = KafkaSink(f"kafka://{kafka}/aborted", ("x",))
    sink.write(1, {(ox.Literal(1),): 1}, reset=True)
    sink._producer.begin_transaction()
    for number in range(300):
        sink._send(b"key", {"epoch": 2, "number": number}, partition=0)
    sink._producer.flush(SECONDS)
    again = KafkaSink(f"kafka://{kafka}/aborted", ("x",))
    assert again.last_epoch() == 1
    again.write(2, {(ox.Literal(2),): 1}, reset=False)
    epochs, rows = replayed(kafka, "aborted")
    assert (epochs, len(rows)) == ([1, 2], 2)


def test_a_topic_of_somebody_else_is_left_alone(kafka: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("diary", b"dear diary", partition=0)
    producer.flush(SECONDS)
    with pytest.raises(sparqlive.Error, match="topic diary has records that are not deltas of a view"):
        KafkaSink(f"kafka://{kafka}/diary", ())


def test_what_is_no_address_of_a_topic_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all.rq").write_text(QUERY)
    text = (
        'store = "s"\n[views.all]\nquery = "all.rq"\n[sinks.all]\nview = "all"\nkind = "kafka"\npath = "{}"\n'
    )
    for path in ("out/topic", "http://server/topic"):
        (tmp_path / "pipeline.toml").write_text(text.format(path))
        with pytest.raises(sparqlive.Error, match="path must be an address like kafka://server:port/name"):
            read_pipeline(tmp_path / "pipeline.toml")
    for address in ("kafka://server:9092", "kafka:///topic", "kafka://server/a/b"):
        with pytest.raises(sparqlive.Error, match="is not the address of a topic"):
            KafkaSink(address, ())
    with pytest.raises(sparqlive.Error, match="cannot be written: No such configuration property"):
        KafkaSink("kafka://server:9092/topic?no.such.setting=1", ())


def test_changes_come_from_a_topic_and_go_to_another_through_kills(
    kafka: str, spark_settings: dict[str, str], tmp_path: Path
) -> None:
    """Each micro-batch is an epoch once, and each epoch a transaction once."""
    from confluent_kafka import Producer

    rng, store = random.Random(3), tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.connectors.kafka_driver", str(store), kafka]
    producer = Producer({"bootstrap.servers": kafka})
    data: set[ox.Quad] = set()

    def send(count: int) -> None:
        """Some quads come, go and come again: the changes of a quad have its key, and so stay in order."""
        for _ in range(count):
            one = quad(rng.randrange(60))
            sign = rng.choice("++-")
            terms = {"s": str(one.subject), "p": str(one.predicate), "o": str(one.object)}
            producer.produce("changes", json.dumps({"op": sign, **terms}).encode(), str(one))
            (data.add if sign == "+" else data.discard)(one)
        producer.flush(SECONDS)

    send(50)
    for kill in range(4):
        driver = Driver(command, environment, tmp_path / "driver.log")
        driver.wait_for("following")
        for _ in range(2):
            send(30)
            time.sleep(rng.uniform(0, 1.5))
        if kill:
            driver.wait_for("epoch")
        driver.kill()
        with sparqlive.open(store) as session:
            session.check()
    send(1)
    driver = Driver([*command, "once"], environment, tmp_path / "driver.log")
    driver.finish()
    with sparqlive.open(store) as session:
        view = session.views["all"]
        assert set(session.quads()) == data
        assert view.weights() == Oracle(data).weights(QUERY, view.variables)
        session.check()
        epochs, rows = replayed(kafka, "out")
        assert rows == content(view)
        assert epochs[-1] == session.epoch
