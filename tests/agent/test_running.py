"""Running an agent: health, readiness, metrics and logs."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.logs import start_logging
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
SPARQL = {"content-type": "application/sparql-query"}


def numbers(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """The metrics: by name, and the values of the labels."""
    given = client.get("/metrics")
    assert given.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(given.text)
        for sample in family.samples
    }


def test_an_agent_that_computes_a_view_is_not_ready(client: httpx.Client, agent: Agent) -> None:
    assert client.get("/readyz").json() == {"ready": True, "opening": None, "computing": []}
    put = threading.Thread(
        target=lambda: httpx.put(f"{client.base_url}/views/v", content=QUERY, headers=SPARQL, timeout=120)
    )
    with agent.session.reading():  # what takes the lock, as computing does, has to wait
        put.start()
        while not agent.computing:
            pass
        waiting = client.get("/readyz")
        assert waiting.status_code == 503
        assert waiting.headers["retry-after"] == "1"
        assert [entry["seconds"] < 20 for entry in waiting.json()["computing"]] == [True]
        assert client.get("/healthz").status_code == 200
    put.join()
    assert client.get("/readyz").status_code == 200


def test_metrics_count_what_happened(
    client: httpx.Client, session: sparqlive.Session, tmp_path: Path
) -> None:
    session.view("v", QUERY)
    session.view("later", "SELECT * { ?s ?p ?o }", refresh="manual")
    session.apply(insert='<http://x/a> <http://x/p> "1" .\n<http://x/b> <http://x/p> "2" .')
    session.apply(delete='<http://x/a> <http://x/p> "1" .')
    session.apply(delete='<http://x/a> <http://x/p> "1" .')
    client.get("/views")
    client.get("/views/absent")
    client.get("/nowhere")
    found = numbers(client)
    assert found["sparqlive_epoch",] == found["sparqlive_epochs_total",] == 2
    assert found["sparqlive_quads",] == 1
    assert found["sparqlive_dictionary_exceptions",] == 0
    assert found["sparqlive_changes_total", "+"] == 2
    assert found["sparqlive_changes_total", "-"] == 1
    assert found["sparqlive_apply_seconds_count", "live"] == 2
    assert found["sparqlive_view_rows", "v"] == 1
    assert found["sparqlive_view_state_bytes", "v"] == session.views["v"].stats()["state_bytes"]
    assert found["sparqlive_view_lag_epochs", "v"] == 0
    assert found["sparqlive_view_lag_epochs", "later"] == 2
    assert found["sparqlive_requests_total", "GET", "/views", "200"] == 1
    assert found["sparqlive_requests_total", "GET", "/views/{name}", "404"] == 1
    assert found["sparqlive_requests_total", "any", "none", "404"] == 1
    assert found["process_open_fds",] > 0


def test_metrics_of_sources_say_which_fail(
    client: httpx.Client, session: sparqlive.Session, tmp_path: Path
) -> None:
    good = tmp_path / "good.nt"
    good.write_text("<http://x/a> <http://x/p> <http://x/b> .\n")
    session.source("file", str(good), name="good").refresh()
    bad = session.source("file", str(tmp_path / "absent.nt"), name="bad")
    with pytest.raises(sparqlive.Error):
        bad.refresh()
    found = numbers(client)
    assert found["sparqlive_source_quads", "good"] == 1
    assert found["sparqlive_source_lag_seconds", "good"] < 60
    assert found["sparqlive_source_failing", "good"] == 0
    assert found["sparqlive_source_failing", "bad"] == 1
    assert found["sparqlive_source_failures_total", "bad"] >= 1


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the agent logs, and logging as it was afterwards."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    start_logging(stream)
    yield stream
    root.handlers[:], root.level = before


def test_a_request_has_an_id_and_a_line_without_secrets(
    session: sparqlive.Session, tmp_path: Path, log: io.StringIO
) -> None:
    _, secret = Tokens(tmp_path).create(["admin"], "ann")
    headers = {"authorization": f"Bearer {secret}", "x-request-id": "given-by-a-proxy"}
    with serving(Agent(session, Settings(), Access(tmp_path))) as address:
        first = httpx.get(f"{address}/views?token={secret}", headers=headers, timeout=120)
        second = httpx.get(
            f"{address}/views/a%1b", headers={**headers, "x-request-id": "<no id>"}, timeout=120
        )
        httpx.get(f"{address}/healthz", timeout=120)
    assert first.headers["x-request-id"] == "given-by-a-proxy"
    assert len(second.headers["x-request-id"]) == 16
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["message"], line["path"], line["status"], line["who"]) for line in lines] == [
        ("GET /views", "/views", 200, "ann"),
        ("GET /views/{name}", "/views/a\x1b", 404, "ann"),
    ]
    assert [line["request"] for line in lines] == ["given-by-a-proxy", second.headers["x-request-id"]]
    assert secret not in log.getvalue()


def test_a_failure_of_the_agent_is_logged_with_its_request_and_told_without_its_trace(
    client: httpx.Client, agent: Agent, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "session", None)
    failed = client.get("/views")
    assert failed.status_code == 500
    assert "NoneType" not in failed.text
    entry = json.loads(log.getvalue().splitlines()[0])
    assert entry["level"] == "error"
    assert "NoneType" in entry["trace"]
    assert entry["request"] == failed.headers["x-request-id"]
