"""Liveness, readiness and metrics.

An agent is ready when requests need not wait for a view to be computed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.metrics import CONTENT_TYPE
from sparqlive.agent.operations import Operation

_RETRY = {"Retry-After": "1", "Cache-Control": "no-store"}


@dataclass
class Opening:
    """The progress of opening a store; written by one thread and read by another."""

    views: int = 0
    of: int = 0

    def __call__(self, views: int, of: int) -> None:
        self.views, self.of = views, of


def health(opening: Opening, path: str) -> Response:
    """Answers /healthz and /readyz while the store opens."""
    if path == "/healthz":
        return _alive()
    body = {"ready": False, "opening": {"views": opening.views, "of": opening.of}, "computing": []}
    return JSONResponse(body, 503, _RETRY)


def _alive() -> Response:
    return JSONResponse({"alive": True}, headers={"Cache-Control": "no-store"})


async def healthz(agent: Agent, request: Request) -> Response:
    return _alive()


async def readyz(agent: Agent, request: Request) -> Response:
    """Readiness. Leaves out the names of views, because no token is needed."""
    now = time.monotonic()
    computing = [{"seconds": round(now - since, 3)} for since in agent.computing.values()]
    ready = not computing and not agent.stopping.is_set()
    body = {"ready": ready, "opening": None, "computing": computing}
    return JSONResponse(body, 200 if ready else 503, {"Cache-Control": "no-store"} if ready else _RETRY)


async def metrics(agent: Agent, request: Request) -> Response:
    return Response(await agent.run_status(agent.metrics.text, agent.hub.readers), media_type=CONTENT_TYPE)


OPERATIONS = (
    Operation("GET", "/healthz", healthz, "open", "Reports whether the agent is alive."),
    Operation(
        "GET",
        "/readyz",
        readyz,
        "open",
        "Reports whether the agent is ready, and otherwise what it is opening or computing.",
        gives={200: ("application/json",), 503: ("application/json",)},
    ),
    Operation(
        "GET",
        "/metrics",
        metrics,
        "read",
        "Returns metrics for Prometheus.",
        gives={200: ("text/plain",)},
    ),
)
