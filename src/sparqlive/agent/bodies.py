"""Bodies of requests: read whole, up to a limit, and only in the types that an operation takes.

One that is compressed (Content-Encoding) has the same limit twice: as it is sent, and unpacked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from sparqlive.agent.agent import Agent
from sparqlive.agent.problems import Refused
from sparqlive.web.headers import parts_of
from sparqlive.web.network import ENCODINGS, Inflater


def type_of(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(agent: Agent, request: Request, limit: int | None = None) -> bytes:
    """The body; one that is too large is refused before it is read to its end."""
    limit, seconds = limit or agent.settings.body_bytes, agent.settings.body_seconds
    inflater = _inflater(request)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in _unpacked(_sent(request, limit), inflater):
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
    except TimeoutError:
        raise Refused(408, f"The body has not arrived within {seconds:g} seconds.") from None
    except ClientDisconnect:
        raise Refused(400, "The body ended before its announced length.") from None
    return b"".join(pieces)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"The body is larger than {limit:,} bytes, which is this agent's limit.")


def _inflater(request: Request) -> Inflater | None:
    """What unpacks the body, if it is packed."""
    header = ",".join(request.headers.getlist("content-encoding"))
    given = [coding.lower() for coding in parts_of(header) if coding.lower() != "identity"]
    if not given:
        return None
    if len(given) > 1 or given[0] not in ENCODINGS:
        offered = {"Accept-Encoding": "gzip, deflate"}
        raise Refused(
            415, f"A body is sent as it is, or as gzip or deflate, not as {header[:100]!r}.", offered
        )
    return Inflater(given[0], "The body of the request")


async def _sent(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body as it is sent, up to a limit."""
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        yield piece


async def _unpacked(pieces: AsyncIterator[bytes], inflater: Inflater | None) -> AsyncIterator[bytes]:
    async for piece in pieces:
        for unpacked in [piece] if inflater is None else inflater.pieces(piece):
            yield unpacked
            if inflater is not None:
                await asyncio.sleep(0)  # others may be waiting, also where a byte stands for a million
    if inflater is not None:
        inflater.finish()


async def text_of(agent: Agent, request: Request, media_type: str, limit: int | None = None) -> str:
    """A body of one type, as text."""
    if type_of(request) != media_type:
        raise Refused(415, f"The body must be {media_type}, not {shown_type(type_of(request))}.")
    return decoded(await body_of(agent, request, limit))


def shown_type(media_type: str) -> str:
    """A media type in a sentence, however long it is."""
    return media_type[:100] or "without Content-Type"


def decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
