"""A thousand subscribers, on one view and on one view each, while data changes a hundred times per second.

The agent and the writer are one process, the subscribers are two others, on the same machine. Each subscriber
adds up its events; at the end they must give the view. An event's latency is the time from the commit of its
last epoch until the subscriber has received it whole.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import socket
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from typing import Any

import psutil
import uvicorn

import sparqlive
from bench.measure import Report, Sizes, duration, number, percentile, run_alone, same
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import make_app
from sparqlive.agent.serve import Listening, configuration
from sparqlive.web.event_stream import Event, Parser

SIZES = {
    "subscribers": (1_000, 100),
    "seconds": (60, 5),
    "changes_a_second": (100, 50),
    "items": (1_000, 100),
}
WANTED_SECONDS = 0.25
_PROCESSES = 2
_CATCH_UP_SECONDS = 60.0


# The subscribers


class Subscriber(asyncio.Protocol):
    """One connection: takes the chunks of the answer apart, and notes when which event was there.

    Events are added up at the end, by `content`: a process has as many subscribers as a machine otherwise has
    programs, and the core that it shares with the agent is not to be spent on reading JSON. Events that are
    the same are kept once.
    """

    def __init__(self, view: str, known: dict[str, Event]) -> None:
        self.view = view
        self.position = -1
        self.epochs = array("q")
        self.received = array("d")
        self._known = known
        self._events: list[Event] = []
        self.begun = asyncio.Event()
        self._parser = Parser()
        self._buffer = bytearray()
        self._head = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._head:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            assert self._buffer.startswith(b"HTTP/1.1 200"), bytes(self._buffer[:200])
            del self._buffer[: end + 4]
            self._head = False
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = int(self._buffer[:end], 16)
            if len(self._buffer) < end + size + 4:
                return
            piece = bytes(self._buffer[end + 2 : end + 2 + size])
            del self._buffer[: end + size + 4]
            for event in self._parser.feed(piece):
                self._take(event)

    def _take(self, event: Event) -> None:
        assert event.kind != "end", event.data
        if event.kind in ("snapshot", "delta"):
            self._events.append(self._known.setdefault(event.data, event))
        if event.kind == "delta":
            self.epochs.append(int(event.id or 0))
            self.received.append(time.monotonic())
        if event.id:
            self.position = int(event.id)
            self.begun.set()

    def content(self, parsed: dict[str, list[tuple[tuple[str, ...], int]]]) -> dict[tuple[str, ...], int]:
        """What the events add up to."""
        found: dict[tuple[str, ...], int] = {}
        for event in self._events:
            if event.data not in parsed:
                body = json.loads(event.data)
                keys = [
                    tuple([term["value"] for term in row.values()]) for row in body["results"]["bindings"]
                ]
                parsed[event.data] = list(zip(keys, body["weights"], strict=True))
            for key, weight in parsed[event.data]:
                found[key] = found.get(key, 0) + weight
        return {key: weight for key, weight in found.items() if weight}


def digest(content: Mapping[tuple[str, ...], int]) -> str:
    return sha256(repr(sorted(content.items())).encode()).hexdigest()


@dataclass
class Outcome:
    """What one subscriber came to."""

    view: str
    digest: str
    epochs: bytes
    received: bytes


def subscribe(port: int, views: Sequence[str], pipe: Connection) -> None:
    """The work of one process."""
    asyncio.run(_subscribe(port, views, pipe))


async def _subscribe(port: int, views: Sequence[str], pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    subscribers: list[Subscriber] = []
    known: dict[str, Event] = {}
    places = asyncio.Semaphore(50)

    async def connect(view: str) -> None:
        async with places:
            transport, made = await loop.create_connection(lambda: Subscriber(view, known), "127.0.0.1", port)
            transport.write(f"GET /views/{view}/changes HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            subscribers.append(made)
            await made.begun.wait()

    await asyncio.gather(*map(connect, views))
    pipe.send("ready")
    targets: Mapping[str, int] = await asyncio.to_thread(pipe.recv)
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while any(one.position < targets[one.view] for one in subscribers) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    parsed: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    pipe.send(
        [
            Outcome(one.view, digest(one.content(parsed)), one.epochs.tobytes(), one.received.tobytes())
            for one in subscribers
        ]
    )


# The agent


class _Server(uvicorn.Server):
    def __init__(self, agent: Agent) -> None:
        super().__init__(configuration(make_app(agent), agent.settings, Listening(), lifespan="on"))
        self._agent = agent

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._agent.stopping.set()
        await super().shutdown(sockets)


@contextmanager
def served(session: sparqlive.Session) -> Iterator[int]:
    """The port of an agent."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = _Server(Agent(session))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@dataclass
class Measured:
    """What a run showed."""

    latencies: list[float]
    events: int
    epochs: int
    seconds: float
    bytes_a_subscriber: float


def item(place: int) -> str:
    return f"<http://example.org/item{place}>"


def price(place: int, value: int) -> str:
    return f'{item(place)} <http://example.org/price> "{value}" .\n'


def measured(views: Mapping[str, str], followed: Sequence[str], sizes: Sizes) -> Measured:
    """Follows views from other processes while prices change; a subscriber without its view stops it all."""
    committed: dict[int, float] = {}
    items, context = sizes["items"], multiprocessing.get_context("spawn")
    with sparqlive.open(default_graph="union") as session:
        session.observe(lambda epoch: committed.__setitem__(epoch.number, time.monotonic()))
        session.apply(insert="".join(price(place, 0) for place in range(items)))
        for name, query in views.items():
            session.view(name, query)
        with served(session) as port:
            before = psutil.Process().memory_info().rss
            pipes = []
            processes = []
            for part in range(_PROCESSES):
                ours, theirs = context.Pipe()
                process = context.Process(target=subscribe, args=(port, followed[part::_PROCESSES], theirs))
                process.start()
                pipes.append(ours)
                processes.append(process)
            for pipe in pipes:
                same("subscribers", pipe.recv(), "ready")
            memory = (psutil.Process().memory_info().rss - before) / len(followed)
            begun = session.epoch
            seconds = _changed(session, items, sizes)
            targets = {name: session.views[name].stats()["last_epoch"] for name in views}
            for pipe in pipes:
                pipe.send(targets)
            outcomes: list[Outcome] = [outcome for pipe in pipes for outcome in pipe.recv()]
            for process in processes:
                process.join()
        expected = {name: digest(_content(session, name)) for name in views}
        for outcome in outcomes:
            same(f"{outcome.view} at {targets[outcome.view]}", outcome.digest, expected[outcome.view])
        epochs = session.epoch - begun
    latencies = [
        received - committed[epoch] for outcome in outcomes for epoch, received in _events_of(outcome)
    ]
    return Measured(latencies, len(latencies), epochs, seconds, memory)


def _changed(session: sparqlive.Session, items: int, sizes: Sizes) -> float:
    """Changes a price so many times a second; how long it took."""
    chance = random.Random(3)
    now = [0] * items
    start = time.monotonic()
    for number_ in range(sizes["seconds"] * sizes["changes_a_second"]):
        due = start + number_ / sizes["changes_a_second"]
        time.sleep(max(0.0, due - time.monotonic()))
        place = chance.randrange(items)
        session.apply(insert=price(place, now[place] + 1), delete=price(place, now[place]))
        now[place] += 1
    return time.monotonic() - start


def _content(session: sparqlive.Session, name: str) -> dict[tuple[str, ...], int]:
    rows = session.views[name].weights()
    return {tuple(_value(term) for term in row): weight for row, weight in rows.items()}


def _value(term: Any) -> str:
    return str(term.value)


def _events_of(outcome: Outcome) -> Iterator[tuple[int, float]]:
    epochs, received = array("q", outcome.epochs), array("d", outcome.received)
    return zip(epochs, received, strict=True)


def one_view(sizes: Sizes) -> Measured:
    query = "SELECT ?item ?price { ?item <http://example.org/price> ?price }"
    return measured({"prices": query}, ["prices"] * sizes["subscribers"], sizes)


def a_view_each(sizes: Sizes) -> Measured:
    views = {
        f"item{place}": f"SELECT ?price {{ {item(place)} <http://example.org/price> ?price }}"
        for place in range(sizes["subscribers"])
    }
    return measured(views, list(views), {**sizes, "items": sizes["subscribers"]})


def run(sizes: Sizes) -> Report:
    report = Report()
    rate = f"{sizes['changes_a_second']} changes a second"
    count = f"{sizes['subscribers']:,}"
    for title, scene in (
        (f"{count} subscribers on one view, {rate}", one_view),
        (f"{count} views with a subscriber each, {rate}", a_view_each),
    ):
        # In a process of its own, so that its memory is its own.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found = pool.submit(scene, sizes).result()
        slow, usual = percentile(found.latencies, 99), percentile(found.latencies, 50)
        report.at_most(f"{title}: p99 from an epoch to its receipt", slow, WANTED_SECONDS, duration)
        report.note(f"{title}: p50", duration(usual))
        report.note(f"{title}: memory a subscriber", f"{number(found.bytes_a_subscriber / 1024)} KiB")
        report.remarks.append(
            f"{title}: {found.epochs:,} epochs in {found.seconds:.1f} s, {found.events:,} events received, "
            f"the slowest after {duration(max(found.latencies))}."
        )
    report.remarks.append(
        f"Agent, writer and {_PROCESSES} processes of subscribers share the machine "
        f"({psutil.cpu_count()} cores). Every subscriber's sum of events is the view at the end."
    )
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
