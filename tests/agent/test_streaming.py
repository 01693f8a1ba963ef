"""Results are written while they are sent: early, in bounded memory, and compressed as asked."""

from __future__ import annotations

import gzip
import io
import json
import socket
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparqlive
from sparqlive.agent import events
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.sparql.results import json_weighted, write_results
from sparqlive.zset.blocks import Block
from tests.agent.conftest import serving
from tests.agent.reading import content_of, reading

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
ROWS = 60_000


def filled(session: sparqlive.Session, rows: int = ROWS) -> sparqlive.View:
    session.apply(insert="".join(f'<http://x/subject/{n}> <http://x/p> "{n}" .\n' for n in range(rows)))
    return session.view("v", QUERY)


def peak(pieces: Iterator[object]) -> tuple[int, int]:
    """The length of all pieces together, and the most memory that producing them took."""
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in pieces)  # type: ignore[arg-type]
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_result_is_held_whole() -> None:
    """Twice the rows take no more memory to write."""
    for write in (as_json, as_events):
        sizes, peaks = [], []
        for rows in (15_000, 15_000, 30_000):  # the first one also loads what is needed
            with sparqlive.open() as session:
                size, most = peak(write(filled(session, rows)))
                sizes.append(size)
                peaks.append(most)
        assert sizes[2] > 1.9 * sizes[1] > 2_000_000
        assert peaks[2] < 1.3 * peaks[1]


def as_json(view: sparqlive.View) -> Iterator[object]:
    return view.pieces("json")


def as_events(view: sparqlive.View) -> Iterator[object]:
    answer = view.now()
    return events.content(view, "json", answer.epoch, answer.distinct_blocks())


def test_the_first_rows_leave_before_the_next_are_read() -> None:
    read = []

    def blocks() -> Iterator[Block]:
        for number in range(3):
            read.append(number)
            column = pa.array([5, 6]).to_numpy()
            yield Block((column,), column * 0 + 1)

    pieces = write_results("json", ["x"], blocks(), lambda ids: [f'"{number}"' for number in ids])
    assert '"value":"5"' in next(pieces)
    assert read == [0]
    assert len("".join(pieces).split('"value"')) == 5


def test_the_first_event_leaves_before_the_next_is_encoded(session: sparqlive.Session) -> None:
    view, encoded = filled(session, 5_000), []

    def texts(ids: Sequence[int]) -> list[str]:
        encoded.extend(ids)
        return view.texts(ids)

    answer = view.now()
    parts = json_weighted(view.variables, answer.epoch, answer.distinct_blocks(), texts)
    first, is_last = next(parts)
    rows = len(json.loads(first + "}")["weights"])
    assert not is_last
    assert rows < 1_000
    assert len(encoded) <= rows * len(view.variables)
    following = list(parts)
    assert [is_last for _, is_last in following] == [False] * (len(following) - 1) + [True]
    assert rows + sum(len(json.loads(part + "}")["weights"]) for part, _ in following) == 5_000


def test_a_slow_reader_of_events_holds_one_part_and_nothing_else(session: sparqlive.Session) -> None:
    """Many of them may each be in the middle of a large view, whose terms occur often or once."""
    session.apply(
        insert="".join(f'<http://x/subject/{n % 9_000}> <http://x/p> "{n}" .\n' for n in range(20_000))
    )
    view, middle = session.view("v", QUERY), 15
    list(islice(as_events(view), middle))
    tracemalloc.start()
    try:
        streams = [as_events(view) for _ in range(20)]
        parts = [list(islice(stream, middle))[-1] for stream in streams]
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 60_000 < len(parts[0]) < 120_000  # type: ignore[arg-type]
    assert held < 20 * 200_000


@pytest.mark.parametrize("syntax", ["json", "csv", "tsv", "xml"])
def test_terms_of_any_size_come_in_bounded_pieces(session: sparqlive.Session, syntax: str) -> None:
    long = "x" * 300_000
    for n in range(40):
        session.apply(
            insert=f'<http://x/{n}> <http://x/p> "{long}" .\n<http://x/{n}> <http://x/p> "{n}{long}" .'
        )
    view = session.view("v", QUERY)
    pieces = list(view.pieces(syntax))
    assert sum(map(len, pieces)) > 24_000_000
    assert max(map(len, pieces)) < 1_700_000
    assert "".join(pieces).count(long) == 80


def test_a_large_multiplicity_is_not_expanded_at_once(session: sparqlive.Session) -> None:
    session.apply(insert="".join(f"<http://x/{n}> <http://x/p> <http://x/o> .\n" for n in range(20_000)))
    view = session.view("v", "SELECT ?o { ?s <http://x/p> ?o }")
    assert set(view.weights().values()) == {20_000}
    size, most = peak(view.pieces("csv"))
    assert size == 20_000 * len("http://x/o\r\n") + len("o\r\n")
    assert most < 2_000_000


def test_a_result_is_of_one_epoch_however_slowly_it_is_read(session: sparqlive.Session) -> None:
    view = filled(session, 5_000)
    before = Counter(view.weights())
    answer = view.now()
    blocks = answer.blocks()
    rows = list(next(blocks).rows())
    session.apply(delete="".join(f'<http://x/subject/{n}> <http://x/p> "{n}" .\n' for n in range(4_000)))
    session.apply(insert='<http://x/new> <http://x/p> "new" .')
    for block in blocks:
        rows += block.rows()
    term = session.dictionary.term
    assert Counter({tuple(map(term, row)): weight for row, weight in rows}) == before
    assert len(view.now()) == 1_001


def test_rows_are_the_same_by_every_way_of_reading(client: httpx.Client, session: sparqlive.Session) -> None:
    """The run and the overlay: rows that changed since the run was made occur once."""
    view = filled(session, 20_000)
    for n in range(0, 300, 3):
        session.apply(delete=f'<http://x/subject/{n}> <http://x/p> "{n}" .')
        session.apply(insert=f'<http://x/subject/{n}> <http://x/p> "changed" .')
    expected = Counter(
        json.dumps(
            {"s": {"type": "uri", "value": s.value}, "o": {"type": "literal", "value": o.value}},
            sort_keys=True,
        )
        for s, o in view.weights()
    )
    assert content_of(client, "v") == expected
    with reading(client, "/views/v/changes") as reader:
        assert reader.until(session.epoch) == expected
    assert len(client.get("/views/v", params={"format": "csv"}).text.splitlines()) == 20_001


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0.1, identity", None),
        ("deflate, br", None),
        ("*", "gzip"),
        ("*;q=0", None),
        ("gzip, zstd", "zstd"),
        ("gzip, zstd;q=0.9", "gzip"),
        ("zstd;q=0, *", "gzip"),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip"),
    ],
)
def test_results_are_compressed_as_asked(
    client: httpx.Client, session: sparqlive.Session, accepted: str, coding: str | None
) -> None:
    filled(session, 5_000)
    plain = client.get("/views/v", headers={"accept-encoding": "identity"}).content
    with client.stream("GET", "/views/v", headers={"accept-encoding": accepted}) as response:
        raw = b"".join(response.iter_raw())
        assert response.headers.get("content-encoding") == coding
        assert response.headers["vary"].startswith("Accept, Accept-Encoding")
        tag = response.headers["etag"]
    assert tag == ('"1-json"' if coding is None else f'"1-json-{coding}"')
    assert _unpacked(raw, coding) == plain
    assert coding is None or len(raw) < len(plain) / 4
    again = client.get("/views/v", headers={"accept-encoding": accepted, "if-none-match": tag})
    assert (again.status_code, again.headers["etag"]) == (304, tag)
    other = client.get("/views/v", headers={"accept": "text/csv", "if-none-match": tag})
    assert other.status_code == 200


def _unpacked(data: bytes, coding: str | None) -> bytes:
    if coding == "zstd":
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())
    return gzip.decompress(data) if coding == "gzip" else data


def test_small_results_are_sent_as_they_are(client: httpx.Client, session: sparqlive.Session) -> None:
    filled(session, 3)
    response = client.get("/views/v", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in response.headers
    assert int(response.headers["content-length"]) == len(response.content)


def test_a_compressed_result_begins_early(client: httpx.Client, session: sparqlive.Session) -> None:
    """What was sent so far can be read: the first rows do not wait in the compressor."""
    filled(session)
    with client.stream("GET", "/views/v", headers={"accept-encoding": "gzip"}) as response:
        first = next(response.iter_bytes())
        assert b'"bindings":[' in first
        assert first.count(b'"value"') > 2


def test_a_head_has_no_body(client: httpx.Client, session: sparqlive.Session) -> None:
    filled(session)
    response = client.head("/views/v", headers={"accept-encoding": "gzip"})
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["etag"] == '"1-json-gzip"', "what a GET would have"
    assert client.get("/views").status_code == 200


def test_a_reader_that_leaves_stops_the_work(session: sparqlive.Session) -> None:
    filled(session, 60_000)
    with serving(Agent(session, Settings(queries=1))) as address:
        url = httpx.URL(address)
        with socket.create_connection((url.host, url.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /views/v HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        # It held the only place of a query.
        assert len(httpx.get(f"{address}/views/v?format=csv", timeout=60).text.splitlines()) == 60_001


def test_a_reader_that_takes_nothing_holds_one_piece_and_is_cut(session: sparqlive.Session) -> None:
    filled(session, 60_000)
    agent = Agent(session, Settings(queries=1, stall_seconds=0.5))
    with serving(agent) as address:
        url = httpx.URL(address)
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall(b"GET /views/v HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert httpx.get(f"{address}/views/v", timeout=60).status_code == 200, "its place is free again"


def test_a_snapshot_in_parts_survives_a_break(client: httpx.Client, session: sparqlive.Session) -> None:
    """A reader that loses its connection between two parts has no position, and starts again."""
    filled(session, 10_000)
    with reading(client, "/views/v/changes") as reader:
        first = reader.next()
        assert (first.kind, first.id, first.json["complete"]) == ("snapshot", "", False)
        second = reader.next()
        assert (second.kind, second.id) == ("delta", "")
    session.apply(insert='<http://x/new> <http://x/p> "new" .')
    content: Counter[object] = Counter()
    for followed in sparqlive.follow(f"{client.base_url}/views/v"):
        if followed.reset:
            content.clear()
        content.update(followed.weights())
        if followed.complete:
            break
    assert content == Counter(session.views["v"].weights())


def test_the_follower_starts_again_after_a_part(session: sparqlive.Session) -> None:
    filled(session, 10_000)
    agent = Agent(session, Settings())
    with serving(agent) as address:
        port = int(address.rpartition(":")[2])
        reader = sparqlive.follow(f"{address}/views/v")
        events_ = iter(reader)
        first = next(events_)
        assert (first.reset, first.complete, reader.epoch) == (True, False, None)
    with serving(Agent(session, Settings()), port):
        content: Counter[object] = Counter(first.weights())
        for followed in events_:
            if followed.reset:
                content.clear()
            content.update(followed.weights())
            if followed.complete:
                break
        assert reader.epoch == session.epoch
        assert content == Counter(session.views["v"].weights())


@pytest.mark.parametrize("by", ["format", "accept"])
def test_tables_are_typed(client: httpx.Client, session: sparqlive.Session, by: str) -> None:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    session.apply(
        insert="".join(f'<http://x/{n}> <http://x/p> "{n % 7}"^^<{integer}> .\n' for n in range(5_000))
    )
    session.view("v", "SELECT ?o { ?s <http://x/p> ?o } ORDER BY ?o")
    types = {
        "parquet": "application/vnd.apache.parquet",
        "arrow": "application/vnd.apache.arrow.stream",
        "ndjson": "application/x-ndjson",
    }
    expected = sorted(n % 7 for n in range(5_000))
    for name, media_type in types.items():
        asked = {"params": {"format": name}} if by == "format" else {"headers": {"accept": media_type}}
        for path, query in (("/views/v", {}), ("/sparql", {"query": session.views["v"].text})):
            params = {**asked.get("params", {}), **query}
            response = client.get(path, params=params, headers=asked.get("headers"))
            assert response.headers["content-type"] == media_type
            assert values_of(name, response.content) == expected
        weighted = client.get("/views/v", params={"format": name, "weights": "true"})
        assert weighted.headers["etag"].startswith(f'"1-{name}-weights')
        assert len(values_of(name, weighted.content)) == 7


def values_of(name: str, content: bytes) -> list[object]:
    match name:
        case "parquet":
            return list(pq.read_table(io.BytesIO(content)).column("o").to_pylist())
        case "arrow":
            return list(pa.ipc.open_stream(content).read_all().column("o").to_pylist())
        case _:
            return [json.loads(line)["o"] for line in content.decode().splitlines()]


def test_an_ask_is_no_table(client: httpx.Client) -> None:
    response = client.get("/sparql", params={"query": "ASK {}", "format": "parquet"})
    assert response.json()["boolean"] is True
