"""The web application: routes to all operations, and the checks that they share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sparqlive.agent.agent import Agent
from sparqlive.agent.logs import Requests
from sparqlive.agent.openapi import document
from sparqlive.agent.operations import Operation
from sparqlive.agent.origins import CrossOrigin, parse_origin
from sparqlive.agent.problems import answer, problem
from sparqlive.agent.routes import (
    caller,
    changes,
    compaction,
    epochs,
    graph_store,
    health,
    page,
    plans,
    protocol,
    sources,
    subscriptions,
    uploads,
    views,
)
from sparqlive.errors import Error


async def openapi(agent: Agent, request: Request) -> Response:
    return JSONResponse(_DOCUMENT)


OPERATIONS: tuple[Operation, ...] = (
    *page.OPERATIONS,
    *views.OPERATIONS,
    *subscriptions.OPERATIONS,
    *plans.OPERATIONS,
    *protocol.OPERATIONS,
    *epochs.OPERATIONS,
    *changes.OPERATIONS,
    *graph_store.OPERATIONS,
    *uploads.OPERATIONS,
    *compaction.OPERATIONS,
    *sources.OPERATIONS,
    *caller.OPERATIONS,
    *health.OPERATIONS,
    Operation("GET", "/openapi.json", openapi, "open", "This description."),
)
_DOCUMENT = document(OPERATIONS)
EXPOSED = (
    *("Accept-Encoding", "ETag", "Location", "Retry-After", "WWW-Authenticate", "X-Request-Id"),
    *("Sparqlive-Epoch", "Sparqlive-Hint", "Sparqlive-Lineage", "Sparqlive-View"),
)
"""Response headers that pages of other origins may read, in addition to those that browsers always expose."""

_log = logging.getLogger("sparqlive.agent")


def make_app(agent: Agent) -> Starlette:
    """Returns the web application of an agent."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await agent.start()
        try:
            yield
        finally:
            await agent.stop()

    async def unknown(request: Request, error: Exception) -> Response:
        """Answers requests whose path, or whose method on that path, does not exist."""
        assert isinstance(error, HTTPException)
        return answer(
            error.status_code, f"{request.method} {request.url.path}: {error.detail}.", error.headers
        )

    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes = [_route(agent, path, operations) for path, operations in by_path.items()]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Requests, agent=agent), _cross_origin(agent.settings.origins)],
        lifespan=lifespan,
        exception_handlers={404: unknown, 405: unknown},
    )
    app.router.redirect_slashes = False
    return app


def _cross_origin(origins: tuple[str, ...]) -> Middleware:
    """The CORS headers. They never allow credentials, so no page can use a password the browser remembers."""
    return Middleware(
        CrossOrigin,
        allow_origins=[parse_origin(origin) for origin in origins],
        allow_methods=["GET", "HEAD", "PUT", "POST", "DELETE"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=EXPOSED,
    )


def _route(agent: Agent, path: str, operations: Mapping[str, Operation]) -> Route:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" and "HEAD" not in operations else request.method
        request.state.route = path
        response = await _answer(agent, operations[method], request)
        if operations[method].audited:
            agent.access.note(request, response.status_code, response.headers.get("location"))
        return response

    return Route(path, endpoint, methods=list(operations))


async def _answer(agent: Agent, operation: Operation, request: Request) -> Response:
    try:
        agent.access.admit(request, operation.right)
        return await operation.handler(agent, request)
    except Error as error:
        return problem(error)
    except RecursionError:
        return answer(400, "The request is nested too deeply.")
    except asyncio.CancelledError:
        if not agent.stopping.is_set():
            raise
        # The work continues in its thread until the store is closed, so its outcome is unknown here.
        return answer(503, f"The agent is stopping.{_outcome(request)}", {"Connection": "close"})
    except Exception:
        _log.exception("%s %s failed", request.method, request.url.path)
        return answer(500, f"Internal error. The agent's log has the details.{_outcome(request)}")


def _outcome(request: Request) -> str:
    """A warning for requests whose outcome is unknown."""
    if request.method in ("GET", "HEAD"):
        return ""
    return " The request may or may not have changed data: check before you send it again."
