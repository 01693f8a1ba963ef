"""Hundreds of sources on a server that fails, stalls, lies, truncates and closes connections at random.

Run it by hand: `python -m bench.soak --minutes 5`. Every few seconds, and at the end when the server works
again, the graph of each source must be exactly a version that was served whole, never older than at the last
check, and every view must equal its result over these versions, and its own recomputation.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import Literal, NamedNode

import sparqlive

_VALUES = "SELECT ?s ?v { GRAPH ?g { ?s <a:value> ?v ; <a:part> ?p . ?p <a:of> ?v } }"
_TOTALS = (
    "SELECT ?k (SUM(?v) AS ?total) (COUNT(*) AS ?n) "
    "{ GRAPH ?g { ?s <a:kind> ?k ; <a:value> ?v } } GROUP BY ?k"
)
_FAULTS = (
    "error",
    "later",
    "gone",
    "stall",
    "cut",
    "cut gzip",
    "cut chunks",
    "close",
    "no turtle",
    "html",
    "loop",
)
_LOOK_SECONDS = 3.0


@dataclass
class Document:
    """What the server has at one address, and which versions of it were sent whole."""

    number: int
    lies: bool
    version: int = 0
    served: set[int] = field(default_factory=set)

    def turtle(self) -> bytes:
        """The same triples in another order, with other labels, each time it is asked for."""
        label = f"b{random.getrandbits(32)}"
        lines = [
            f"<#it> <a:value> {self.version} .",
            f"<#it> <a:kind> {self.number % 7} .",
            f"<#it> <a:part> _:{label} .",
            f"_:{label} <a:of> {self.version} .",
        ]
        random.shuffle(lines)
        return "\n".join(lines).encode()

    def etag(self) -> str:
        return '"always"' if self.lies else f'"{self.version}"'


class BadServer:
    """Answers well or not, as it pleases, in a thread of its own."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.faulty = True
        self.answers: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=512)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        open_connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._respond(head.decode("latin-1"), writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _respond(self, head: str, writer: asyncio.StreamWriter) -> None:
        document = self.documents[int(head.split()[1].strip("/"))]
        if self.faulty and random.random() < 0.3:
            document.version += 1
        fault = random.choice(_FAULTS) if self.faulty and random.random() < 0.4 else ""
        condition = f"if-none-match: {document.etag()}" in head.lower()
        self.answers[fault or ("304" if condition else "200")] += 1
        whole, status = document.turtle(), "200 OK"
        headers = {"Content-Type": "text/turtle", "ETag": document.etag()}
        body, length = whole, len(whole)
        match fault:
            case "error" | "later" | "gone":
                status, body = {"error": "500 x", "later": "503 x", "gone": "404 x"}[fault], b""
                length = 0
            case "stall":
                await asyncio.sleep(random.uniform(1, 6))
                return writer.close()
            case "cut":
                body = whole[: random.randrange(len(whole))]
            case "cut gzip":
                headers["Content-Encoding"] = "gzip"
                body = gzip.compress(whole)[: -random.randrange(1, 20)]
                length = len(body)
            case "cut chunks":
                headers["Transfer-Encoding"] = "chunked"
                body = b"%x\r\n%s\r\n" % (len(whole), whole)
            case "close":
                return writer.close()
            case "no turtle":
                body = b"<#it> <a:value> ."
                length = len(body)
            case "html":
                headers["Content-Type"] = "text/html"
            case "loop":
                status, headers["Location"] = "302 x", f"/{document.number}"
            case _ if condition:
                status, body, length = "304 x", b"", 0
            case _:
                document.served.add(document.version)
        if fault != "cut chunks":
            headers["Content-Length"] = str(length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)
        await writer.drain()
        if fault.startswith("cut"):
            writer.close()
        return None


class Soak:
    def __init__(self, number: int, interval_seconds: float) -> None:
        self.server = BadServer([Document(n, n % 5 == 0) for n in range(number)])
        self.session = sparqlive.open()
        self.values = self.session.view("values", _VALUES)
        self.totals = self.session.view("totals", _TOTALS)
        self.last = dict.fromkeys(range(number), -1)
        options = {"poll_interval_seconds": interval_seconds, "allow_private": True, "timeout_seconds": 3.0}
        addresses = [f"http://127.0.0.1:{self.server.port}/{n}" for n in range(number)]
        self.sources = [self.session.source("web", address, **options) for address in addresses]

    def look(self) -> None:
        """Everything is a version that was served whole, and the views are what these come to."""
        with self.session.reading():
            graphs: dict[str, list[Any]] = {}
            for quad in self.session.quads():
                graphs.setdefault(quad.graph_name.value, []).append(quad)
            shown = [dict(view.weights()) for view in (self.values, self.totals)]
            self.session.check()
        rows: Counter[Any] = Counter()
        sums: dict[int, list[int]] = {}
        for document, source in zip(self.server.documents, self.sources, strict=True):
            quads = graphs.get(source.address, [])
            if not quads:
                assert self.last[document.number] == -1, f"{source.address} has lost everything"
                continue
            [version] = {int(quad.object.value) for quad in quads if quad.predicate.value == "a:value"}
            assert len(quads) == 4, f"{source.address} is half a document"
            assert version in document.served, f"{source.address}: version {version} was never served whole"
            assert version >= self.last[document.number], f"{source.address} went back in time"
            self.last[document.number] = version
            rows[NamedNode(source.address + "#it"), Literal(version)] += 1
            sums.setdefault(document.number % 7, []).append(version)
        assert shown[0] == rows
        assert shown[1] == {(Literal(k), Literal(sum(v)), Literal(len(v))): 1 for k, v in sums.items()}

    def heal(self) -> None:
        """The server is well: each source comes to what it has, liars when the whole is fetched again."""
        self.server.faulty = False
        for document, source in zip(self.server.documents, self.sources, strict=True):
            for _ in range(13):
                try:
                    source.refresh()
                except sparqlive.Error:  # of a look that had begun before
                    continue
                if f'"{document.version}"' in {
                    str(row[1]).split("^")[0] for row in self._rows_of(source.address)
                }:
                    break
            else:
                raise AssertionError(f"{source.address} does not come to version {document.version}")
        self.look()
        assert all(self.last[document.number] == document.version for document in self.server.documents)

    def _rows_of(self, address: str) -> list[Any]:
        return [row for row in self.values.weights() if row[0].value == address + "#it"]

    def close(self) -> None:
        self.session.close()
        self.server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--sources", type=int, default=300)
    parser.add_argument("--interval-seconds", type=float, default=1.0)
    given = parser.parse_args()
    soak = Soak(given.sources, given.interval_seconds)
    try:
        end, looks = time.monotonic() + 60 * given.minutes, 0
        while time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
            soak.look()
            looks += 1
            stale = sum(source.error is not None for source in soak.sources)
            print(
                f"epoch {soak.session.epoch:,}: {len(soak.values)} of {given.sources} read, {stale} stale",
                flush=True,
            )
        soak.heal()
        answers = ", ".join(f"{count:,} {name}" for name, count in soak.server.answers.most_common())
        print(f"{looks + 1} looks, {soak.session.epoch:,} epochs, every view right. Answers: {answers}.")
    finally:
        soak.close()


if __name__ == "__main__":
    main()
