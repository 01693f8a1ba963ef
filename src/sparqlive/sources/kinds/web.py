"""An RDF document on the Web, polled by conditional GET.

A missing document (404, 410) is a failure and not a deletion, unless `when_gone="clear"`. Validators are not
trusted forever: now and then the document is fetched unconditionally. If it has changed under the same ETag,
it is always fetched unconditionally from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

from sparqlive.errors import Error
from sparqlive.sources.polling import Look, checked_interval, poll
from sparqlive.sources.watcher import Content, Failed, Report, Unchanged, Version
from sparqlive.web.answers import directives, failure, fresh_seconds, retry_after_seconds
from sparqlive.web.document import ACCEPT, read_document
from sparqlive.web.network import Login, Network, Reach, Response, checked_url

# One of this many looks fetches the document unconditionally.
_WHOLE_EVERY = 10


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
            raise Error(f'when_gone must be "keep" or "clear", not {when_gone!r}.')
        checked_url(address)
        self._address = address.partition("#")[0]
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._clears = when_gone == "clear"
        self._reach = Reach(**reach)
        self._looks = 0

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        await poll(self.look, self._interval_seconds, version, report, wake)

    async def look(self, version: Version | None, *, whole: bool = False, login: Login | None = None) -> Look:
        """Fetches the document and compares it with the known version; `whole`: unconditionally."""
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
            return await self._outcome_of(response, network, known, conditional=len(asking) > 1)

    async def _outcome_of(
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
    """Returns what identifies this version; without validators if the response is no-store."""
    digest = sha256(f"{response.url}\n{response.headers.get('content-type', '')}\n".encode() + response.body)
    found: dict[str, Any] = {"digest": digest.hexdigest(), "bytes": len(response.body)}
    if "no-store" not in directives(response.headers):
        for name, header in (("etag", "etag"), ("last_modified", "last-modified")):
            if header in response.headers:
                found[name] = response.headers[header]
    return found


def _same_validators(found: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether two different versions have the same ETag or, without ETags, the same (coarse) date."""
    if "etag" in found or "etag" in known:
        return found.get("etag") == known.get("etag")
    return "last_modified" in found and found["last_modified"] == known.get("last_modified")
