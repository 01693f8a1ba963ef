"""Authentication and authorisation of requests.

Owns the rights of requests and the limits of tokens. Without tokens, every client on this machine may do
everything, but a web page may not: the Host header must name this machine, which stops DNS rebinding. With
tokens, every request that requires a right needs a token. Pages of other origins (`origins.py`) are rejected
in both cases.
Invariant: no handler sees a request that is rejected here.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

from sparqlive.agent import origins
from sparqlive.agent.audit import Audit
from sparqlive.agent.problems import Refused
from sparqlive.agent.tokens import Limits, Token, Tokens
from sparqlive.engine.view import View
from sparqlive.errors import StoreFailed

Right: TypeAlias = Literal["open", "known", "read", "read:view", "write", "service", "admin"]
"""The right that a request requires. `open`: none. `known`: any token; the handler requires more. `read`: to
read all data. `read:view`: to read the view that the path names. `write`: to change data. `service`: to have
queries ask other endpoints. `admin`: to change
views and sources; it includes all others."""

_log = logging.getLogger("sparqlive.agent")
_REALM = 'Bearer realm="sparqlive"'
_NO_LIMITS = Limits()


def is_this_machine(host: str) -> bool:
    """Whether a host name denotes the loopback interface. Names are not resolved."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a token, or a client on this machine where the store has no tokens."""

    token: Token | None

    @property
    def name(self) -> str:
        return "local" if self.token is None else self.token.name

    @property
    def limits(self) -> Limits:
        return _NO_LIMITS if self.token is None else self.token.limits


class Access:
    """The checks of one agent. `local`: the agent listens only on this machine."""

    def __init__(
        self, directory: Path | None = None, local: bool = True, allowed: tuple[str, ...] = ()
    ) -> None:
        self.audit = Audit(directory)
        self._tokens = None if directory is None else Tokens(directory)
        self._local = local
        self._origins = origins.Origins(allowed)
        self._buckets: dict[str, tuple[float, float]] = {}
        self._subscriptions: Counter[str] = Counter()
        self._registering: list[tuple[str, str]] = []

    # Rights

    def admit(self, request: Request, right: Right) -> None:
        """Rejects a request that lacks a right. For other requests, `caller_of` returns the caller."""
        self._check_origin(request, right)
        request.state.caller = caller = self._caller(request, right)
        if caller is not None:
            self._count(caller)
            if right != "known":
                self.require(request, right)

    def may(self, request: Request, right: Right) -> bool:
        """Whether the caller has a right."""
        token = caller_of(request).token
        return token is None or token.may(right, request.path_params.get("name"))

    def require(self, request: Request, right: Right) -> None:
        """Rejects a caller that lacks a right."""
        if self.may(request, right):
            return
        token, view = caller_of(request).token, request.path_params.get("name")
        assert token is not None
        required = f"read:view={view}" if right == "read:view" else right
        raise Refused(
            403,
            f"Token {token.name!r} lacks the right {required}, which this request requires.",
            {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{right}"'},
        )

    def still(self, request: Request, right: Right) -> Callable[[], bool]:
        """Returns a check whether the caller still has a right, for streams; at most one second old."""
        caller, view = caller_of(request), request.path_params.get("name")
        checked = time.monotonic()

        def has() -> bool:
            nonlocal checked
            if time.monotonic() - checked < 1:
                return True
            checked = time.monotonic()
            if self._tokens is None or caller.token is None:
                return self._tokens is None or not self._tokens.required
            try:
                token = self._tokens.all().get(caller.token.name)
            except StoreFailed:
                return False
            return token is not None and token.hash == caller.token.hash and token.may(right, view)

        return has

    def _caller(self, request: Request, right: Right) -> Caller | None:
        """The caller; None for operations without a right where the store has tokens."""
        if self._local and (self._tokens is None or not self._tokens.required):
            self._check_host(request)
            return Caller(None)
        if right == "open":
            return None
        secret = _secret(request)
        if secret is None:
            sentence = (
                "This request requires a token: send it as Authorization: Bearer …, or as a Basic password."
            )
            raise Refused(401, sentence, {"WWW-Authenticate": _challenge(request)})
        try:
            token = None if self._tokens is None else self._tokens.find(secret)
        except StoreFailed as error:
            _log.error("%s", error)
            raise Refused(503, "The agent cannot read its tokens. Its log says why.") from error
        if token is None:
            headers = {"WWW-Authenticate": _challenge(request, ', error="invalid_token"')}
            raise Refused(401, "Unknown token. It may have been revoked.", headers)
        return Caller(token)

    def _check_host(self, request: Request) -> None:
        """Rejects requests for another host name: DNS rebinding would let web pages in."""
        host = request.headers.get("host", "")
        if not is_this_machine(_split(f"//{host}").hostname or ""):
            raise Refused(
                403,
                f"This agent has no tokens, so it answers only requests to localhost, not to {host!r}. To "
                f"allow other hosts, create a token: sparqlive token create.",
            )

    def _check_origin(self, request: Request, right: Right) -> None:
        """Rejects requests from pages of origins that are not allowed."""
        headers = request.headers
        reason = self._origins.refusal(headers, request.method, right == "open", _is_basic(request))
        if reason is not None:
            origins.refused(headers.get("origin") or headers.get("referer") or "unknown", reason)
            raise Refused(403, reason)

    # Limits

    def _count(self, caller: Caller) -> None:
        """Enforces the request rate: a token bucket that holds one second's requests."""
        rate = caller.limits.requests_per_second
        if rate is None:
            return
        now, room = time.monotonic(), max(1.0, rate)
        left, then = self._buckets.get(caller.name, (room, now))
        left = min(room, left + (now - then) * rate)
        if left < 1:
            self._buckets[caller.name] = left, now
            wait = {"Retry-After": str(math.ceil((1 - left) / rate))}
            raise Refused(429, f"Token {caller.name!r} is limited to {rate:g} requests per second.", wait)
        self._buckets[caller.name] = left - 1, now

    @contextmanager
    def subscription(self, request: Request) -> Iterator[None]:
        """Counts one more subscription of the caller within the block."""
        caller = caller_of(request)
        limit = caller.limits.subscriptions
        if limit is not None and self._subscriptions[caller.name] >= limit:
            sentence = f"Token {caller.name!r} is limited to {limit:,} open subscriptions. Close one first."
            raise Refused(429, sentence, {"Retry-After": "5"})
        self._subscriptions[caller.name] += 1
        try:
            yield
        finally:
            self._subscriptions[caller.name] -= 1

    def query_seconds(self, request: Request, most: float) -> float:
        """The time limit of the caller's queries, at most `most`."""
        limit = caller_of(request).limits.query_seconds
        return most if limit is None else min(limit, most)

    @contextmanager
    def registering(self, request: Request, view: str, there: Mapping[str, View]) -> Iterator[None]:
        """Counts a view that the caller registers within the block; rejects it beyond the caller's limit."""
        caller = caller_of(request)
        limit = caller.limits.views
        kept = ((name, there.get(name)) for name in there)  # others may drop views meanwhile
        own = {name for name, one in kept if one is not None and one.owner == caller.name}
        own |= {name for name, owner in self._registering if owner == caller.name}
        if limit is not None and view not in own and len(own) >= limit:
            raise Refused(429, f"Token {caller.name!r} is limited to {limit:,} views. Drop one first.")
        self._registering.append((view, caller.name))
        try:
            yield
        finally:
            self._registering.remove((view, caller.name))

    def note(self, request: Request, status: int, made: str | None) -> None:
        """Writes a change of views or sources to the audit log, with its outcome, if the caller is known.

        `made`: the path of the new view or source, if there is one.
        """
        if not hasattr(request.state, "caller"):
            return
        who = caller_of(request).name
        more = {"client": request.client.host} if request.client is not None else {}
        if made is not None:
            more["made"] = made
        view = request.path_params.get("name") if request.url.path.startswith("/views/") else None
        if view is not None:
            more["view"] = view
        try:
            self.audit.note(who, f"{request.method} {request.url.path}", str(status), **more)
        except OSError:  # the change is done, so the request must not look as if it had failed
            _log.exception("cannot write the audit log")


def _is_basic(request: Request) -> bool:
    return request.headers.get("authorization", "")[:6].lower() == "basic "


def _secret(request: Request) -> str | None:
    """The token of a request: a bearer token, or a Basic password or name without password (RFC 7617)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(credentials.strip()).decode().partition(":")
    except (binascii.Error, ValueError):
        return ""
    return password or name


def _challenge(request: Request, error: str = "") -> str:
    """The WWW-Authenticate header. It does not offer Basic to browsers: they would prompt for a password, and
    from then on add it to the requests of every page."""
    is_browser = (
        "sec-fetch-mode" in request.headers or "mozilla/" in request.headers.get("user-agent", "").lower()
    )
    return _REALM + error + ("" if is_browser else ', Basic realm="sparqlive", charset="UTF-8"')


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def caller_of(request: Request) -> Caller:
    """The caller of a request that `admit` has accepted."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller
