"""Bodies that are packed, forms of many parts, numbers that are none: decoded within bounds, or refused."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.routes import graph_store
from sparqlive.agent.settings import Settings
from sparqlive.web import document
from tests.agent.conftest import serving
from tests.agent.test_robustness import asked

INSERT = b"INSERT DATA { <http://x/a> <http://x/p> 1 }"
QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
UPDATE = {"content-type": "application/sparql-update"}
SPARQL = {"content-type": "application/sparql-query"}
TRIPLE = b"<http://x/a> <http://x/p> <http://x/b> .\n"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(INSERT, mtime=0)),
        ("GZIP", gzip.compress(INSERT, mtime=0)),
        ("x-gzip", gzip.compress(INSERT, mtime=0)),
        ("identity", INSERT),
        ("identity, gzip", gzip.compress(INSERT, mtime=0)),
        ("deflate", zlib.compress(INSERT)),
        ("deflate", raw_deflate(INSERT)),
        ("gzip", gzip.compress(INSERT[:10], mtime=0) + gzip.compress(INSERT[10:], mtime=0)),
        ("", INSERT),
    ],
)
def test_packed_bodies_are_unpacked(
    client: httpx.Client, session: sparqlive.Session, coding: str, body: bytes
) -> None:
    given = client.post("/sparql", content=body, headers={**UPDATE, "content-encoding": coding})
    assert given.status_code == 200, given.text
    assert session.epoch == 1


def test_every_body_may_be_packed(client: httpx.Client, session: sparqlive.Session) -> None:
    packed = {"content-encoding": "gzip"}
    form = {**packed, "content-type": "application/x-www-form-urlencoded"}
    query = gzip.compress(QUERY.encode())
    assert (
        client.post("/sparql", content=gzip.compress(b"query=ASK%7B%7D", mtime=0), headers=form).status_code
        == 200
    )
    assert client.put("/views/v", content=query, headers={**packed, **SPARQL}).status_code == 201
    assert client.post("/subscriptions", content=query, headers={**packed, **SPARQL}).status_code == 201
    turtle = {**packed, "content-type": "text/turtle"}
    assert (
        client.put("/graphs?default", content=gzip.compress(TRIPLE, mtime=0), headers=turtle).status_code
        == 200
    )
    assert len(session) == 1


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "deflate, gzip", "x", "gzip;q=1"])
def test_other_codings_are_415_and_what_there_is_is_told(
    client: httpx.Client, session: sparqlive.Session, coding: str
) -> None:
    given = client.post("/sparql", content=INSERT, headers={**UPDATE, "content-encoding": coding})
    assert given.status_code == 415
    assert given.headers["accept-encoding"] == "gzip, deflate"
    assert session.epoch == 0


@pytest.mark.parametrize(
    "body",
    [b"not gzip", gzip.compress(INSERT, mtime=0)[:-3], gzip.compress(INSERT, mtime=0) + b"junk", INSERT],
)
def test_bodies_that_are_not_what_they_say_are_400(
    client: httpx.Client, session: sparqlive.Session, body: bytes
) -> None:
    given = client.post("/sparql", content=body, headers={**UPDATE, "content-encoding": "gzip"})
    assert given.status_code == 400, given.text
    assert "gzip" in given.json()["detail"]
    assert session.epoch == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_unpacks_to_too_much_is_413(session: sparqlive.Session, coding: str) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    with asked(session, body_bytes=100_000) as client:
        bomb = pack(b" " * 50_000_000)
        assert len(bomb) < 100_000
        given = client.post("/sparql", content=bomb, headers={**UPDATE, "content-encoding": coding})
        assert given.status_code == 413
        padded = INSERT + b" " * (100_000 - len(INSERT))
        given = client.post("/sparql", content=pack(padded), headers={**UPDATE, "content-encoding": coding})
        assert given.status_code == 200
        given = client.post(
            "/sparql", content=pack(padded + b" "), headers={**UPDATE, "content-encoding": coding}
        )
        assert given.status_code == 413


def test_a_body_of_many_empty_members_is_refused(client: httpx.Client, session: sparqlive.Session) -> None:
    body = gzip.compress(b"") * 20_000 + gzip.compress(INSERT)
    given = client.post("/sparql", content=body, headers={**UPDATE, "content-encoding": "gzip"})
    assert given.status_code == 400
    assert session.epoch == 0


# Forms


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("", b"query=ASK%7B%7D" + b"&a=b" * 10_000),
        ("", b"&" * 1_000_000 + b"query=ASK%7B%7D"),
        ("?" + "a=b&" * 6_000, b"query=ASK%7B%7D" + b"&a=b" * 6_000),
    ],
)
def test_the_parameters_of_a_request_are_counted_together(
    client: httpx.Client, address: str, body: bytes
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    given = client.post(f"/sparql{address}", content=body, headers=form)
    assert given.status_code == 400
    assert "10,000 parameters" in given.json()["detail"]


def files(*contents: bytes, media_type: str = "application/n-triples") -> list[tuple[str, Any]]:
    return [(f"f{n}", (f"f{n}.nt", content, media_type)) for n, content in enumerate(contents)]


def triples(name: str, number: int) -> bytes:
    return b"".join(
        b"<http://x/%s%d> <http://x/p> <http://x/b> .\n" % (name.encode(), n) for n in range(number)
    )


def test_the_limit_of_a_form_holds_for_all_its_parts_together(
    client: httpx.Client, session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MOST_QUADS", 100)
    one = client.post("/graphs?default", files=files(triples("a", 60), triples("b", 40)))
    assert one.status_code == 200
    assert len(session) == 100
    many = client.post("/graphs?default", files=files(*(triples(name, 60) for name in "cd")))
    assert many.status_code == 400
    assert len(session) == 100


def test_prefixes_of_all_parts_count_together(session: sparqlive.Session) -> None:
    """Each part alone is within what the body may come to, all of them are not."""
    part = b"@prefix p: <http://x/" + b"x" * 2000 + b"> .\n" + b"p:a p:b p:c,p:d,p:e,p:f .\n" * 5
    with asked(session, body_bytes=20_000) as client:
        one = files(part, media_type="text/turtle")
        assert client.post("/graphs?default", files=one).status_code == 200
        parts = files(*[part] * 8, media_type="text/turtle")
        assert client.post("/graphs?default", files=parts).status_code == 400
    assert session.epoch == 1


def test_a_form_has_a_bound_of_parts(client: httpx.Client, session: sparqlive.Session) -> None:
    refused = client.post("/graphs?default", files=files(*[TRIPLE] * 1001))
    assert refused.status_code == 400
    assert "1,000 parts" in refused.json()["detail"]
    assert session.epoch == 0
    assert client.post("/graphs?default", files=files(*[TRIPLE] * 1000)).status_code == 200


MULTIPART = b'Content-Disposition: form-data; name="f"\r\nContent-Type: text/turtle\r\n'


@pytest.mark.parametrize(
    ("header", "body", "status"),
    [
        (
            "multipart/form-data; boundary=x",
            b"--x\r\n" + MULTIPART + b"\r\n" + TRIPLE + b"\r\n--x--\r\n",
            200,
        ),
        ('multipart/form-data; boundary="x y"', b"--x y\r\n" + MULTIPART + b"\r\n\r\n--x y--", 200),
        (
            "multipart/form-data; boundary=x",
            b"preamble\r\n--x\r\n"
            + MULTIPART
            + b"Content-Transfer-Encoding: base64\r\n\r\nIyBoaQ==\r\n--x--",
            200,
        ),
        ("multipart/form-data", b"--x\r\n" + MULTIPART + b"\r\n\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=", b"----", 400),
        ("multipart/form-data; boundary=" + "x" * 300, b"", 400),
        ("multipart/form-data; boundary=x", b"--y\r\n" + MULTIPART + b"\r\n" + TRIPLE + b"\r\n--y--", 400),
        ("multipart/form-data; boundary=x", b"--x\r\n" + MULTIPART + b"\r\n" + TRIPLE, 400),
        ("multipart/form-data; boundary=x", b"--x\r\n" + MULTIPART, 400),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"A: b\r\n" * 9000 + b"\r\n\r\n--x--", 400),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno type\r\n--x--", 415),
        ("multipart/form-data; boundary=x", b"\xff\x00" * 1000, 400),
    ],
)
def test_forms_that_are_well_formed_and_not(
    client: httpx.Client, header: str, body: bytes, status: int
) -> None:
    given = client.post("/graphs?default", content=body, headers={"content-type": header})
    assert given.status_code == status, given.text


# Numbers

NUMBERS = [
    "inf",
    "-inf",
    "nan",
    "-1",
    "",
    "1e999",
    "\u0661\u0662",
    "true",
    "0x10",
    "9" * 400,
    "1_000",
    " 1",
    "1 ",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none_are_400_with_a_sentence(
    client: httpx.Client, session: sparqlive.Session, number: str
) -> None:
    session.view("v", QUERY)
    for given in (
        client.get("/sparql", params={"query": "ASK {}", "timeout": number}),
        client.post("/sparql", data={"query": "ASK {}", "timeout": number}),
        client.post("/sparql", data={"update": INSERT.decode(), "timeout": number}),
        client.put("/views/w", params={"refresh": number}, content=QUERY, headers=SPARQL),
        client.get("/views/v", params={"at": number}),
        client.get("/views/v/rows", params={"limit": number}),
        client.get("/views/v/changes", params={"since": number}),
        client.get("/epochs", params={"since": number}),
    ):
        assert given.status_code == 400, (given.request.url, given.text)
        assert len(given.json()["detail"]) in range(10, 300)
    assert list(session.views) == ["v"]
    assert session.epoch == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "9" * 300, "-1e300"])
def test_numbers_of_json_are_finite_and_not_huge(session: sparqlive.Session, number: str) -> None:
    with serving(Agent(session, Settings(allow_private=True))) as address:
        text = (
            f'{{"kind": "web", "address": "http://127.0.0.1:9/", "options": {{"timeout_seconds": {number}}}}}'
        )
        given = httpx.post(
            f"{address}/sources", content=text, headers={"content-type": "application/json"}, timeout=60
        )
        assert given.status_code == 400, given.text
        assert len(given.json()["detail"]) < 300
    assert not session.sources


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '"' + "\\" * 1001, "\ufeff{}", "nul"])
def test_bodies_that_are_no_json_are_400(client: httpx.Client, text: str) -> None:
    json_ = {"content-type": "application/json"}
    assert client.post("/sources", content=text.encode(), headers=json_).status_code == 400
    large = client.post("/sources", content=b" " * (2 << 20), headers=json_)
    assert large.status_code == 413


@pytest.mark.parametrize("port", ["99999", "-1", "0", "x", "65536"])
def test_ports_of_addresses(client: httpx.Client, session: sparqlive.Session, port: str) -> None:
    source = {"kind": "web", "address": f"http://example.org:{port}/"}
    assert client.post("/sources", json=source).status_code == 400
    load = f"LOAD <http://example.org:{port}/>"
    assert client.post("/sparql", content=load, headers=UPDATE).status_code == 400
    assert not session.sources


def test_what_was_changed_is_not_told_as_unchanged(
    client: httpx.Client, session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("after the commit")

    monkeypatch.setattr(graph_store, "_change_response", fails)
    given = client.put("/graphs?graph=http://x/g", content=TRIPLE, headers={"content-type": "text/turtle"})
    assert given.status_code == 500
    assert session.epoch == 1
    assert "changed nothing" not in given.text
    assert "Nothing was changed" not in given.text
    assert "may or may not have changed data" in given.json()["detail"]
