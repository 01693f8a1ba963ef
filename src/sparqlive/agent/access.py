"""Who is asking, and whether they may.

Owns the rights of requests and the limits of tokens. Where a store has no tokens, whoever is on this machine
may do everything, but no web page may: a request must name this machine as its host (a page of another name
that was made to lead here does not). Where it has tokens, each request that takes a right needs one. Pages of
other origins (`origins.py`) are refused in both cases.
Invariant: a request that is refused here has reached no handler.
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

Right: TypeAlias = Literal["open", "known", "read", "read:view", "write", "admin"]
"""What it takes: nothing; any token (the handler asks for more); reading all data; reading the view that the
path names; changing data; changing views and sources, which includes all."""

_log = logging.getLogger("sparqlive.agent")
_REALM = 'Bearer realm="sparqlive"'
_NO_LIMITS = Limits()


def is_this_machine(host: str) -> bool:
    """Whether a host's name is this machine's for itself, whatever names resolve to."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Caller:
    """Who asks: a token, or somebody on this machine where there are none."""

    token: Token | None

    @property
    def name(self) -> str:
        return "local" if self.token is None else self.token.name

    @property
    def limits(self) -> Limits:
        return _NO_LIMITS if self.token is None else self.token.limits


class Access:
    """The checks of one agent. `local`: only this machine reaches it."""

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

    # Who may what

    def admit(self, request: Request, right: Right) -> None:
        """Refuses a request that may not be; of others, `caller_of` tells whose they are."""
        self._check_origin(request, right)
        request.state.caller = caller = self._caller(request, right)
        if caller is not None:
            self._count(caller)
            if right != "known":
                self.require(request, right)

    def require(self, request: Request, right: Right) -> None:
        """Refuses whoever lacks a right."""
        token = caller_of(request).token
        view = request.path_params.get("name")
        if token is None or token.may(right, view):
            return
        wanted = f"read:view={view}" if right == "read:view" else right
        raise Refused(
            403,
            f"The token {token.name!r} may not do this: it takes the right {wanted}.",
            {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{right}"'},
        )

    def still(self, request: Request, right: Right) -> Callable[[], bool]:
        """For what lasts: tells, as of the last second, whether the caller still has a right."""
        caller, view = caller_of(request), request.path_params.get("name")
        checked = time.monotonic()

        def has() -> bool:
            nonlocal checked
            if time.monotonic() - checked < 1:
                return True
            checked = time.monotonic()
            if self._tokens is None or caller.token is None:
                return self._tokens is None or not self._tokens.wanted
            try:
                token = self._tokens.all().get(caller.token.name)
            except StoreFailed:
                return False
            return token is not None and token.hash == caller.token.hash and token.may(right, view)

        return has

    def _caller(self, request: Request, right: Right) -> Caller | None:
        """None for what is open to all."""
        if self._local and (self._tokens is None or not self._tokens.wanted):
            self._check_host(request)
            return Caller(None)
        if right == "open":
            return None
        secret = _secret(request)
        if secret is None:
            sentence = "This takes a token: send it as Authorization: Bearer …, or as a password (Basic)."
            raise Refused(401, sentence, {"WWW-Authenticate": _challenge(request)})
        try:
            token = None if self._tokens is None else self._tokens.known(secret)
        except StoreFailed as error:
            _log.error("%s", error)
            raise Refused(503, "The agent cannot read its tokens: its log says why.") from error
        if token is None:
            headers = {"WWW-Authenticate": _challenge(request, ', error="invalid_token"')}
            raise Refused(401, "The agent does not know this token; it may have been revoked.", headers)
        return Caller(token)

    def _check_host(self, request: Request) -> None:
        """Against pages whose name was made to lead to this machine (DNS rebinding)."""
        host = request.headers.get("host", "")
        if not is_this_machine(_split(f"//{host}").hostname or ""):
            raise Refused(
                403,
                f"An agent without tokens answers to localhost, not to {host!r}. Make tokens for others: "
                f"sparqlive token create.",
            )

    def _check_origin(self, request: Request, right: Right) -> None:
        """Pages of other origins may use the agent only where it was said that they may."""
        headers = request.headers
        reason = self._origins.refusal(headers, request.method, right == "open", _is_basic(request))
        if reason is not None:
            origins.refused(headers.get("origin") or headers.get("referer") or "not told", reason)
            raise Refused(403, reason)

    # Limits

    def _count(self, caller: Caller) -> None:
        """A bucket of one second's requests, that fills at their rate."""
        rate = caller.limits.requests_per_second
        if rate is None:
            return
        now, room = time.monotonic(), max(1.0, rate)
        left, then = self._buckets.get(caller.name, (room, now))
        left = min(room, left + (now - then) * rate)
        if left < 1:
            self._buckets[caller.name] = left, now
            wait = {"Retry-After": str(math.ceil((1 - left) / rate))}
            raise Refused(429, f"The token {caller.name!r} may make {rate:g} requests a second.", wait)
        self._buckets[caller.name] = left - 1, now

    @contextmanager
    def subscription(self, request: Request) -> Iterator[None]:
        """Inside, the caller has one more subscription."""
        caller = caller_of(request)
        limit = caller.limits.subscriptions
        if limit is not None and self._subscriptions[caller.name] >= limit:
            sentence = f"The token {caller.name!r} may have {limit:,} subscriptions at a time."
            raise Refused(429, sentence, {"Retry-After": "5"})
        self._subscriptions[caller.name] += 1
        try:
            yield
        finally:
            self._subscriptions[caller.name] -= 1

    def query_seconds(self, request: Request, most: float) -> float:
        """How long a query of the caller may take, where the agent allows so much."""
        limit = caller_of(request).limits.query_seconds
        return most if limit is None else min(limit, most)

    @contextmanager
    def registering(self, request: Request, view: str, there: Mapping[str, View]) -> Iterator[None]:
        """Inside, the caller registers a view, unless it has as many as it may have of those there are."""
        caller = caller_of(request)
        limit = caller.limits.views
        kept = ((name, there.get(name)) for name in there)  # others may drop views meanwhile
        own = {name for name, one in kept if one is not None and one.owner == caller.name}
        own |= {name for name, owner in self._registering if owner == caller.name}
        if limit is not None and view not in own and len(own) >= limit:
            raise Refused(429, f"The token {caller.name!r} may have {limit:,} views: drop one first.")
        self._registering.append((view, caller.name))
        try:
            yield
        finally:
            self._registering.remove((view, caller.name))

    def note(self, request: Request, status: int, made: str | None) -> None:
        """What was asked that changes views or sources, and how it ended; not what nobody known asked.

        `made`: the path of what there is now, if it has one.
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
        except OSError:  # what was asked for is done: it is not told as if it had failed
            _log.exception("the audit log cannot be written")


def _is_basic(request: Request) -> bool:
    return request.headers.get("authorization", "")[:6].lower() == "basic "


def _secret(request: Request) -> str | None:
    """The token that a request shows: as it is, or as a password, or as a name without one (RFC 7617)."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(given.strip()).decode().partition(":")
    except (binascii.Error, ValueError):
        return ""
    return password or name


def _challenge(request: Request, error: str = "") -> str:
    """How to show a token. Browsers are not offered Basic: they would ask for a password by themselves, and
    add it to the requests of every page from then on."""
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
    """Who asks; only what `admit` has let in has a caller."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller
