"""Linked Data Event Streams: pages served by the test, the last version of each object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode

import sparqlive
from sparqlive.sources.manager import Source
from tests.sources.server import Page, Site

PREFIXES = """
@prefix tree: <https://w3id.org/tree#> . @prefix ldes: <https://w3id.org/ldes#> . @prefix : <a:> .
@prefix dct: <http://purl.org/dc/terms/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix as: <https://www.w3.org/ns/activitystreams#> .
"""
STREAM = """
</stream> a ldes:EventStream ; tree:view </1> ;
  ldes:versionOfPath dct:isVersionOf ; ldes:timestampPath dct:created ; ldes:versionDeleteObject as:Delete .
"""


def version(of: str, time: str, more: str) -> str:
    name = f"</{of}/{time}>"
    created = f'"2026-01-01T{time}Z"^^xsd:dateTime'
    return f"</stream> tree:member {name} . {name} dct:isVersionOf :{of} ; dct:created {created} ; {more} .\n"


def page(members: Sequence[str], follows: str = "", *, immutable: bool = False, about: str = STREAM) -> Page:
    relation = f"<> tree:relation [ a tree:Relation ; tree:node <{follows}> ] ." if follows else ""
    headers = {"Cache-Control": "public, max-age=604800, immutable"} if immutable else {}
    return Page(PREFIXES + about + relation + "".join(members), headers=headers)


def add(session: sparqlive.Session, site: Site, path: str = "/1", **options: Any) -> Source:
    given = {"poll_interval_seconds": None, "allow_private": True, **options}
    return session.source("ldes", site.address + path, **given)


def values(session: sparqlive.Session) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for quad in session.quads():
        if quad.predicate == NamedNode("a:value"):
            found.setdefault(str(quad.subject), set()).add(quad.object)
    return found


def test_the_last_version_of_each_object(site: Site) -> None:
    site.pages["/1"] = page(
        [
            version("a", "03:00:00", ":value 3 ; :part [ :of </a/03:00:00> ; :list (1 2) ]"),
            version("a", "01:00:00", ":value 1"),
        ],
        "/2",
        immutable=True,
    )
    second = site.pages["/2"] = page([version("b", "02:00:00", ":value 20")])
    with sparqlive.open() as session:
        source = add(session, site)
        source.refresh()
        assert values(session) == {"<a:a>": {Literal(3)}, "<a:b>": {Literal(20)}}
        assert not any("isVersionOf" in str(quad) or "/a/" in str(quad) for quad in session.quads())
        epoch = session.epoch
        source.refresh()
        assert session.epoch == epoch
        site.asked.clear()
        second.body += version("b", "02:00:00.5", ":value 21") + version("a", "02:00:00", ":value 2")
        source.refresh()
        assert values(session) == {"<a:a>": {Literal(3)}, "<a:b>": {Literal(21)}}, "not the last to arrive"
        assert set(site.paths()) == {"/2"}, "what is immutable is not fetched again"
        assert source.status()["version"] == {"pages": 2}


def test_times_are_compared_by_value(site: Site) -> None:
    late = version("a", "10:00:00", ":value 1").replace("10:00:00Z", "10:00:00+05:00")
    site.pages["/1"] = page([late, version("a", "06:00:00", ":value 2")])
    with sparqlive.open() as session:
        add(session, site).refresh()
        assert values(session) == {"<a:a>": {Literal(2)}}


@pytest.mark.parametrize(("policy", "left"), [("remove", {}), ("keep", {"<a:a>": {Literal(1)}})])
@pytest.mark.parametrize("declared", [True, False])
def test_tombstones(policy: str, left: dict[str, Any], declared: bool, site: Site) -> None:
    kind = "as:Delete" if declared else ":Gone"
    first = site.pages["/1"] = page([version("a", "01:00:00", ":value 1")])
    with sparqlive.open() as session:
        source = add(session, site, when_deleted=policy, **({} if declared else {"tombstone": "a:Gone"}))
        source.refresh()
        first.body += version("a", "02:00:00", f"a {kind}")
        source.refresh()
        assert values(session) == left
        first.body += version("a", "03:00:00", ":value 3")
        source.refresh()
        assert values(session) == {"<a:a>": {Literal(3)}}, "it is back"


def test_members_as_they_are(site: Site) -> None:
    site.pages["/1"] = page([version("a", "01:00:00", ":value 1"), version("a", "02:00:00", ":value 2")])
    site.pages["/plain"] = page(["</stream> tree:member :m . :m :value 1 . :n :value 2 ."], about="")
    with sparqlive.open() as session:
        add(session, site, versions="all").refresh()
        assert len(values(session)) == 2
        add(session, site, "/plain").refresh()
        assert values(session)["<a:m>"] == {Literal(1)}
        assert "<a:n>" not in values(session), "no member"


def test_the_address_of_the_stream_leads_to_its_view(site: Site) -> None:
    site.pages["/stream"] = Page(PREFIXES + STREAM)
    site.pages["/1"] = page([version("a", "01:00:00", ":value 1")], "/2")
    site.pages["/2"] = page([version("b", "01:00:00", ":value 2")], "/1")
    with sparqlive.open() as session:
        add(session, site, "/stream").refresh()
        assert values(session) == {"<a:a>": {Literal(1)}, "<a:b>": {Literal(2)}}
        assert sorted(site.paths()[-3:]) == ["/1", "/2", "/stream"], "circles end"


def test_members_in_graphs_of_their_name(site: Site) -> None:
    body = version("a", "01:00:00", ":value 1") + "</a/01:00:00> { :x :value 2 . </a/01:00:00> :in 3 . }"
    site.pages["/1"] = Page(PREFIXES + STREAM + body, "application/trig")
    with sparqlive.open() as session:
        add(session, site).refresh()
        named = {str(q.subject) for q in session.quads() if q.graph_name == NamedNode("a:a")}
        assert named == {"<a:x>", "<a:a>"}


def test_a_page_that_fails_deletes_nothing(site: Site) -> None:
    site.pages["/1"] = page([version("a", "01:00:00", ":value 1")], "/2", immutable=True)
    second = site.pages["/2"] = page([version("b", "01:00:00", ":value 2")])
    with sparqlive.open() as session:
        source = add(session, site)
        source.refresh()
        for broken, sentence in (
            (lambda handler: handler.send(500), "the server failed"),
            (lambda handler: handler.send(404), "does not exist"),
            (Page("<a:s> <a:p>"), ", line 1, column "),
            (page(["</stream> tree:member </m> . </m> :value 5 ."]), "the object that it is a version of"),
            (page([version("b", "25:00:00", ":value 1")]), "does not have exactly one xsd:dateTime"),
            (page([], about="</stream> ldes:timestampPath ( :p :q ) ."), "path of several steps"),
        ):
            site.pages["/2"] = broken
            with pytest.raises(sparqlive.Error, match=sentence):
                source.refresh()
            assert values(session) == {"<a:a>": {Literal(1)}, "<a:b>": {Literal(2)}}
        site.pages["/2"] = second
        second.body += version("b", "02:00:00", ":value 3")
        source.refresh()
        assert values(session)["<a:b>"] == {Literal(3)}


def test_what_came_beside_a_page_that_failed_is_not_forgotten(site: Site) -> None:
    first = site.pages["/1"] = page([version("a", "01:00:00", ":value 1")], "/2")
    second = site.pages["/2"] = page([version("b", "01:00:00", ":value 2")])
    with sparqlive.open() as session:
        source = add(session, site)
        source.refresh()
        first.body += version("a", "02:00:00", ":value 3")
        site.pages["/2"] = lambda handler: handler.send(500)
        with pytest.raises(sparqlive.Error, match="the server failed"):
            source.refresh()
        site.pages["/2"] = second
        source.refresh()
        assert values(session) == {"<a:a>": {Literal(3)}, "<a:b>": {Literal(2)}}


def test_what_a_retention_policy_takes_away_leaves(site: Site) -> None:
    first = site.pages["/1"] = page([version("a", "01:00:00", ":value 1")], "/2")
    site.pages["/2"] = page([version("b", "01:00:00", ":value 2")], immutable=True)
    with sparqlive.open() as session:
        source = add(session, site)
        source.refresh()
        first.body = page([version("a", "01:00:00", ":value 1")]).body
        source.refresh()
        assert values(session) == {"<a:a>": {Literal(1)}}
