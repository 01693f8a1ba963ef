"""Web pages of other origins: which of them may use the agent, and how a request of one is recognised.

Whoever opens a page runs its code, and a browser sends what that code asks for from inside of the network
that the agent trusts, with the passwords that it remembers. So a request that a page of another origin causes
is refused unless that origin was allowed, whatever its method and its type: also an image, a script, a link
or a form, for which browsers send no Origin, but Sec-Fetch-Site, or (old ones) Referer.
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


def checked_origin(given: str) -> str:
    """An origin as browsers write it; `*` is any, `null` that of files and of frames without one."""
    text = given.strip().lower()
    if text in (ANY, "null"):
        return text
    found = _ORIGIN.fullmatch(text)
    port = int(found[3]) if found and found[3] else None
    if not found or (port is not None and not 0 < port <= 65535):
        example = "https://app.example or http://localhost:3000"
        raise Error(
            f"{given!r} is no origin: that is a scheme, a host and maybe a port, without a path, such as "
            f"{example}; or * for all of them."
        )
    return f"{found[1]}://{found[2]}" + ("" if port in (None, _PORTS.get(found[1])) else f":{port}")


class Origins:
    """The origins whose pages may use an agent, besides its own."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(map(checked_origin, allowed))

    def refusal(self, headers: Headers, method: str, is_open: bool, remembered: bool) -> str | None:
        """Why a request is refused, if a page of another origin causes it.

        `is_open`: it asks for what holds no data. `remembered`: it has credentials that browsers add by
        themselves.
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
                f"Browsers send a password that they remember for every page: name the origin, "
                f"--origin {who}, or send the token as Authorization: Bearer."
            )
        return (
            f"Pages of {who} may not use this agent; sparqlive serve --origin "
            f"{'ORIGIN' if asking in (_UNKNOWN, 'null') else who} allows it."
        )


_UNKNOWN = "unknown"


def _origin_of(headers: Headers) -> str | None:
    """The origin of the page that a request comes from; None where it is none, or the agent's own.

    An origin is the agent's own if it has the name that the agent is asked by, unless the browser says that
    it is another one: two servers at the ports of http and https have the same name.
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
    """Whether somebody went from one page to another, and not a page fetched something for itself."""
    mode, destination = headers.get("sec-fetch-mode", "navigate"), headers.get("sec-fetch-dest", "document")
    return "origin" not in headers and (mode, destination) == ("navigate", "document")


class CrossOrigin(CORSMiddleware):
    """Tells browsers which pages may use the agent, and the log which ones were not let in."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            return response
        refused(request_headers["origin"], bytes(response.body).decode())
        sentence = (
            f"Pages of {request_headers['origin'][:200]} may not do this: {bytes(response.body).decode()}."
        )
        return answer(400, sentence, {"Vary": response.headers["vary"]})


def refused(origin: str, reason: str) -> None:
    """Notes that a page was not let in: whoever runs the agent sees what to allow."""
    _log.warning("a page was refused", extra={"more": {"origin": origin[:200], "reason": reason}})
