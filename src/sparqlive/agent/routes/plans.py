"""Plans as trees for drawing: of a view, with sizes and times, or of a query that is not a view."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.bodies import text_of
from sparqlive.agent.operations import Operation, Parameter


async def plan_of_view(agent: Agent, request: Request) -> Response:
    view = agent.session.views[request.path_params["name"]]

    def read() -> dict[str, Any]:
        with agent.session.reading():
            costs = view.costs()
            listed = None if costs is None else [asdict(cost) for cost in costs]
            return {"epoch": view.epoch, **asdict(view.explained()), "costs": listed}

    return JSONResponse(await agent.run(read))


async def plan_of_query(agent: Agent, request: Request) -> Response:
    query = await text_of(agent, request, "application/sparql-query")
    base, seconds = (
        request.query_params.get("base"),
        agent.access.query_seconds(request, agent.settings.query_seconds),
    )
    async with agent.turn(request):
        explained = await agent.run_long(
            partial(agent.session.explained, query, base=base, timeout_seconds=seconds)
        )
    return JSONResponse({**asdict(explained), "costs": None})


OPERATIONS = (
    Operation(
        "GET",
        "/views/{name}/plan",
        plan_of_view,
        "read:view",
        "Returns the plan of a view as a tree: operators, delta rules, stored rows, and time spent.",
        (Parameter("name", "Name of the view.", place="path", required=True),),
    ),
    Operation(
        "POST",
        "/plan",
        plan_of_query,
        "read",
        "Returns the plan that a query would have as a view, without registering it.",
        (Parameter("base", "Base IRI for relative IRIs."),),
        takes=("application/sparql-query",),
    ),
)
