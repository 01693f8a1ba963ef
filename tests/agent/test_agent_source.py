"""Another agent's view as a source: an aggregator's views equal those over all that the agents have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyoxigraph import BlankNode

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving
from tests.agent.test_follow import free_port
from tests.waiting import wait_until

PRICES = "CONSTRUCT { ?s <http://x/price> ?o } { ?s <http://x/p> ?o }"
TOTALS = """
SELECT (COUNT(?o) AS ?count) (SUM(?o) AS ?sum) (MIN(?o) AS ?min) (MAX(?o) AS ?max)
{ ?s <http://x/price> ?o }
"""


def triple(subject: object, value: int) -> str:
    return f'<http://x/{subject}> <http://x/p> "{value}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'


@contextmanager
def other(
    store: Path | None = None, port: int = 0, query: str = PRICES
) -> Iterator[tuple[sparqlive.Session, str]]:
    """An agent with one view, and its address."""
    with sparqlive.open(store) as session:
        session.view("prices", query)
        with serving(Agent(session), port) as address:
            yield session, f"{address}/views/prices"


@pytest.fixture
def aggregator() -> Iterator[sparqlive.Session]:
    with sparqlive.open(default_graph="union") as session:
        yield session


def totals(session: sparqlive.Session) -> list[str]:
    (row,) = session.views["totals"].solutions()
    return [str(row[name].value) if name in row else "" for name in ("count", "sum", "min", "max")]


def test_an_aggregator_counts_over_agents(aggregator: sparqlive.Session) -> None:
    aggregator.view("totals", TOTALS)
    with ExitStack() as stack:
        agents = [stack.enter_context(other()) for _ in range(3)]
        for number, (session, address) in enumerate(agents):
            session.apply(insert=triple(number, 10 * number + 1))
            aggregator.source("agent", address, name=f"agent{number}", allow_private=True)
        wait_until(lambda: totals(aggregator) == ["3", "33", "1", "21"])
        agents[2][0].apply(delete=triple(2, 21), insert=triple(2, 5) + triple("more", 7))
        wait_until(lambda: totals(aggregator) == ["4", "24", "1", "11"])
        aggregator.sources["agent0"].remove()
        assert totals(aggregator) == ["3", "23", "5", "11"]
        version = aggregator.sources["agent1"].status()["version"]
        assert version == {"epoch": 1, "lineage": agents[1][0].lineage}


def test_a_look_waits_for_what_the_other_agent_has(aggregator: sparqlive.Session) -> None:
    aggregator.view("totals", TOTALS)
    with other() as (session, address):
        source = aggregator.source("agent", address, allow_private=True)
        for number in range(20):
            session.apply(insert=triple("a", number))
            source.refresh()
            assert totals(aggregator)[0] == str(number + 1)


def test_the_other_agent_restarts(tmp_path: Path) -> None:
    """Both keep stores; each is closed and opened, with changes in between."""
    port = free_port()
    with other(tmp_path / "other", port) as (session, address):
        session.apply(insert=triple("a", 1))
        with sparqlive.open(tmp_path / "aggregator", default_graph="union") as aggregator:
            aggregator.view("totals", TOTALS)
            source = aggregator.source("agent", address, allow_private=True)
            source.refresh()
            assert totals(aggregator)[1] == "1"
        session.apply(insert=triple("a", 2), delete=triple("a", 1))
        session.apply(insert=triple("a", 3))
    with sparqlive.open(tmp_path / "aggregator", default_graph="union") as aggregator:
        source = aggregator.sources[address]
        wait_until(lambda: source.error is not None)  # nobody is there; what it had stays
        assert totals(aggregator)[1] == "1"
        with other(tmp_path / "other", port) as (session, _):
            source.refresh()
            assert totals(aggregator) == ["2", "5", "2", "3"]
            session.apply(delete=triple("a", 3))
            wait_until(lambda: totals(aggregator) == ["1", "2", "2", "2"])
        wait_until(lambda: source.error is not None)
        assert "stopping" in (source.error or "") or "connection" in (source.error or "")
    with other(port=port) as (session, _), sparqlive.open(tmp_path / "aggregator") as aggregator:
        session.apply(insert=triple("new", 9))  # another history, whatever its epochs are
        session.apply(insert=triple("new", 10))
        wait_until(lambda: totals(aggregator) == ["2", "19", "9", "10"])


def test_blank_nodes_are_the_same_from_epoch_to_epoch_and_nobody_elses(aggregator: sparqlive.Session) -> None:
    """What is deleted is what was inserted, also after a reset; two agents' nodes are two."""
    query = """
    CONSTRUCT { ?s <http://x/offer> [ <http://x/price> ?o ] . ?n <http://x/seen> ?o }
    { ?s <http://x/p> ?o OPTIONAL { ?n <http://x/node> ?s } }
    """
    aggregator.view("nodes", "SELECT ?s ?b ?o { ?s <http://x/offer> ?b . ?b <http://x/price> ?o }")
    aggregator.view("all", "SELECT * { ?s ?p ?o }")
    with other(query=query) as (first, one), other(query=query) as (second, two):
        sources = [aggregator.source("agent", address, allow_private=True) for address in (one, two)]
        for session in (first, second):
            session.apply(insert=triple("a", 1) + triple("a", 2) + "_:x <http://x/node> <http://x/a> .")
        for source in sources:
            source.refresh()
        nodes = {row["b"] for row in aggregator.views["nodes"].solutions()}
        assert len(nodes) == 4
        assert all(isinstance(node, BlankNode) for node in nodes)
        for session in (first, second):
            session.apply(delete=triple("a", 1), insert=triple("a", 3))
        for source in sources:
            source.refresh()
        assert len(aggregator.views["nodes"].solutions()) == 4
        first.drop("prices")
        first.view("prices", query)  # registered anew: all comes again, and is what is there
        before = aggregator.epoch
        sources[0].refresh()
        assert aggregator.epoch == before
        for session in (first, second):
            session.apply(delete=triple("a", 2) + triple("a", 3))
        for source in sources:
            source.refresh()
        assert aggregator.views["all"].solutions() == []


def test_addresses_and_what_is_no_graph_are_refused(aggregator: sparqlive.Session) -> None:
    with other(query="SELECT * { ?s ?p ?o }") as (_, address):
        refused = aggregator.source("agent", address, name="private")
        with pytest.raises(sparqlive.Error, match="not a public address"):
            refused.refresh()
        with pytest.raises(sparqlive.Error, match="is not a graph"):
            aggregator.source("agent", address, name="rows", allow_private=True).refresh()
        with pytest.raises(sparqlive.Error, match=r"does not exist"):
            aggregator.source("agent", f"{address}2", name="none", allow_private=True).refresh()
        page = address.rpartition("/views")[0] + "/views?x="
        with pytest.raises(sparqlive.Error):
            aggregator.source("agent", page, name="page", allow_private=True).refresh()


def test_a_token_goes_in_a_header(aggregator: sparqlive.Session, tmp_path: Path) -> None:
    _, secret = Tokens(tmp_path).create(["read:view=prices"])
    with sparqlive.open() as session:
        session.view("prices", PRICES)
        with serving(Agent(session, Settings(), Access(tmp_path))) as address:
            view = f"{address}/views/prices"
            with pytest.raises(sparqlive.Error, match="denies access"):
                aggregator.source("agent", view, name="no", allow_private=True).refresh()
            headers = {"Authorization": f"Bearer {secret}"}
            aggregator.source("agent", view, name="yes", allow_private=True, headers=headers).refresh()
