"""POST /sources with bodies that nobody should send: each is rejected with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.conftest import FULL

JSON = {"content-type": "application/json"}
ADDRESS = "https://example.org/data.ttl"
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 10**15, "", "x", "\0", "\ud800", [], [1], {}, {"a": None}, [[[]]], "é" * 1000,
]  # fmt: skip
KINDS = ["agent", "endpoint", "file", "ldes", "mqtt", "solid", "stream", "web"]


@pytest.mark.parametrize("allow_private", [False, True])
def test_options_of_any_name_are_rejected_with_a_sentence(
    session: sparqlive.Session, allow_private: bool
) -> None:
    agent = Agent(session, Settings(allow_private=allow_private))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        for kind in KINDS:
            for option in ("name", "kind", "address", "self", "options", "reach", "a b"):
                body = {"kind": kind, "address": ADDRESS, "options": {option: "x"}}
                found = client.post("/sources", json=body)
                assert found.status_code in (400, 403), (body, found.text)
                if kind in ("web", "agent") and option != "reach":
                    assert f"there is no option {option!r}" in found.json()["detail"]
        assert not session.sources


def test_no_body_is_an_internal_error(session: sparqlive.Session) -> None:
    whole = {"kind": "web", "address": ADDRESS, "name": "n", "options": {}}
    options = ("poll_interval_seconds", "headers", "hosts", "max_bytes", "timeout_seconds", "allow_private")
    bodies = [json.dumps(value) for value in VALUES]
    bodies += [json.dumps({**whole, member: value}) for member in whole for value in VALUES]
    bodies += [json.dumps({**whole, "options": {name: value}}) for name in options for value in VALUES]
    bodies += [
        '{"kind": "web", "kind": 1, "address": "x"}',
        '{"kind": NaN, "address": 1e999}',
        "",
        "{",
        "[" * 9999,
    ]
    bodies += [
        json.dumps({"kind": kind, "address": value})
        for kind in KINDS
        for value in (
            "",
            " ",
            "-",
            "x:y",
            "//[",
            "http://[",
            "http://",
            "\0",
            "mqtt://[",
            "file://%00",
            "http:\\\\x",
        )
    ]
    agent = Agent(session, Settings(allow_private=True))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        for body in bodies if FULL else bodies[::4]:
            found = client.post("/sources", content=body.encode(), headers=JSON)
            assert found.status_code in (200, 201, 400, 403, 409), (body, found.text)
            if found.status_code == 201:
                assert client.delete(found.headers["location"]).status_code == 204


def test_names_that_a_url_would_read_as_a_folder(session: sparqlive.Session) -> None:
    """Whatever has been added can be shown and deleted by its location."""
    agent = Agent(session, Settings(allow_private=True))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        for name in (".", ".."):
            found = client.post("/sources", json={"kind": "web", "address": ADDRESS, "name": name})
            assert found.status_code == 400, found.text
            assert "folder" in found.json()["detail"]
        for name in ("...", "a/../b", "../a", "./", "%2e%2e", "a/", "/"):
            found = client.post("/sources", json={"kind": "web", "address": ADDRESS, "name": name})
            assert found.status_code == 201, (name, found.text)
            assert client.get(found.headers["location"]).json()["name"] == name
            assert client.delete(found.headers["location"]).status_code == 204
    assert not session.sources


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(
    "address",
    [
        "http://../secret.ttl", "https://../secret.ttl", "HTTP://../secret.ttl", "http:///../secret.ttl",
        "http:/../secret.ttl", "http:../secret.ttl", " http://../secret.ttl", "file:///etc/passwd", "FILE:/x",
        "file:x", "secret.ttl", "/secret.ttl", "//host/secret.ttl", "http:\\\\..\\secret.ttl", "*.ttl", "http://*/x",
        "http%3A//../secret.ttl", "\thttp://../x", "-",
    ],
)  # fmt: skip
def test_no_address_leads_to_a_file(
    session: sparqlive.Session, kind: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "http:").mkdir()
    (tmp_path / "secret.ttl").write_text("<x:a> <x:p> <x:secret> .")
    monkeypatch.chdir(tmp_path)
    with serving(Agent(session)) as served, httpx.Client(base_url=served, timeout=120) as client:
        found = client.post("/sources", json={"kind": kind, "address": address})
        if kind == "stream" and found.status_code == 201:  # on the Web, where nothing is
            assert address.startswith(("http://", "https://"))
        else:
            assert found.status_code in (400, 403), found.text
        assert not list(session.quads())


@pytest.mark.parametrize(
    "address", ["http://../secret.ttl", "ftp://x/y", "s3://x/y", "file://host/secret.ttl"]
)
def test_a_file_is_none_on_the_network(address: str) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match=r"on the network|another machine"):
        session.source("file", address)
