"""Requests to a running agent, for commands that work on an agent instead of a store.

Owns the connection and its errors. Invariants: a request that the agent rejects raises an Error with the
agent's own explanation; a result that ends too early raises one, too. Nothing that another server says is
taken for an answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import httpx

from sparqlive.errors import Error, UnknownView
from sparqlive.web.event_stream import detail_of
from sparqlive.web.headers import AGENT

_CONNECT_SECONDS = 30.0
_LOOK_SECONDS = 0.2
Body = bytes | Iterable[bytes]


class AgentClient:
    """A connection to an agent. Requests have no time limit: the agent has one."""

    def __init__(self, address: str, token: str | None) -> None:
        if not address.startswith(("http://", "https://")):
            raise Error(f"{address} is not the address of an agent. Use http://HOST:PORT.")
        self.address = address.rstrip("/")
        self.hint: str | None = None
        """Why the last result has no rows, if the agent says it."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(timeout=timeout, headers=headers, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def json(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        content_type: str | None = None,
        **parameters: str,
    ) -> Any:
        """Sends a request; returns its JSON answer, or None where it has none."""
        found = self.pieces(method, path, body, "application/json", content_type=content_type, **parameters)
        answer = b"".join(found)
        try:
            return httpx.Response(200, content=answer).json() if answer else None
        except (ValueError, RecursionError) as error:
            raise Error(f"{self.address} did not answer as an agent does: {error}.") from error

    def pieces(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        accept: str = "*/*",
        *,
        content_type: str | None = None,
        **parameters: str,
    ) -> Iterator[bytes]:
        """Sends a request; yields its answer in pieces, as they arrive."""
        headers = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
        with self._answer(method, path, body, headers, parameters) as found:
            yield from found.iter_bytes()

    def upload(self, body: Iterable[bytes]) -> Any:
        """Sends N-Quads to load, and waits until it is loaded; returns what it changed."""
        headers = {"Content-Type": "application/n-quads", "Prefer": "respond-async"}
        with self._answer("POST", "/uploads", body, headers, {}) as found:
            address = found.headers["location"]
        while (report := self.json("GET", address))["state"] != "done":
            if report["state"] == "failed":
                raise Error(f"{self.address}: {report['detail']}")
            time.sleep(_LOOK_SECONDS)
        return report

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: Body | None,
        headers: Mapping[str, str],
        parameters: Mapping[str, str],
    ) -> Iterator[httpx.Response]:
        """The answer of the agent, to be read within the block; an Error if it rejects the request."""
        try:
            request = self._client.stream(
                method, f"{self.address}{path}", content=body, headers=headers, params=parameters or None
            )
            with request as found:
                if AGENT not in found.headers:
                    raise Error(
                        f"The server at {self.address} is not a sparqlive agent (status {found.status_code}, "
                        f"without the header {AGENT}). Check --agent: it takes the address that sparqlive "
                        f"serve prints."
                    )
                if found.status_code >= 300:
                    found.read()
                    kind = UnknownView if found.status_code == 404 and path.startswith("/views/") else Error
                    raise kind(f"{self.address}: {detail_of(found)}")
                hint = found.headers.get("sparqlive-hint")
                self.hint = None if hint is None else unquote(hint)
                yield found
        except httpx.ConnectError as error:
            raise Error(
                f"There is no agent at {self.address}: {error}. Check --agent, or start one: "
                f"sparqlive serve --store DIR."
            ) from error
        except httpx.HTTPError as error:
            raise Error(
                f"The connection to {self.address} broke: {type(error).__name__}: {error}."
            ) from error
