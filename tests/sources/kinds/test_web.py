"""Documents on the Web: fetched as often as they may have changed, read in every syntax, and never half."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode

import sparqlive
from sparqlive.sources import polling
from sparqlive.sources.kinds import web
from sparqlive.sources.manager import Source
from sparqlive.web.answers import fresh_seconds, retry_after_seconds
from tests.sources.server import Handler, Page, Site
from tests.waiting import wait_until

TURTLE = "<#s> <a:p> 1 ."
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def add(session: sparqlive.Session, address: str, **options: Any) -> Source:
    """A source that is looked at on request only."""
    return session.source("web", address, **{"poll_interval_seconds": None, "allow_private": True, **options})


def objects(session: sparqlive.Session) -> set[Any]:
    return {quad.object for quad in session.quads()}


# When to look


def test_a_document_is_followed(site: Site) -> None:
    page = site.pages["/data"] = Page(TURTLE)
    with sparqlive.open() as session:
        source = add(session, site.address + "/data#it", poll_interval_seconds=0.05)
        wait_until(lambda: len(session) == 1)
        [quad] = session.quads()
        assert quad.subject == NamedNode(site.address + "/data#s")
        assert quad.graph_name == NamedNode(site.address + "/data")
        page.body = "<#s> <a:p> 2 ."
        wait_until(lambda: objects(session) == {Literal(2)})
        status = source.status()
        assert (status["quads"], status["error"], status["kind"]) == (1, None, "web")
        assert status["lag_seconds"] < 20


def test_what_has_not_changed_is_not_sent_again(site: Site) -> None:
    site.pages["/"] = Page(TURTLE)
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        for _ in range(3):
            source.refresh()
        first, *later = (handler.headers["If-None-Match"] for handler in site.asked)
        assert first is None
        assert all(later)
        assert "text/turtle;q=" in site.asked[0].headers["Accept"]


def test_last_modified(site: Site) -> None:
    def answer(handler: Handler) -> None:
        date = "Mon, 01 Jan 2024 00:00:00 GMT"
        if handler.headers["If-Modified-Since"] == date:
            handler.send(304)
        else:
            handler.send(200, {"Content-Type": "text/turtle", "Last-Modified": date}, TURTLE.encode())

    site.pages["/"] = answer
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        source.refresh()
        source.refresh()
        assert (len(session), site.asked[-1].headers["If-None-Match"]) == (1, None)
        assert site.asked[-1].headers["If-Modified-Since"]


def test_an_etag_that_lies_is_found_out(site: Site) -> None:
    page = site.pages["/"] = Page(TURTLE, etag='"always"')
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        source.refresh()
        page.body = "<#s> <a:p> 2 ."
        for _ in range(web._WHOLE_EVERY):
            source.refresh()
        assert objects(session) == {Literal(2)}
        page.body = "<#s> <a:p> 3 ."
        source.refresh()
        assert objects(session) == {Literal(3)}, "from then on it is not believed"


def test_no_store_means_no_validators(site: Site) -> None:
    site.pages["/"] = Page(TURTLE, headers={"Cache-Control": "no-store"})
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        source.refresh()
        source.refresh()
        assert not any(handler.headers["If-None-Match"] for handler in site.asked)
        assert session.epoch == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"cache-control": "max-age=100"}, 100),
        ({"cache-control": 'public, Max-Age="100"', "age": "40"}, 60),
        ({"cache-control": "max-age=10", "age": "40"}, 0),
        ({"cache-control": "no-cache, max-age=100"}, 0),
        ({"cache-control": "no-store, max-age=100"}, 0),
        ({"cache-control": "max-age=soon"}, 0),
    ],
)
def test_for_how_long_an_answer_is_good(headers: dict[str, str], seconds: float) -> None:
    assert fresh_seconds(headers) == seconds


def test_when_a_server_asks_to_come_back() -> None:
    assert retry_after_seconds({"retry-after": "120"}) == 120
    assert retry_after_seconds({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}) == 0
    assert retry_after_seconds({"retry-after": "Mon, 01 Jan 2400 00:00:00 GMT"}) > 1e9
    assert retry_after_seconds({"retry-after": "soon"}) == retry_after_seconds({}) == 0


def test_when_to_look_next() -> None:
    assert polling.pause_seconds(None, 1e9, 0) is None
    assert 60 <= (polling.pause_seconds(60, 0, 0) or 0) <= 66
    assert 100 <= (polling.pause_seconds(60, 100, 0) or 0) <= 110
    assert (polling.pause_seconds(60, 1e9, 0) or 0) <= 3960, "within bounds"
    assert 0.5 <= (polling.pause_seconds(60, 0, 1) or 0) <= 1, "a failure may pass soon"
    assert 150 <= (polling.pause_seconds(60, 0, 100) or 0) <= 300
    assert polling.pause_seconds(60, 1000, 3) == 1000


def test_max_age_is_respected_and_a_request_is_not_held_up_by_it(site: Site) -> None:
    site.pages["/"] = Page(TURTLE, headers={"Cache-Control": "max-age=1000"})
    with sparqlive.open() as session:
        source = add(session, site.address + "/", poll_interval_seconds=0.02)
        wait_until(lambda: len(session) == 1)
        time.sleep(0.3)
        assert len(site.asked) == 1
        source.refresh()
        assert len(site.asked) == 2


# What fails


@pytest.mark.parametrize("status", [404, 410])
def test_what_is_gone_is_kept_unless_the_policy_says_otherwise(status: int, site: Site) -> None:
    for policy, left in (("keep", 1), ("clear", 0)):
        site.pages["/"] = page = Page(TURTLE)
        with sparqlive.open() as session:
            source = add(session, site.address + "/", when_gone=policy)
            source.refresh()
            site.pages["/"] = lambda handler: handler.send(status)
            if policy == "keep":
                with pytest.raises(sparqlive.Error, match=f"status {status}"):
                    source.refresh()
            else:
                source.refresh()
            assert len(session) == left
            site.pages["/"] = page
            source.refresh()
            assert (len(session), source.error) == (1, None)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda h: h.send(500), "the server failed"),
        (lambda h: h.send(503, {"Retry-After": "10"}), "is busy"),
        (lambda h: h.send(401), "Check the credentials"),
        (lambda h: h.send(204), "status 204"),
        (lambda h: h.send(302), "status 302"),
        (lambda h: h.send(200, {"Content-Type": "text/turtle"}, b"<a:s> <a:p>"), ", line 1, column "),
        (
            lambda h: h.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/turtle\r\nContent-Length: 99\r\n\r\n"),
            "incomplete",
        ),
        (lambda h: h.send(200, {"Content-Type": "text/html"}, b"<html>"), "is HTML, not RDF"),
        (
            lambda h: h.send(200, {"Content-Type": "image/png"}, b"x"),
            "has the media type image/png, and its address does not have the extension of an RDF syntax",
        ),
        (lambda h: h.send(200, {}, b"x"), "has no media type"),
    ],
)
def test_what_fails_deletes_nothing(answer: Any, sentence: str, site: Site) -> None:
    page = site.pages["/"] = Page(TURTLE)
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        source.refresh()
        page.etag = '"other"'
        site.pages["/"] = answer
        with pytest.raises(sparqlive.Error, match=sentence):
            source.refresh()
        assert len(session) == 1
        assert source.status()["stale_since"] == source.status()["last_seen"]
        site.pages["/"] = Page("<#s> <a:p> 2 .")
        source.refresh()
        assert objects(session) == {Literal(2)}
        assert source.status()["stale_since"] is None


def test_what_the_session_refuses_is_not_taken_as_seen(site: Site) -> None:
    """The version goes on only with a commit: the same answer is a failure the next time too."""
    page = site.pages["/"] = Page("<a:s> <a:p> <<( <a:s> <a:p> 1 )>> .")
    with sparqlive.open() as session:
        source = add(session, site.address + "/")
        for _ in range(2):
            with pytest.raises(sparqlive.Error, match="triple term"):
                source.refresh()
        page.body = TURTLE
        source.refresh()
        assert len(session) == 1


def test_private_addresses_are_refused_by_default(site: Site) -> None:
    with sparqlive.open() as session:
        source = session.source("web", site.address + "/", poll_interval_seconds=None)
        with pytest.raises(sparqlive.Error, match="not a public address"):
            source.refresh()
    assert not site.asked


def test_wrong_options_are_refused() -> None:
    with sparqlive.open() as session:
        for options, sentence in (
            ({"when_gone": "maybe"}, "when_gone"),
            ({"poll_interval_seconds": 0}, "poll_interval_seconds"),
            ({"colour": "red"}, "Invalid options for a source of kind"),
        ):
            with pytest.raises(sparqlive.Error, match=sentence):
                session.source("web", "http://example.org/", **options)
        with pytest.raises(sparqlive.Error, match="not a Web address"):
            session.source("web", "example.org")
        assert not session.sources


def test_a_store_goes_on_from_the_version_it_has(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = Page(TURTLE)
    with sparqlive.open(tmp_path / "s") as session:
        add(session, site.address + "/").refresh()
    with sparqlive.open(tmp_path / "s") as session:
        session.sources[site.address + "/"].refresh()
        assert all(handler.headers["If-None-Match"] for handler in site.asked[1:])
        assert (len(session), session.epoch) == (1, 1)


def test_sources_given_by_a_view_are_documents(site: Site) -> None:
    for name in ("a", "b"):
        site.pages[f"/{name}"] = Page(f"<> <a:p> '{name}' .")
    with sparqlive.open() as session:
        session.view("rooms", "SELECT ?room WHERE { <a:me> <a:in> ?room }")
        linked = session.sources_from("rooms", "room", allow_private=True)
        rooms = [f"<a:me> <a:in> <{site.address}/{name}> ." for name in ("a#it", "a#door", "b")]
        session.apply(insert="\n".join([*rooms, "<a:me> <a:in> <mailto:me@example.org> ."]))
        wait_until(lambda: len(session) == 6)
        assert len(session.sources) == 2
        assert "not a Web address" in linked.refused["mailto:me@example.org"]
        session.apply(delete=rooms[0])
        session.apply(delete=rooms[2])
        wait_until(lambda: len(session.sources) == 1)
        assert list(session.sources) == [f"{site.address}/a"]


# What came


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        ("/", "text/turtle", "<s> <a:p> 'ä' ."),
        ("/", "text/turtle; charset=utf-8", "\ufeff<s> <a:p> 'ä' ."),
        ("/", "text/turtle; charset=ISO-8859-1", "<s> <a:p> 'ä' .".encode("latin-1")),
        ("/", "text/n3", "<s> <a:p> 'ä' ."),
        ("/", "application/trig", "<s> <a:p> 'ä' ."),
        ("/", "application/n-triples", '<%s/s> <a:p> "ä" .'),
        ("/", "application/n-quads", '<%s/s> <a:p> "ä" .'),
        ("/", "application/ld+json", '{"@id": "s", "a:p": "ä"}'),
        ("/data.jsonld", "application/json", '{"@id": "s", "a:p": "ä"}'),
        ("/data.ttl", "text/plain", "<s> <a:p> 'ä' ."),
        ("/data.ttl", "application/octet-stream", "<s> <a:p> 'ä' ."),
        ("/data.nt", "", '<%s/s> <a:p> "ä" .'),
        ("/", "application/rdf+xml", "%x"),
        ("/data.rdf", "text/xml", "%x"),
        ("/", "application/rdf+xml", ('<?xml version="1.0" encoding="ISO-8859-1"?>', "latin-1")),
        ("/", "application/rdf+xml", ('<?xml version="1.0" encoding="UTF-16"?>', "utf-16")),
    ],
)
def test_every_syntax(path: str, content_type: str, body: Any, site: Site) -> None:
    xml = (
        f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:a="a:"><rdf:Description rdf:about="s">'
        f"<a:p>ä</a:p></rdf:Description></rdf:RDF>"
    )
    if isinstance(body, tuple):
        body = (body[0] + xml).encode(body[1])
    elif isinstance(body, str):
        body = body.replace("%s", site.address).replace("%x", xml).encode()
    site.pages[path] = lambda handler: handler.send(200, {"Content-Type": content_type}, body)
    with sparqlive.open() as session:
        add(session, site.address + path).refresh()
        [quad] = session.quads()
        assert (quad.subject, quad.object) == (NamedNode(site.address + "/s"), Literal("ä"))


def test_relative_iris_are_meant_from_where_the_document_is(site: Site) -> None:
    site.pages["/old"] = lambda handler: handler.send(303, {"Location": "/new/doc"})
    site.pages["/new/doc"] = Page("<s> <a:p> 1 .")
    with sparqlive.open() as session:
        add(session, site.address + "/old").refresh()
        [quad] = session.quads()
        assert quad.subject == NamedNode(site.address + "/new/s")
        assert quad.graph_name == NamedNode(site.address + "/old")


def refused(site: Site, content_type: str, body: str | bytes, sentence: str, **options: Any) -> None:
    data = body.encode() if isinstance(body, str) else body
    packed = gzip.compress(data)
    headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
    site.pages["/"] = lambda handler: handler.send(200, headers, packed)
    with sparqlive.open() as session:
        source = add(session, site.address + "/", **options)
        with pytest.raises(sparqlive.Error, match=sentence):
            source.refresh()
        assert len(session) == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE rdf:RDF>",
        '<!DOCTYPE rdf:RDF [<!ENTITY a "b">]>',
        '<!DOCTYPE rdf:RDF SYSTEM "file:///etc/passwd">',
        '<!-- one --><!DOCTYPE rdf:RDF [<!ENTITY a SYSTEM "http://169.254.169.254/">]>',
    ],
)
def test_doctype_and_entities_are_refused(doctype: str, encoding: str, site: Site) -> None:
    rdf = f'{doctype}<rdf:RDF xmlns:rdf="{RDF}"/>'.encode(encoding)
    refused(site, "application/rdf+xml", rdf, "DOCTYPE")


def test_documents_made_to_be_expensive_are_refused(site: Site) -> None:
    deep = f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:a="a:">' + "<rdf:Description><a:p>" * 100_000
    refused(site, "application/rdf+xml", deep, "levels deep")
    refused(site, "application/ld+json", '{"a:b":' * 50_000, "levels deep")
    refused(site, "application/ld+json", '{"a:b":["\\"[{",' + "[" * 50_000, "levels deep")
    refused(site, "text/turtle", "<a:s> <a:p> " + "<<( <a:s> <a:p> " * 300_000, "triple terms")
    prefix = f"@prefix a: <a:{'x' * 10_000}> .\n" + "a:s a:p a:o1, a:o2, a:o3 .\n" * 200
    refused(site, "text/turtle", prefix, "expanded terms are too large", max_bytes=20_000)
    refused(site, "text/turtle; charset=punycode", "x", "encoding")
    refused(site, "text/turtle; charset=klingon", "x", "encoding")


# JSON-LD contexts


def test_contexts_on_the_web_are_fetched_only_if_allowed(site: Site) -> None:
    site.pages["/context"] = Page(
        json.dumps({"@context": ["more", {"@base": "http://wrong.example/"}]}), "application/ld+json"
    )
    site.pages["/more"] = Page(json.dumps({"@context": {"name": "a:name"}}), "application/ld+json")
    document = json.dumps({"@context": "context", "@id": "s", "name": "Ann"})
    refused(site, "application/ld+json", document, "remote_contexts")
    assert set(site.paths()) == {"/"}
    with sparqlive.open() as session:
        add(session, site.address + "/", remote_contexts=True).refresh()
        [quad] = session.quads()
        assert quad.predicate == NamedNode("a:name")
        assert quad.subject == NamedNode(site.address + "/s")


def test_contexts_that_import_and_are_scoped(site: Site) -> None:
    site.pages["/base"] = Page(json.dumps({"@context": {"name": "a:name"}}), "application/ld+json")
    site.pages["/inner"] = Page(json.dumps({"@context": {"age": "a:age"}}), "application/ld+json")
    context = {"@version": 1.1, "@import": "base", "knows": {"@id": "a:knows", "@context": "inner"}}
    document = {"@context": context, "@id": "s", "name": "Ann", "knows": {"@id": "t", "age": "5"}}
    site.pages["/"] = Page(json.dumps(document), "application/ld+json")
    with sparqlive.open() as session:
        add(session, site.address + "/", remote_contexts=True).refresh()
        assert {quad.predicate.value for quad in session.quads()} == {"a:name", "a:knows", "a:age"}


def test_contexts_that_are_bad(site: Site) -> None:
    def context(path: str, value: object) -> None:
        site.pages[path] = Page(json.dumps({"@context": value}), "application/ld+json")

    document = json.dumps({"@context": "a", "@id": "s", "name": "Ann"})
    context("/a", "b")
    context("/b", ["a"])
    refused(site, "application/ld+json", document, "includes itself", remote_contexts=True)
    for name, following in zip("abcdef", "bcdefg", strict=True):
        context(f"/{name}", [following] * 100)
    context("/g", {"name": "a:name"})
    refused(site, "application/ld+json", document, "contexts are larger than", remote_contexts=True)
    context("/a", "gone")
    refused(site, "application/ld+json", document, "status 404", remote_contexts=True)
    site.pages["/a"] = lambda handler: handler.send(302, {"Location": "ftp://example.org/"})
    refused(site, "application/ld+json", document, "not a Web address", remote_contexts=True)
