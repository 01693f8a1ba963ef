"""Compacts the store over HTTP, beside queries and epochs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.operations import Operation


async def compact(agent: Agent, request: Request) -> Response:
    await agent.run_long(agent.session.compact)
    return JSONResponse({"epoch": agent.session.epoch})


OPERATIONS = (
    Operation("POST", "/compaction", compact, "admin", "Merges the store's log and deltas into new runs."),
)
