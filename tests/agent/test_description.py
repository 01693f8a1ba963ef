"""The Service Description: the three W3C tests, by their names, and that it says what is true."""

from __future__ import annotations

import httpx
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving

SD = "http://www.w3.org/ns/sparql-service-description#"
# Of the vocabulary (§3): what each property leads from, and to; None is any resource.
PROPERTIES = {
    "endpoint": ("Service", None),
    "feature": ("Service", {"DereferencesURIs", "UnionDefaultGraph", "RequiresDataset", "EmptyGraphs"}),
    "supportedLanguage": ("Service", {"SPARQL10Query", "SPARQL11Query", "SPARQL11Update"}),
    "resultFormat": ("Service", None),
    "defaultEntailmentRegime": ("Service", None),
    "defaultDataset": ("Service", "Dataset"),
    "defaultGraph": ("Dataset", "Graph"),
    "namedGraph": ("Dataset", "NamedGraph"),
    "name": ("NamedGraph", None),
    "graph": ("NamedGraph", "Graph"),
}


def described(client: httpx.Client, accept: str = "text/turtle") -> ox.Store:
    found = client.get("/sparql", headers={"accept": accept})
    assert found.status_code == 200
    assert found.headers["content-type"].partition(";")[0] == accept
    store = ox.Store()
    syntax = ox.RdfFormat.from_media_type(accept)
    assert syntax is not None
    store.load(found.content, format=syntax)
    return store


@pytest.mark.parametrize(
    "accept", ["text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json"]
)
def test_returns_rdf(client: httpx.Client, accept: str) -> None:
    assert len(described(client, accept)) > 10
    assert client.get("/sparql").headers["content-type"].startswith("text/turtle")


def test_has_endpoint_triple(client: httpx.Client) -> None:
    ask = f"ASK {{ ?s <{SD}endpoint> <{client.base_url}/sparql> }}"
    assert bool(described(client).query(ask))


def test_conforms_to_schema(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert='<x:a> <x:b> "1" <x:g> .')
    store = described(client)
    types = {quad.subject: quad.object.value for quad in store if quad.predicate.value.endswith("#type")}
    used = set()
    for subject, predicate, value, _ in store:
        if predicate.value.startswith(SD):
            name = predicate.value.removeprefix(SD)
            used.add(name)
            domain, range_ = PROPERTIES[name]
            assert types[subject] == SD + domain
            if isinstance(range_, set):
                assert value.value.removeprefix(SD) in range_
            elif range_ is not None:
                assert types[value] == SD + range_
            else:
                assert isinstance(value, ox.NamedNode)
    assert used == set(PROPERTIES)
    assert sum(kind == SD + "Service" for kind in types.values()) == 1


def test_it_says_what_is_true(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert='<x:a> <x:b> "1" <x:g> .\n<x:a> <x:b> "2" <x:g> .\n<x:a> <x:b> "2" .')
    names = f"""SELECT ?name ?size {{
        ?dataset <{SD}namedGraph> [ <{SD}name> ?name; <{SD}graph>/<http://rdfs.org/ns/void#triples> ?size ]
    }}"""
    found = [(row["name"].value, row["size"].value) for row in described(client).query(names)]
    assert found == [("x:g", "2")]
    union = f"ASK {{ ?s <{SD}feature> <{SD}UnionDefaultGraph> }}"
    assert bool(described(client).query(union))
    with (
        sparqlive.open(default_graph="strict") as strict,
        serving(Agent(strict)) as base,
        httpx.Client(base_url=base, timeout=120) as other,
    ):
        assert not bool(described(other).query(union))
