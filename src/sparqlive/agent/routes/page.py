"""Serves the page at `/`: static files from the folder `page`, which contain no data.

Owns the Content-Security-Policy: the browser loads only these files, from this host alone, and no text can
become markup or code (trusted types block every way to turn a string into HTML). The page gets its data from
the agent's other operations, with the user's own token.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.operations import Operation, Parameter
from sparqlive.agent.origins import parse_origin
from sparqlive.agent.problems import Refused

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Content and entity tag of each file, by name. Only these names are served."""
    found = {}
    for file in files("sparqlive.agent").joinpath("page").iterdir():
        if file.name.rpartition(".")[2] in _TYPES:
            content = file.read_bytes()
            found[file.name] = content, f'"{sha256(content).hexdigest()[:16]}"'
    return found


async def page(agent: Agent, request: Request) -> Response:
    return _send_file(request, "index.html")


async def chart(agent: Agent, request: Request) -> Response:
    """Returns the page that shows only a chart. It has no controls, so allowed origins may embed it."""
    allowed = [origin for origin in map(parse_origin, agent.settings.origins) if origin != "null"]
    return _send_file(request, "chart.html", " ".join(["'self'", *allowed]))


async def page_file(agent: Agent, request: Request) -> Response:
    return _send_file(request, request.path_params["file"])


def _send_file(request: Request, name: str, embedded_by: str = "'none'") -> Response:
    if name not in _files():
        raise Refused(404, f"The page has no file named {name!r}.")
    content, tag = _files()[name]
    policy = f"{_POLICY}; frame-ancestors {embedded_by}"
    headers = {**_HEADERS, "Content-Security-Policy": policy, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, media_type=_TYPES[name.rpartition(".")[2]])


_MEDIA_TYPES = tuple(full.partition(";")[0] for full in _TYPES.values())

OPERATIONS = (
    Operation(
        "GET",
        "/",
        page,
        "open",
        "Returns the page, which shows views, their rows and plans, queries, sources and epochs.",
        gives={200: ("text/html",), 304: ()},
    ),
    Operation(
        "GET",
        "/chart",
        chart,
        "open",
        "Returns a page with one live chart of a view, which other pages can embed.",
        gives={200: ("text/html",), 304: ()},
    ),
    Operation(
        "GET",
        "/page/{file}",
        page_file,
        "open",
        "Returns a file of the page.",
        (Parameter("file", "Name of the file.", place="path", required=True),),
        gives={200: _MEDIA_TYPES, 304: ()},
    ),
)
