"""Hostile readers beside an honest writer: nothing is lost, and they are told why they are stopped."""

from __future__ import annotations

import time

import httpx
import pytest

import sparqlive
from bench.hostile import EXPENSIVE, soak
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.web.event_stream import Parser
from tests.agent.conftest import serving

# What stops a query may come inside a finalizer, where Python drops it with a word; then it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

QUERY = {"content-type": "application/sparql-query"}
QUERIES = [query for query in EXPENSIVE if "REGEX" not in query]  # those have tests of their own
UPDATE = {"content-type": "application/sparql-update"}


def test_nothing_is_lost_under_attack() -> None:
    made = soak(seconds=8, items=200, rate=10, hostile=6, queries=QUERIES)
    assert made.refused == []
    assert made.lost == 0
    assert made.wrong == []
    assert len(made.attacked) > 0
    assert not [what for what in made.seen if what.endswith("500")], made.seen


def test_an_expensive_subscription_is_refused_or_ended_with_a_sentence() -> None:
    with sparqlive.open() as session:
        session.view("honest", "SELECT ?o { <x:s> <x:p> ?o }")
        settings = Settings(query_seconds=1, temporary_epoch_seconds=0.1, temporary_rows=50_000)
        with (
            serving(Agent(session, settings)) as address,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            ended = _followed(client, "SELECT (COUNT(*) AS ?n) { ?a <x:q> ?b . ?c <x:q> ?d . ?e <x:q> ?f "
                                      "FILTER(?a != ?d && ?c != ?f && ?e != ?b) }")  # fmt: skip
            assert "limit" in ended
            assert session.views["honest"].failure is None
            for query in QUERIES:
                made = client.post("/subscriptions", content=query, headers=QUERY)
                assert made.status_code in (201, 400, 422, 503), made.text[:300]
                if made.status_code != 201:
                    assert len(made.json()["detail"]) > 20
            _insert(client, "<x:s> <x:p> 1")
        assert len(session.views["honest"]) == 1


def _insert(client: httpx.Client, triples: str) -> None:
    answer = _post(client, "/sparql", f"INSERT DATA {{ {triples} }}", UPDATE)
    assert answer.status_code == 200, answer.text


def _post(client: httpx.Client, path: str, content: str, headers: dict[str, str]) -> httpx.Response:
    """Sends a request again while the agent has no time for it, as on a machine with other work."""
    until = time.monotonic() + 120
    while True:
        answer = client.post(path, content=content, headers=headers)
        if answer.status_code != 503 or time.monotonic() > until:
            return answer


def _followed(client: httpx.Client, query: str) -> str:
    """Subscribes, changes data until the subscription is ended, and gives the sentence."""
    made = _post(client, "/subscriptions", query, QUERY)
    assert made.status_code == 201, made.text
    parser, until = Parser(), time.monotonic() + 120
    with client.stream("GET", made.json()["changes"]) as stream:
        pieces = stream.iter_bytes()
        number = 0
        while time.monotonic() < until:
            rows = " ".join(f"<x:a{number + i}> <x:q> <x:b{(number + i) % 97}> ." for i in range(50))
            number += 50
            _insert(client, rows)
            for event in parser.feed(next(pieces)):
                if event.kind == "end":
                    return event.data
    raise AssertionError("the subscription was not ended")


def test_large_answers_are_refused_where_a_view_is_a_product() -> None:
    with sparqlive.open() as session:
        session.apply(insert="\n".join(f"<x:s{i}> <x:p> <x:o{i}> ." for i in range(300)))
        session.view("product", "SELECT * { ?a <x:p> ?b . ?c <x:p> ?d . ?e <x:p> ?f }")
        with serving(Agent(session)) as address, httpx.Client(base_url=address, timeout=60) as client:
            for path in ("/views/product", "/views/product/changes"):
                answer = client.get(path)
                assert answer.status_code == 422
                assert "27,000,000 rows" in answer.json()["detail"]
            assert client.get("/views/product/rows?limit=3").status_code == 200
