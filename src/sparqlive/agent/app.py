"""The application: every operation at its path, with the checks that all of them share."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparqlive.agent import views
from sparqlive.agent.agent import Agent
from sparqlive.agent.operations import Operation
from sparqlive.agent.problems import answer, problem
from sparqlive.errors import Error

OPERATIONS: tuple[Operation, ...] = (*views.OPERATIONS,)

_log = logging.getLogger("sparqlive.agent")


def make_app(agent: Agent) -> Starlette:
    """An application that answers for an agent."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await agent.start()
        try:
            yield
        finally:
            await agent.stop()

    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes = [_route(agent, path, operations) for path, operations in by_path.items()]
    return Starlette(routes=routes, lifespan=lifespan)


def _route(agent: Agent, path: str, operations: Mapping[str, Operation]) -> Route:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" and "HEAD" not in operations else request.method
        try:
            return await operations[method].handler(agent, request)
        except Error as error:
            return problem(error)
        except Exception:
            _log.exception("%s %s failed", request.method, request.url.path)
            return answer(500, "The agent failed at this; its log says more. Nothing was changed.")

    return Route(path, endpoint, methods=list(operations))
