"""Recognises requests from web pages of other origins, and decides which of these may use the agent.

The code of a web page runs in the user's browser, inside the network that the agent trusts, and the browser
adds the passwords that it remembers. So a request from a page of another origin is rejected unless that
origin is allowed, whatever its method and type. This includes images, scripts, links and forms, for which
browsers send no Origin but Sec-Fetch-Site, or (old ones) Referer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from sparqlive.agent.problems import answer
from sparqlive.errors import Error

ANY = "*"
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_log = logging.getLogger("sparqlive.agent")


def parse_origin(argument: str) -> str:
    """Returns an origin as browsers write it; `*` means any, `null` that of files and sandboxed frames."""
    text = argument.strip().lower()
    if text in (ANY, "null"):
        return text
    found = _ORIGIN.fullmatch(text)
    port = int(found[3]) if found and found[3] else None
    if not found or (port is not None and not 0 < port <= 65535):
        example = "https://app.example or http://localhost:3000"
        raise Error(
            f"{argument!r} is not an origin. An origin has a scheme, a host and optionally a port, but no "
            f"path, such as {example}. Use * to allow all origins."
        )
    return f"{found[1]}://{found[2]}" + ("" if port in (None, _PORTS.get(found[1])) else f":{port}")


class Origins:
    """The origins whose pages may use an agent, in addition to its own."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(map(parse_origin, allowed))

    def refusal(self, headers: Headers, method: str, is_open: bool, remembered: bool) -> str | None:
        """Returns why a request from a page of another origin is rejected; None if it is not.

        `is_open`: the operation requires no right. `remembered`: the request has credentials that browsers
        add by themselves.
        """
        asking = _origin_of(headers)
        if asking is None:
            return None
        if asking in self._allowed or (ANY in self._allowed and not remembered):
            return None
        if is_open and method in ("GET", "HEAD") and _is_followed_link(headers):
            return None
        who = "another site" if asking == _UNKNOWN else asking[:200]
        if ANY in self._allowed:
            return (
                f"Browsers add a remembered password to the requests of every page. Start the agent with "
                f"--origin {who}, or send the token as Authorization: Bearer."
            )
        return (
            f"Pages of {who} may not use this agent. To allow them, start it with sparqlive serve --origin "
            f"{'ORIGIN' if asking in (_UNKNOWN, 'null') else who}."
        )


_UNKNOWN = "unknown"


def _origin_of(headers: Headers) -> str | None:
    """The origin of the page that sent a request; None if no page did, or a page of the agent itself.

    An origin is the agent's own if it equals the Host header, unless the browser reports another site:
    servers at the default ports of http and https have the same Host.
    """
    sites = headers.getlist("sec-fetch-site")
    may_be_own = {*sites} <= {"none", "same-origin"}
    if "origin" in headers:
        asking: str | None = ", ".join(headers.getlist("origin")).lower()
    elif sites and may_be_own:
        return None
    else:
        asking = _referring(headers)
    if asking is None:
        return None if may_be_own else _UNKNOWN
    return None if may_be_own and _is_own(asking, headers.get("host", "")) else asking


def _referring(headers: Headers) -> str | None:
    """The origin of the page in Referer."""
    try:
        page = urlsplit(headers.get("referer", ""))
    except ValueError:
        return _UNKNOWN
    return f"{page.scheme}://{page.netloc}".lower() if page.scheme and page.netloc else None


def _is_own(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc == host.lower()
    except ValueError:
        return False


def _is_followed_link(headers: Headers) -> bool:
    """Whether a user followed a link, as opposed to a fetch by the page itself."""
    mode, destination = headers.get("sec-fetch-mode", "navigate"), headers.get("sec-fetch-dest", "document")
    return "origin" not in headers and (mode, destination) == ("navigate", "document")


class CrossOrigin(CORSMiddleware):
    """Sends CORS headers, and logs the pages that were rejected."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            return response
        refused(request_headers["origin"], bytes(response.body).decode())
        sentence = (
            f"Pages of {request_headers['origin'][:200]} may not send this request: "
            f"{bytes(response.body).decode()}."
        )
        return answer(400, sentence, {"Vary": response.headers["vary"]})


def refused(origin: str, reason: str) -> None:
    """Logs a rejected page, so that the operator of the agent sees which origin to allow."""
    _log.warning(
        "rejected a request of a web page", extra={"more": {"origin": origin[:200], "reason": reason}}
    )
