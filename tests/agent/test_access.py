"""Tokens, rights and limits: whoever may not is refused before anything happens, and leaves no trace."""

from __future__ import annotations

import base64
import json
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import OPERATIONS
from sparqlive.agent.operations import Operation
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from sparqlive.cli import main as cli
from tests.agent.conftest import serving

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
SPARQL = {"content-type": "application/sparql-query"}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def guarded(session: sparqlive.Session, tmp_path: Path) -> Iterator[httpx.Client]:
    """An agent whose tokens are in a directory."""
    session.view("v", QUERY)
    session.view("w", QUERY)
    with (
        serving(Agent(session, Settings(), Access(tmp_path))) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        yield client


@pytest.fixture
def bearer(tokens: Tokens) -> Callable[..., dict[str, str]]:
    """Makes a token, and the header that shows it."""

    def made(*rights: str, name: str | None = None, **limits: float) -> dict[str, str]:
        _, secret = tokens.create(rights, name, Limits(**limits))  # type: ignore[arg-type]
        return {"authorization": f"Bearer {secret}"}

    return made


Bearer = Callable[..., dict[str, str]]


def test_a_token_is_kept_as_a_hash_in_a_file_of_its_owner(tokens: Tokens, tmp_path: Path) -> None:
    name, secret = tokens.create(["read"])
    kept = tmp_path / "tokens.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert secret not in kept.read_text()
    assert secret.removeprefix("sparqlive_") not in kept.read_text()
    found = tokens.find(secret)
    assert found is not None
    assert found.name == name
    assert tokens.find(secret + "x") is None
    assert tokens.find("") is None


@pytest.mark.parametrize("rights", [[], ["all"], ["read:view="], ["read", "Write"]])
def test_rights_that_are_none_are_refused(tokens: Tokens, rights: list[str]) -> None:
    with pytest.raises(sparqlive.Error):
        tokens.create(rights)
    assert not tokens.required


def test_a_file_that_is_damaged_lets_nobody_in(guarded: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{")
    assert guarded.get("/views").status_code == 401
    assert guarded.get("/views", headers={"authorization": "Bearer x"}).status_code == 503
    (tmp_path / "tokens.json").write_text('{"a": {"rights": "read"}}')
    assert guarded.get("/views", headers={"authorization": "Bearer x"}).status_code == 503


def asked(client: httpx.Client, operation: Operation, headers: dict[str, str]) -> int:
    """The status of an operation, on the view v; of what streams, only the head is read."""
    path = re.sub(r"\{name(:\w+)?\}", "v", operation.path)
    path = re.sub(r"\{\w+(:\w+)?\}", "x", path)
    with client.stream(operation.method, path, headers=headers) as response:
        return response.status_code


ALLOWED = {
    "open": {"", "read", "read:view=v", "read:view=w", "write", "service", "admin"},
    "known": {"read", "read:view=v", "read:view=w", "write", "service", "admin"},
    "read": {"read", "admin"},
    "read:view": {"read", "read:view=v", "admin"},
    "write": {"write", "admin"},
    "admin": {"admin"},
}


@pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}"
)
def test_every_operation_takes_its_right(guarded: httpx.Client, bearer: Bearer, operation: Operation) -> None:
    assert asked(guarded, operation, {}) not in (401, 403), "without tokens everything is allowed here"
    for right in ("read", "read:view=v", "read:view=w", "write", "service", "admin"):
        status = asked(guarded, operation, bearer(right))
        if right in ALLOWED[operation.right]:
            assert status not in (401, 403) or operation.right == "known", right
        else:
            assert status == 403, right
    assert (asked(guarded, operation, {}) == 401) is (operation.right != "open")
    wrong = {"authorization": "Bearer sparqlive_wrong"}
    assert (asked(guarded, operation, wrong) == 401) is (operation.right != "open")


def test_refusals_say_what_is_missing_and_change_nothing(
    guarded: httpx.Client, bearer: Bearer, session: sparqlive.Session
) -> None:
    reader = bearer("read", name="reader")
    missing = guarded.delete("/views/v")
    assert missing.status_code == 401
    both = 'Bearer realm="sparqlive", Basic realm="sparqlive", charset="UTF-8"'
    assert missing.headers["www-authenticate"] == both
    assert "Authorization: Bearer" in missing.json()["detail"]
    wrong = guarded.delete("/views/v", headers={"authorization": "Bearer sparqlive_x"})
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    refused = guarded.delete("/views/v", headers=reader)
    assert refused.status_code == 403
    assert refused.json()["detail"] == "Token 'reader' lacks the right admin, which this request requires."
    assert 'scope="admin"' in refused.headers["www-authenticate"]
    assert guarded.put("/views/new", content=QUERY, headers={**SPARQL, **reader}).status_code == 403
    assert sorted(session.views) == ["v", "w"]


def test_a_running_agent_knows_of_new_and_revoked_tokens(
    guarded: httpx.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(["token", arguments[0], "--store", str(tmp_path), *arguments[1:]])
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert guarded.get("/views").status_code == 200
    secret = command("create", "--can", "read,read:view=v", "--name", "ann", "--views", "3").strip()
    assert command("list").startswith("ann\tread,read:view=v\tviews 3\t20")
    assert secret not in command("list")
    header = {"authorization": f"Bearer {secret}"}
    assert guarded.get("/views").status_code == 401
    assert guarded.get("/views", headers=header).status_code == 200
    command("revoke", "ann")
    assert guarded.get("/views", headers=header).status_code == 401
    assert guarded.get("/views").status_code == 401, "no token is left: that opens nothing"


def test_queries_take_the_right_to_read_and_updates_to_write(
    guarded: httpx.Client, bearer: Bearer, session: sparqlive.Session
) -> None:
    reader, writer, one = bearer("read"), bearer("write"), bearer("read:view=v")
    update = "INSERT DATA { <http://x/a> <http://x/p> 1 }"
    form = {"content-type": "application/x-www-form-urlencoded"}

    def status(token: dict[str, str], **parts: str) -> list[int]:
        """As a form, and as a body of its own."""
        [(kind, text)] = parts.items()
        direct = {"content-type": f"application/sparql-{kind}", **token}
        return [
            guarded.post("/sparql", data={kind: text}, headers={**form, **token}).status_code,
            guarded.post("/sparql", content=text, headers=direct).status_code,
        ]

    assert status(reader, update=update) == status(one, update=update) == [403, 403]
    assert session.epoch == 0
    assert status(writer, query=QUERY) == status(one, query=QUERY) == [403, 403]
    assert status(reader, query=QUERY) == status(writer, update=update) == [200, 200]
    assert session.epoch == 1
    assert guarded.get("/sparql", params={"query": QUERY}, headers=writer).status_code == 403
    assert guarded.get("/views/v", headers=one).json()["results"]["bindings"] != []


# A token as a password


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_a_token_is_a_password_too(guarded: httpx.Client, tokens: Tokens) -> None:
    _, secret = tokens.create(["read"])
    for shown in (basic("ann", secret), basic("", secret), basic(secret, ""), basic("zoë", secret)):
        assert guarded.get("/views", headers=shown).status_code == 200
        assert guarded.delete("/views/v", headers=shown).status_code == 403
    lower = basic("ann", secret)["authorization"].replace("Basic", "basic")
    assert guarded.get("/views", headers={"authorization": lower}).status_code == 200
    with httpx.Client(base_url=guarded.base_url, auth=("ann", secret), timeout=120) as client:
        assert client.get("/views").status_code == 200


@pytest.mark.parametrize(
    "shown",
    [
        "Basic",
        "Basic ",
        "Basic !!",
        "Basic /w==",
        "Basic YQ==",
        "Basic Og==",
        "Basic " + "A" * 60_000,
        "Digest x",
    ],
)
def test_passwords_that_are_none(guarded: httpx.Client, tokens: Tokens, shown: str) -> None:
    tokens.create(["read"])
    refused = guarded.get("/views", headers={"authorization": shown.strip()})
    assert refused.status_code == 401
    assert "Bearer" in refused.headers["www-authenticate"]
    assert "Basic" in refused.headers["www-authenticate"]


def test_browsers_are_not_offered_a_password(guarded: httpx.Client, tokens: Tokens) -> None:
    """They would ask for one by themselves, in place of the page, and send it for every other page."""
    tokens.create(["read"])
    for browser in ({"sec-fetch-mode": "cors"}, {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}):
        refused = guarded.get("/views", headers=browser)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == 'Bearer realm="sparqlive"'


def test_names_of_views_are_not_told_to_who_may_not_see_them(
    guarded: httpx.Client, bearer: Bearer, session: sparqlive.Session
) -> None:
    session.view("secret-plans", QUERY)
    graph = "<view:none>"
    one, writer = bearer("read:view=gone", "read:view=other"), bearer("write")
    update = {"content-type": "application/sparql-update"}
    where = f"INSERT {{ ?s ?p ?o }} WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}"
    answers = [
        *(guarded.get(f"/views/gone{path}", headers=one) for path in ("", "/rows", "/explain", "/plan")),
        *(guarded.get(f"/views/gone{path}", headers=one) for path in ("/statistics", "/changes")),
        guarded.post("/views/gone/refresh", headers=writer),
        guarded.post("/sparql", content=where, headers={**update, **writer}),
    ]
    for answer in answers:
        assert answer.status_code == 404
        assert "secret-plans" not in answer.text
    for path in ("/views", "/metrics", "/epochs", "/sparql", "/views/secret-plans"):
        assert guarded.get(path, headers=one).status_code == 403
        assert "secret-plans" not in guarded.get(path.replace("secret-plans", "x"), headers=one).text
    hidden = guarded.get("/views/secret-plans", headers=one).json()
    absent = guarded.get("/views/absent-plans", headers=one).json()
    assert hidden["detail"].replace("secret", "absent") == absent["detail"]


# Web pages


def test_names_that_were_made_to_lead_here_are_refused(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "[", ""):
        refused = client.put("/views/v", content=QUERY, headers={**SPARQL, "host": host})
        assert refused.status_code == 403, host
    assert not session.views
    for host in ("localhost:1", "127.0.0.1", "[::1]:8080", "127.8.8.8"):
        assert client.get("/views", headers={"host": host}).status_code == 200


def test_pages_of_other_origins_are_refused(client: httpx.Client, session: sparqlive.Session) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        refused = client.put("/views/v", content=QUERY, headers={**SPARQL, "origin": origin})
        assert refused.status_code == 403, origin
    assert not session.views
    own = client.put(
        "/views/v", content=QUERY, headers={**SPARQL, "origin": str(client.base_url).rstrip("/")}
    )
    assert own.status_code == 201
    assert "access-control-allow-origin" not in own.headers


def test_pages_of_an_origin_that_was_named_may_use_it(session: sparqlive.Session) -> None:
    settings = Settings(origins=("https://app.example",))
    with serving(Agent(session, settings)) as address, httpx.Client(base_url=address, timeout=120) as client:
        asking = {"origin": "https://app.example", "access-control-request-method": "PUT"}
        allowed = client.options("/views/v", headers=asking)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert "PUT" in allowed.headers["access-control-allow-methods"]
        given = client.get("/views", headers={"origin": "https://app.example"})
        assert given.headers["access-control-allow-origin"] == "https://app.example"
        other = client.options("/views/v", headers={**asking, "origin": "https://evil.example"})
        assert other.status_code == 400
        assert client.get("/views", headers={"origin": "https://evil.example"}).status_code == 403


# Limits


def test_requests_beyond_a_rate_are_429(guarded: httpx.Client, bearer: Bearer) -> None:
    slow, other = bearer("read", requests_per_second=2), bearer("read")
    answers = [guarded.get("/views", headers=slow) for _ in range(10)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 6
    assert int(refused[0].headers["retry-after"]) >= 1
    assert guarded.get("/views", headers=other).status_code == 200


def test_a_query_takes_no_longer_than_its_token_allows(
    guarded: httpx.Client, bearer: Bearer, session: sparqlive.Session
) -> None:
    session.load([Quad(NamedNode(f"http://x/{n}"), NamedNode("http://x/p"), Literal(n)) for n in range(300)])
    product = "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?q ?y . ?c ?r ?z FILTER(?x + ?y < ?z) }"
    short = bearer("read", query_seconds=0.2)
    begun = time.monotonic()
    stopped = guarded.get("/sparql", params={"query": product}, headers=short)
    assert stopped.status_code == 503
    assert "stopped" in stopped.json()["detail"]
    assert time.monotonic() - begun < 60


def test_views_beyond_a_number_are_429_also_after_a_restart(
    session: sparqlive.Session, bearer: Bearer, tmp_path: Path
) -> None:
    few = bearer("admin", views=2)
    for expected in ([201, 201, 429], [200, 200, 429]):
        with (
            serving(Agent(session, Settings(), Access(tmp_path))) as address,
            httpx.Client(base_url=address, headers={**SPARQL, **few}, timeout=120) as client,
        ):
            given = [client.put(f"/views/{name}", content=QUERY).status_code for name in "abc"]
            assert given == expected
            if 201 not in expected:
                client.delete("/views/a")
                assert client.put("/views/c", content=QUERY).status_code == 201


def test_a_store_remembers_who_registered_a_view(bearer: Bearer, tmp_path: Path) -> None:
    few = bearer("admin", name="few", views=1)
    for expected in ([201, 429], [200, 429]):
        with (
            sparqlive.open(tmp_path / "store") as session,
            serving(Agent(session, Settings(), Access(tmp_path))) as address,
            httpx.Client(base_url=address, headers={**SPARQL, **few}, timeout=120) as client,
        ):
            assert [client.put(f"/views/{name}", content=QUERY).status_code for name in "ab"] == expected
            assert session.views["a"].owner == "few"
        (tmp_path / "audit.jsonl").unlink()
    with sparqlive.open(tmp_path / "store") as session:
        session.view("a", f"{QUERY} LIMIT 1", replace=True, owner="other")
        assert session.views["a"].owner == "few", "whoever replaces a view leaves it to its owner"
        session.drop("a")
        assert session.view("a", QUERY).owner is None
    with sparqlive.open(tmp_path / "store") as session:
        assert session.views["a"].owner is None


def test_changes_of_views_and_tokens_are_in_the_audit_log(
    guarded: httpx.Client, bearer: Bearer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["token", "create", "--store", str(tmp_path), "--can", "admin", "--name", "ann"])
    ann = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    bob = bearer("read", name="bob")
    guarded.put("/views/a", content=QUERY, headers={**SPARQL, **ann})
    guarded.put("/views/b", content="SELECT", headers={**SPARQL, **ann})
    guarded.get("/views", headers=ann)
    guarded.delete("/views/a", headers=bob)
    guarded.delete("/views/a")
    guarded.delete("/views/a", headers=ann)
    log = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["who"], line["what"], line["outcome"]) for line in lines] == [
        ("command line", "create token ann", "done"),
        ("ann", "PUT /views/a", "201"),
        ("ann", "PUT /views/b", "400"),
        ("bob", "DELETE /views/a", "403"),
        ("ann", "DELETE /views/a", "204"),
    ]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "sparqlive_" not in log.read_text()


def test_changes_of_sources_are_in_the_audit_log_without_their_options(
    session: sparqlive.Session, tmp_path: Path
) -> None:
    (tmp_path / "data.nt").write_text("<http://x/a> <http://x/p> <http://x/b> .\n")
    agent = Agent(session, Settings(allow_private=True), Access(tmp_path))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        added = {"kind": "file", "address": str(tmp_path / "data.nt"), "name": "shop", "options": {}}
        assert client.post("/sources", json=added).status_code == 201
        wrong = {**added, "name": "other", "options": {"secret": "hunter2"}}
        assert client.post("/sources", json=wrong).status_code == 400
        assert client.delete("/sources/shop").status_code == 204
    text = (tmp_path / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["who"], line["what"], line["outcome"], line.get("made")) for line in lines] == [
        ("local", "POST /sources", "201", "/sources/shop"),
        ("local", "POST /sources", "400", None),
        ("local", "DELETE /sources/shop", "204", None),
    ]
    assert "hunter2" not in text


def test_only_who_may_read_all_data_learns_why_a_view_is_empty(
    guarded: httpx.Client, bearer: Bearer, session: sparqlive.Session
) -> None:
    session.apply(insert="<http://x/secret> <http://x/p> <http://x/o> .")
    session.view("v", "SELECT * { ?s <http://x/none> ?o }", replace=True)
    for path in ("/views/v", "/views/v/rows"):
        assert "sparqlive-hint" in guarded.get(path, headers=bearer("read")).headers
        one = guarded.get(path, headers=bearer("read:view=v"))
        assert one.status_code == 200
        assert "sparqlive-hint" not in one.headers
