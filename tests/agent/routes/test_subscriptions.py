"""Subscriptions: what a reader adds up is the view, whenever it begins, stops, comes back or is slow."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent import events
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.agent.reading import Reader, content_of, reading
from tests.waiting import wait_until

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
SPARQL = {"content-type": "application/sparql-query"}


def triple(subject: object, value: object, predicate: str = "p") -> str:
    return f'<http://x/{subject}> <http://x/{predicate}> "{value}" .\n'


@contextmanager
def asked(session: sparqlive.Session, **settings: Any) -> Iterator[httpx.Client]:
    """A client of an agent with other settings."""
    agent = Agent(session, Settings(**settings))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        yield client


def ended(reader: Reader) -> dict[str, str]:
    """The last event of a stream, which ends with it."""
    while (event := reader.next()).kind != "end":
        pass
    with pytest.raises(StopIteration):
        reader.next()
    told: dict[str, str] = event.json
    return told


def test_a_snapshot_and_then_a_delta_an_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=triple("a", 1) + triple("a", 2))
    session.view("v", QUERY)
    with reading(client, "/views/v/changes") as reader:
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        assert reader.response.headers["cache-control"] == "no-store"
        first = reader.next()
        assert (first.kind, first.id) == ("snapshot", "1")
        assert first.json["head"] == {"vars": ["s", "o"]}
        assert (first.json["epoch"], first.json["weights"]) == (1, [1, 1])
        session.apply(insert=triple("b", 3), delete=triple("a", 1))
        second = reader.next()
        assert (second.kind, second.id, second.json["epoch"]) == ("delta", "2", 2)
        found = {
            (row["s"]["value"], row["o"]["value"]): weight
            for row, weight in zip(second.json["results"]["bindings"], second.json["weights"], strict=True)
        }
        assert found == {("http://x/b", "3"): 1, ("http://x/a", "1"): -1}
        assert second.json["results"]["bindings"][0]["s"] == {"type": "uri", "value": "http://x/b"} or (
            second.json["results"]["bindings"][1]["s"] == {"type": "uri", "value": "http://x/b"}
        )


def test_without_a_snapshot_a_reader_hears_where_it_begins(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    session.apply(insert=triple("a", 1))
    session.view("v", QUERY)
    with reading(client, "/views/v/changes", snapshot="false") as reader:
        first = reader.next()
        assert (first.kind, first.id, first.json) == ("progress", "1", {"epoch": 1})
        session.apply(insert=triple("a", 2))
        assert reader.next().json["weights"] == [1]


def test_weights_are_multiplicities(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=triple("a", 1) + triple("a", 2))
    session.view("v", "SELECT ?s { ?s <http://x/p> ?o }")
    with reading(client, "/views/v/changes") as reader:
        assert reader.next().json["weights"] == [2]
        session.apply(insert=triple("a", 3) + triple("a", 4), delete=triple("a", 1))
        assert reader.next().json["weights"] == [1]


def test_of_an_ask_the_answer_is_told(client: httpx.Client, session: sparqlive.Session) -> None:
    session.view("v", "ASK { ?s <http://x/p> ?o }")
    with reading(client, "/views/v/changes") as reader:
        assert reader.next().json == {"head": {}, "boolean": False, "epoch": 0, "weights": []}
        session.apply(insert=triple("a", 1))
        assert reader.next().json == {"head": {}, "boolean": True, "epoch": 1, "weights": [1]}
        session.apply(delete=triple("a", 1))
        assert reader.next().json == {"head": {}, "boolean": False, "epoch": 2, "weights": [-1]}


def test_a_graph_is_told_as_rdf_patch_too(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=triple("a", "two\\nlines"))
    session.view("g", "CONSTRUCT { ?s <http://x/q> ?o } { ?s <http://x/p> ?o }")
    session.view("v", QUERY)
    with (
        reading(client, "/views/g/changes") as rows,
        reading(client, "/views/g/changes", format="patch") as patch,
    ):
        assert rows.next().json["head"] == {"vars": ["subject", "predicate", "object"]}
        first = patch.next()
        assert first.data == 'TX .\nA <http://x/a> <http://x/q> "two\\nlines" .\nTC .'
        session.apply(insert=triple("b", 1), delete=triple("a", "two\\nlines"))
        assert rows.next().id == "2"
        assert patch.next().data.splitlines() == [
            "TX .",
            'D <http://x/a> <http://x/q> "two\\nlines" .',
            'A <http://x/b> <http://x/q> "1" .',
            "TC .",
        ]
    assert client.get("/views/v/changes", params={"format": "patch"}).status_code == 400


@pytest.mark.parametrize(
    "options", [{"since": "x"}, {"since": "-1"}, {"since": "²"}, {"snapshot": "yes"}, {"format": "xml"}]
)
def test_what_means_nothing_is_refused(
    client: httpx.Client, session: sparqlive.Session, options: dict[str, str]
) -> None:
    session.view("v", QUERY)
    refused = client.get("/views/v/changes", params=options)
    assert refused.status_code == 400
    assert next(iter(options)) in refused.json()["detail"] or "xml" in refused.json()["detail"]


def test_a_view_that_is_not_there_is_404_and_head_has_no_stream(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    assert client.get("/views/v/changes").status_code == 404
    session.view("v", QUERY)
    head = client.head("/views/v/changes")
    assert head.status_code == 200
    assert head.headers["sparqlive-lineage"] == session.lineage


def test_a_quiet_view_is_told_how_far_it_is(session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    session.view("later", QUERY, refresh="manual")
    with (
        asked(session, progress_seconds=0.2) as client,
        reading(client, "/views/v/changes") as reader,
        reading(client, "/views/later/changes") as later,
    ):
        reader.next()
        later.next()
        for value in range(3):
            session.apply(insert=triple("a", value, "other"))
        while (event := reader.next()).id != "3":
            assert event.kind == "progress"
        session.apply(insert=triple("a", 1))
        assert next_delta(reader).id == "4"
        assert next_of(later, "progress").id == "0"  # it has not been refreshed
        session.views["later"].refresh()
        assert next_delta(later).id == "4"


def next_of(reader: Reader, kind: str) -> Any:
    while (event := reader.next()).kind != kind:
        pass
    return event


def next_delta(reader: Reader) -> Any:
    return next_of(reader, "delta")


@pytest.mark.parametrize("way", ["header", "since"])
def test_a_reader_resumes_without_loss_or_repetition(
    client: httpx.Client, session: sparqlive.Session, way: str
) -> None:
    session.view("v", QUERY)
    for value in range(5):
        session.apply(insert=triple("a", value), delete=triple("a", value - 2))
    options = {"headers": {"last-event-id": "3"}} if way == "header" else {"since": 3}
    with reading(client, "/views/v/changes", **options) as reader:
        missed = reader.next()
        assert (missed.kind, missed.id) == (
            "delta",
            "5",
        )  # two epochs, summed: 3 came and stays, 1 and 2 left
        assert sorted(missed.json["weights"]) == [-1, -1, 1, 1]
        session.apply(insert=triple("a", 9))
        assert reader.next().id == "6"
    with reading(client, "/views/v/changes", since=6) as reader:
        assert reader.next().kind == "progress"
        session.apply(insert=triple("a", 10))
        assert reader.next().json["weights"] == [1]


def test_what_came_and_went_meanwhile_is_not_told(client: httpx.Client, session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    session.apply(insert=triple("a", 1))
    session.apply(insert=triple("a", 2))
    session.apply(delete=triple("a", 2))
    with reading(client, "/views/v/changes", since=1) as reader:
        first = reader.next()
        assert (first.kind, first.id) == ("progress", "3")


def test_beyond_the_retention_everything_is_told_anew(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", history_epochs=2) as session:
        session.view("v", QUERY)
        for value in range(8):
            session.apply(insert=triple("a", value))
        session.compact()
    with sparqlive.open(tmp_path / "store", history_epochs=2) as session, asked(session) as client:
        with reading(client, "/views/v/changes", since=2) as reader:
            reset = reader.next()
            assert (reset.kind, reset.id) == ("reset", None)
            assert "epoch 2" in reset.json["reason"]
            assert reader.next().kind == "snapshot"
            assert reader.content == content_of(client, "v")
        with reading(client, "/views/v/changes", since=7) as reader:
            assert reader.next().kind == "delta"


@pytest.mark.parametrize("options", [{"since": 99}, {"since": 3, "lineage": "another"}, {"since": 0}])
def test_an_epoch_of_another_history_is_not_gone_on_from(
    client: httpx.Client, session: sparqlive.Session, options: dict[str, Any]
) -> None:
    session.view("v", QUERY)  # at epoch 0: it may have taken the place of another view there
    for value in range(5):
        session.apply(insert=triple("a", value))
    with reading(client, "/views/v/changes", **options) as reader:
        assert [reader.next().kind, reader.next().kind] == ["reset", "snapshot"]
        assert reader.content == content_of(client, "v")
    with reading(client, "/views/v/changes", since=3, lineage=session.lineage) as reader:
        assert reader.next().kind == "delta"


def test_an_event_is_encoded_once_however_many_read_it(
    client: httpx.Client, session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.view("v", QUERY)
    made: list[int] = []
    encode = events.delta
    monkeypatch.setattr(events, "delta", lambda *args: made.append(args[2].epoch) or encode(*args))
    with httpx.Client(base_url=client.base_url, timeout=120, limits=httpx.Limits()) as many:
        streams = [many.stream("GET", "/views/v/changes") for _ in range(20)]
        readers = [Reader(stream.__enter__()) for stream in streams]
        for reader in readers:
            reader.next()
        for epoch in range(1, 6):
            session.apply(insert=triple("a", epoch))
            assert all(reader.next().id == str(epoch) for reader in readers)
        for stream in streams:
            stream.__exit__(None, None, None)
    assert made == [1, 2, 3, 4, 5]


@contextmanager
def writing(session: sparqlive.Session) -> Iterator[None]:
    """Somebody else writes, as fast as they can."""
    going = True

    def write() -> None:
        chance = random.Random(7)
        while going:
            there = triple(chance.randrange(5), chance.randrange(20))
            gone = triple(chance.randrange(5), chance.randrange(20))
            session.apply(insert=there, delete=gone)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        going = False
        writer.join()


def as_of(view: sparqlive.View, epoch: int) -> Counter[str]:
    """What a view had at an epoch, as readers have it."""
    rows = view.weights(at=epoch)
    return Counter({json.dumps(_binding(view, row), sort_keys=True): rows[row] for row in rows})


def test_a_snapshot_and_its_deltas_meet_while_others_write(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    session.view("v", "SELECT ?s (COUNT(*) AS ?n) { ?s <http://x/p> ?o } GROUP BY ?s")
    session.view("w", QUERY)
    with writing(session):
        for number in range(25):
            name = "vw"[number % 2]
            with reading(client, f"/views/{name}/changes") as reader:
                reader.next()
                reader.until(reader.epoch + number)
            assert reader.content == as_of(session.views[name], reader.epoch), (name, reader.epoch)


def test_a_reader_comes_back_again_and_again_while_others_write(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    view = session.view("v", "SELECT ?s (COUNT(*) AS ?n) { ?s <http://x/p> ?o } GROUP BY ?s")
    chance = random.Random(8)
    content: Counter[str] = Counter()
    last = {"last-event-id": ""}
    kinds = []
    with writing(session):
        while session.epoch < 5:
            time.sleep(0.01)
        for _ in range(30):
            with reading(client, "/views/v/changes", headers=last) as reader:
                reader.content = content
                reader.until(reader.next().json["epoch"] + chance.randrange(4))
            content, last = reader.content, {"last-event-id": str(reader.epoch)}
            kinds += reader.kinds
            assert content == as_of(view, reader.epoch), reader.epoch
    assert kinds.count("snapshot") == 1  # all the rest was resumed
    assert "reset" not in kinds


def _binding(view: sparqlive.View, row: Any) -> dict[str, Any]:
    from sparqlive.sparql.results import json_term

    return {name: json_term(term) for name, term in zip(view.variables, row, strict=True) if term}


@pytest.mark.parametrize(
    ("rounds", "bound", "cut"),
    [(10, 5_000_000, False), (100, 5_000_000, True), (200, 10**9, False)],
    ids=["behind", "cut", "beyond what the channel has"],
)
def test_a_reader_that_is_behind_gets_the_sum_and_one_far_behind_is_cut(
    session: sparqlive.Session, rounds: int, bound: int, cut: bool
) -> None:
    """The reader takes the beginning of a large event, and nothing more of it while epochs go by."""
    session.view("v", QUERY)
    with (
        asked(session, history_bytes=bound) as client,
        slow(str(client.base_url), "/views/v/changes") as connection,
    ):
        received = read_until(connection, b"id: 0")
        session.apply(insert="".join(triple("a", "x" * 100_000 + str(number)) for number in range(100)))
        received += read_until(connection, b"event: delta")
        for _ in range(rounds):
            session.apply(insert=triple("a", "y" * 100_000))
            session.apply(delete=triple("a", "y" * 100_000))
        session.apply(insert=triple("a", "finis"))
        received += read_until(connection, b"\r\n0\r\n\r\n" if cut else b"finis")
        told = [line for line in received.split(b"\n") if line.startswith(b"id: ")]
        assert told[0] == b"id: 0"
        assert told[1] == b"id: ", "a part of a large event is no position"
        assert [line for line in told[1:] if line != b"id: "] == (
            [] if cut else [b"id: 1", b"id: %d" % session.epoch]
        )
        assert (b"finis" in received) is not cut
        assert (b"event: end" in received and b'"reason": "behind"' in received) is cut


@contextmanager
def slow(address: str, path: str) -> Iterator[socket.socket]:
    """A connection with small buffers."""
    url = httpx.URL(address)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        connection.connect((url.host, url.port))
        connection.settimeout(20)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield connection


def read_until(connection: socket.socket, text: bytes) -> bytes:
    found = b""
    while text not in found[-200_000:]:
        piece = connection.recv(1 << 17)
        assert piece
        found += piece
    return found


def test_a_reader_that_takes_nothing_is_given_up(session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    agent = Agent(session, Settings(stall_seconds=0.5))
    with serving(agent) as address, slow(address, "/views/v/changes"):
        wait_until(lambda: agent.hub.readers == {"v": 1})
        session.apply(insert="".join(triple("a", "y" * 9_000 + str(n)) for n in range(2_000)))
        wait_until(lambda: agent.hub.readers == {})


def test_slow_readers_together_hold_a_bounded_number_of_bytes(session: sparqlive.Session) -> None:
    """Those that wait longest are given up at once; one that reads gets everything."""
    session.apply(insert="".join(triple("a", f"{n} {'x' * 900}") for n in range(5_000)))
    session.view("v", QUERY)
    agent = Agent(session, Settings(unsent_bytes=600_000))
    with serving(agent) as address, ExitStack() as held:
        readers = [held.enter_context(slow(address, "/views/v/changes")) for _ in range(30)]
        wait_until(lambda: 0 < agent.hub.readers.get("v", 0) < 6)
        with httpx.Client(base_url=address, timeout=120) as client:
            assert client.get("/healthz").status_code == 200
            with reading(client, "/views/v/changes") as reader:
                assert reader.until(1).total() == 5_000
        received = b"".join(iter(lambda: readers[0].recv(1 << 20), b""))
        assert 0 < len(received) < 5_000_000
        assert not received.endswith(b"0\r\n\r\n"), "it cannot take a part for the whole"
    wait_until(lambda: agent.hub.readers == {})
    assert agent.hub.unsent.bytes == 0


def test_a_reader_that_has_gone_is_forgotten(agent: Agent, session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        with reading(client, "/views/v/changes") as reader:
            reader.next()
            assert agent.hub.readers == {"v": 1}
        wait_until(lambda: agent.hub.readers == {})


def test_views_that_go_are_told_with_a_last_event(client: httpx.Client, session: sparqlive.Session) -> None:
    for name in ("dropped", "replaced"):
        session.view(name, QUERY)
    with reading(client, "/views/dropped/changes") as dropped:
        dropped.next()
        session.apply(insert=triple("a", 1))
        session.drop("dropped")
        assert dropped.next().kind == "delta"
        last = dropped.next()
        assert (last.kind, last.id, last.json["reason"]) == ("end", "", "dropped")
        with pytest.raises(StopIteration):
            dropped.next()
    with reading(client, "/views/replaced/changes") as replaced:
        replaced.next()
        session.view("replaced", "SELECT ?s { ?s ?p ?o }", replace=True)
        assert ended(replaced)["reason"] == "replaced"
    with reading(client, "/views/replaced/changes", headers={"last-event-id": "1"}) as again:
        assert again.next().kind == "reset"
        assert again.next().json["head"] == {"vars": ["s"]}


def test_a_view_that_fails_is_told_with_a_last_event(
    client: httpx.Client, session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = session.view("v", QUERY)

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("on purpose")

    with reading(client, "/views/v/changes") as reader:
        reader.next()
        (compiled,) = view._state.content.carried_by()
        monkeypatch.setattr(type(compiled), "delta", fails)
        session.apply(insert=triple("a", 1))
        told = ended(reader)
        assert told["reason"] == "failed"
        assert "on purpose" in told["detail"]
    monkeypatch.undo()
    assert client.get("/views/v/changes").status_code == 503


def test_a_stopping_agent_tells_so_and_lets_nobody_in(session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    agent = Agent(session)
    with (
        serving(agent) as address,
        httpx.Client(base_url=address, timeout=120) as client,
        reading(client, "/views/v/changes") as reader,
    ):
        reader.next()
        agent.hub._loop.call_soon_threadsafe(agent.stopping.set)  # type: ignore[union-attr]
        last = reader.next()
        assert (last.kind, last.id, last.json["reason"]) == ("end", None, "stopping")
        refused = client.get("/views/v/changes")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    session.apply(insert=triple("a", 1))  # nobody listens any more, and nothing breaks


def test_a_server_stops_while_readers_read(session: sparqlive.Session) -> None:
    session.view("v", QUERY)
    with serving(Agent(session)) as address, httpx.Client(base_url=address, timeout=120) as client:
        stream = client.stream("GET", "/views/v/changes")
        reader = Reader(stream.__enter__())
        reader.next()
        begun = time.monotonic()
    assert time.monotonic() - begun < 60
    with suppress(httpx.HTTPError):
        stream.__exit__(None, None, None)


def test_an_ad_hoc_query_has_a_view_for_as_long_as_it_is_read(session: sparqlive.Session) -> None:
    with asked(session, temporary_seconds=0.3, progress_seconds=0.2) as client:
        made = client.post("/subscriptions", content=QUERY, headers=SPARQL)
        assert made.status_code == 201
        where = made.headers["location"]
        assert where == made.json()["changes"]
        assert made.json()["variables"] == ["s", "o"]
        with reading(client, where) as reader:
            reader.next()
            time.sleep(0.7)  # longer than without a reader
            session.apply(insert=triple("a", 1))
            assert next_delta(reader).json["weights"] == [1]
        wait_until(lambda: not session.views)
        assert client.get(where).status_code == 404
        unread = client.post("/subscriptions", content=QUERY, headers=SPARQL)
        assert unread.status_code == 201
        wait_until(lambda: not session.views)


@pytest.mark.parametrize("query", ["SELECT", "SELECT (RAND() AS ?r) {}", ""])
def test_an_ad_hoc_query_that_cannot_be_kept_is_refused(
    client: httpx.Client, session: sparqlive.Session, query: str
) -> None:
    assert client.post("/subscriptions", content=query, headers=SPARQL).status_code == 400
    assert not session.views
    assert client.put("/views/~mine", content=QUERY, headers=SPARQL).status_code == 400


def test_temporary_views_do_not_outlive_their_agent(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session, asked(session) as client:
        client.post("/subscriptions", content=QUERY, headers=SPARQL)
        assert len(session.views) == 1
    with sparqlive.open(tmp_path / "store") as session, asked(session):
        assert not session.views


def test_a_large_change_comes_in_parts(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert="".join(triple("a", n) for n in range(5_000)))
    session.view("v", QUERY)
    with reading(client, "/views/v/changes") as reader:
        assert reader.next().json["complete"] is False
        reader.until(1)
        assert reader.content == content_of(client, "v")
        session.apply(insert="".join(triple("b", n) for n in range(20_000)))
        parts = [reader.next()]
        while not parts[-1].id:
            parts.append(reader.next())
        assert len(parts) > 2
        assert max(len(part.data) for part in parts) < 1_000_000
        assert [part.json["complete"] for part in parts] == [False] * (len(parts) - 1) + [True]
        assert parts[-1].id == "2"
        assert reader.content == content_of(client, "v")


def test_changes_of_many_views_reach_their_readers_only(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    for number in range(30):
        session.view(f"v{number}", f"SELECT ?o {{ <http://x/{number}> <http://x/p> ?o }}")
    with reading(client, "/views/v3/changes") as third, reading(client, "/views/v4/changes") as fourth:
        third.next()
        fourth.next()
        session.apply(insert=triple(5, 1))
        session.apply(insert=triple(4, 1))
        session.apply(insert=triple(3, 1))
        assert (third.next().id, fourth.next().id) == ("3", "2")


def test_the_limit_of_temporary_views_holds_when_many_come_at_once(session: sparqlive.Session) -> None:
    agent = Agent(session, Settings(temporary_views=5))
    with serving(agent) as address, ThreadPoolExecutor(30) as threads:
        headers = {"content-type": "application/sparql-query"}
        asking = [
            threads.submit(
                httpx.post,
                f"{address}/subscriptions",
                content=f"SELECT ?s {{ ?s <http://x/p{n}> ?o }}",
                headers=headers,
                timeout=60,
            )
            for n in range(30)
        ]
        statuses = Counter(one.result().status_code for one in asking)
        assert statuses == {201: 5, 429: 25}
        assert len(session.views) == 5


def test_temporary_views_that_fail_are_dropped_and_do_not_count(session: sparqlive.Session) -> None:
    agent = Agent(session, Settings(temporary_views=1, temporary_seconds=0.2))
    headers = {"content-type": "application/sparql-query"}
    with serving(agent) as address, httpx.Client(base_url=address, timeout=60, headers=headers) as client:
        for number in range(3):
            query = f"SELECT ?s {{ ?s <http://x/p{number}> ?o }}"
            deadline = time.monotonic() + 60
            while (made := client.post("/subscriptions", content=query)).status_code == 429:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            view = session.views[made.json()["name"]]
            channel = agent.hub.channel(view)
            agent.hub._hand_on(channel, "failed")  # as the session does for a view whose evaluation fails
        deadline = time.monotonic() + 60
        while session.views:
            assert time.monotonic() < deadline
            time.sleep(0.05)
