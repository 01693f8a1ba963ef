"""Lists, adds, removes and refreshes sources.

Owns which sources clients may add over HTTP: none that read this machine's files or environment or non-public
addresses, unless the agent's settings allow it. Invariant: options that could be secret are never shown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.bodies import text_of
from sparqlive.agent.operations import Operation, Parameter
from sparqlive.agent.problems import Refused
from sparqlive.errors import Error
from sparqlive.numbers import MOST, short_repr
from sparqlive.sources.manager import Source
from sparqlive.sources.watcher import KINDS

_JSON = "application/json"
_MOST_BYTES = 1 << 20  # of the JSON body: other requests wait while it is parsed
_RESOLVING_SECONDS = 5.0
_ON_THE_WEB = ("http://", "https://")
_MEMBERS = {"kind": str, "address": str, "name": str, "options": dict}
# Text values of other options may be secrets, and are hidden.
_PUBLIC_OPTIONS = frozenset(
    {"query", "versions", "tombstone", "view", "issuer", "when_deleted", "when_gone", "when_missing"}
    | {"when_replaced", "topic"}
)
_HIDDEN = "(not shown)"


def source_json(source: Source) -> dict[str, Any]:
    """A source as JSON."""
    options = {name: _public_value(name, value) for name, value in source.options.items()}
    return {**source.status(), "graph": source.graph.value, "options": options}


def _public_value(name: str, value: Any) -> Any:
    is_public = name in _PUBLIC_OPTIONS or value is None or isinstance(value, bool | int | float)
    return value if is_public else _HIDDEN


async def list_sources(agent: Agent, request: Request) -> Response:
    found = await agent.run_status(lambda: [source_json(source) for source in agent.session.sources.values()])
    return JSONResponse({"sources": found})


async def add(agent: Agent, request: Request) -> Response:
    asked = _parse_body(await text_of(agent, request, _JSON, _MOST_BYTES))
    kind, address, options = asked["kind"], asked["address"], asked.get("options", {})
    if kind not in KINDS:
        raise Refused(400, f"Unknown kind of source {short_repr(kind)}. Available kinds: {', '.join(KINDS)}.")
    if not agent.settings.allow_private:
        _check_allowed(kind, address, options)
        await _check_public(address)
    name = asked.get("name") or address
    known = agent.session.sources.get(name)
    if known is not None and known.settings() != (kind, address, options):
        raise Refused(409, f"Source {name!r} already exists with different settings. Delete it first.")
    source = await agent.run(agent.session.add_source, kind, address, asked.get("name"), options)
    where = {"Location": f"/sources/{quote(source.name, safe='')}"}
    return JSONResponse(source_json(source), 200 if known is not None else 201, where)


def _parse_body(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_number)
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refused(400, "The body has half of a surrogate pair, which is no character.") from None
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"The body is not JSON: {error}.") from None
    if not isinstance(body, dict) or not {"kind", "address"} <= body.keys() <= _MEMBERS.keys():
        raise Refused(
            400, "The body must be a JSON object with kind and address, and optionally name and options."
        )
    for member, value in body.items():
        if not isinstance(value, _MEMBERS[member]):
            is_text = _MEMBERS[member] is str
            raise Refused(400, f"The member {member} must be {'a string' if is_text else 'an object'}.")
    return body


def _number(text: str) -> float:
    """Parses a JSON number; rejects those larger than any option can be."""
    number = float(text)
    if not abs(number) <= MOST:
        raise Refused(400, f"The body has a number that is too large or not finite: {short_repr(text)}.")
    return int(text) if text.lstrip("-").isdecimal() else number


def _check_allowed(kind: str, address: str, options: Mapping[str, Any]) -> None:
    if not KINDS[kind].is_on_web:
        raise Refused(
            403,
            f"A source of kind {kind!r} is not on the Web. This agent accepts only sources on the Web, "
            f"unless it is started with --allow-private.",
        )
    if not address.startswith(_ON_THE_WEB):
        raise Refused(
            403, f"{address!r} is not an http or https URL. This agent accepts only sources on the Web."
        )
    if options.get("allow_private"):
        raise Refused(
            403, "This agent does not fetch from non-public addresses. Leave out the option allow_private."
        )
    variable = next((name for name in options if name.endswith("_variable")), None)
    if variable is not None:
        raise Refused(
            403, f"Clients may not read this agent's environment variables. Leave out the option {variable}."
        )


async def _check_public(address: str) -> None:
    """Rejects an address that is not public now. Each look checks it again, after each redirect too.

    A name that cannot be resolved now may be resolved later: the source says so until then.
    """
    from sparqlive.web.network import NotPublicError, Reach, checked_url, resolved

    url = checked_url(address)
    try:
        async with asyncio.timeout(_RESOLVING_SECONDS):
            await resolved(url.host, url.port or 0, Reach())
    except NotPublicError as error:
        raise Refused(
            403,
            f"{url.host} resolves to {error.address}, which is not a public address. This agent does not "
            f"fetch from such addresses, unless it is started with --allow-private.",
        ) from None
    except (Error, TimeoutError):
        pass


def _source_of(agent: Agent, request: Request) -> Source:
    name = request.path_params["name"]
    source = agent.session.sources.get(name)
    if source is None:
        raise Refused(404, f"There is no source named {name!r}. GET /sources lists the sources.")
    return source


async def show(agent: Agent, request: Request) -> Response:
    return JSONResponse(await agent.run_status(source_json, _source_of(agent, request)))


async def remove(agent: Agent, request: Request) -> Response:
    await agent.run_computing(_source_of(agent, request).remove)
    return Response(status_code=204)


async def refresh(agent: Agent, request: Request) -> Response:
    """Checks a source now, and waits until its changes are committed."""
    source = _source_of(agent, request)
    seconds = agent.access.query_seconds(request, agent.settings.query_seconds)
    try:
        await agent.run_for_others(request, partial(source.refresh, seconds))
    except Error as error:
        raise Refused(502, str(error)) from error
    return JSONResponse(await agent.run_status(source_json, source))


_NAMED = (Parameter("name", "Name of the source.", place="path", required=True),)

OPERATIONS = (
    Operation("GET", "/sources", list_sources, "read", "Lists the sources with their state."),
    Operation(
        "POST",
        "/sources",
        add,
        "admin",
        "Adds a source: a JSON object with kind and address, and optionally name and options.",
        takes=(_JSON,),
        gives={200: (_JSON,), 201: (_JSON,)},
    ),
    Operation(
        "POST",
        "/sources/{name:path}/refresh",
        refresh,
        "write",
        "Checks a source now, and waits until its changes are committed.",
        _NAMED,
    ),
    Operation("GET", "/sources/{name:path}", show, "read", "Returns a source and its state.", _NAMED),
    Operation(
        "DELETE",
        "/sources/{name:path}",
        remove,
        "admin",
        "Removes a source, and in one epoch the quads that no other source asserts.",
        _NAMED,
        gives={204: ()},
    ),
)
