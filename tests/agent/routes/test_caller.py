"""What callers are told about their rights and limits."""

from __future__ import annotations

from pathlib import Path

import httpx

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from tests.agent.conftest import serving


def test_without_tokens_everything_is_allowed(client: httpx.Client) -> None:
    told = client.get("/caller").json()
    assert (told["name"], told["token"], told["rights"]) == (
        "local",
        False,
        ["read", "write", "service", "admin"],
    )
    assert told["limits"]["query_seconds"] == 30
    assert "origins" not in told["limits"]


def test_a_token_is_told_its_own_rights(session: sparqlive.Session, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, ann = tokens.create(["read", "write"], "ann", Limits(query_seconds=2))
    _, board = tokens.create(["read:view=prices"], "board")
    _, root = tokens.create(["admin"], "root")
    agent = Agent(session, Settings(), Access(tmp_path))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:

        def told(secret: str) -> dict[str, object]:
            answer = client.get("/caller", headers={"authorization": f"Bearer {secret}"})
            assert answer.headers["cache-control"] == "no-store"
            found: dict[str, object] = answer.json()
            return found

        assert client.get("/caller").status_code == 401
        assert told(ann)["rights"] == ["read", "write"]
        assert told(ann)["token_limits"]["query_seconds"] == 2  # type: ignore[index]
        assert told(ann)["limits"]["query_seconds"] == 2  # type: ignore[index]
        assert told(board)["rights"] == ["read:view=prices"]
        assert told(root)["rights"] == ["read", "write", "service", "admin"]
