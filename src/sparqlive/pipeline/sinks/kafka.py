"""The changes of a view as records of a Kafka topic, with one transaction per epoch.

A record is a changed row: its value is `{"epoch": 7, "reset": false, "weight": 1, "row": {…}}`, with terms as
in the SPARQL results format; its key is the row, so that the changes of a row stay in order. The last record
of an epoch has the key `epoch` and goes to partition 0: `{"epoch": 7, "reset": false, "changes": 2}`. With
`reset`, the rows of an epoch are the whole content and replace everything before.

The address is `kafka://server:port,server:port/topic?name=value`, with any settings of librdkafka as names.
Needs the package `confluent-kafka`. Invariant: consumers that read only committed records
(`isolation.level=read_committed`) see each epoch whole and once. A second process that opens the same topic
fences the first, whose transactions then fail.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from sparqlive.engine.results import FORMS, Answer, TermRow
from sparqlive.errors import Error
from sparqlive.sparql.results import json_row

_MARK = b"epoch"
"""The key of the last record of an epoch."""
_SECONDS = 60.0


class KafkaSink:
    forms: ClassVar = FORMS
    scheme: ClassVar[str | None] = "kafka"

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        self._package = _package()
        self._variables = variables
        self._address = str(path)
        self._topic, self._settings = _parsed(self._address)
        settings = {
            "transactional.id": f"sparqlive-{self._topic}",
            "error_cb": lambda _: None,  # what matters is raised by the call that it concerns
            **self._settings,
        }
        self._producer = self._call(self._package.Producer, settings)
        self._call(self._producer.init_transactions, _SECONDS)  # ends what a killed process left open
        self._last = self._find_last()

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        common = {"epoch": epoch, "reset": reset}
        self._call(self._producer.begin_transaction)
        try:
            for row, weight in weights.items():
                found = json_row(dict(zip(self._variables, row, strict=True)))
                self._send(_json(found), common | {"weight": weight, "row": found})
            self._send(_MARK, common | {"changes": len(weights)}, partition=0)
            self._call(self._producer.commit_transaction, _SECONDS)
        except BaseException:
            with suppress(self._package.KafkaException):  # the broker aborts it, too, in the end
                self._producer.abort_transaction(_SECONDS)
            raise
        self._last = epoch

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        """Does nothing: every epoch is committed."""

    def _send(self, key: bytes, value: Mapping[str, Any], **where: int) -> None:
        while True:
            try:
                self._call(self._producer.produce, self._topic, _json(value), key, **where)
                self._producer.poll(0)
                return
            except BufferError:  # the queue is full
                self._producer.poll(1)

    def _call(self, action: Callable[..., Any], *given: Any, **options: Any) -> Any:
        try:
            return action(*given, **options)
        except self._package.KafkaException as error:
            raise Error(f"The Kafka topic {self._topic} cannot be written: {error.args[0].str()}.") from error

    # The last epoch

    def _find_last(self) -> int | None:
        """The epoch of the last committed record of partition 0, which every transaction ends with."""
        consumer = self._package.Consumer(
            {
                "group.id": f"sparqlive-{self._topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "error_cb": lambda _: None,
                **self._settings,
            }
        )
        try:
            return self._last_of(consumer)
        except self._package.KafkaException as error:
            raise Error(f"The Kafka topic {self._topic} cannot be read: {error.args[0].str()}.") from error
        finally:
            consumer.close()

    def _last_of(self, consumer: Any) -> int | None:
        error = consumer.list_topics(self._topic, _SECONDS).topics[self._topic].error
        if error is not None:
            if error.code() == self._package.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None  # the first record creates it, where the broker allows that
            raise self._package.KafkaException(error)
        partition = self._package.TopicPartition(self._topic, 0)
        low, high = consumer.get_watermark_offsets(partition, timeout=_SECONDS)
        size = 16
        while True:  # from the end; records of transactions that were aborted are not seen
            start = max(low, high - size)
            last = self._read_from(consumer, start, high)
            if last is not None or start == low:
                return None if last is None else self._epoch_of(last)
            size *= 16

    def _read_from(self, consumer: Any, start: int, high: int) -> Any:
        """The last committed record from an offset on."""
        if start >= high:
            return None
        consumer.assign([self._package.TopicPartition(self._topic, 0, start)])
        last = None
        while True:
            record = consumer.poll(_SECONDS)
            if record is None:
                raise Error(f"The Kafka topic {self._topic} cannot be read: no answer in {_SECONDS:g} s.")
            if record.error() is None:
                last = record
            elif record.error().code() == self._package.KafkaError._PARTITION_EOF:
                return last
            else:
                raise self._package.KafkaException(record.error())

    def _epoch_of(self, record: Any) -> int:
        try:
            if record.key() != _MARK:
                raise ValueError(record.key())
            return int(json.loads(record.value())["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise Error(
                f"The Kafka topic {self._topic} has records that are not deltas of a view. Set another topic."
            ) from error


def _parsed(address: str) -> tuple[str, dict[str, str]]:
    """The topic of an address, and settings of librdkafka."""
    parts = urlsplit(address)
    topic = parts.path.strip("/")
    if parts.scheme != "kafka" or not parts.netloc or not topic or "/" in topic:
        raise Error(f"{address!r} is not the address of a topic: kafka://server:port/topic.")
    return topic, {"bootstrap.servers": parts.netloc, **dict(parse_qsl(parts.query))}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _package() -> Any:
    """Returns the package; raises an Error that says what to install."""
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError as error:
        raise Error(
            "A sink of kind 'kafka' needs the package confluent-kafka: pip install 'sparqlive[kafka]'."
        ) from error
