"""SERVICE over HTTP: one agent asks another, if its settings and the rights of the caller allow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """The address of an agent with data of its own."""
    with sparqlive.open() as session:
        session.update("INSERT DATA { <urn:a> <urn:q> 1 . <urn:b> <urn:q> 2 . <urn:c> <urn:q> 3 }")
        with serving(Agent(session)) as address:
            yield f"{address}/sparql"


def ask(client: httpx.Client, address: str, silent: str = "", **headers: Any) -> httpx.Response:
    query = f"SELECT ?s ?z {{ ?s <urn:p> ?o SERVICE {silent} <{address}> {{ ?s <urn:q> ?z }} }} ORDER BY ?z"
    return client.get("/sparql", params={"query": query, "format": "csv"}, headers=headers)


def agent_of(session: sparqlive.Session, access: Access | None = None, **settings: Any) -> Agent:
    session.update("INSERT DATA { <urn:a> <urn:p> 1 . <urn:b> <urn:p> 2 . <urn:d> <urn:p> 3 }")
    return Agent(session, Settings(**settings), access)


def test_an_agent_asks_another(session: sparqlive.Session, other: str) -> None:
    with (
        serving(agent_of(session, allow_private=True)) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        assert ask(client, other).text.split() == ["s,z", "urn:a,1", "urn:b,2"]
        query = f"SELECT * {{ SERVICE <{other}> {{ ?s ?p ?o }} }}"
        view = client.put("/views/v", content=query, headers={"content-type": "application/sparql-query"})
        assert view.status_code == 400
        assert f'session.source("endpoint", "{other}"' in view.json()["detail"]
        failed = ask(client, other + "/nothing")
        assert failed.status_code == 502
        assert "status 404" in failed.json()["detail"]


def test_only_public_addresses_by_default(session: sparqlive.Session, other: str) -> None:
    with serving(agent_of(session)) as address, httpx.Client(base_url=address, timeout=120) as client:
        refused = ask(client, other)
        assert refused.status_code == 502
        assert "not a public address" in refused.json()["detail"]
        assert ask(client, other, "SILENT").text.split() == ["s,z", "urn:a,", "urn:b,", "urn:d,"]


def test_an_agent_without_service(session: sparqlive.Session, other: str) -> None:
    agent = agent_of(session, allow_private=True, service=False)
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        assert ask(client, other).status_code == 403
        assert client.get("/sparql", params={"query": "ASK { ?service ?p ?o }"}).status_code == 200


def test_tokens_need_the_right(other: str, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    with sparqlive.open(tmp_path) as session:
        agent = agent_of(session, Access(tmp_path), allow_private=True)
        with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:

            def status(*rights: str, silent: str = "") -> int:
                _, secret = tokens.create(rights)
                return ask(client, other, silent, authorization=f"Bearer {secret}").status_code

            assert status("read", "service") == 200
            assert status("admin") == 200
            assert status("read") == 403
            assert status("read", "write") == 403
            assert status("service") == 403, "it does not include read"
            assert status("read", silent="SILENT") == 200
