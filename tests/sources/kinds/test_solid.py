"""Solid resources and containers, on a real Community Solid Server behind a relay that can lose things."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs

import httpx
import jwt
import pytest
import websockets.sync.server
from pyoxigraph import NamedNode
from websockets.sync.server import ServerConnection

import sparqlive
from examples.watch_party.server import Person
from sparqlive.sources.kinds import solid_channels
from sparqlive.sources.manager import Source
from sparqlive.web import network, sockets
from tests.sources.conftest import Pods
from tests.sources.relay import CHANNEL, Relay
from tests.sources.server import Handler, Page, Site, make_certificate, serve
from tests.sources.test_store import command
from tests.waiting import wait_until

# Polls are never due within a test that is about notifications.
NEVER = 100_000.0
STREAMING, WEB_SOCKET = "StreamingHTTPChannel2023", "WebSocketChannel2023"
SOLID, NOTIFY = "http://www.w3.org/ns/solid/terms#", "http://www.w3.org/ns/solid/notifications#"
QUERY = "SELECT ?o { GRAPH ?g { ?s <a:p> ?o } }"


@pytest.fixture
def between(pods: Pods) -> Iterator[Relay]:
    yield pods.relay
    pods.relay.refused, pods.relay.mute = (), False
    pods.relay.asked.clear()


@pytest.fixture
def folder(pods: Pods, between: Relay) -> str:
    """The address of a container of the test's own."""
    return f"{pods.address}{token_hex(4)}/"


def put(address: str, turtle: str, content_type: str = "text/turtle") -> None:
    response = httpx.put(address, content=turtle, headers={"Content-Type": content_type}, timeout=60)
    response.raise_for_status()


def add(session: sparqlive.Session, address: str, **options: Any) -> Source:
    return session.source(
        "solid", address, **{"poll_interval_seconds": NEVER, "allow_private": True, **options}
    )


def values(session: sparqlive.Session) -> set[str]:
    return {row["o"].value for row in session.views["v"].solutions()}


def notified(source: Source, how: str) -> Callable[[], bool]:
    return lambda: source.status()["notifications"] == how


def test_a_change_is_seen_by_a_notification(folder: str, between: Relay) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl#it")
        wait_until(notified(source, STREAMING))
        wait_until(lambda: values(session) == {"1"})
        for number in range(2, 6):
            put(folder + "a.ttl", f"<#s> <a:p> {number} .")
            wait_until(lambda number=number: values(session) == {str(number)})
        change = "@prefix solid: <http://www.w3.org/ns/solid/terms#>. _:c a solid:InsertDeletePatch;"
        change += "solid:inserts { <#s> <a:p> 6 . }; solid:deletes { <#s> <a:p> 5 . } ."
        httpx.patch(folder + "a.ttl", content=change, headers={"Content-Type": "text/n3"}).raise_for_status()
        wait_until(lambda: values(session) == {"6"})
        [quad] = session.quads()
        assert quad.graph_name == NamedNode(folder + "a.ttl")
        assert source.status()["error"] is None
        session.check()


def test_web_sockets_where_there_is_no_stream(folder: str, between: Relay) -> None:
    between.refused = ("StreamingHTTP",)
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl")
        wait_until(notified(source, WEB_SOCKET))
        put(folder + "a.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"2"})


def test_a_container_tells_of_its_members(folder: str) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        view = session.view(
            "members",
            f"SELECT ?m {{ GRAPH <{folder}> {{ <{folder}> <http://www.w3.org/ns/ldp#contains> ?m }} }}",
        )
        source = add(session, folder)
        wait_until(notified(source, STREAMING))
        wait_until(lambda: len(view) == 1)
        put(folder + "b.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: len(view) == 2)
        httpx.delete(folder + "a.ttl", timeout=60).raise_for_status()
        wait_until(lambda: [row["m"].value for row in view.solutions()] == [folder + "b.ttl"])


def test_the_members_of_a_container(folder: str) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    put(folder + "picture.png", "not a picture", "image/png")
    put(folder + "inner/c.ttl", "<#s> <a:p> 3 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder, members=True)
        wait_until(lambda: values(session) == {"1"})
        wait_until(notified(source, STREAMING))
        put(folder + "b.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"1", "2"})
        wait_until(lambda: len(source._manager._tasks) == 1)
        put(folder + "a.ttl", "<#s> <a:p> 10 .")
        wait_until(lambda: values(session) == {"10", "2"})
        put(folder + "b.ttl", "<#s> <a:p> 20 .")
        wait_until(lambda: values(session) == {"10", "20"})
        graphs = {quad.graph_name.value for quad in session.quads()}
        assert graphs == {folder, folder + "a.ttl", folder + "b.ttl"}
        httpx.delete(folder + "a.ttl", timeout=60).raise_for_status()
        wait_until(lambda: values(session) == {"20"})
        assert source.status()["version"] == {"members": 2}
        session.check()
        source.remove()
        assert len(session) == 0


def test_polling_finds_what_notifications_lost(folder: str, between: Relay) -> None:
    between.mute = True
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl", poll_interval_seconds=0.5)
        wait_until(notified(source, STREAMING))
        put(folder + "a.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"2"})


def test_a_channel_that_breaks_is_renewed(folder: str, between: Relay) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl")
        wait_until(notified(source, STREAMING))
        wait_until(lambda: values(session) == {"1"})
        between.refused = (CHANNEL,)
        between.cut()
        put(folder + "a.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: "only polled" in source.status()["notifications"])
        assert source.status()["error"] is None, "what is known is good, only not at once"
        assert values(session) == {"1"}, "nobody has told"
        between.refused = ()
        wait_until(lambda: values(session) == {"2"})  # a new channel begins with a look
        assert source.status()["notifications"] == STREAMING
        put(folder + "a.ttl", "<#s> <a:p> 3 .")
        wait_until(lambda: values(session) == {"3"})


@pytest.mark.parametrize("refused", [(), ("StreamingHTTP",)])
def test_a_channel_that_is_old_is_renewed(
    refused: tuple[str, ...], folder: str, between: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solid_channels, "_LONGEST_SECONDS", 0.3)
    monkeypatch.setattr(solid_channels, "_SHORTEST_SECONDS", 0.2)
    between.refused = refused
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl")
        wait_until(lambda: sum(CHANNEL in path for path in between.asked) > 6)
        for number in (2, 3):
            put(folder + "a.ttl", f"<#s> <a:p> {number} .")
            wait_until(lambda number=number: values(session) == {str(number)})
        assert source.status()["notifications"] in (STREAMING, WEB_SOCKET)


def test_more_notifications_than_anybody_can_follow(site: Site) -> None:
    """Doubled, late or forged: the content is right, and the looks are bounded."""
    asked = 0

    def stream(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(500):
            handler.wfile.write(b"<urn:x> a <https://www.w3.org/ns/activitystreams#Update> .\n")
            handler.wfile.flush()
            time.sleep(0.002)
        time.sleep(60)

    def page(handler: Handler) -> None:
        nonlocal asked
        asked += handler.command == "GET"
        link = f'</stream>; rel="{SOLID}updatesViaStreamingHttp2023"'
        Page(f"<#s> <a:p> {asked} .", headers={"Link": link}).answer(handler)

    site.pages["/a"], site.pages["/stream"] = page, stream
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, site.address + "/a")
        wait_until(notified(source, STREAMING))
        start = time.monotonic()
        time.sleep(1.5)
        wait_until(lambda: asked > 3)
        assert asked < 2 + (time.monotonic() - start) * 21
        source.refresh()
        assert values(session) == {str(asked)}


def test_without_channels_it_is_polled(site: Site) -> None:
    site.pages["/a"] = Page("<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, site.address + "/a", poll_interval_seconds=0.05)
        wait_until(lambda: "only polled" in (source.status()["notifications"] or ""))
        assert "offers no supported channel" in source.status()["notifications"]
        site.pages["/a"] = Page("<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"2"})


@pytest.mark.parametrize("policy", ["keep", "clear"])
def test_what_is_gone(policy: str, folder: str) -> None:
    address = f"{folder}{policy}.ttl"
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, address, when_gone=policy, poll_interval_seconds=0.2)
        wait_until(lambda: source.last_seen is not None or source.error is not None)
        put(address, "<#s> <a:p> 1 .")
        wait_until(lambda: values(session) == {"1"})
        wait_until(notified(source, STREAMING))
        httpx.delete(address, timeout=60).raise_for_status()
        if policy == "clear":
            wait_until(lambda: len(session) == 0)
        else:
            wait_until(lambda: "does not exist" in (source.status()["error"] or ""))
            assert values(session) == {"1"}
        put(address, "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"2"})
        assert source.status()["error"] is None


def test_a_store_goes_on_where_it_was(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open(tmp_path / "s") as session:
        session.view("v", QUERY)
        add(session, folder + "a.ttl").refresh()
    put(folder + "a.ttl", "<#s> <a:p> 2 .")
    with sparqlive.open(tmp_path / "s") as session:
        source = session.sources[folder + "a.ttl"]
        wait_until(lambda: values(session) == {"2"})
        wait_until(notified(source, STREAMING))
        put(folder + "a.ttl", "<#s> <a:p> 3 .")
        wait_until(lambda: values(session) == {"3"})
    line = command(capsys, "source", "list", "--store", tmp_path / "s")
    assert line.endswith(f"\tnotifications: {STREAMING}\n")


def test_a_server_that_is_started_again(pods: Pods, folder: str) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, folder + "a.ttl", poll_interval_seconds=0.5)
        wait_until(notified(source, STREAMING))
        wait_until(lambda: values(session) == {"1"})
        pods.stop()
        wait_until(lambda: source.status()["error"] is not None)
        assert values(session) == {"1"}
        pods.start()  # with nothing of what it had
        put(folder + "a.ttl", "<#s> <a:p> 2 .")
        source.refresh()  # otherwise it is tried again in a while
        assert values(session) == {"2"}
        wait_until(notified(source, STREAMING))
        put(folder + "a.ttl", "<#s> <a:p> 3 .")
        wait_until(lambda: values(session) == {"3"})


# Private pods


@pytest.fixture
def ann(pods: Pods) -> Person:
    return pods.server.person("ann")


def login(person: Person, **other: Any) -> dict[str, Any]:
    given = {"issuer": person.issuer, "client_id": person.client_id, "client_secret": person.client_secret}
    return {**given, **other}


def test_a_private_resource(
    ann: Person,
    between: Relay,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = ann.pod + "secret.ttl"
    between.refused = ("StreamingHTTP",)
    ann.put(address, "<#s> <a:p> 1 .")
    with sparqlive.open(tmp_path / "s") as session:
        session.view("v", QUERY)
        with pytest.raises(sparqlive.Error, match="denies access"):
            add(session, address, name="stranger").refresh()
        monkeypatch.setenv("ANNS_SECRET", ann.client_secret)
        given = login(ann, client_secret=None, client_secret_variable="ANNS_SECRET")
        source = add(session, address, **given)
        wait_until(lambda: values(session) == {"1"})
        wait_until(notified(source, WEB_SOCKET))
        ann.put(address, "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"2"})
        between.refused = ()
        between.cut()
        wait_until(notified(source, STREAMING))
        ann.put(address, "<#s> <a:p> 3 .")
        wait_until(lambda: values(session) == {"3"})
        assert ann.client_secret not in repr((source, source.status()))
    kept = b"".join(file.read_bytes() for file in (tmp_path / "s").rglob("*") if file.is_file())
    assert b"ANNS_SECRET" in kept
    assert ann.client_secret.encode() not in kept


def test_a_private_container(ann: Person, between: Relay) -> None:
    ann.put(ann.pod + "box/a.ttl", "<#s> <a:p> 1 .")
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, ann.pod + "box/", members=True, **login(ann))
        wait_until(lambda: values(session) == {"1"})
        wait_until(notified(source, STREAMING))
        ann.put(ann.pod + "box/b.ttl", "<#s> <a:p> 2 .")
        wait_until(lambda: values(session) == {"1", "2"})


def test_credentials_that_are_wrong(ann: Person, between: Relay) -> None:
    with sparqlive.open() as session:
        given = login(ann, client_secret="wrong")
        with pytest.raises(sparqlive.Error, match="rejected the credentials") as failed:
            add(session, ann.pod + "secret.ttl", **given).refresh()
        assert "wrong" not in str(failed.value)
        given = login(ann, client_secret=None, client_secret_variable="NOBODYS_SECRET")
        with pytest.raises(sparqlive.Error, match="variable NOBODYS_SECRET is not set"):
            add(session, ann.pod + "secret.ttl", name="unset", **given).refresh()


class Issuer:
    """An issuer and a resource on a site: it wants nonces in proofs, and its tokens do not last."""

    def __init__(self, site: Site) -> None:
        self.address = site.address
        self.tokens: list[str] = []
        self.key: Any = None
        self.proofs: set[str] = set()
        site.pages["/.well-known/openid-configuration"] = lambda handler: handler.send(
            200, {}, json.dumps({"issuer": self.address, "token_endpoint": self.address + "/token"}).encode()
        )
        site.pages["/token"] = self.token
        site.pages["/a"] = self.resource

    def proof(self, handler: Handler) -> dict[str, Any]:
        """What a proof claims, its signature checked; each is for one request."""
        text = handler.headers["DPoP"]
        head = jwt.get_unverified_header(text)
        assert (head["typ"], head["alg"], set(head["jwk"])) == ("dpop+jwt", "ES256", {"kty", "crv", "x", "y"})
        self.key = self.key or head["jwk"]
        assert head["jwk"] == self.key
        claims: dict[str, Any] = jwt.decode(text, jwt.PyJWK(head["jwk"], "ES256").key, ["ES256"])
        assert (claims["htm"], claims["htu"]) == (handler.command, self.address + handler.path)
        assert claims["jti"] not in self.proofs
        self.proofs.add(claims["jti"])
        return claims

    def token(self, handler: Handler) -> None:
        claims = self.proof(handler)
        assert handler.headers["Authorization"] == "Basic " + base64.b64encode(b"me%3A:s%20ecret").decode()
        assert parse_qs(handler.body) == {b"grant_type": [b"client_credentials"], b"scope": [b"webid"]}
        if claims.get("nonce") != "first":
            handler.send(400, {"DPoP-Nonce": "first"}, b'{"error": "use_dpop_nonce"}')
            return
        self.tokens.append(f"token{len(self.tokens)}")
        answer = {"access_token": self.tokens[-1], "token_type": "DPoP", "expires_in": 0}
        handler.send(200, {}, json.dumps(answer).encode())

    def resource(self, handler: Handler) -> None:
        claims = self.proof(handler)
        token = self.tokens[-1]
        assert handler.headers["Authorization"] == f"DPoP {token}"
        digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).decode().rstrip("=")
        assert claims["ath"] == digest
        if claims.get("nonce") != "second":
            handler.send(401, {"DPoP-Nonce": "second"})
        elif len(self.tokens) == 1:  # taken back
            handler.send(401)
        else:
            handler.send(200, {"Content-Type": "text/turtle"}, b"<#s> <a:p> 1 .")


def test_nonces_and_renewed_tokens(site: Site) -> None:
    issuer = Issuer(site)
    given = {"issuer": issuer.address, "client_id": "me:", "client_secret": "s ecret"}
    with sparqlive.open() as session:
        session.view("v", QUERY)
        source = add(session, site.address + "/a", poll_interval_seconds=0.3, **given)
        wait_until(lambda: values(session) == {"1"})
        known = len(issuer.tokens)
        wait_until(lambda: len(issuer.tokens) > known + 1)
        source.refresh()


# Safety


def test_private_addresses_are_refused(folder: str, between: Relay) -> None:
    put(folder + "a.ttl", "<#s> <a:p> 1 .")
    between.asked.clear()
    with sparqlive.open() as session:
        source = session.source("solid", folder + "a.ttl")
        with pytest.raises(sparqlive.Error, match="not a public address"):
            source.refresh()
        wait_until(lambda: "not a public address" in (source.status()["notifications"] or ""))
    assert not between.asked


def storage(site: Site, service: str, channel: str, received: str) -> None:
    """A resource, the description of its storage, and a subscription service that gives one channel."""
    link = f'</d>; rel="{SOLID}storageDescription"'
    site.pages["/a"] = Page("<#s> <a:p> 1 .", headers={"Link": link})
    site.pages["/d"] = Page(
        f"<> <{NOTIFY}subscription> <{service}> . <{service}> <{NOTIFY}channelType> <{NOTIFY}{channel}> ."
    )
    site.pages["/subscribe"] = Page(json.dumps({"receiveFrom": received}), "application/ld+json")


def test_web_sockets_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    for module in (network, sockets):
        monkeypatch.setattr(module, "tls_context", lambda: ssl.create_default_context(cafile=certificate))
    change = threading.Event()

    def notify(connection: ServerConnection) -> None:
        change.wait(120)
        connection.send("{}")
        for _ in connection:  # until it is closed
            pass

    with (
        serve("localhost", context) as site,
        websockets.sync.server.serve(notify, "localhost", 0, ssl=context) as server,
        sparqlive.open() as session,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        service = site.address + "/subscribe"
        session.view("v", QUERY)
        storage(site, service, WEB_SOCKET, f"wss://localhost:{port}/")
        source = add(session, site.address + "/a")
        wait_until(notified(source, WEB_SOCKET))
        page = site.pages["/a"]
        assert isinstance(page, Page)
        page.body = "<#s> <a:p> 2 ."
        change.set()
        wait_until(lambda: values(session) == {"2"})
        source.remove()
        storage(site, service, WEB_SOCKET, f"ws://localhost:{port}/")
        source = add(session, site.address + "/a")
        wait_until(
            lambda: "is not encrypted, but the resource is" in (source.status()["notifications"] or "")
        )


@pytest.mark.parametrize("kind", ["stream", STREAMING, WEB_SOCKET, "service", "description"])
def test_what_a_server_names_is_checked_too(kind: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two addresses one counts as public: that the other one is named by the first does not help."""
    monkeypatch.setattr(network, "is_public", lambda address: str(address) == "127.0.0.1")
    with serve("127.0.0.2") as secret:
        inner = secret.address + "/x"
        service = inner if kind == "service" else f"{site.address}/subscribe"
        received = inner.replace("http", "ws") if kind == WEB_SOCKET else inner
        storage(site, service, STREAMING if kind == STREAMING else WEB_SOCKET, received)
        relations = {"stream": "updatesViaStreamingHttp2023", "description": "storageDescription"}
        if kind in relations:
            link = f'<{inner}>; rel="{SOLID}{relations[kind]}"'
            site.pages["/a"] = Page("<#s> <a:p> 1 .", headers={"Link": link})
        with sparqlive.open() as session:
            source = session.source("solid", site.address + "/a")
            source.refresh()
            wait_until(lambda: "only polled" in (source.status()["notifications"] or ""))
            assert "127.0.0.2, which is not a public address" in source.status()["notifications"]
            assert len(session) == 1
        assert not secret.asked


def test_wrong_options() -> None:
    with sparqlive.open() as session:
        for options, sentence in (
            ({"members": True}, "is not a container"),
            ({"members": 1}, "true or false"),
            ({"when_gone": "panic"}, "when_gone"),
            ({"issuer": "http://example.org/"}, "A login needs"),
            ({"issuer": "x", "client_id": "y", "client_secret": "z"}, "not a Web address"),
            ({"issuer": "http://x/", "client_id": "y", "client_secret": 5}, "must be strings"),
            ({"poll_interval_seconds": 0}, "poll_interval_seconds"),
        ):
            with pytest.raises(sparqlive.Error, match=sentence):
                session.source("solid", "http://example.org/a", **options)
