"""Messages over MQTT, by a real broker: nothing is lost when either side goes away, twice is harmless."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from sparqlive.sources.manager import Source
from tests import peers
from tests.sources.kinds.test_stream import line, objects, transaction
from tests.sources.server import make_certificate, unused_port
from tests.waiting import wait_until

publish = pytest.importorskip("paho.mqtt.publish")


class Broker:
    """A mosquitto with a folder of its own, which is stopped and started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = unused_port()
        self.address = f"mqtt://127.0.0.1:{self.port}"
        self._folder = folder
        folder.mkdir(exist_ok=True)
        lines = [f"listener {self.port} 127.0.0.1", "user root", "persistence true"]
        lines += [
            f"persistence_location {folder}/",
            "allow_anonymous true",
            "max_queued_messages 0",
            *settings,
        ]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        self._command = [peers.mosquitto(), "-c", str(folder / "mosquitto.conf")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._answers)

    def stop(self) -> None:
        """It writes down what it keeps for clients that are away."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(120)
            self._process = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def say(self, *texts: str, topic: str = "orders/eu", **options: Any) -> None:
        messages = [{"topic": topic, "payload": text, "qos": 1} for text in texts]
        publish.multiple(messages, hostname="127.0.0.1", port=self.port, **options)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "broker")
    made.start()
    yield made
    made.stop()


def add(session: sparqlive.Session, broker: Broker, topic: str = "orders/%23", **options: Any) -> Source:
    options = {"allow_private": True, **options}
    return session.source("mqtt", f"{broker.address}/{topic}", name="feed", **options)


def test_messages_become_epochs(broker: Broker) -> None:
    with sparqlive.open() as session:
        view = session.view("all", "SELECT ?o { GRAPH <source:feed> { ?s ?p ?o } }")
        source = add(session, broker)
        source.refresh()
        assert len(view) == 0
        broker.say("@\n" + line("+", 1) + line("+", 2), topic="orders/eu/de")
        wait_until(lambda: objects(session) == {"1", "2"})
        broker.say(transaction(line("D", 1), line("A", 3)))
        broker.say(line("+", "elsewhere"), topic="invoices")
        wait_until(lambda: objects(session) == {"2", "3"})
        broker.say(
            transaction(line("A", 4)) + transaction(line("A", 5), end="TA") + transaction(line("D", 2))
        )
        wait_until(lambda: objects(session) == {"3", "4"})
        source.refresh()
        session.check()
        assert (session.epoch, len(view)) == (3, 2)
        status = source.status()
        assert (status["version"]["messages"], status["quads"], status["error"]) == (3, 2, None)


def test_one_level_of_a_topic(broker: Broker) -> None:
    with sparqlive.open() as session:
        add(session, broker, topic="orders/+/new").refresh()
        broker.say(line("+", 1), topic="orders/eu/old")
        broker.say(line("+", 2), topic="orders/eu/new")
        wait_until(lambda: objects(session) == {"2"})


def test_a_broker_that_is_started_again(broker: Broker, tmp_path: Path) -> None:
    """What is said while nobody is connected comes later, also over a restart of the broker."""
    with sparqlive.open(tmp_path / "s") as session:
        source = add(session, broker)
        source.refresh()
        broker.say(line("+", 0))
        wait_until(lambda: objects(session) == {"0"})
        broker.stop()
        wait_until(lambda: source.status()["error"] is not None)
        assert "no connection to the broker" in (source.error or "")
        assert objects(session) == {"0"}
        broker.start()
        wait_until(lambda: source.status()["error"] is None)
        broker.say(*(f"- <a:s> <a:p> <a:{n}> .\n" + line("+", n + 1) for n in range(30)))
        wait_until(lambda: objects(session) == {"30"})
    broker.say(*(f"- <a:s> <a:p> <a:{n}> .\n" + line("+", n + 1) for n in range(30, 60)))
    broker.stop()
    broker.start()
    with sparqlive.open(tmp_path / "s") as session:
        source = session.sources["feed"]
        source.refresh()
        assert objects(session) == {"60"}
        assert (source.status()["version"]["messages"], session.epoch) == (61, 61)


WATCHER = """
import sys, time
import sparqlive
with sparqlive.open(sys.argv[1]) as session:
    source = session.source("mqtt", sys.argv[2], name="feed", allow_private=True)
    source.refresh()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_killed_at_any_moment(broker: Broker, tmp_path: Path) -> None:
    said = 0
    for _ in range(2):
        command = [sys.executable, "-c", WATCHER, str(tmp_path / "s"), f"{broker.address}/orders/%23"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                broker.say(line("-", said) + line("+", said + 1))
                said += 1
                time.sleep(0.003)
        finally:
            process.kill()
            process.communicate()
    with sparqlive.open(tmp_path / "s") as session:
        session.sources["feed"].refresh()
        assert objects(session) == {str(said)}
        session.check()


def test_a_message_that_comes_twice(broker: Broker) -> None:
    with sparqlive.open() as session:
        source = add(session, broker)
        source.refresh()
        text = line("-", 1) + line("+", 2)
        broker.say(line("+", 1), text, text, text)
        wait_until(lambda: source.status()["version"].get("messages") == 4)
        assert (objects(session), session.epoch) == ({"2"}, 2)


def test_a_malformed_message_stops_the_source_until_it_is_gone(broker: Broker, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        source = add(session, broker)
        source.refresh()
        broker.say("@\n" + line("+", 1), line("+", 2) + "oops\n", line("+", 3))
        wait_until(lambda: source.error is not None)
        assert "a message on 'orders/eu', line 2: " in (source.error or "")
        with pytest.raises(sparqlive.Error, match="line 2"):
            source.refresh()
        assert objects(session) == {"1"}, "what follows waits: nothing is skipped"


def test_malformed_messages_that_are_skipped(broker: Broker) -> None:
    with sparqlive.open() as session:
        source = add(session, broker, when_malformed="skip", max_bytes=200)
        source.refresh()
        broker.say(line("+", 1), "oops\n")
        wait_until(lambda: source.error is not None)
        assert "It was skipped" in (source.error or "")
        broker.say("# " + "long" * 100, "TX .\n" + line("A", 9), "", line("+", 2))
        wait_until(lambda: objects(session) == {"1", "2"})
        source.refresh()
        version = source.status()["version"]
        assert (version["skipped"], version["messages"], source.error) == (3, 3, None)


def test_a_session_that_the_broker_lost(broker: Broker, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        add(session, broker).refresh()
    broker.stop()
    (tmp_path / "broker" / "mosquitto.db").unlink()
    broker.start()
    with sparqlive.open(tmp_path / "s") as session:
        source = session.sources["feed"]
        with pytest.raises(sparqlive.Error, match="has dropped this source's session"):
            source.refresh()
        broker.say(line("+", 1))
        wait_until(lambda: objects(session) == {"1"})
        source.refresh()


def test_passwords(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    names = folder / "passwords"
    names.touch(mode=0o600)
    subprocess.run(["mosquitto_passwd", "-b", str(names), "ann", "secret"], check=True, capture_output=True)
    broker = Broker(folder, f"password_file {names}", "allow_anonymous false")
    broker.start()
    try:
        with sparqlive.open() as session:
            source = add(session, broker, username="ann", password="wrong")
            with pytest.raises(sparqlive.Error, match=r"no connection to the broker: .*[Nn]ot authorized"):
                source.refresh()
            source.remove()
            add(session, broker, username="ann", password="secret").refresh()
            broker.say(line("+", 1), auth={"username": "ann", "password": "secret"})
            wait_until(lambda: objects(session) == {"1"})
    finally:
        broker.stop()


def test_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    broker = Broker(tmp_path / "broker")
    secure = unused_port()
    with (tmp_path / "broker" / "mosquitto.conf").open("a") as settings:
        settings.write(f"listener {secure} localhost\ncertfile {certificate}\nkeyfile {key}\n")
    broker.start()
    try:
        with sparqlive.open() as session:
            for trusted, host in ((False, "localhost"), (True, "127.0.0.1"), (True, "localhost")):
                if trusted:
                    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
                address = f"mqtts://{host}:{secure}/orders/eu"
                source = session.source("mqtt", address, name="feed", allow_private=True)
                if trusted and host == "localhost":
                    source.refresh()
                    broker.say(line("+", 1))
                    wait_until(lambda: objects(session) == {"1"})
                else:
                    with pytest.raises(sparqlive.Error, match="certificate verify failed"):
                        source.refresh()
                    source.remove()
    finally:
        broker.stop()


def test_private_addresses_are_refused(broker: Broker) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="not a public address"):
        add(session, broker, allow_private=False).refresh()


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("mqtt://host", {}),
        ("mqtt:///topic", {}),
        ("mqtt://host:99999/topic", {}),
        ("mqtt://ann:secret@host/topic", {}),
        ("mqtt://host/a/#/b", {}),
        ("mqtt://host/a+/b", {}),
        ("http://host/topic", {}),
        ("mqtt://host/topic", {"when_malformed": "cry"}),
        ("mqtt://host/topic", {"session_seconds": -1}),
        ("mqtt://host/topic", {"password": 1}),
        ("mqtt://host/topic", {"headers": {}}),
    ],
)
def test_what_is_refused(address: str, options: dict[str, Any]) -> None:
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.Error) as refused:
            session.source("mqtt", address, **options)
        assert "secret" not in str(refused.value)
        assert not session.sources
