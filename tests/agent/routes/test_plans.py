"""Plans as trees over HTTP: the operators and rules of `explain`, sizes, and where the time went."""

from __future__ import annotations

from typing import Any

import httpx

import sparqlive
from tests.agent.routes.test_views import SPARQL, put

JOIN = (
    "SELECT DISTINCT ?a { ?a <http://x/p> ?b . ?b <http://x/q> ?c FILTER NOT EXISTS { ?a <http://x/r> ?c } }"
)


def steps(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [step, *(below for child in step["inputs"] for below in steps(child))]


def test_the_tree_says_what_explain_says(client: httpx.Client, session: sparqlive.Session) -> None:
    put(client, "v", JOIN)
    session.apply(insert="<http://x/a> <http://x/p> <http://x/b> .\n<http://x/b> <http://x/q> <http://x/c> .")
    plan = client.get("/views/v/plan").json()
    text = client.get("/views/v/explain").text
    for step in steps(plan["root"]):
        assert f"{step['name']}  {step['words']}" in text
        if step["inputs"]:
            assert "  " + step["rule"][0].split(" + ")[0] in text
        for kept in step["stored"]:
            assert f"{step['name']} ({kept['rows']:,} row" in text
            assert f"{kept['bytes']:,} bytes): {kept['what']}" in text
    assert [step["name"] for step in steps(plan["root"]) if step["stored"]] == ["D"]
    assert all(line in text for line in plan["legend"])


def test_times_are_those_of_the_terms_that_ran(client: httpx.Client, session: sparqlive.Session) -> None:
    put(client, "v", JOIN)
    names = {step["number"]: step["name"] for step in steps(client.get("/views/v/plan").json()["root"])}
    for number in range(5):
        session.apply(insert=f"<http://x/a{number}> <http://x/p> <http://x/b> .")
    session.apply(insert="<http://x/b> <http://x/q> <http://x/c> .")
    costs = client.get("/views/v/plan").json()["costs"]
    ran = {(names[cost["at"]], cost["to"] is None): cost for cost in costs if cost["times"]}
    assert ran["T1", False]["times"] == ran["T1", False]["rows"] == 5
    assert ran["T2", False]["times"] == 1
    assert ran["D", True]["rows"] == 5  # five solutions entered what DISTINCT counts, in one epoch
    assert all(cost["seconds"] > 0 for cost in ran.values())
    assert not any(cost["times"] for cost in costs if names[cost["at"]] == "T3")


def test_views_that_are_carried_together_have_no_times_of_their_own(client: httpx.Client) -> None:
    for number in range(8):
        put(client, f"v{number}", f"SELECT ?s {{ ?s <http://x/p> <http://x/{number}> . ?s <http://x/q> ?o }}")
    plan = client.get("/views/v3/plan").json()
    assert plan["costs"] is None
    assert len(steps(plan["root"])) >= 3


def test_parts_of_a_product_are_drawn_apart(client: httpx.Client) -> None:
    put(client, "v", "SELECT * { ?a <http://x/p> ?b . ?c <http://x/q> ?d }")
    root = client.get("/views/v/plan").json()["root"]
    assert root["kind"] == "product"
    assert root["stored"] == []
    assert [part["stored"][0]["what"] for part in root["inputs"]] == ["part of the result"] * 2


def test_a_query_has_a_plan_without_being_registered(client: httpx.Client) -> None:
    given = client.post("/plan", content=JOIN, headers=SPARQL)
    assert given.status_code == 200
    root = given.json()["root"]
    assert root["stored"] == [
        {"what": "the count of each solution before duplicates are removed", "rows": None, "bytes": None}
    ]
    assert client.get("/views").json()["views"] == []
    put(client, "v", JOIN)
    kept = client.get("/views/v/plan").json()["root"]
    assert [step["rule"] for step in steps(root)] == [step["rule"] for step in steps(kept)]


def test_a_query_that_cannot_be_kept_has_none(client: httpx.Client) -> None:
    refused = client.post("/plan", content="SELECT (RAND() AS ?r) {}", headers=SPARQL)
    assert refused.status_code == 400
    assert "RAND" in refused.json()["detail"]
