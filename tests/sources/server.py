"""A real HTTP server for tests, on a free port of this machine; what it answers is set by the test."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the page at its path says; writes what was asked into the site's log."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        site = self.server.site
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        site.asked.append(self)
        page = site.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send(404)
        elif callable(page):
            page(self)
        else:
            page.answer(self)

    do_HEAD = do_POST = do_GET  # noqa: N815 - names that the base class looks for

    def send(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def raw(self, data: bytes) -> None:
        """Bytes as they are, and the end of the connection."""
        self.close_connection = True
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@dataclass
class Page:
    """A document with an ETag that follows its content, unless it lies."""

    body: str
    content_type: str = "text/turtle"
    headers: dict[str, str] = field(default_factory=dict)
    etag: str | None = None

    def answer(self, handler: Handler) -> None:
        etag = self.etag or f'"{hash(self.body)}"'
        headers = {"ETag": etag, "Content-Type": self.content_type, **self.headers}
        if handler.headers.get("If-None-Match") == etag:
            handler.send(304, headers)
        else:
            handler.send(200, headers, self.body.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are what is tested."""


@dataclass
class Site:
    address: str
    pages: dict[str, Page | Answer] = field(default_factory=dict)
    asked: list[Handler] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [handler.path for handler in self.asked]


@contextmanager
def serve(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    server = _Server((host, 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site = server.site = Site(f"http{'s' if tls else ''}://{host}:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that nobody trusts yet, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl, which makes a certificate for this test, does not run here")
    return certificate, key
