"""An honest writer and honest subscribers beside clients that try to exhaust the agent.

`python -m bench.hostile --seconds 60` starts an agent with tokens, on this machine only. A writer changes a
value at a steady rate by SPARQL Update, and subscribers follow two views: first alone, then beside several
clients that have a token with the right `read` and send expensive requests. These are products, groups and
orders of them, paths, regular expressions, queries that are deep or long, subscriptions to all of these,
opened and abandoned, responses that are not read, and silent connections. The time of a write is from its
request to its response. At the end nothing may be lost: each write is stored, each subscriber's events add up
to its view, and the agent stops on request.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

import sparqlive
from bench.measure import Report, Sizes, duration, number, percentile, run_alone
from sparqlive.agent.tokens import Tokens
from sparqlive.web.event_stream import Parser

SIZES = {"seconds": (60, 10), "items": (2_000, 300), "changes_a_second": (20, 10), "hostile": (12, 6)}
WANTED_SECONDS = 0.25
_TOKENS = 3
_X = "http://example.org/"
_QUERY, _UPDATE = "application/sparql-query", "application/sparql-update"
_VIEWS = {
    "values": f"SELECT ?i ?v {{ ?i <{_X}value> ?v }}",
    "totals": f"SELECT ?k (SUM(?v) AS ?total) {{ ?i <{_X}kind> ?k ; <{_X}value> ?v }} GROUP BY ?k",
}
_CROSS = "?a ?b ?c . ?d ?e ?f . ?g ?h ?i"
_APART = "FILTER(?a != ?f && ?d != ?i && ?g != ?c)"
EXPENSIVE = (
    f"SELECT * {{ {_CROSS} }}",
    f"SELECT * {{ {_CROSS} }} OFFSET 100000000 LIMIT 1000000000",
    f"SELECT (COUNT(*) AS ?n) {{ {_CROSS} {_APART} }}",
    f"SELECT DISTINCT ?a ?d ?g {{ {_CROSS} }}",
    f"SELECT ?a ?d (COUNT(*) AS ?n) {{ {_CROSS} {_APART} }} GROUP BY ?a ?d ORDER BY ?n",
    f"SELECT (GROUP_CONCAT(CONCAT(STR(?a), STR(?d))) AS ?t) {{ {_CROSS} }}",
    f"SELECT * {{ ?a <{_X}value> ?b . ?c <{_X}value> ?d FILTER(?b < ?d) }}",
    f"SELECT * {{ ?a <{_X}next>+ ?b . ?b (<{_X}next>|^<{_X}next>)* ?c }}",
    "SELECT * { ?a ?p ?b OPTIONAL { ?c ?q ?d FILTER(?b != ?d && ?a != ?c) } }",
    "SELECT * { ?a ?p ?b FILTER NOT EXISTS { ?c ?q ?d FILTER(STR(?d) = STR(?a)) } }",
    "ASK { BIND('" + "a" * 40 + "!' AS ?t) FILTER(REGEX(?t, '^(a|a)*$')) }",
    "SELECT * { ?s ?p ?o FILTER(REGEX(STR(?o), '^(([a-z])+.)+[A-Z]([a-z])+$')) }",
    "SELECT * {" + " OPTIONAL {" * 60 + "?s ?p ?o" + "}" * 60 + " }",
    "SELECT * {" + "{ ?s ?p ?o } UNION " * 400 + "{ ?s ?p ?o } }",
    "SELECT * { ?s ?p ?o FILTER(" + "(" * 3000 + "1" + ")" * 3000 + ") }",
    "SELECT * { " + " . ".join(f"?s{n} ?p{n} ?s{n + 1}" for n in range(40)) + " }",
    "SELECT * { VALUES ?x { " + "1 " * 100_000 + "} }",
)


# The honest


@dataclass
class Writer:
    """Changes one value after the other, at a steady rate, and times each."""

    client: httpx.Client
    items: int
    rate: float
    latencies: list[float] = field(default_factory=list)
    written: dict[int, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def write(self, seconds: float) -> list[float]:
        begun, due, times = time.monotonic(), time.monotonic(), []
        while due < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(
                due + 1 / self.rate, time.monotonic() - 1
            )  # what it is behind is not caught up all at once
            times.append(self._one(len(self.latencies) + len(times)))
        self.latencies += times
        return times

    def _one(self, value: int) -> float:
        item = value % self.items
        subject = f"<{_X}i{item}> <{_X}value>"
        update = f"DELETE WHERE {{ {subject} ?v }} ; INSERT DATA {{ {subject} {value} }}"
        sent = time.monotonic()
        answer = self.client.post("/sparql", content=update, headers={"content-type": _UPDATE})
        took = time.monotonic() - sent
        if answer.status_code == 200:
            self.written[item] = value
        else:
            self.refused.append(answer.text)
        return took


class Follower(threading.Thread):
    """Adds up what a view's stream says."""

    def __init__(self, client: httpx.Client, view: str) -> None:
        super().__init__(daemon=True)
        self._client = client
        self.view = view
        self.rows: Counter[str] = Counter()
        self.ended: str | None = None
        self.stop = threading.Event()

    def run(self) -> None:
        parser = Parser()
        with suppress(httpx.HTTPError), self._client.stream("GET", f"/views/{self.view}/changes") as answer:
            for piece in answer.iter_bytes():
                for event in parser.feed(piece):
                    if event.kind == "end":
                        self.ended = event.data
                    if event.kind in ("snapshot", "delta"):
                        add(self.rows, json.loads(event.data))
                if self.stop.is_set():
                    return


def add(rows: Counter[str], body: dict[str, Any]) -> None:
    bindings = body["results"]["bindings"]
    for binding, weight in zip(bindings, body.get("weights", [1] * len(bindings)), strict=True):
        rows[json.dumps(binding, sort_keys=True)] += weight


# The hostile


@dataclass
class Hostile:
    """One client that tries all ways at random, and counts what it sees."""

    client: httpx.AsyncClient
    queries: Sequence[str]
    rng: random.Random
    seen: Counter[str]

    async def act(self) -> None:
        await self.rng.choice(
            (
                *(self._ask, self._ask, self._ask, self._subscribe, self._subscribe),
                *(self._plan, self._read, self._stare, self._say_nothing),
            )
        )()

    async def _send(self, path: str) -> httpx.Response:
        query = self.rng.choice(self.queries)
        answer = await self.client.post(path, content=query, headers={"content-type": _QUERY})
        self.seen[f"{path} {answer.status_code}"] += 1
        return answer

    async def _ask(self) -> None:
        await self._send("/sparql")

    async def _plan(self) -> None:
        await self._send("/plan")

    async def _read(self) -> None:
        path = self.rng.choice(
            ("/views/values", "/views/totals/rows", "/graphs?default", "/views", "/metrics")
        )
        self.seen[f"{path} {(await self.client.get(path)).status_code}"] += 1

    async def _subscribe(self) -> None:
        """A subscription that is read for a while, or not at all."""
        made = await self._send("/subscriptions")
        if made.status_code != 201 or self.rng.random() < 0.3:
            return
        until = time.monotonic() + self.rng.uniform(0, 3)
        async with self.client.stream("GET", made.json()["changes"]) as answer:
            async for piece in answer.aiter_bytes():
                if b"event: end" in piece:
                    self.seen["subscription ended"] += 1
                if time.monotonic() > until:
                    return

    async def _stare(self) -> None:
        """An answer that is not read."""
        query = f"SELECT * {{ ?s ?p ?o . ?a <{_X}kind> ?b }} LIMIT 200000"
        asked = self.client.stream("POST", "/sparql", content=query, headers={"content-type": _QUERY})
        async with asked as answer:
            self.seen[f"unread {answer.status_code}"] += 1
            await asyncio.sleep(self.rng.uniform(0, 5))

    async def _say_nothing(self) -> None:
        """Connections without a request, or with half of one."""
        head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        for _ in range(20):
            url = self.client.base_url
            _, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(head[: self.rng.randrange(len(head))])
            await asyncio.sleep(0.01)
            writer.close()
        self.seen["silent connections"] += 20


def attack(
    address: str,
    secrets: list[str],
    clients: int,
    seconds: float,
    queries: Sequence[str],
    pipe: Connection,
) -> None:
    """The work of one process: says when it begins, and sends what it saw."""
    pipe.send("ready")
    pipe.send(asyncio.run(_attack(address, secrets, clients, seconds, queries)))


async def _attack(
    address: str, secrets: list[str], clients: int, seconds: float, queries: Sequence[str]
) -> Counter[str]:
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        headers = {"Authorization": f"Bearer {secrets[number % len(secrets)]}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=10) as client:
            hostile = Hostile(client, queries, random.Random(number), seen)
            while time.monotonic() < end:
                try:
                    async with asyncio.timeout(max(0.1, min(20, end - time.monotonic()))):
                        await hostile.act()
                except (httpx.HTTPError, TimeoutError, OSError) as error:
                    seen[f"gave up: {type(error).__name__}"] += 1
                    await asyncio.sleep(0.02)

    await asyncio.gather(*map(one, range(clients)))
    return seen


# The agent


@contextmanager
def served(store: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """An agent in a process of its own: its address, and the process."""
    command = [sys.executable, "-m", "sparqlive", "serve", "--store", str(store), "--port", "0"]
    with open(store / "agent.log", "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        until = time.monotonic() + 60
        while httpx.get(f"{address}/readyz").status_code != 200:
            assert time.monotonic() < until, "the agent does not come up"
            time.sleep(0.05)
        yield address, process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@dataclass
class Outcome:
    """What a run came to. `lost`: values that are not what was written last; `wrong`: views."""

    calm: list[float]
    attacked: list[float]
    seen: Counter[str]
    refused: list[str]
    lost: int
    wrong: list[str]
    stop_seconds: float
    megabytes: float


def soak(
    seconds: float, items: int, rate: float, hostile: int, queries: Sequence[str] = EXPENSIVE
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        _fill(store, items)
        tokens = Tokens(store)
        _, secret = tokens.create(["read", "write"], "honest")
        secrets = [tokens.create(["read"], f"hostile{n}")[1] for n in range(_TOKENS)]
        with (
            served(store) as (address, process),
            httpx.Client(
                base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=120
            ) as client,
        ):
            followers = [Follower(client, view) for view in _VIEWS]
            for follower in followers:
                follower.start()
            writer = Writer(client, items, rate)
            calm = writer.write(seconds / 3)
            theirs, ours = multiprocessing.Pipe()
            attacking = multiprocessing.get_context("spawn").Process(
                target=attack, args=(address, secrets, hostile, seconds, queries, ours), daemon=True
            )
            attacking.start()
            assert theirs.poll(300)
            theirs.recv()
            attacked = writer.write(seconds)
            seen = theirs.recv() if theirs.poll(60) else Counter({"the attackers hang": 1})
            attacking.join(10)
            lost, wrong = _compared(client, writer, followers)
            megabytes = _peak(process.pid)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            stop_seconds = time.monotonic() - begun
    return Outcome(calm, attacked, seen, writer.refused, lost, wrong, stop_seconds, megabytes)


def _fill(store: Path, items: int) -> None:
    with sparqlive.open(store, default_graph="union") as session:
        lines = []
        for number in range(items):
            lines.append(f"<{_X}i{number}> <{_X}value> {_integer(-1)} .")
            lines.append(f"<{_X}i{number}> <{_X}kind> <{_X}k{number % 11}> .")
            lines.append(f"<{_X}i{number}> <{_X}next> <{_X}i{(number * 7 + 1) % items}> .")
        session.apply(insert="\n".join(lines))
        for name, query in _VIEWS.items():
            session.view(name, query)


def _integer(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def _compared(client: httpx.Client, writer: Writer, followers: list[Follower]) -> tuple[int, list[str]]:
    """How many values are not what was written last, and the views that their followers do not have."""
    wrong = []
    for follower in followers:
        expected: Counter[str] = Counter()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            expected = Counter()
            add(
                expected, client.get(f"/views/{follower.view}", headers={"accept": "application/json"}).json()
            )
            if +follower.rows == expected:
                break
            time.sleep(0.2)
        else:
            wrong.append(f"{follower.view}: {follower.ended or 'other rows'}")
        follower.stop.set()
    answer = client.post("/sparql", content=_VIEWS["values"], headers={"content-type": _QUERY}).json()
    found = {row["i"]["value"]: int(row["v"]["value"]) for row in answer["results"]["bindings"]}
    lost = sum(found.get(f"{_X}i{item}") != value for item, value in writer.written.items())
    return lost + (len(found) != writer.items), wrong


def _peak(process: int) -> float:
    """The most memory that a process had at a time."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


def run(sizes: Sizes) -> Report:
    report = Report()
    made = soak(sizes["seconds"], sizes["items"], sizes["changes_a_second"], sizes["hostile"])
    assert (made.lost, made.wrong, made.refused) == (0, [], []), made
    for name, times in (("alone", made.calm), ("beside the attack", made.attacked)):
        shown = (
            f"p50 {duration(percentile(times, 50))}, p99 {duration(percentile(times, 99))}, "
            f"max {duration(max(times))} of {number(len(times))} writes"
        )
        report.note(f"writer, {name}", shown)
    report.at_most("writer's p99 beside the attack", percentile(made.attacked, 99), WANTED_SECONDS, duration)
    report.note("hostile requests", ", ".join(f"{key}: {count}" for key, count in made.seen.most_common()))
    report.note("the agent's memory at most", f"{made.megabytes:,.0f} MB")
    report.note("load of the machine", ", ".join(f"{load:.1f}" for load in os.getloadavg()))
    return report


if __name__ == "__main__":
    run_alone(__doc__, SIZES, run)
