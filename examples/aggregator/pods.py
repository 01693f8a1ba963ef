"""Pods with meter readings: on a Community Solid Server, or as documents of a small server on this machine.

A pod's owner writes it. The agent in front of it gets its address, kind of source and options.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from examples.watch_party.server import Person, SolidServer

ENERGY = "http://example.org/energy#"
SECRET = "AGGREGATOR_POD_SECRET"
"""The environment variable with the secret of an agent's pod."""


@dataclass
class Home:
    """The meter readings of a home: kilowatt hours per day, and what they were for."""

    name: str
    readings: dict[str, tuple[Decimal, str]] = field(default_factory=dict)

    def turtle(self) -> str:
        return f"@prefix : <{ENERGY}> .\n" + "".join(
            f'<#{day}> a :Reading ; :day "{day}" ; :kwh {kwh} ; :appliance "{appliance}" .\n'
            for day, (kwh, appliance) in self.readings.items()
        )


class Pod(Protocol):
    """The place of a home's readings."""

    kind: str
    address: str
    options: Mapping[str, Any]
    """How an agent reads it, as a source."""
    environment: Mapping[str, str]
    """Environment variables that the agent's process needs for it."""

    def write(self, home: Home) -> None:
        """Writes the readings to the pod."""


class SolidPod:
    kind = "solid"

    def __init__(self, person: Person) -> None:
        self._person = person
        self.address = f"{person.pod}energy/readings"
        self.options = {
            "issuer": person.issuer,
            "client_id": person.client_id,
            "client_secret_variable": SECRET,
            "allow_private": True,
        }
        self.environment = {SECRET: person.client_secret}

    def write(self, home: Home) -> None:
        self._person.put(self.address, home.turtle())


class DocumentPod:
    kind = "web"
    options: Mapping[str, Any] = {"poll_interval_seconds": 0.1, "allow_private": True}
    environment: Mapping[str, str] = {}

    def __init__(self, documents: dict[str, bytes], server: str, name: str) -> None:
        self._documents = documents
        self.address = f"{server}/{name}/energy/readings"

    def write(self, home: Home) -> None:
        self._documents[self.address] = home.turtle().encode()


def solid_pods(server: SolidServer, names: Sequence[str]) -> list[Pod]:
    """Private pods of new accounts."""
    return [SolidPod(server.person(name)) for name in names]


@contextmanager
def document_pods(names: Sequence[str]) -> Iterator[list[Pod]]:
    """Serves documents that every user of this machine can read."""
    documents: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = documents.get(f"{address}{self.path}")
            etag = f'"{sha256(body or b"").hexdigest()[:16]}"'
            status = 404 if body is None else 304 if self.headers["If-None-Match"] == etag else 200
            sent = body if body is not None and status == 200 else b""
            self.send_response(status)
            for name, value in (
                ("Content-Type", "text/turtle"),
                ("ETag", etag),
                ("Content-Length", len(sent)),
            ):
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield [DocumentPod(documents, address, name) for name in names]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
