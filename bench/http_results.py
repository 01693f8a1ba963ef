"""Reads a view of a million rows over HTTP, in every way: when the first byte comes, and what it costs.

The agent is a process of its own; its CPU time and its peak memory are read from the system before and after
each request. The client reads the bytes and throws them away, so it costs little.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyoxigraph as ox

from bench.measure import Report, Sizes, duration, number, run_alone

SIZES = {"rows": (1_000_000, 20_000)}
WANTED_FIRST_SECONDS = 0.05
WANTED_GROWTH_MB = 50
_NAME = (
    "<http://example.org/item/{}> <http://example.org/price> "
    '"{}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
)
_QUERY = "SELECT ?item ?price { ?item <http://example.org/price> ?price }"
_WAYS = {
    "json": "/views/all?format=json",
    "csv": "/views/all?format=csv",
    "json, gzip": "/views/all?format=json",
    "ndjson": "/views/all?format=ndjson",
    "arrow": "/views/all?format=arrow",
    "parquet": "/views/all?format=parquet",
    "events": "/views/all/changes",
    "graph, n-triples": "/graphs?default&format=nt",
    "graph, turtle": "/graphs?default&format=turtle",
}

# All rows are looked at to find the types of columns, before the first byte.
_TABLES = ("ndjson", "arrow", "parquet")


def serve(rows: int) -> None:
    """The agent's process: prints its port when the view is there."""
    import uvicorn

    import sparqlive
    from sparqlive.agent.agent import Agent
    from sparqlive.agent.app import make_app
    from sparqlive.agent.serve import Listening, configuration
    from sparqlive.agent.settings import Settings

    session = sparqlive.open()
    session.apply(insert="".join(_NAME.format(n, n % 5_000) for n in range(rows)))
    session.view("all", _QUERY)
    agent = Agent(session, Settings(query_seconds=600))
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    server = uvicorn.Server(configuration(make_app(agent), agent.settings, Listening(), lifespan="on"))
    server.run(sockets=[listening])


@dataclass
class Cost:
    """What one request cost the agent."""

    first_seconds: float
    cpu_seconds: float
    growth: int
    received: int


def measure(process: psutil.Process, port: int, path: str, coding: str) -> Cost:
    """Reads a response to its end, or an event stream up to the first event with a position."""
    before = process.cpu_times()
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak so far no longer counts
    resident = _memory(process, "VmHWM")
    began, first, received, tail = time.perf_counter(), 0.0, 0, b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        headers = ("Host: localhost", f"Accept-Encoding: {coding}", "Connection: close")
        connection.sendall("\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode())
        head_and_more = b""
        while piece := connection.recv(1 << 20):
            received += len(piece)
            tail = (tail + piece)[-400:]
            if not first:
                head_and_more += piece
                if head_and_more.partition(b"\r\n\r\n")[2]:
                    first = time.perf_counter() - began
            if path.endswith("/changes") and b"]" in piece[-400:] and _is_complete(tail):
                break
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return Cost(first, spent, _memory(process, "VmHWM") - resident, received)


def _is_complete(tail: bytes) -> bool:
    ends = (b',"complete":true}\n\n', b"]}\n\n")
    return any(end in tail for end in ends) and not tail.endswith(b'"complete":false}\n\n\r\n')


def _memory(process: psutil.Process, name: str) -> int:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def peer_seconds(rows: int) -> float:
    """The CPU time in which pyoxigraph writes the same rows as JSON, in this process."""
    store = ox.Store()
    store.bulk_extend(
        ox.parse("".join(_NAME.format(n, n % 5_000) for n in range(rows)), ox.RdfFormat.N_TRIPLES)
    )
    began = time.process_time()
    found = store.query(_QUERY)
    assert isinstance(found, ox.QuerySolutions)
    found.serialize(format=ox.QueryResultsFormat.JSON)
    return time.process_time() - began


def run(sizes: Sizes) -> Report:
    report = Report()
    rows = sizes["rows"]
    agent = subprocess.Popen(
        [sys.executable, "-m", "bench.http_results", "--serve", str(rows)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert agent.stdout is not None
        port = int(agent.stdout.readline())
        process = psutil.Process(agent.pid)
        measure(process, port, "/views/all/rows?limit=1", "identity")  # loads what the first request loads
        peer = peer_seconds(rows)
        for name, path in _WAYS.items():
            cost = measure(process, port, path, "gzip" if "gzip" in name else "identity")
            title = f"{number(rows)} rows as {name}"
            if name in _TABLES:
                report.note(f"{title}: first byte", duration(cost.first_seconds))
            else:
                report.at_most(f"{title}: first byte", cost.first_seconds, WANTED_FIRST_SECONDS, duration)
            report.at_most(f"{title}: growth of the agent", cost.growth / 2**20, WANTED_GROWTH_MB, _megabytes)
            report.note(
                f"{title}: CPU, {cost.received / 1e6:,.0f} MB", duration(cost.cpu_seconds), duration(peer)
            )
    finally:
        agent.terminate()
        agent.communicate()  # also closes the pipe
    report.remarks.append(
        "The peer of CPU times is pyoxigraph, which writes the solutions as JSON in memory."
    )
    return report


def _megabytes(value: float) -> str:
    return f"{value:,.0f} MB"


def main() -> None:
    if "--serve" in sys.argv:
        serve(int(sys.argv[-1]))
    else:
        run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
