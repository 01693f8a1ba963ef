"""Bulk upload: files of quads become one epoch, or nothing."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from pathlib import Path

import httpx
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.waiting import wait_until

NQUADS, TRIG = {"content-type": "application/n-quads"}, {"content-type": "application/trig"}


def lines(count: int) -> str:
    return "".join(f'<http://x/{n}> <http://x/p> "{n}" <http://x/g{n % 3}> .\n' for n in range(count))


@pytest.mark.parametrize("count", [10, 20_000])
@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_a_file_with_named_graphs_is_one_epoch(
    client: httpx.Client, session: sparqlive.Session, count: int, coding: str | None
) -> None:
    view = session.view("v", "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g")
    body = lines(count).encode()
    packed = {None: body, "gzip": gzip.compress(body), "deflate": zlib.compress(body)}[coding]
    headers = NQUADS if coding is None else {**NQUADS, "content-encoding": coding}
    answer = client.post("/uploads", content=packed, headers=headers)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["state"], told["epoch"], told["inserted"], told["bytes"]) == ("done", 1, count, len(body))
    assert answer.headers["sparqlive-epoch"] == "1"
    assert client.get(answer.headers["location"]).json() == told
    assert len(session) == count
    assert len(view.weights()) == 3


def test_trig_and_a_graph_for_triples(client: httpx.Client, session: sparqlive.Session) -> None:
    trig = "@prefix : <http://x/> . :a :p 1 . :g { :b :p [ :q 2 ] }"
    assert (
        client.post("/uploads", content=trig, headers=TRIG, params={"graph": "http://x/own"}).json()[
            "inserted"
        ]
        == 3
    )
    graphs = {str(graph): size for graph, size in session.graphs().items() if size}
    assert graphs == {"<http://x/own>": 1, "<http://x/g>": 2}
    again = client.post("/uploads", content=trig, headers=TRIG, params={"graph": "http://x/own"}).json()
    assert again["inserted"] == 2, "another file: other blank nodes"


@pytest.mark.parametrize("count", [10, 20_000])
def test_a_bad_line_changes_nothing_and_is_named(
    client: httpx.Client, session: sparqlive.Session, count: int
) -> None:
    text = lines(count) + "<http://x/a> <http://x/p> bad .\n" + lines(5)
    answer = client.post("/uploads", content=text, headers=NQUADS)
    assert answer.status_code == 400
    assert f"line {count + 1}" in answer.json()["detail"]
    assert tempfile.gettempdir() not in answer.json()["detail"]
    assert (session.epoch, len(session)) == (0, 0)


def test_a_long_load_is_a_job(session: sparqlive.Session) -> None:
    agent = Agent(session, Settings())
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        answer = client.post("/uploads", content=lines(20_000), headers={**NQUADS, "prefer": "respond-async"})
        assert answer.status_code == 202
        assert answer.json()["state"] in ("loading", "done")
        wait_until(lambda: client.get(answer.headers["location"]).json()["state"] == "done")
        assert len(session) == 20_000
        failing = client.post("/uploads", content="bad", headers={**NQUADS, "prefer": "respond-async"})
        if failing.status_code == 202:
            wait_until(lambda: client.get(failing.headers["location"]).json()["state"] == "failed")
            assert "line 1" in client.get(failing.headers["location"]).json()["detail"]
        assert client.get("/uploads/none").status_code == 404


def test_limits_and_types(session: sparqlive.Session) -> None:
    before = set(Path(tempfile.gettempdir()).glob("sparqlive-upload-*"))
    with (
        serving(Agent(session, Settings(upload_bytes=10_000))) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        assert client.post("/uploads", content=lines(1_000), headers=NQUADS).status_code == 413
        bomb = gzip.compress(b"#" * 5_000_000)
        assert len(bomb) < 10_000
        packed = client.post("/uploads", content=bomb, headers={**NQUADS, "content-encoding": "gzip"})
        assert packed.status_code == 413
        assert client.post("/uploads", content="{}", headers={"content-type": "text/html"}).status_code == 415
        broken = client.post("/uploads", content=b"no gzip", headers={**NQUADS, "content-encoding": "gzip"})
        assert broken.status_code == 400
        assert client.post("/uploads", content=lines(3), headers=NQUADS).json()["inserted"] == 3
    assert session.epoch == 1
    assert set(Path(tempfile.gettempdir()).glob("sparqlive-upload-*")) <= before


def test_uploads_have_the_right_to_write(client: httpx.Client, session: sparqlive.Session) -> None:
    assert client.post("/uploads", content="", headers=NQUADS).json()["inserted"] == 0
    assert ox.DefaultGraph() in session.graphs()
