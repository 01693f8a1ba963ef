"""HTTP/1.1 as bytes: heads that are too large, bodies that end at two places, and what stops nobody else."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

import sparqlive
from sparqlive.agent.url_encoded import pairs_of
from sparqlive.web.headers import parts_of, type_and_parameters

HEAD = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-update\r\n"
INSERT = b"INSERT DATA { <http://x/a> <http://x/p> 1 }"
SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def sent(client: httpx.Client, data: bytes) -> bytes:
    """All that comes back, until the agent closes the connection."""
    assert client.base_url.port is not None
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.settimeout(60)
        with suppress(ConnectionError):
            connection.sendall(data)
        pieces = []
        with suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
    return b"".join(pieces)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 43\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 43\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        b"transfer-encoding: CHUNKED\r\ncontent-length: 5\r\n",
        b"Content-Length: 43\r\nContent-Length: 44\r\n",
        b"Content-Length: 43, 44\r\n",
        b"Content-Length: +43\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0x2b\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n",
        b"Content-Length: 4_3\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
    ],
)
def test_a_body_whose_end_is_not_clear_closes_the_connection_and_changes_nothing(
    client: httpx.Client, session: sparqlive.Session, framing: bytes
) -> None:
    for body in (chunk(INSERT) + b"0\r\n\r\n", INSERT):
        answer = sent(client, HEAD + framing + b"\r\n" + body + SMUGGLED)
        assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5"), answer[:300]
        assert answer.count(b"HTTP/1.1 ") == 1, "what follows is not read as a request"
        assert b"connection: close" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["detail"].startswith("Request rejected: ")
    assert session.epoch == 0


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n" + INSERT + b"\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"2b" + b"0" * 30 + b"\r\n" + INSERT,
        b"5\r\nhello!!\r\n0\r\n\r\n",
        b"2b\n" + INSERT + b"XX0\r\n\r\n",
        b"0x2b\r\n" + INSERT + b"\r\n0\r\n\r\n",
    ],
)
def test_malformed_chunks_are_400_and_change_nothing(
    client: httpx.Client, session: sparqlive.Session, body: bytes
) -> None:
    answer = sent(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert session.epoch == 0


def test_a_chunked_body_is_read_and_the_connection_kept(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    chunks = chunk(INSERT[:7]) + chunk(INSERT[7:]) + b"0\r\n\r\n"
    last = SMUGGLED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = sent(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + last)
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"X: " + b"x" * 200_000 + b"\r\n", b"431"),
        (b"X: " + b"x" * 70_000 + b"\r\n", b"431"),
        (b"".join(b"X-%d: x\r\n" % number for number in range(300)), b"431"),
        (b"".join(b"X: y\r\n" for _ in range(8000)), b"431"),
        (b"Host: other\r\n", b"400"),
        (b"X: a\x00b\r\n", b"400"),
        (b"X: a\rb\r\n", b"400"),
        (b"X y: z\r\n", b"400"),
        (b": z\r\n", b"400"),
    ],
)
def test_heads_have_a_bound(client: httpx.Client, head: bytes, status: bytes) -> None:
    answer = sent(client, b"GET /views HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:300]
    assert b"application/problem+json" in answer
    assert client.get("/healthz").status_code == 200


def test_addresses_have_a_bound(client: httpx.Client) -> None:
    answer = sent(client, b"GET /views?" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer[:12] in (b"HTTP/1.1 414", b"HTTP/1.1 431")


def test_bodies_in_tiny_chunks_are_refused_early(client: httpx.Client, session: sparqlive.Session) -> None:
    one = chunk(b" ")
    answer = sent(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + one * 200_000 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"small chunks" in answer
    few = chunk(INSERT) + one * 1000 + b"0\r\n\r\n"
    last = SMUGGLED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert sent(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + few + last).count(b" 200 ") == 2
    assert session.epoch == 1


# Values that are long


SIXTY_KB = 60_000
LONG = {
    "quotes": 'a/b; x="' + '\\"' * (SIXTY_KB // 2),
    "parameters": "a/b" + ";a=b" * (SIXTY_KB // 4),
    "semicolons": "a/b" + ";" * SIXTY_KB,
    "semicolons in quotes": 'a/b;"' + ";" * SIXTY_KB,
    "continued": "a/b" + "".join(f";a*{n}=b" for n in range(SIXTY_KB // 9)),
    "open quotes": "a/b" + '; x="' * (SIXTY_KB // 5),
    "commas": "," * SIXTY_KB,
    "ranges": ",".join(f"a/b{n};q=0.1" for n in range(SIXTY_KB // 15)),
    "spaces": "x" + " " * (SIXTY_KB - 2) + "x",
    "quoted commas": '",' * (SIXTY_KB // 2),
}


def seconds_of(work: Callable[[str], object], value: str) -> float:
    begun = time.process_time()
    work(value)
    return time.process_time() - begun


@pytest.mark.parametrize("value", LONG.values(), ids=LONG.keys())
def test_a_long_value_is_read_in_a_time_that_grows_with_its_length(value: str) -> None:
    """Forty times as much takes forty times as long, with room; not sixteen hundred times."""
    for work in (type_and_parameters, parts_of):
        short = min(seconds_of(work, value) for _ in range(5))
        assert seconds_of(work, value * 40) < 400 * max(short, 0.002)


@pytest.mark.parametrize("value", LONG.values(), ids=LONG.keys())
def test_long_headers_stop_nobody(client: httpx.Client, value: str) -> None:
    """While requests with such headers are answered, others are, and none waits for all of them."""
    slowest, stop = 0.0, threading.Event()

    def probe() -> None:
        nonlocal slowest
        with httpx.Client(base_url=client.base_url, timeout=60) as other:
            while not stop.is_set():
                begun = time.monotonic()
                other.get("/healthz")
                slowest = max(slowest, time.monotonic() - begun)

    names = ("accept", "authorization", "cookie", "if-none-match", "forwarded", "range", "prefer", "link")
    probing = threading.Thread(target=probe)
    probing.start()
    try:
        posted = [("/sparql", "POST"), ("/graphs?default", "PUT"), ("/graphs?default", "POST")]
        for prefix in ("", "application/sparql-query", "multipart/form-data", "text/turtle"):
            content_type = (prefix + value)[:SIXTY_KB].strip()
            for path, method in posted:
                given = client.request(
                    method, path, content=b"ASK {}", headers={"content-type": content_type}
                )
                assert given.status_code in (200, 400, 415), given.text[:200]
                assert len(given.content) < 5000
        for name in names:
            given = client.get(
                "/sparql", params={"query": "ASK {}"}, headers={name: value[:SIXTY_KB].strip()}
            )
            assert given.status_code == 200
    finally:
        stop.set()
        probing.join()
    assert slowest < 20


@pytest.mark.parametrize(
    "field", [b"%41", b"%", b"%%", b"+", b"a", b"%e2%82%ac"], ids=lambda field: field.decode()
)
def test_a_large_form_is_unescaped_in_pieces(field: bytes) -> None:
    whole = pairs_of(b"query=" + field * 100_000)
    [(name, value)] = pairs_of(b"query=" + field)
    assert whole == [(name, value * 100_000)]
    assert (name, value) == ("query", {b"%41": "A", b"+": " ", b"%e2%82%ac": "€"}.get(field, field.decode()))
