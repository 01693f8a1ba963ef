"""Serving an agent until it is stopped."""

from __future__ import annotations

import uvicorn

from sparqlive.agent.agent import Agent
from sparqlive.agent.app import make_app


def serve(agent: Agent, host: str, port: int) -> None:
    """Answers at an address until a signal ends it."""
    uvicorn.run(make_app(agent), host=host, port=port, log_level="warning", access_log=False)
