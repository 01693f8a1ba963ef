"""Tells a caller its rights and the limits that apply to it, so that a client offers only what will work."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.access import caller_of
from sparqlive.agent.agent import Agent
from sparqlive.agent.operations import Operation

_EVERYTHING = ("read", "write", "service", "admin")


async def show(agent: Agent, request: Request) -> Response:
    token = caller_of(request).token
    rights = _EVERYTHING if token is None or "admin" in token.rights else token.rights
    limits = asdict(agent.settings)
    del limits["origins"]  # who else may use the agent is not the caller's business
    limits["query_seconds"] = agent.access.query_seconds(request, agent.settings.query_seconds)
    body = {
        "name": caller_of(request).name,
        "token": token is not None,
        "rights": rights,
        "token_limits": asdict(caller_of(request).limits),
        "limits": limits,
        "version": version("sparqlive"),
    }
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


OPERATIONS = (
    Operation(
        "GET",
        "/caller",
        show,
        "known",
        "Returns the rights of the caller, its limits, and those of the agent.",
    ),
)
