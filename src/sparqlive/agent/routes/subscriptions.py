"""Subscriptions: streams of server-sent events with a view's content and then its changes.

Owns one stream: where it begins, what it sends next, and when it ends. A reader that keeps up gets one event
per epoch; a reader that is behind gets the sum of what it missed. Data is sent in pieces and waits only in
the connection's own buffer, so that a slow reader holds no more memory than that; and all slow readers
together no more than `unsent_bytes`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from sparqlive.agent import events
from sparqlive.agent.access import Caller, caller_of
from sparqlive.agent.agent import Agent
from sparqlive.agent.answers import Paced
from sparqlive.agent.bodies import text_of
from sparqlive.agent.channel import Channel, Chunk, Outdated
from sparqlive.agent.events import Ending, Format
from sparqlive.agent.operations import Operation, Parameter, is_number
from sparqlive.agent.problems import Refused
from sparqlive.engine.results import GRAPH_FORMS
from sparqlive.engine.view import View
from sparqlive.errors import Closed, Error, UnknownView, ViewFailed
from sparqlive.numbers import short_repr

_log = logging.getLogger("sparqlive.agent")

LINEAGE = "Sparqlive-Lineage"
_EVENTS = "text/event-stream"
_PIECE_BYTES = 1 << 16
# Why a stream ends, if reading the view fails before the hub ends the channel.
_ENDINGS: Mapping[type[Exception], Ending] = {
    Outdated: "replaced",
    ViewFailed: "failed",
    UnknownView: "dropped",
    Closed: "stopping",
}


@dataclass(frozen=True)
class _Parameters:
    """The parameters of a subscription."""

    format: Format
    snapshot: bool
    since: int | None
    known: bool
    """Whether the subscriber's epochs are those of this store (the same lineage)."""


async def changes(agent: Agent, request: Request) -> Response:
    """Streams a view."""
    if agent.hub.stopped:
        raise _stopping()
    view = agent.session.views[request.path_params["name"]]
    asked = _parse_parameters(request, view.form, agent.session.lineage)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", LINEAGE: agent.session.lineage}
    if request.method == "HEAD":
        return Response(headers=headers, media_type=_EVENTS)
    with ExitStack() as held:
        held.enter_context(agent.access.subscription(request))
        channel, first = await _begin(agent, view.name, asked)
        held.callback(agent.hub.leave, channel)
        still = agent.access.still(request, "read:view")
        abort = getattr(request.state, "abort", None)
        return Stream(agent, channel, asked.format, first, headers, still, abort, held.pop_all())


def _stopping() -> Refused:
    return Refused(503, "The agent is stopping.", {"Retry-After": "1", "Connection": "close"})


def _parse_parameters(request: Request, form: str, lineage: str) -> _Parameters:
    options = request.query_params
    format_ = options.get("format", "json")
    if format_ not in ("json", "patch"):
        raise Refused(400, f"The parameter format must be json or patch, not {short_repr(format_)}.")
    if format_ == "patch" and form not in GRAPH_FORMS:
        raise Refused(400, f"A {form} view has no graph for an RDF Patch. Use format=json.")
    snapshot = options.get("snapshot", "true")
    if snapshot not in ("true", "false"):
        raise Refused(400, f"The parameter snapshot must be true or false, not {short_repr(snapshot)}.")
    since = options.get("since")
    if since is not None and not is_number(since):
        raise Refused(400, f"The parameter since must be the number of an epoch, not {short_repr(since)}.")
    # If a request has both, the header is newer: browsers add it when they reconnect.
    last = request.headers.get("last-event-id", "")
    since = last if is_number(last) else since
    known = options.get("lineage", lineage) == lineage
    return _Parameters(
        cast("Format", format_), snapshot == "true", None if since is None else int(since), known
    )


async def _begin(agent: Agent, name: str, asked: _Parameters) -> tuple[Channel, Chunk]:
    """Joins the channel of a view. Returns it, and the first data of the reader."""
    while True:
        channel = agent.hub.channel(agent.session.views[name])
        channel.join()
        try:
            if asked.since is not None:
                return channel, await channel.changes_since(asked.since, asked.format, asked.known)
            return channel, await (channel.snapshot(asked.format) if asked.snapshot else channel.present())
        except Outdated:
            agent.hub.leave(channel)
        except BaseException:
            agent.hub.leave(channel)
            raise


class Stream(Response):
    """The event stream of one reader; releases what it holds at the end."""

    def __init__(
        self,
        agent: Agent,
        channel: Channel,
        format_: Format,
        first: Chunk,
        headers: Mapping[str, str],
        still: Callable[[], bool],
        abort: Callable[[], None] | None,
        held: ExitStack,
    ) -> None:
        """`still`: whether the caller may read on. `abort`: ends the connection, whatever waits in it."""
        self.status_code = 200
        self.background = None
        self.media_type = f"{_EVENTS}; charset=utf-8"
        self.body = b""
        self.init_headers(headers)
        del self.headers["content-length"]
        self._agent = agent
        self._settings = agent.settings
        self._still = still
        self._abort = abort
        self._resources = held
        self._channel = channel
        self._format = format_
        self._position = first.epoch
        self._chunk: Chunk | None = replace(first, data=events.RETRY + first.data)
        self._sent_at = 0.0
        self._sending: float | None = None
        self._stalled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._task = asyncio.current_task()
        self._look_for_stall()
        watching = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            ending = await self._write()
            watching.cancel()
            await self._last(ending)
        except asyncio.CancelledError:
            if not self._stalled:
                raise
            assert self._task is not None
            self._task.uncancel()
        except Error as error:
            _log.warning("A stream was broken off: %s", error)
        finally:
            watching.cancel()
            self._looking.cancel()
            self._resources.close()

    async def _watch(self, receive: Receive) -> None:
        """Waits for a disconnect, which a stream without news would not notice otherwise."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._give_up()

    def _look_for_stall(self) -> None:
        """Gives up a reader that accepts no data."""
        seconds = self._settings.stall_seconds
        if self._sending is not None and time.monotonic() - self._sending >= seconds:
            self._give_up()
        self._looking = asyncio.get_running_loop().call_later(seconds / 2, self._look_for_stall)

    def _give_up(self) -> None:
        """Ends the stream of a reader that has gone or does not take what it is sent."""
        self._stalled = True
        if self._abort is not None:
            self._abort()
        assert self._task is not None
        self._task.cancel()

    async def _write(self) -> Ending:
        """Sends events until the stream ends; returns why it ended."""
        ending: Ending | None = None
        try:
            while ending is None:
                ending = await self._put_chunk() or await self._wait()
        except (Outdated, ViewFailed, UnknownView, Closed) as error:
            return self._channel.ending or _ENDINGS[type(error)]
        return ending

    async def _wait(self) -> Ending | None:
        """Waits for what the reader gets next, or for the end of the stream."""
        channel = self._channel
        interval = self._settings.progress_seconds / 2
        while True:
            moved = channel.moved
            if self._position < channel.head:
                self._chunk = await channel.next(self._position, self._format)
                return None
            if (ending := self._ending()) is not None:
                return ending
            if time.monotonic() - self._sent_at >= interval:
                epoch = max(self._position, channel.quiet_until)
                self._chunk = Chunk(events.progress(epoch), epoch)
                return None
            await moved.wait()

    def _ending(self) -> Ending | None:
        if self._channel.ending is not None:
            return self._channel.ending
        return None if self._still() else "revoked"

    async def _put_chunk(self) -> Ending | None:
        """Sends events; those of a large chunk are produced one by one, when the connection takes them."""
        chunk, self._chunk = self._chunk, None  # frees the memory while there is nothing to send
        assert chunk is not None
        self._position = chunk.epoch
        ending = await self._put_in_time(chunk.data)
        if chunk.parts is None or ending is not None:
            return ending
        what = f"Reading view {self._channel.view.name!r}"
        paced = Paced(self._settings.query_seconds, what).over(chunk.parts())
        last = False
        while not last and ending is None:
            data, last = await self._agent.run_reading(paced.next)
            ending = await self._put_in_time(data) or self._ending()
        return ending

    async def _put_in_time(self, data: bytes) -> Ending | None:
        """Sends bytes; ends the stream of a reader that fell too far behind meanwhile."""
        before = self._channel.bytes
        await self._put(data)
        return "behind" if self._channel.bytes - before > self._settings.history_bytes else None

    async def _put(self, data: bytes, more: bool = True) -> None:
        """Sends bytes; returns when the connection accepts more."""
        unsent = self._agent.hub.unsent
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                self._sending = time.monotonic()
                piece = data if len(data) <= _PIECE_BYTES else data[start : start + _PIECE_BYTES]
                unsent.remove(self._give_up)
                unsent.add(self._give_up, len(data) + len(piece))
                await self._send({"type": "http.response.body", "body": piece, "more_body": more})
            if more and len(data) >= _PIECE_BYTES:  # sends nothing, but waits until the reader has taken it
                await self._send({"type": "http.response.body", "body": b"", "more_body": True})
        finally:
            unsent.remove(self._give_up)
        self._sent_at, self._sending = time.monotonic(), None

    async def _last(self, ending: Ending) -> None:
        view = self._channel.view
        sentence = {
            "dropped": f"View {view.name!r} was dropped.",
            "replaced": f"View {view.name!r} was replaced by a different query. Subscribe again.",
            "failed": view.failure or "",
            "stopping": "The agent is stopping. Reconnect later, and continue from the last event id.",
            "revoked": "The right to read this view was revoked.",
            "behind": "The reader is too far behind. Reconnect, and continue from the last event id.",
        }[ending]
        await self._put(events.end(ending, sentence), more=False)


async def subscribe(agent: Agent, request: Request) -> Response:
    """Creates a temporary view for a query."""
    if agent.hub.stopped:
        raise _stopping()
    query = await text_of(agent, request, "application/sparql-query")
    seconds = agent.access.query_seconds(request, agent.settings.query_seconds)
    async with agent.turn(request):
        caller = caller_of(request)
        _check_room(agent, caller)
        view = await agent.hub.temporary(query, request.query_params.get("base"), seconds, caller.name)
    return JSONResponse(_view_json(view), 201, {"Location": f"/views/{view.name}/changes"})


def _check_room(agent: Agent, caller: Caller) -> None:
    settings = agent.settings
    if agent.hub.temporary_views >= settings.temporary_views:
        raise Refused(429, "The agent has too many temporary views. Try again later.", {"Retry-After": "5"})
    own = settings.temporary_views_per_token
    if caller.token is not None and agent.hub.temporary_views_of(caller.name) >= own:
        raise Refused(
            429,
            f"Token {caller.name!r} is limited to {own:,} temporary views. Close the stream of one, and wait "
            f"{settings.temporary_seconds:g} s.",
            {"Retry-After": "5"},
        )


def _view_json(view: View) -> dict[str, object]:
    return {
        "name": view.name,
        "form": view.form,
        "variables": list(view.variables),
        "changes": f"/views/{view.name}/changes",
    }


OPERATIONS = (
    Operation(
        "GET",
        "/views/{name}/changes",
        changes,
        "read:view",
        "Streams the content of a view and then its changes, as server-sent events whose ids are epochs.",
        (
            Parameter("name", "Name of the view.", place="path", required=True),
            Parameter("snapshot", "false: omit the content.", "boolean"),
            Parameter("since", "Epoch to continue from.", "integer"),
            Parameter("Last-Event-ID", "The same, as sent by browsers.", place="header"),
            Parameter("lineage", "Header Sparqlive-Lineage of the response that the epoch is from."),
            Parameter("format", "json, or patch for a graph as RDF Patch.", one_of=("json", "patch")),
        ),
        gives={200: (_EVENTS,)},
    ),
    Operation(
        "POST",
        "/subscriptions",
        subscribe,
        "read",
        "Creates a temporary view of a query, which is dropped when it has no more subscribers.",
        (Parameter("base", "Base IRI for relative IRIs."),),
        takes=("application/sparql-query",),
        gives={201: ("application/json",)},
    ),
)
