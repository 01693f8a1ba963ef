"""An RDF document on the Web: fetched by conditional GET, as often as it may have changed.

What is gone (404, 410) is a failure, not a deletion, unless `when_gone="clear"` says otherwise. Validators
are not believed for ever: every so often the whole document is fetched, and if it is another one under the
same ETag, always from then on.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, Literal

from pyoxigraph import Quad

from sparqlive.errors import Error
from sparqlive.sources.polling import Look, checked_interval, poll
from sparqlive.sources.watcher import Content, Failed, Report, Unchanged, Version
from sparqlive.web.document import ACCEPT, read_document
from sparqlive.web.network import Login, Network, Reach, Response, checked_url

# Every so many looks the whole document is fetched, whatever its ETag.
_WHOLE_EVERY = 10
_DIRECTIVE = re.compile(r"([a-z-]+)(?:\s*=\s*\"?(\d+)\"?)?", re.IGNORECASE)


class Web:
    def __init__(
        self,
        address: str,
        *,
        poll_interval_seconds: float | None = 60.0,
        when_gone: Literal["keep", "clear"] = "keep",
        **reach: Any,
    ) -> None:
        if when_gone not in ("keep", "clear"):
            raise Error(f'when_gone is "keep" or "clear", not {when_gone!r}.')
        checked_url(address)
        self._address = address.partition("#")[0]
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._clears = when_gone == "clear"
        self._reach = Reach(**reach)
        self._looks = 0

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        await poll(self.look, self._interval_seconds, version, report, wake)

    async def look(self, version: Version | None, *, whole: bool = False, login: Login | None = None) -> Look:
        """What the document has now, against the version that is known; `whole` without asking for changes
        only."""
        self._looks += 1
        known = dict(version or {})
        asking = {"Accept": ACCEPT}
        if self._looks % _WHOLE_EVERY and not whole and not known.get("lies"):
            if "etag" in known:
                asking["If-None-Match"] = known["etag"]
            if "last_modified" in known:
                asking["If-Modified-Since"] = known["last_modified"]
        async with Network(self._reach, self._address, login) as network:
            response = await network.get(self._address, asking)
            return await self._seen(response, network, known, conditional=len(asking) > 1)

    async def _seen(
        self, response: Response, network: Network, known: dict[str, Any], *, conditional: bool
    ) -> Look:
        rest = fresh_seconds(response.headers)
        if response.status == 304 and conditional:
            return Look(Unchanged(), rest)
        if response.status in (404, 410) and self._clears:
            return Look(Content([], {"gone": response.status}), rest)
        if response.status != 200:
            return Look(Failed(failure(response)), retry_after_seconds(response.headers))
        found = _version(response)
        if known.get("lies") or (found["digest"] != known.get("digest") and _same_validators(found, known)):
            found["lies"] = True
        if found["digest"] == known.get("digest"):
            return Look(Unchanged(found), rest)
        return Look(Content(await read_document(response, network), found), rest)


def _version(response: Response) -> dict[str, Any]:
    """What tells this version from another; without validators if nobody may keep it."""
    digest = sha256(f"{response.url}\n{response.headers.get('content-type', '')}\n".encode() + response.body)
    found: dict[str, Any] = {"digest": digest.hexdigest(), "bytes": len(response.body)}
    if "no-store" not in _directives(response.headers):
        for name, header in (("etag", "etag"), ("last_modified", "last-modified")):
            if header in response.headers:
                found[name] = response.headers[header]
    return found


def _same_validators(found: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether two versions that differ have the same ETag, or without any the same date, which is coarse."""
    if "etag" in found or "etag" in known:
        return found.get("etag") == known.get("etag")
    return "last_modified" in found and found["last_modified"] == known.get("last_modified")


def fetch_document(address: str, reach: Reach) -> list[Quad]:
    """The quads of a document that is fetched once, by the rules of all that goes to the network."""

    async def look() -> list[Quad]:
        async with Network(reach, address) as network:
            response = await network.get(address, {"Accept": ACCEPT})
            if response.status != 200:
                raise Error(f"{response.url}: answers with status {response.status}, which is no document.")
            return await read_document(response, network)

    checked_url(address)
    return asyncio.run(look())


# Shared by the kinds that fetch


def failure(response: Response) -> str:
    """A sentence on a status that is no success."""
    status = response.status
    if status in (404, 410):
        return (
            f"{response.url}: there is nothing there (status {status}); what was read from it before is kept."
        )
    if status in (401, 403):
        return f"{response.url}: may not be read (status {status}): give credentials."
    if status in (429, 503):
        return f"{response.url}: asks to come back later (status {status})."
    if status >= 500:
        return f"{response.url}: the server failed (status {status})."
    return f"{response.url}: answers with status {status}, which is no document."


def fresh_seconds(headers: Mapping[str, str]) -> float:
    """For how long an answer says that it is good."""
    directives = _directives(headers)
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    age = headers.get("age", "0")
    return max(0.0, float(directives.get("max-age") or 0) - (float(age) if age.isdecimal() else 0.0))


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """When a server asks to come back: in so many seconds, or at a date."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _directives(headers: Mapping[str, str]) -> dict[str, str | None]:
    found = _DIRECTIVE.finditer(headers.get("cache-control", ""))
    return {directive[1].lower(): directive[2] for directive in found}
