"""Sources over HTTP: added, looked at, removed; what is refused, and what is never shown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.sources.server import Page, Site, serve

NEVER = {"poll_interval_seconds": None}


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found


@pytest.fixture
def trusting(session: sparqlive.Session) -> Iterator[httpx.Client]:
    """An agent whose sources may be on this machine."""
    agent = Agent(session, Settings(allow_private=True, query_seconds=5))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as made:
        yield made


def test_a_source_is_added_refreshed_and_removed(
    trusting: httpx.Client, session: sparqlive.Session, site: Site
) -> None:
    site.pages["/doc"] = Page("<http://x/a> <http://x/p> 1, 2 .")
    asked = {"kind": "web", "address": f"{site.address}/doc", "name": "doc"}
    asked["options"] = {**NEVER, "allow_private": True}
    made = trusting.post("/sources", json=asked)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/sources/doc"
    assert trusting.post("/sources", json=asked).status_code == 200
    seen = trusting.post("/sources/doc/refresh").json()
    assert (seen["quads"], seen["error"], seen["graph"]) == (2, None, "source:doc")
    assert len(session) == 2
    assert [source["name"] for source in trusting.get("/sources").json()["sources"]] == ["doc"]
    assert trusting.get("/sources/doc").json()["address"] == f"{site.address}/doc"
    asked["address"] += "2"
    assert trusting.post("/sources", json=asked).status_code == 409
    assert trusting.delete("/sources/doc").status_code == 204
    assert len(session) == 0
    assert trusting.get("/sources").json() == {"sources": []}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/refresh")):
        assert trusting.request(method, f"/sources/doc{path}").status_code == 404


def test_a_source_without_a_name_is_found_by_its_address(trusting: httpx.Client, site: Site) -> None:
    site.pages["/a b?c"] = Page("<http://x/a> <http://x/p> 1 .")
    address = f"{site.address}/a%20b?c"
    options = {**NEVER, "allow_private": True}
    made = trusting.post("/sources", json={"kind": "web", "address": address, "options": options})
    assert made.headers["location"] == f"/sources/{quote(address, safe='')}"
    assert trusting.get(made.headers["location"]).json()["name"] == address
    assert trusting.delete(made.headers["location"]).status_code == 204


def test_what_a_source_cannot_read_is_said(trusting: httpx.Client, site: Site) -> None:
    options = {**NEVER, "allow_private": True}
    asked = {"kind": "web", "address": f"{site.address}/none", "name": "none", "options": options}
    assert trusting.post("/sources", json=asked).status_code == 201
    failed = trusting.post("/sources/none/refresh")
    assert failed.status_code == 502
    assert "404" in failed.json()["detail"]
    shown = trusting.get("/sources/none").json()
    assert "404" in shown["error"]
    assert shown["stale_since"] is not None


def test_secrets_are_never_shown(trusting: httpx.Client, site: Site) -> None:
    site.pages["/doc"] = Page("")
    options = {**NEVER, "allow_private": True, "headers": {"Authorization": "Bearer tea-for-two"}}
    asked = {"kind": "web", "address": f"{site.address}/doc", "name": "doc", "options": options}
    answers = [
        trusting.post("/sources", json=asked),
        trusting.post("/sources/doc/refresh"),
        trusting.get("/sources"),
        trusting.get("/sources/doc"),
        trusting.post("/sources", json={**asked, "options": {**options, "headers": {"Authorization": "x"}}}),
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 409]
    assert not any("tea-for-two" in answer.text for answer in answers)
    assert answers[3].json()["options"]["headers"] == "(not shown)"
    assert answers[3].json()["options"]["allow_private"] is True


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"kind": "file", "address": "/etc/passwd"}, 403),
        ({"kind": "stream", "address": "-"}, 403),
        ({"kind": "web", "address": "file:///etc/passwd"}, 403),
        ({"kind": "web", "address": "http://127.0.0.1/", "options": {"allow_private": True}}, 403),
        ({"kind": "solid", "address": "http://x/", "options": {"client_secret_variable": "HOME"}}, 403),
        ({"kind": "tea", "address": "http://x/"}, 400),
        ({"kind": "web", "address": "http://x/", "options": {"sugar": 2}}, 400),
        ({"kind": "web", "address": "http://x/", "options": []}, 400),
        ({"kind": "web", "address": "http://x/", "name": 1}, 400),
        ({"kind": "web", "address": "http://x/", "name": "a b"}, 400),
        ({"kind": "web", "address": "http://x/", "name": "view:v"}, 400),
        ({"kind": "web"}, 400),
        ({"kind": "web", "address": "http://x/", "tea": 1}, 400),
        ([], 400),
    ],
)
def test_what_is_refused_adds_nothing(
    client: httpx.Client, session: sparqlive.Session, asked: object, status: int
) -> None:
    refused = client.post("/sources", json=asked)
    assert refused.status_code == status, refused.text
    assert len(refused.json()["detail"]) > 20
    assert not session.sources


def test_bodies_that_are_not_json_are_refused(client: httpx.Client) -> None:
    assert client.post("/sources", content="kind=web").status_code == 415
    sent = client.post("/sources", content="{", headers={"content-type": "application/json"})
    assert sent.status_code == 400


_HOSTS = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
_HOSTS += ["10.1.2.3", "192.168.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]"]


@pytest.mark.parametrize("host", _HOSTS)
@pytest.mark.parametrize("kind", ["web", "agent"])
def test_an_address_that_is_not_public_is_refused_at_once(
    client: httpx.Client, session: sparqlive.Session, host: str, kind: str
) -> None:
    options = NEVER if kind == "web" else {"view": "v"}
    asked = {"kind": kind, "address": f"http://{host}:9/doc", "name": "doc", "options": options}
    refused = client.post("/sources", json=asked)
    assert refused.status_code == 403
    assert "not a public address" in refused.json()["detail"]
    assert not session.sources


def test_a_name_that_is_not_resolved_is_watched_until_it_is(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look checks the address again: a name that was public, or unknown, may resolve to this machine."""
    found: list[str] = []

    def resolve(host: str, *args: object, **options: object) -> list[object]:
        if host != "moves.example":
            return real(host, *args, **options)  # type: ignore[arg-type, return-value]
        if not found:
            raise socket.gaierror("there is no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found[0], 80))]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    asked = {"kind": "web", "address": "http://moves.example/doc", "name": "doc", "options": NEVER}
    assert client.post("/sources", json=asked).status_code == 201
    found.append("127.0.0.1")
    refused = client.post("/sources/doc/refresh")
    assert refused.status_code == 502
    assert "127.0.0.1, which is not a public address" in refused.json()["detail"]


def test_files_may_be_read_where_that_is_allowed(trusting: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<http://x/a> <http://x/p> 1 .")
    asked = {"kind": "file", "address": str(tmp_path / "a.ttl"), "name": "a"}
    assert trusting.post("/sources", json=asked).status_code == 201
    assert trusting.post("/sources/a/refresh").json()["quads"] == 1
