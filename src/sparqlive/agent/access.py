"""Who is asking, and whether they may.

Owns the rights of requests and the limits of tokens. Where a store has no tokens, whoever is on this machine
may do everything, but no web page may: a request must name this machine as its host (a page of another name
that was made to lead here does not), and a page's own origin must be allowed. Where it has tokens, each
request that takes a right needs one.
Invariant: a request that is refused here has reached no handler.
"""

from __future__ import annotations

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

from sparqlive.agent.audit import Audit
from sparqlive.agent.problems import Refused
from sparqlive.agent.tokens import Limits, Token, Tokens
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
        self, directory: Path | None = None, local: bool = True, origins: tuple[str, ...] = ()
    ) -> None:
        self.audit = Audit(directory)
        self._tokens = None if directory is None else Tokens(directory)
        self._local = local
        self._origins = frozenset(origins)
        self._buckets: dict[str, tuple[float, float]] = {}
        self._subscriptions: Counter[str] = Counter()
        self._owners = self._read_owners()
        self._registering: list[tuple[str, str]] = []

    # Who may what

    def admit(self, request: Request, right: Right) -> None:
        """Refuses a request that may not be; of others, `caller_of` tells whose they are."""
        self._check_origin(request)
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
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            sentence = "This takes a token: send it as Authorization: Bearer …"
            raise Refused(401, sentence, {"WWW-Authenticate": _REALM})
        try:
            token = None if self._tokens is None else self._tokens.known(secret.strip())
        except StoreFailed as error:
            _log.error("%s", error)
            raise Refused(503, "The agent cannot read its tokens: its log says why.") from error
        if token is None:
            headers = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
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

    def _check_origin(self, request: Request) -> None:
        """Pages of other origins may use the agent only where it was said that they may."""
        origin = request.headers.get("origin")
        if origin is None or origin in self._origins:
            return
        if _split(origin).netloc.lower() != request.headers.get("host", "").lower():
            raise Refused(
                403, f"Pages of {origin} may not use this agent; serve --origin {origin} allows it."
            )

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
    def registering(self, request: Request, view: str, there: Mapping[str, object]) -> Iterator[None]:
        """Inside, the caller registers a view, unless it has as many as it may have."""
        caller = caller_of(request)
        limit = caller.limits.views
        own = {name for name, owner in self._owners.items() if owner == caller.name and name in there}
        own |= {name for name, owner in self._registering if owner == caller.name}
        if limit is not None and view not in own and len(own) >= limit:
            raise Refused(429, f"The token {caller.name!r} may have {limit:,} views: drop one first.")
        self._registering.append((view, caller.name))
        try:
            yield
        finally:
            self._registering.remove((view, caller.name))

    def _read_owners(self) -> dict[str, str]:
        owners: dict[str, str] = {}
        for entry in self.audit:
            if entry.get("outcome") == "201" and "view" in entry:
                owners[entry["view"]] = entry["who"]
        return owners

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
            if status == 201:
                self._owners[view] = who
        self.audit.note(who, f"{request.method} {request.url.path}", str(status), **more)


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
