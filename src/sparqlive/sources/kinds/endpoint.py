"""A remote SPARQL endpoint, polled with a CONSTRUCT or DESCRIBE query; the graph is compared with the last.

A result that the endpoint marks as partial is a failure: the missing triples are not deleted.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

from sparqlive.errors import Error
from sparqlive.sources.polling import Look, checked_interval, poll
from sparqlive.sources.watcher import Content, Failed, Report, Unchanged, Version
from sparqlive.sparql.syntax import parse_query
from sparqlive.web.answers import failure, retry_after_seconds
from sparqlive.web.document import ACCEPT, read_document
from sparqlive.web.endpoint import ask_endpoint, is_partial
from sparqlive.web.network import Network, Reach, checked_url


class Endpoint:
    def __init__(
        self, address: str, *, query: str, poll_interval_seconds: float | None = 60.0, **reach: Any
    ) -> None:
        form = parse_query(query, address).form
        if form not in ("CONSTRUCT", "DESCRIBE"):
            raise Error(f"An endpoint source needs a CONSTRUCT or DESCRIBE query, not {form}.")
        checked_url(address)
        self._address = address.partition("#")[0]
        self._query = query
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._reach = Reach(**reach)

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        await poll(self._look, self._interval_seconds, version, report, wake)

    async def _look(self, version: Version | None) -> Look:
        async with Network(self._reach, self._address) as network:
            response = await ask_endpoint(network, self._address, self._query, ACCEPT)
            if response.status != 200:
                return Look(Failed(failure(response)), retry_after_seconds(response.headers))
            if is_partial(response):
                return Look(Failed(f"{self._address}: the endpoint returned only a part of the result."))
            kind = response.headers.get("content-type", "")
            found = {"digest": sha256(f"{kind}\n".encode() + response.body).hexdigest()}
            if version == found:
                return Look(Unchanged())
            return Look(Content(await read_document(response, network), found))
