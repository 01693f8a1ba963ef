"""Reads request bodies, up to a size limit, and checks their media types.

The limit applies to a compressed body (Content-Encoding) twice: as sent, and decompressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from starlette.requests import ClientDisconnect, Request

from sparqlive.agent.agent import Agent
from sparqlive.agent.problems import Refused
from sparqlive.web.headers import parts_of
from sparqlive.web.network import ENCODINGS, Inflater


def type_of(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(agent: Agent, request: Request, limit: int | None = None) -> bytes:
    """Returns the body. A body above the limit is rejected before it is read to its end."""
    limit, seconds = limit or agent.settings.body_bytes, agent.settings.body_seconds
    inflater = _inflater(request)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in _unpack(_receive(request, limit), inflater):
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
    except TimeoutError:
        raise Refused(408, f"The body did not arrive within {seconds:g} s.") from None
    except ClientDisconnect:
        raise Refused(400, "The body ended before its announced length.") from None
    return b"".join(pieces)


class Progress(Protocol):
    """Follows how much of a body has arrived."""

    received: int


async def save_body(agent: Agent, request: Request, path: Path, progress: Progress) -> None:
    """Writes the body to a file, unpacked. A body above the limit of uploads is rejected on the way."""
    limit, seconds = agent.settings.upload_bytes, agent.settings.stall_seconds
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    pieces, size = _unpack(_receive(request, limit), _inflater(request)), 0
    with path.open("wb") as file:
        try:
            while True:
                async with asyncio.timeout(seconds):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                progress.received = size
                await agent.run(file.write, piece)
        except TimeoutError:
            raise Refused(408, f"No data of the body arrived for {seconds:g} s.") from None
        except ClientDisconnect:
            raise Refused(400, "The body ended before its announced length.") from None


def _too_large(limit: int) -> Refused:
    return Refused(413, f"The body exceeds this agent's limit of {limit:,} bytes.")


def _inflater(request: Request) -> Inflater | None:
    """The decompressor of the body; None for a plain body."""
    header = ",".join(request.headers.getlist("content-encoding"))
    codings = [coding.lower() for coding in parts_of(header) if coding.lower() != "identity"]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in ENCODINGS:
        accepted = {"Accept-Encoding": "gzip, deflate"}
        raise Refused(
            415,
            f"Unsupported Content-Encoding {header[:100]!r}. Send the body plain, or as gzip or deflate.",
            accepted,
        )
    return Inflater(codings[0], "The request body")


async def _receive(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yields the body as sent, up to a limit."""
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        yield piece


async def _unpack(pieces: AsyncIterator[bytes], inflater: Inflater | None) -> AsyncIterator[bytes]:
    async for piece in pieces:
        for unpacked in [piece] if inflater is None else inflater.pieces(piece):
            yield unpacked
            if inflater is not None:
                await asyncio.sleep(0)  # one compressed byte can expand to a million: let other tasks run
    if inflater is not None:
        inflater.finish()


async def text_of(agent: Agent, request: Request, media_type: str, limit: int | None = None) -> str:
    """Returns a body of one media type as text."""
    if type_of(request) != media_type:
        raise Refused(415, f"The body must be {media_type}, not {short_type(type_of(request))}.")
    return decode(await body_of(agent, request, limit))


def short_type(media_type: str) -> str:
    """A media type for an error message, truncated."""
    return media_type[:100] or "without Content-Type"


def decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
