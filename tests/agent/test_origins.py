"""Pages of other origins: by what browsers send, as bytes and from a real one, and by what was allowed."""

from __future__ import annotations

import base64
import http.server
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import EXPOSED
from sparqlive.agent.origins import parse_origin
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving
from tests.conftest import ROOT
from tests.peers import chromium

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
UPDATE = "INSERT DATA { <http://x/a> <http://x/p> 1 }"
CROSS = {"sec-fetch-site": "cross-site"}
IMAGE = {**CROSS, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
LINK = {**CROSS, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@contextmanager
def allowing(session: sparqlive.Session, *origins: str, tokens: Path | None = None) -> Iterator[httpx.Client]:
    agent = Agent(session, Settings(origins=origins), Access(tokens, allowed=origins))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        IMAGE,
        LINK,
        {**CROSS, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {**CROSS, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "something-new"},
        {"referer": "https://evil.example/page"},
        {"referer": "http://["},
        {**CROSS, "referer": "https://evil.example/"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"origin": "OWN", "sec-fetch-site": "same-site"},
        {"origin": "OWN", **CROSS},
        {"origin": "OWN, https://evil.example"},
        {"referer": "OWN/", "sec-fetch-site": "same-site"},
        {"referer": "OWN/", **CROSS},
        {"referer": "OWN/", "sec-fetch-site": ""},
        {"sec-fetch-site": "same-origin, cross-site"},
    ],
    ids=str,
)
def test_what_a_page_of_another_origin_causes_is_refused(
    session: sparqlive.Session, headers: dict[str, str]
) -> None:
    session.view("v", QUERY)
    with allowing(session) as client:
        asked: list[tuple[str, str, dict[str, Any]]] = [
            ("GET", "/sparql", {"params": {"query": QUERY}}),
            ("HEAD", "/sparql", {"params": {"query": QUERY}}),
            ("GET", "/views", {}),
            ("GET", "/views/v", {}),
            ("GET", "/views/v/changes", {}),
            ("GET", "/metrics", {}),
            ("GET", "/graphs?default", {}),
            ("POST", "/sparql", {"data": {"update": UPDATE}}),
            ("POST", "/sparql", {"content": UPDATE, "headers": {"content-type": "text/plain"}}),
            (
                "POST",
                "/sparql",
                {"content": UPDATE, "headers": {"content-type": "application/sparql-update"}},
            ),
            ("POST", "/graphs?default", {"files": {"f": ("f.ttl", b"<x:a> <x:b> 1 .", "text/turtle")}}),
            ("POST", "/views/v/refresh", {}),
            ("DELETE", "/views/v", {}),
            ("PUT", "/views/w", {"content": QUERY, "headers": {"content-type": "application/sparql-query"}}),
        ]
        for method, path, options in asked:
            given = {**_owned(headers, client), **options.pop("headers", {})}
            with client.stream(method, path, headers=given, **options) as answer:
                assert answer.status_code == 403, (method, path)
    assert (session.epoch, list(session.views)) == (0, ["v"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "OWN"},
        {"origin": "OWN"},
        {"referer": "OWN/#/views/v"},
        {"referer": ""},
        {"referer": "about:blank"},
    ],
    ids=str,
)
def test_the_agents_own_page_and_other_clients_are_let_in(
    session: sparqlive.Session, headers: dict[str, str]
) -> None:
    with allowing(session) as client:
        given = _owned(headers, client)
        assert client.get("/views", headers=given).status_code == 200
        assert client.post("/sparql", data={"update": UPDATE}, headers=given).status_code == 200
    assert session.epoch == 1


def _owned(headers: dict[str, str], client: httpx.Client) -> dict[str, str]:
    """Headers in which OWN stands for the agent's own origin."""
    own = str(client.base_url).rstrip("/")
    return {name: value.replace("OWN", own) for name, value in headers.items()}


@pytest.mark.parametrize(
    "headers",
    [
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
        [("origin", "OWN"), ("origin", "https://evil.example")],
        [("origin", "https://evil.example"), ("origin", "OWN")],
    ],
    ids=str,
)
def test_a_header_that_is_there_twice_lets_nobody_in(
    session: sparqlive.Session, headers: list[tuple[str, str]]
) -> None:
    with allowing(session) as client:
        own = str(client.base_url).rstrip("/")
        given = [(name, value.replace("OWN", own)) for name, value in headers]
        assert client.post("/sparql", data={"update": UPDATE}, headers=given).status_code == 403
    assert session.epoch == 0


def test_an_origin_of_the_same_name_at_another_port_can_be_named(session: sparqlive.Session) -> None:
    """At the ports of http and https, no port is in the name: the browser says that it is another one."""
    given = {"host": "localhost", "origin": "https://localhost", "sec-fetch-site": "same-site"}
    with allowing(session) as client:
        assert "--origin https://localhost." in client.get("/views", headers=given).json()["detail"]
    with allowing(session, "https://localhost") as client:
        assert client.get("/views", headers=given).status_code == 200


def test_a_link_from_elsewhere_leads_to_the_page_and_to_nothing_else(session: sparqlive.Session) -> None:
    with allowing(session) as client:
        assert client.get("/", headers=LINK).status_code == 200
        assert client.get("/", headers={"referer": "https://wiki.example/"}).status_code == 200
        assert client.get("/", headers=IMAGE).status_code == 403
        assert client.get("/", headers={**LINK, "sec-fetch-dest": "iframe"}).status_code == 403
        assert client.get("/page/follow.js", headers={**IMAGE, "sec-fetch-dest": "script"}).status_code == 403


def test_answers_are_not_handed_to_other_pages(session: sparqlive.Session) -> None:
    with allowing(session) as client:
        answer = client.get("/sparql", params={"query": QUERY})
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"


# What was allowed


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        (" * ", "*"),
        ("null", "null"),
    ],
)
def test_an_origin_is_written_as_browsers_do(given: str, expected: str) -> None:
    assert parse_origin(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "",
        "app.example",
        "localhost:3000",
        "https://",
        "https://app.example/",
        "https://app.example/path",
        "https://user@app.example",
        "https://*.example",
        "https://app.example:99999",
        "https://app.example:0",
        "https://app.example:x",
        "https://a b",
        "https://münchen.example",
        "https://a.example,https://b.example",
        "//app.example",
        "https://app.example?x",
        "**",
    ],
)
def test_what_is_no_origin_is_refused_at_the_start(session: sparqlive.Session, given: str) -> None:
    with pytest.raises(sparqlive.Error, match=r"is not an origin.*https://app\.example"):
        Agent(session, Settings(origins=(given,)))


def test_a_page_of_a_named_origin_may_do_all_and_read_all(session: sparqlive.Session) -> None:
    page = {"origin": "https://app.example", **CROSS, "sec-fetch-mode": "cors"}
    with allowing(session, "HTTPS://app.example:443") as client:
        asked = {
            **page,
            "access-control-request-method": "PUT",
            "access-control-request-private-network": "true",
        }
        asked["access-control-request-headers"] = "authorization, content-type, x-anything"
        allowed = client.options("/views/v", headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-anything" in allowed.headers["access-control-allow-headers"]
        session.view("v", QUERY)
        answer = client.get("/sparql", params={"query": QUERY}, headers=page)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in answer.headers
        assert "Origin" in answer.headers["vary"]
        exposed = {
            name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")
        }
        assert {"sparqlive-view", "sparqlive-epoch", "etag", "location", "retry-after"} <= exposed
        assert answer.headers["sparqlive-view"] == "v"
        link = {**LINK, "referer": "https://app.example/page"}
        assert client.get("/views", headers=link).status_code == 200
        assert client.get("/views", headers=LINK).status_code == 403
        for other in ("https://app.example:8443", "http://app.example", "https://app.example.evil", "null"):
            assert client.get("/views", headers={"origin": other}).status_code == 403


def test_every_header_of_ours_is_shown_to_pages() -> None:
    named = set()
    for file in (ROOT / "src/sparqlive/agent").glob("*.py"):
        named |= set(re.findall(r'"((?:Sparqlive|X)-[A-Z][A-Za-z-]+)"', file.read_text()))
    answered = named - {"X-Accel-Buffering", "X-Content-Type-Options"}
    assert {"Sparqlive-View", "Sparqlive-Lineage"} <= answered <= set(EXPOSED)


def test_a_star_is_every_origin_but_gets_no_remembered_passwords(
    session: sparqlive.Session, tmp_path: Path
) -> None:
    page = {"origin": "https://any.example", **CROSS}
    with allowing(session, "*") as client:
        answer = client.get("/views", headers=page)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert client.get("/views", headers={"origin": "null"}).status_code == 200
        assert client.get("/views", headers=IMAGE).status_code == 200
        assert client.post("/sparql", data={"update": UPDATE}, headers=page).status_code == 200
        assert client.get("/views", headers={**page, "host": "evil.example"}).status_code == 403
    _, secret = Tokens(tmp_path).create(["admin"])
    password = {"authorization": "Basic " + base64.b64encode(f"x:{secret}".encode()).decode()}
    bearer = {"authorization": f"Bearer {secret}"}
    with allowing(session, "*", tokens=tmp_path) as client:
        assert (
            client.post("/sparql", data={"update": UPDATE}, headers={**page, **password}).status_code == 403
        )
        assert client.get("/views", headers={**IMAGE, **password}).status_code == 403
        assert client.get("/views", headers={**page, **bearer}).status_code == 200
        assert client.get("/views", headers=password).status_code == 200
    with allowing(session, "https://any.example", tokens=tmp_path) as client:
        assert client.get("/views", headers={**page, **password}).status_code == 200


def test_refused_origins_are_in_the_log_with_the_reason(
    session: sparqlive.Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sparqlive.agent")
    preflight = {"origin": "https://evil.example", "access-control-request-method": "PUT"}
    for origins in ((), ("https://app.example",)):
        with allowing(session, *origins) as client:
            caplog.clear()
            assert client.options("/views/v", headers=preflight).status_code == 400
            assert client.get("/views", headers={"origin": "https://evil.example"}).status_code == 403
            assert client.get("/views", headers=IMAGE).status_code == 403
        noted: list[dict[str, str]] = [getattr(record, "more", {}) for record in caplog.records]
        assert [more["origin"] for more in noted] == ["https://evil.example"] * 2 + ["unknown"]
        assert "Disallowed CORS origin" in noted[0]["reason"]
        assert "--origin https://evil.example" in noted[1]["reason"]
        assert "--origin" in noted[2]["reason"]


# A real browser

playwright = pytest.importorskip("playwright.sync_api")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

ATTACK = """<!doctype html><title>evil</title><body><script>
const agent = "AGENT", form = (fields, type) => {
  const made = Object.assign(document.createElement("form"),
    {method: "post", action: agent + "/sparql", enctype: type, target: "frame"});
  for (const [name, value] of Object.entries(fields)) {
    made.append(Object.assign(document.createElement("input"), {name, value}));
  }
  document.body.append(made);
  return made;
};
const loaded = (kind, address) => new Promise((done) => {
  const made = document.createElement(kind);
  made.onload = () => done(kind + " loaded");
  made.onerror = () => done(kind + " failed");
  made[kind === "link" ? "href" : "src"] = address;
  if (kind === "link") made.rel = "stylesheet";
  document.body.append(made);
});
const fetched = (path, options) =>
  fetch(agent + path, options).then(async (got) => "read " + (await got.text()), (error) => "failed");
const update = "INSERT DATA { <http://x/evil> <http://x/p> 1 }";
const query = "/sparql?query=" + encodeURIComponent("SELECT * { ?s ?p ?o }");
window.attack = async () => {
  document.body.append(Object.assign(document.createElement("iframe"), {name: "frame"}));
  form({update}, "application/x-www-form-urlencoded").submit();
  form({[update]: ""}, "text/plain").submit();
  const text = {method: "POST", body: update, headers: {"Content-Type": "text/plain"}};
  const direct = {method: "POST", body: update, headers: {"Content-Type": "application/sparql-update"}};
  const found = [
    await loaded("img", agent + query),
    await loaded("script", agent + query),
    await loaded("link", agent + query),
    await fetched(query),
    await fetched("/views"),
    await fetched("/sparql", text),
    await fetched("/sparql", direct),
    await fetched("/sparql", {method: "POST", mode: "no-cors", body: new URLSearchParams({update})}),
    await fetched("/views/secret", {method: "DELETE"}),
  ];
  const source = new EventSource(agent + "/views/secret/changes");
  found.push(await new Promise((done) => {
    source.addEventListener("snapshot", () => done("read"));
    source.onerror = () => done("failed");
  }));
  source.close();
  return found;
};
</script>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    command = chromium()
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=command, args=OPTIONS)
        yield started
        started.close()


@contextmanager
def site(text: str) -> Iterator[str]:
    """A page of another origin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def visited(browser: Any) -> Iterator[Callable[[str], Any]]:
    context = browser.new_context()
    context.set_default_timeout(60_000)

    def page(address: str) -> Any:
        opened = context.new_page()
        opened.goto(address)
        return opened

    yield page
    context.close()


# localhost is another site than 127.0.0.1; another port of one host is another origin of the same site.
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_browser_lets_no_page_of_another_origin_in(
    session: sparqlive.Session, visited: Callable[[str], Any], host: str
) -> None:
    session.apply(insert='<http://x/a> <http://x/p> "secret" .')
    session.view("secret", QUERY)
    with allowing(session) as client, site(ATTACK.replace("AGENT", str(client.base_url).rstrip("/"))) as evil:
        page = visited(evil.replace("127.0.0.1", host))
        found = page.evaluate("attack()")
        page.wait_for_timeout(500)
        assert not [said for said in found if "secret" in said or said == "read"], found
        assert {"img failed", "script failed", "failed"} <= set(found)
        answered = re.findall(r'route="(/sparql|/views.*?)",status="200"', client.get("/metrics").text)
        assert not answered, "nothing was evaluated for it"
    assert (session.epoch, list(session.views)) == (1, ["secret"])


@pytest.mark.parametrize("star", [False, True])
def test_a_browser_lets_a_page_in_whose_origin_was_named(
    session: sparqlive.Session, visited: Callable[[str], Any], star: bool
) -> None:
    session.apply(insert='<http://x/a> <http://x/p> "1" .')
    session.view("v", QUERY)
    with site("<!doctype html><title>app</title>") as app:
        app = app.replace("127.0.0.1", "localhost")
        with allowing(session, "*" if star else app) as client:
            address = str(client.base_url).rstrip("/")
            script = f"""async () => {{
                const query = encodeURIComponent({QUERY!r});
                const got = await fetch("{address}/sparql?query=" + query);
                const made = await fetch("{address}/views/w", {{method: "PUT", body: "ASK {{ ?s ?p ?o }}",
                    headers: {{"Content-Type": "application/sparql-query", "X-Other": "1"}}}});
                const source = new EventSource("{address}/views/v/changes");
                const event = await new Promise((done) => source.addEventListener("snapshot", done));
                source.close();
                return [got.headers.get("Sparqlive-View"), (await got.json()).results.bindings.length,
                    made.status, made.headers.get("Location"), event.lastEventId];
            }}"""
            assert visited(app).evaluate(script) == ["v", 1, 201, "/views/w", "1"]
