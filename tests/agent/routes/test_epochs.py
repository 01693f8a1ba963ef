"""The last epochs over HTTP."""

from __future__ import annotations

import httpx

import sparqlive
from sparqlive.agent import epoch_log
from tests.agent.routes.test_views import QUERY, put


def change(number: int) -> str:
    return f'<http://x/a> <http://x/p> "{number}" .'


def test_epochs_say_what_they_changed_and_how(client: httpx.Client, session: sparqlive.Session) -> None:
    put(client, "v")
    session.apply(insert=change(1) + "\n" + change(2))
    session.apply(insert=change(1), delete=change(2))
    session.apply(insert=change(3), strategy="rebuild")
    given = client.get("/epochs").json()
    assert given["epoch"] == 3
    first, second, third = given["epochs"]
    assert (first["inserted"], first["deleted"], first["ignored"], first["rows"]) == (2, 0, 0, {"v": 2})
    assert (second["inserted"], second["deleted"], second["ignored"], second["rows"]) == (0, 1, 1, {"v": 1})
    assert (third["strategy"], third["choices"]["v"]["reason"]) == ("rebuild", "rebuild was requested.")
    assert all(entry["seconds"] > 0 for entry in given["epochs"])
    assert [entry["epoch"] for entry in client.get("/epochs?since=2").json()["epochs"]] == [3]
    assert client.get("/epochs?since=x").status_code == 400


def test_a_view_that_is_refreshed_later_is_told_of(client: httpx.Client, session: sparqlive.Session) -> None:
    view = session.view("v", QUERY, refresh="manual")
    session.apply(insert=change(1))
    view.refresh()
    assert [(e["epoch"], e["rows"]) for e in client.get("/epochs").json()["epochs"]] == [
        (1, {}),
        (1, {"v": 1}),
    ]


def test_only_the_last_epochs_are_held(client: httpx.Client, session: sparqlive.Session) -> None:
    for number in range(epoch_log.EPOCHS + 5):
        session.apply(insert=change(number))
    held = client.get("/epochs").json()["epochs"]
    assert [entry["epoch"] for entry in held] == list(range(6, epoch_log.EPOCHS + 6))
