"""Commands with --agent at a server that is none: each says so, and none succeeds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparqlive
from sparqlive.cli.main import app

DEEP = b"[" * 100_000 + b"]" * 100_000
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "page": (200, {"Content-Type": "text/html"}, b"<html><body>It works!</body></html>"),
    "text": (200, {"Content-Type": "text/plain"}, b"?s\n<x:a>\n"),
    "object": (200, {"Content-Type": "application/json"}, b'{"ok": true}'),
    "list": (200, {"Content-Type": "application/json"}, b"[1, 2]"),
    "number": (200, {"Content-Type": "application/json"}, b"1"),
    "null": (200, {"Content-Type": "application/json"}, b"null"),
    "deep": (200, {"Content-Type": "application/json"}, DEEP),
    "empty": (200, {}, b""),
    "nothing": (204, {}, b""),
    "moved": (302, {"Location": "/login"}, b""),
    "missing": (404, {"Content-Type": "text/html"}, b"<html>Not found</html>"),
    "explained": (404, {"Content-Type": "application/json"}, b'{"detail": "no"}'),
    "broken": (500, {"Content-Type": "application/json"}, DEEP),
    "not UTF-8": (200, {"Content-Type": "application/json; charset=utf-8"}, b'{"a": "\xff\xfe"}'),
    "truncated": (200, {"Content-Type": "application/json", "Content-Length": "1000"}, b'{"views": ['),
    "results": (200, {"Content-Type": "application/sparql-results+json"}, b'{"head": {}, "results": {}}'),
}


@contextmanager
def serving(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers, "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def commands(folder: Path) -> list[list[str]]:
    data, changes = folder / "data.nt", folder / "some.changes"
    data.write_text("<x:a> <x:p> <x:b> .\n")
    changes.write_text("+ <x:a> <x:p> <x:b> .\n")
    select = "SELECT ?s { ?s ?p ?o }"
    return [
        ["query", select],
        ["query", select, "--format", "csv"],
        ["query", "ASK {}"],
        ["query", "CONSTRUCT WHERE { ?s ?p ?o }"],
        ["update", "INSERT DATA { <x:a> <x:p> 1 }"],
        ["update", "INSERT DATA { <x:a> <x:p> 1 }", "--json"],
        ["load", str(data)],
        ["apply", str(changes)],
        ["view"],
        ["view", "v"],
        ["view", "v", select],
        ["view", "v", "--drop"],
        ["explain", "v"],
        ["explain", "v", "--json"],
        ["watch", "v"],
        ["compact"],
        ["source", "list"],
        ["source", "add", "web", "http://example.org/"],
        ["source", "remove", "http://example.org/"],
    ]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_command_says_that_this_is_no_agent(name: str, tmp_path: Path) -> None:
    with serving(*ANSWERS[name]) as address:
        every = commands(tmp_path)
        for command in every if name in ("page", "object") else every[:: len(every) // 5]:
            if command[0] == "watch" and ANSWERS[name][0] >= 500:
                continue  # tries again: an agent may be starting
            _check(command, address)


def _check(command: list[str], address: str) -> None:
    done = CliRunner().invoke(app, [*command, "--agent", address])
    # `main` prints it, and ends with the status 1.
    assert isinstance(done.exception, sparqlive.Error), (command, done.output, done.exception)
    assert done.stdout == "", (command, done.stdout)
    if command[0] == "watch":
        assert "agent" in str(done.exception)
    else:
        assert f"The server at {address} is not a sparqlive agent" in str(done.exception)
