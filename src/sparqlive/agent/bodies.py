"""Bodies of requests: read whole, up to a limit, and only in the types that an operation takes."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from sparqlive.agent.agent import Agent
from sparqlive.agent.problems import Refused


def type_of(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(agent: Agent, request: Request) -> bytes:
    """The body; one that is too large is refused before it is read to its end."""
    limit, seconds = agent.settings.body_bytes, agent.settings.body_seconds
    too_large = Refused(413, f"The body is larger than {limit:,} bytes, which is this agent's limit.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    pieces, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise too_large
                pieces.append(piece)
    except TimeoutError:
        raise Refused(408, f"The body has not arrived within {seconds:g} seconds.") from None
    except ClientDisconnect:
        raise Refused(400, "The body ended before its announced length.") from None
    return b"".join(pieces)


async def text_of(agent: Agent, request: Request, media_type: str) -> str:
    """A body of one type, as text."""
    if type_of(request) != media_type:
        raise Refused(
            415, f"The body must be {media_type}, not {type_of(request) or 'without Content-Type'}."
        )
    return decoded(await body_of(agent, request))


def decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
