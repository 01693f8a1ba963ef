"""`sparqlive serve` as a process: it says where it listens, answers, and stops in order."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.routes.health import Opening
from sparqlive.agent.serve import Door, Listening, Server, configuration
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving
from tests.agent.reading import reading
from tests.waiting import PATIENCE_SECONDS, wait_until

SPARQL = {"content-type": "application/sparql-query"}
Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an agent on a free port; gives its process and its address."""
    processes = []

    def started(*options: str) -> tuple[subprocess.Popen[str], str]:
        command = [
            sys.executable,
            "-m",
            "sparqlive",
            "serve",
            "--store",
            str(tmp_path / "store"),
            "--port",
            "0",
        ]
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"is served at (https?://\S+)", line)
        assert found is not None, line + (process.stderr.read() if process.stderr else "")
        return process, found[1]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def until_ready(client: httpx.Client) -> None:
    wait_until(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_the_store_is_closed(start: Start, how: int, tmp_path: Path) -> None:
    process, address = start()
    with httpx.Client(base_url=address, timeout=120) as client:
        until_ready(client)
        assert client.put("/views/v", content="SELECT * { ?s ?p ?o }", headers=SPARQL).status_code == 201
        process.send_signal(how)
        assert process.wait(120) == 0
    assert process.stderr is not None
    said = process.stderr.read()
    assert "Traceback" not in said
    assert said.count(f"Created store {tmp_path / 'store'}.\n") == 1
    with sparqlive.open(tmp_path / "store") as session:
        assert list(session.views) == ["v"]
        assert session.default_graph == "union"


def test_streams_get_a_last_event_and_what_is_asked_is_answered(start: Start) -> None:
    process, address = start()
    with httpx.Client(base_url=address, timeout=120) as client:
        until_ready(client)
        client.put("/views/v", content="SELECT * { ?s ?p ?o }", headers=SPARQL)
        values = " ".join(map(str, range(500)))
        slow = (
            f"SELECT (COUNT(*) AS ?n) {{ VALUES ?x {{{values}}} VALUES ?y {{{values}}} FILTER(?x * ?y > 7) }}"
        )
        answers, sent = [], threading.Event()

        def body() -> Iterator[bytes]:
            yield slow.encode()
            sent.set()

        asking = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{address}/sparql", content=body(), headers=SPARQL, timeout=120).status_code
            )
        )
        with reading(client, "/views/v/changes") as reader:
            assert reader.next().kind == "snapshot"
            asking.start()
            assert sent.wait(PATIENCE_SECONDS)
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert reader.next().json["reason"] == "stopping"
            with pytest.raises(StopIteration):
                reader.next()
        assert process.wait(120) == 0
        asking.join()
        assert answers == [200]


def test_what_computes_for_longer_than_a_stop_may_last_is_ended(start: Start, tmp_path: Path) -> None:
    process, address = start("--stop-seconds", "2")
    values = " ".join(map(str, range(2000)))
    endless = "".join(f"VALUES ?{name} {{ {values} }} " for name in "abcd")

    def put() -> None:
        with suppress(httpx.TransportError):
            httpx.put(
                f"{address}/views/v",
                content=f"SELECT (COUNT(*) AS ?n) {{ {endless} FILTER(?a + ?b + ?c < ?d) }}",
                headers=SPARQL,
                timeout=60,
            )

    with httpx.Client(base_url=address, timeout=120) as client:
        until_ready(client)
        asking = threading.Thread(target=put)
        asking.start()
        while client.get("/readyz").status_code == 200:
            time.sleep(0.02)
        assert client.get("/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        asking.join()
    assert process.stderr is not None
    assert "store closed" in process.stderr.read()
    with sparqlive.open(tmp_path / "store") as session:
        assert not session.views


def test_small_answers_are_sent_at_once() -> None:
    """asyncio turns TCP_NODELAY on for sockets whose protocol is named."""
    with Listening("127.0.0.1", 0).listen() as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = ["serve", "--store", str(tmp_path / "s"), "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(
            [sys.executable, "-m", "sparqlive", *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert "Cannot listen on" in ended.stderr
    assert "Address already in use. Choose another --port; 0 picks a free one." in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/path", "https://*.example", ""])
def test_an_origin_that_is_none_is_a_sentence(tmp_path: Path, origin: str) -> None:
    command = ["serve", "--store", str(tmp_path / "s"), "--port", "0", "--origin", origin]
    ended = subprocess.run(
        [sys.executable, "-m", "sparqlive", *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "is not an origin" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_a_store_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s"):
        ended = subprocess.run(
            [sys.executable, "-m", "sparqlive", "serve", "--store", str(tmp_path / "s"), "--port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "open for writing in process" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_others_reach_it_only_with_a_token(start: Start, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sparqlive"]
    here = ["--store", str(tmp_path / "store")]
    refused = subprocess.run(
        [*command, "serve", *here, "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert "sparqlive token create" in refused.stderr
    made = subprocess.run(
        [*command, "token", "create", *here, "--can", "read"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    _, address = start("--host", "0.0.0.0")
    with httpx.Client(base_url=address.replace("0.0.0.0", "127.0.0.1"), timeout=120) as client:
        until_ready(client)
        assert client.get("/views").status_code == 401
        allowed = {"authorization": f"Bearer {made.stdout.strip()}", "host": "agent.example"}
        assert client.get("/views", headers=allowed).status_code == 200
        (tmp_path / "store" / "tokens.json").unlink()
        assert client.get("/views", headers=allowed).status_code == 401, (
            "where others reach it, that opens nothing"
        )


def test_tls_needs_both_files(tmp_path: Path) -> None:
    with pytest.raises(sparqlive.Error, match="both a certificate and its key"):
        Listening(certificate=tmp_path / "certificate.pem")


def test_tls(start: Start, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subject = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [*made.split(), *subject],
        check=True,
        capture_output=True,
    )
    _, address = start("--tls-certificate", str(certificate), "--tls-key", str(key))
    assert address.startswith("https://")
    trusted = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(base_url=address, verify=trusted, timeout=120) as client:
        until_ready(client)
        assert client.get("/healthz").json() == {"alive": True}


def test_while_the_store_is_opened_the_agent_lives_and_is_not_ready_and_the_rest_waits() -> None:
    go_on = threading.Event()

    def slowly(opening: Opening) -> sparqlive.Session:
        opening(3, 10)
        assert go_on.wait(120)
        return sparqlive.open()

    bound = Listening(port=0).listen()
    door = Door(slowly, Settings())
    server = Server(configuration(door, Settings(), Listening()), door)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", timeout=120) as client:
            assert client.get("/healthz").status_code == 200
            waiting = client.get("/readyz")
            assert waiting.status_code == 503
            assert waiting.json()["opening"] == {"views": 3, "of": 10}
            with pytest.raises(httpx.ReadTimeout):
                client.get("/views", timeout=httpx.Timeout(PATIENCE_SECONDS, read=0.3))
            threading.Timer(0.2, go_on.set).start()
            assert client.get("/views").json() == {"epoch": 0, "views": []}
            assert client.get("/readyz").json()["ready"] is True
    finally:
        server.should_exit = True
        thread.join(120)
    assert not thread.is_alive()


def test_an_agent_that_is_stopped_while_the_store_is_opened_has_not_failed() -> None:
    async def stopped_meanwhile() -> sparqlive.Error | None:
        def stopped(_: Opening) -> sparqlive.Session:
            door.stopping()
            raise sparqlive.Closed("The agent is stopping.")

        door = Door(stopped, Settings())
        await door.open()
        return door.failure

    assert asyncio.run(stopped_meanwhile()) is None


class Slow(sparqlive.Session):
    """A session whose changes take until they are let go on, and are then made."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def view(self, *arguments: Any, **options: Any) -> Any:
        with self._waited():
            return super().view(*arguments, **options)

    def carry_out(self, *arguments: Any, **options: Any) -> Any:
        with self._waited():
            return super().carry_out(*arguments, **options)

    def replace(self, *arguments: Any, **options: Any) -> Any:
        with self._waited():
            return super().replace(*arguments, **options)

    def close(self) -> None:
        """What it had is looked at when the agent has closed it."""
        with self.reading():
            self.had = list(self.views), self.epoch
        super().close()

    @contextmanager
    def _waited(self) -> Iterator[None]:
        with self.reading():
            self.begun.set()
            assert self.go_on.wait(60)
            yield


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "body", "media_type"),
    [
        ("PUT", "/views/v", "SELECT * { ?s ?p ?o }", "application/sparql-query"),
        ("POST", "/sparql", "INSERT DATA { <x:a> <x:b> 1 }", "application/sparql-update"),
        ("PUT", "/graphs?default", "<x:a> <x:b> 1 .", "text/turtle"),
    ],
)
def test_what_is_committed_while_the_agent_stops_is_not_told_as_failed(
    method: str, path: str, body: str, media_type: str, late: bool
) -> None:
    """It is done before the agent gives it up, and told as done; or later, and then not told as undone."""
    session = Slow()
    settings = Settings(stop_seconds=2 if late else 100)
    bound = Listening(port=0).listen()
    door = Door(lambda _: session, settings)
    server = Server(configuration(door, settings, Listening()), door)
    door.settings = Settings(stop_seconds=120)  # closing the store is waited for
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    answers: list[httpx.Response] = []

    def ask() -> None:
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        headers = {"content-type": media_type}
        answers.append(httpx.request(method, address + path, content=body, headers=headers, timeout=60))

    asking = threading.Thread(target=ask)
    asking.start()
    assert session.begun.wait(60)
    server.should_exit = True
    if late:
        asking.join(60)  # it is given up, and goes on
    session.go_on.set()
    asking.join(60)
    thread.join(60)
    assert not thread.is_alive()
    [answer] = answers
    assert session.had in ((["v"], 0), ([], 1)), "it was committed"
    if late:
        assert answer.status_code == 503
        assert "may or may not have changed data" in answer.json()["detail"]
    else:
        assert answer.status_code in (200, 201)


def test_a_view_of_an_agent_is_watched(session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("v", "SELECT ?o { <http://x/a> <http://x/p> ?o }")
    _, secret = Tokens(tmp_path).create(["read:view=v"])
    with serving(Agent(session, Settings(), Access(tmp_path))) as address:
        command = [sys.executable, "-m", "sparqlive", "watch", f"{address}/views/v"]
        environment = {**os.environ, "SPARQLIVE_TOKEN": secret}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline() == "@ epoch 0, full content\n"
            session.apply(insert='<http://x/a> <http://x/p> "1" .')
            assert watching.stdout.readline() == "@ epoch 1\n"
            assert watching.stdout.readline() == '+1\t"1"\n'
            watching.send_signal(signal.SIGINT)
            try:
                assert watching.wait(120) == 130
            finally:
                watching.kill()
        refused = subprocess.run(
            [*command, "--token", "wrong"], capture_output=True, text=True, timeout=60, check=False
        )
    assert refused.returncode == 1
    assert "Unknown token" in refused.stderr
