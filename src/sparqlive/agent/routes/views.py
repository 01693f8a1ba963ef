"""Lists, registers and drops views; returns a view's content in every format, its plan and its statistics."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.access import caller_of
from sparqlive.agent.agent import Agent
from sparqlive.agent.answers import Result, hint_header
from sparqlive.agent.bodies import text_of
from sparqlive.agent.codings import CODINGS
from sparqlive.agent.negotiation import (
    FORMAT,
    GRAPH_TYPES,
    RESULT_TYPES,
    TABLE_TYPES,
    WEIGHTS,
    result_format,
    written,
)
from sparqlive.agent.operations import Operation, Parameter, is_number
from sparqlive.agent.problems import Refused
from sparqlive.engine.deferred import parse_refresh
from sparqlive.engine.register import VIEW_NAME, check_view_name
from sparqlive.engine.results import Answer, TermRow
from sparqlive.engine.view import View
from sparqlive.errors import Error, ViewExists
from sparqlive.numbers import short_repr
from sparqlive.sparql.results import json_term

_MOST_ROWS = 10_000
_MOST_SORTED = 5_000  # larger views are not sorted to find their first rows: that takes long


def view_json(view: View) -> dict[str, Any]:
    """A view as JSON."""
    return {
        "name": view.name,
        "form": view.form,
        "variables": list(view.variables),
        "query": view.text,
        "ordered": view.ordered,
        **view.stats(),
    }


async def list_views(agent: Agent, request: Request) -> Response:
    views = await agent.run_status(lambda: [view_json(view) for view in agent.session.views.values()])
    return JSONResponse({"epoch": agent.session.epoch, "views": views})


async def register(agent: Agent, request: Request) -> Response:
    name = request.path_params["name"]
    check_view_name(name)
    query = await text_of(agent, request, "application/sparql-query")
    options = request.query_params
    known = name in agent.session.views
    refresh = parse_refresh(options.get("refresh", "immediate"))
    owner = caller_of(request).name

    def compute() -> tuple[dict[str, Any], str | None]:
        replace = options.get("replace") == "true"
        try:
            view = agent.session.view(
                name, query, base=options.get("base"), replace=replace, refresh=refresh, owner=owner
            )
        except ViewExists as error:
            raise Refused(
                409,
                f"View {name!r} already exists with a different query or different settings. Add "
                f"?replace=true to replace it, or choose another name.",
            ) from error
        try:
            return view_json(view), view.hint
        except Error:  # the view is registered, even if it was dropped or has failed since
            return {"name": name}, None

    with agent.access.registering(request, name, agent.session.views), agent.computes():
        body, hint = await agent.run_computing(compute)
    headers = {"Location": f"/views/{quote(name)}", **hint_header(hint)}
    return JSONResponse(body, 200 if known else 201, headers)


async def snapshot(agent: Agent, request: Request) -> Response:
    """Returns the content of a view, with its epoch as the ETag."""
    view = agent.session.views[request.path_params["name"]]
    syntax, media_type = result_format(request, view.form)
    at = request.query_params.get("at")
    if at is not None and not is_number(at):
        raise Refused(400, f"The parameter at must be the number of an epoch, not {short_repr(at)}.")

    shape = f"{syntax}-weights" if request.query_params.get("weights") == "true" else syntax

    def headers_of(epoch: int) -> dict[str, str]:
        return {"ETag": _etag(epoch, shape), "Sparqlive-Epoch": str(epoch)}

    def read() -> Result:
        answer = view.now(agent.settings.query_rows) if at is None else view.at(int(at))
        headers = headers_of(answer.epoch) | _hint(agent, request, answer)
        return Result(written(answer, syntax, request), headers, media_type)

    epoch = view.epoch if at is None else int(at)
    cached = _cached_tag(request, epoch, shape)
    if view.failure is None and cached is not None:
        headers = {**headers_of(epoch), "ETag": cached, "Vary": "Accept, Accept-Encoding"}
        return Response(status_code=304, headers=headers)
    seconds = agent.access.query_seconds(request, agent.settings.query_seconds)
    return await agent.answer(request, read, seconds, f"Reading view {view.name!r}")


def _hint(agent: Agent, request: Request, found: View | Answer) -> dict[str, str]:
    """The header that says why a view has no rows; for callers who may read all data, which it is about."""
    return hint_header(found.hint) if agent.access.may(request, "read") else {}


def _etag(epoch: int, syntax: str, coding: str = "") -> str:
    return f'"{epoch}-{syntax}{coding}"'


def _cached_tag(request: Request, epoch: int, syntax: str) -> str | None:
    """The tag of a current copy that the client has, in any coding."""
    tags = ",".join(request.headers.getlist("if-none-match"))
    current = [_etag(epoch, syntax, coding) for coding in ("", *(f"-{name}" for name in CODINGS))]
    for tag in tags.split(","):
        named = tag.strip().removeprefix("W/")
        if named in (*current, "*"):
            return current[0] if named == "*" else named
    return None


async def rows(agent: Agent, request: Request) -> Response:
    """Returns the first distinct rows of a view with their weights, to show a view of any size."""
    view = agent.session.views[request.path_params["name"]]
    limit = request.query_params.get("limit", "500")
    if not is_number(limit) or int(limit) > _MOST_ROWS:
        raise Refused(
            400,
            f"The parameter limit must be a number of rows up to {_MOST_ROWS:,}, not {short_repr(limit)}.",
        )

    def read() -> tuple[dict[str, Any], dict[str, str]]:
        preview = view.preview(int(limit), _MOST_SORTED)
        shown = {
            "epoch": preview.epoch,
            "rows": preview.row_count,
            "ordered": preview.in_order,
            "head": {"vars": list(view.variables)},
            "results": {"bindings": [_binding(view, row) for row, _ in preview.first]},
            "weights": [weight for _, weight in preview.first],
        }
        return shown, _hint(agent, request, view)

    shown, headers = await agent.run(read)
    return JSONResponse(shown, headers=headers)


def _binding(view: View, row: TermRow) -> dict[str, Any]:
    return {name: json_term(term) for name, term in zip(view.variables, row, strict=True) if term is not None}


async def drop(agent: Agent, request: Request) -> Response:
    await agent.run(agent.session.drop, request.path_params["name"])
    return Response(status_code=204)


async def refresh(agent: Agent, request: Request) -> Response:
    view = agent.session.views[request.path_params["name"]]
    delta = await agent.run(view.refresh)
    return JSONResponse({"epoch": delta.epoch, "rows": len(delta)})


async def explain(agent: Agent, request: Request) -> Response:
    view = agent.session.views[request.path_params["name"]]
    return Response(await agent.run(view.explain), media_type="text/plain; charset=utf-8")


async def statistics(agent: Agent, request: Request) -> Response:
    return JSONResponse(await agent.run_status(view_json, agent.session.views[request.path_params["name"]]))


_NAMED = (Parameter("name", "Name of the view.", place="path", required=True, pattern=VIEW_NAME),)
_RESULTS = tuple(
    name.partition(";")[0] for name in (*RESULT_TYPES.values(), *TABLE_TYPES.values(), *GRAPH_TYPES.values())
)

OPERATIONS = (
    Operation("GET", "/views", list_views, "read", "Lists the views with their queries and statistics."),
    Operation(
        "PUT",
        "/views/{name}",
        register,
        "admin",
        "Registers a query as a view and computes it; repeating the request changes nothing.",
        (
            *_NAMED,
            Parameter("base", "Base IRI for relative IRIs.", "iri"),
            Parameter("replace", "true: replace an existing view that has a different query.", "boolean"),
            Parameter("refresh", "When to update: immediate, manual, or a maximum delay in seconds."),
        ),
        takes=("application/sparql-query",),
        gives={200: ("application/json",), 201: ("application/json",)},
    ),
    Operation(
        "GET",
        "/views/{name}",
        snapshot,
        "read:view",
        "Returns the content of a view; its ETag is the epoch.",
        (
            *_NAMED,
            Parameter("at", "Earlier epoch, as far back as deltas are kept.", "integer"),
            FORMAT,
            WEIGHTS,
        ),
        gives={200: _RESULTS, 304: ()},
    ),
    Operation(
        "GET",
        "/views/{name}/rows",
        rows,
        "read:view",
        "Returns the first distinct rows of a view with their weights; a large view is not sorted.",
        (*_NAMED, Parameter("limit", "Maximum number of rows; 500 by default.", "integer")),
    ),
    Operation("DELETE", "/views/{name}", drop, "admin", "Drops a view.", _NAMED, gives={204: ()}),
    Operation(
        "POST",
        "/views/{name}/refresh",
        refresh,
        "write",
        "Brings a view with delayed or manual refresh to the current epoch.",
        _NAMED,
    ),
    Operation(
        "GET",
        "/views/{name}/explain",
        explain,
        "read:view",
        "Returns the plan of a view, its delta rules, and the size of what it stores.",
        _NAMED,
        gives={200: ("text/plain",)},
    ),
    Operation(
        "GET",
        "/views/{name}/statistics",
        statistics,
        "read:view",
        "Returns rows, bytes of state, the last epoch and its strategy.",
        _NAMED,
    ),
)
