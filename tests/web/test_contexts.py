"""JSON-LD contexts that are bundled: documents that name them are read without fetching anything else."""

from __future__ import annotations

import json
from typing import Any

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.web.contexts import bundled
from tests.conftest import ROOT
from tests.sources.server import Page, Site

AS = "https://www.w3.org/ns/activitystreams"
ANNOTATION = "http://www.w3.org/ns/anno.jsonld"
SECURITY = "https://w3id.org/security/v1"
NOTIFICATIONS = "https://www.w3.org/ns/solid/notification/v1"
PREFIXES = """
@prefix as: <https://www.w3.org/ns/activitystreams#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix ldp: <http://www.w3.org/ns/ldp#> .
@prefix notify: <http://www.w3.org/ns/solid/notifications#> .
@prefix oa: <http://www.w3.org/ns/oa#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix sec: <https://w3id.org/security#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "activitystreams": (
        {
            "@context": AS,
            "id": "a:note",
            "type": "Note",
            "attributedTo": "a:ann",
            "content": "hello",
            "nameMap": {"de": "Gruß"},
            "published": "2026-01-01T00:00:00Z",
            "to": ["as:Public", "a:bob"],
            "replies": {"id": "a:replies", "type": "OrderedCollection", "totalItems": 2},
            "nobodyKnowsThis": "and it is left out",
        },
        """<a:note> a as:Note ; as:attributedTo <a:ann> ; as:content "hello" ; as:name "Gruß"@de ;
             as:published "2026-01-01T00:00:00Z"^^xsd:dateTime ; as:to as:Public , <a:bob> ;
             as:replies <a:replies> .
           <a:replies> a as:OrderedCollection ; as:totalItems "2"^^xsd:nonNegativeInteger .""",
    ),
    "an account with a key": (
        {
            "@context": [AS, SECURITY, {"toot": "http://joinmastodon.org/ns#", "featured": "toot:featured"}],
            "id": "a:ann",
            "type": "Person",
            "inbox": "a:inbox",
            "featured": "x",
            "publicKey": {"id": "a:key", "owner": "a:ann", "publicKeyPem": "-----"},
        },
        """<a:ann> a as:Person ; ldp:inbox <a:inbox> ; <http://joinmastodon.org/ns#featured> "x" ;
             sec:publicKey <a:key> . <a:key> sec:owner <a:ann> ; sec:publicKeyPem "-----" .""",
    ),
    "annotation": (
        {
            "@context": ANNOTATION,
            "id": "a:note",
            "type": "Annotation",
            "motivation": "commenting",
            "created": "2026-01-01T00:00:00Z",
            "body": {"id": "a:body", "type": "TextualBody", "value": "so it is"},
            "target": {
                "id": "a:place",
                "source": "http://example.org/page",
                "selector": {"id": "a:where", "type": "TextPositionSelector", "start": 4, "end": 7},
            },
        },
        """<a:note> a oa:Annotation ; oa:motivatedBy oa:commenting ; oa:hasBody <a:body> ;
             dcterms:created "2026-01-01T00:00:00Z"^^xsd:dateTime ; oa:hasTarget <a:place> .
           <a:body> a oa:TextualBody ; rdf:value "so it is" .
           <a:place> oa:hasSource <http://example.org/page> ; oa:hasSelector <a:where> .
           <a:where> a oa:TextPositionSelector ; oa:start "4"^^xsd:nonNegativeInteger ;
             oa:end "7"^^xsd:nonNegativeInteger .""",
    ),
    "notification": (
        {
            "@context": [AS, NOTIFICATIONS],
            "id": "a:n",
            "type": "Update",
            "object": "a:o",
            "state": "1-ldp",
            "topic": "a:o",
            "published": "2026-01-01T00:00:00Z",
        },
        """<a:n> a as:Update ; as:object <a:o> ; notify:state "1-ldp" ; notify:topic <a:o> ;
             as:published "2026-01-01T00:00:00Z"^^xsd:dateTime .""",
    ),
    "a channel": (
        {
            "@context": [NOTIFICATIONS],
            "id": "a:c",
            "type": "notify:WebSocketChannel2023",
            "receiveFrom": "a:r",
            "endAt": "2026-01-01T00:00:00Z",
        },
        """<a:c> a notify:WebSocketChannel2023 ; notify:receiveFrom <a:r> ;
             notify:endAt "2026-01-01T00:00:00Z"^^xsd:dateTime .""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_documents_are_read_without_fetching_their_contexts(case: str, site: Site) -> None:
    document, turtle = CASES[case]
    site.pages["/"] = Page(json.dumps(document).replace("/", r"\/"), "application/activity+json")
    with sparqlive.open() as session:
        options = {"poll_interval_seconds": None, "allow_private": True}
        session.source("web", site.address + "/", **options).refresh()
        found = {quad.triple for quad in session.quads()}
    assert found == {quad.triple for quad in ox.parse(PREFIXES + turtle, ox.RdfFormat.TURTLE)}
    assert set(site.paths()) == {"/"}


def test_other_contexts_are_refused_by_name(site: Site) -> None:
    document = {"@context": [AS, "https://schema.org"], "id": "a:x", "content": "x"}
    site.pages["/"] = Page(json.dumps(document), "application/ld+json")
    with sparqlive.open() as session:
        source = session.source("web", site.address + "/", poll_interval_seconds=None, allow_private=True)
        with pytest.raises(sparqlive.Error, match=r"uses the JSON-LD context https://schema\.org, which"):
            source.refresh()


def test_every_term_leads_to_an_iri() -> None:
    """By another reader of JSON-LD than the one that uses them."""
    from rdflib.plugins.shared.jsonld.context import Context

    for address, context in bundled().items():
        read = Context(context)
        for term, given in context.items():
            iri = given["@id"] if isinstance(given, dict) else given
            prefix, _, name = iri.partition(":")
            if not term.startswith("@") and prefix in context:
                assert read.expand(term) == context[prefix] + name, f"{address}: {term}"


@pytest.mark.parametrize(
    ("address", "name"), [(AS, "activitystreams.jsonld"), (NOTIFICATIONS, "notification.jsonld")]
)
def test_they_are_those_of_a_server(address: str, name: str) -> None:
    """Community Solid Server brings two of them as they were published: the same terms, to the same IRIs."""
    file = ROOT / ".peers/node_modules/@solid/community-server/templates/contexts" / name
    if not file.exists():
        pytest.skip("Community Solid Server is not installed: make test-peers.")
    published = json.loads(file.read_text())["@context"]
    ours = bundled()[address]
    assert {
        term: given for term, given in published.items() if term not in ("@version", "@protected")
    } == ours
