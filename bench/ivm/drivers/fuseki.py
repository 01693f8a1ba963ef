"""Apache Jena Fuseki over HTTP: takes the change in as SPARQL Update and evaluates the query again.

Starts the server jar (`--jar`, or SPARQLIVE_FUSEKI) with a dataset in memory. The answer is read to its last
byte, as a client of an endpoint has it; this is what re-evaluation by an endpoint costs.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from bench.ivm.drivers.serving import QueryRefusedError, Rows, serve

_START_SECONDS = 300


class Fuseki:
    """A dataset of the server. The server is shared by all queries."""

    def __init__(self, address: str, version: str) -> None:
        self.name = f"Apache Jena Fuseki {version}, over HTTP"
        self._address = address

    def start(self, file: str, query: str) -> None:
        self._post("update", b"CLEAR ALL", "application/sparql-update")
        self._post("data", Path(file).read_bytes(), "application/n-quads")
        self._query = query
        try:
            self._evaluate()
        except urllib.error.HTTPError as error:
            if error.code == 400:
                raise QueryRefusedError(error.read().decode().strip()) from None
            raise

    def parsed(self, lines: list[str]) -> list[str]:
        """As parts of QuadData: SPARQL writes a graph around its triples."""
        parts = []
        for line in lines:
            triple = line.rsplit(" .", 1)[0]
            *rest, last = triple.split(" ")
            if len(rest) == 3 and last.startswith("<"):
                parts.append(f"GRAPH {last} {{ {' '.join(rest)} }}")
            else:
                parts.append(f"{triple} .")
        return parts

    def apply(self, delete: list[str], insert: list[str]) -> None:
        update = []
        if delete:
            update.append(f"DELETE DATA {{ {' '.join(delete)} }}")
        if insert:
            update.append(f"INSERT DATA {{ {' '.join(insert)} }}")
        self._post("update", " ; ".join(update).encode(), "application/sparql-update")
        self._body = self._evaluate()

    def _evaluate(self) -> bytes:
        accepted = (
            "application/n-triples" if "CONSTRUCT" in self._query else "application/sparql-results+json"
        )
        return self._post("query", self._query.encode(), "application/sparql-query", accepted)

    def rows(self) -> Rows:
        text = self._evaluate().decode()
        if "CONSTRUCT" in self._query:
            return [line.removesuffix(" .").split(" ", 2) for line in sorted(set(text.splitlines())) if line]
        found = json.loads(text)
        if "boolean" in found:
            return [[]] if found["boolean"] else []
        names = found["head"]["vars"]
        return [[_text(row.get(name)) for name in names] for row in found["results"]["bindings"]]

    def _post(self, service: str, body: bytes, kind: str, accepted: str = "*/*") -> bytes:
        headers = {"Content-Type": kind, "Accept": accepted}
        request = urllib.request.Request(f"{self._address}/{service}", body, headers)
        with urllib.request.urlopen(request, timeout=600) as response:
            answer: bytes = response.read()
        return answer


def _text(term: dict[str, str] | None) -> str | None:
    if term is None:
        return None
    if term["type"] == "uri":
        return f"<{term['value']}>"
    value = json.dumps(term["value"], ensure_ascii=False)
    if "xml:lang" in term:
        return f"{value}@{term['xml:lang']}"
    return f"{value}^^<{term['datatype']}>" if "datatype" in term else value


def _server(jar: str) -> tuple[str, str]:
    """Starts the server; returns the address of its dataset, and its version."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "java",
        "-jar",
        str(Path(jar).resolve()),
        "--localhost",
        f"--port={port}",
        "--mem",
        "--update",
        "/ds",
    ]
    address = f"http://127.0.0.1:{port}/ds"
    # While it starts, the server writes a folder of configuration, by default into the current directory.
    # The driver is killed in the end, so the folder is removed as soon as the server answers.
    with tempfile.TemporaryDirectory(prefix="fuseki-") as base:
        process: subprocess.Popen[Any] = subprocess.Popen(
            command,
            env=os.environ | {"FUSEKI_BASE": base},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(process.kill)
        _wait_until_it_answers(process, address)
    return address, Path(jar).stem.rpartition("-")[2]


def _wait_until_it_answers(process: subprocess.Popen[Any], address: str) -> None:
    for _ in range(_START_SECONDS * 2):
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{address}/query?query=ASK%7B%7D", timeout=10),
        ):
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    raise SystemExit(f"Fuseki does not start: {process.args!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--jar", default=os.environ.get("SPARQLIVE_FUSEKI"), required="SPARQLIVE_FUSEKI" not in os.environ
    )
    address, version = _server(parser.parse_args().jar)
    serve(lambda: Fuseki(address, version))


if __name__ == "__main__":
    main()
