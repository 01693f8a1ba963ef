"""What servers say beside the document: why there is none, how long it is fresh, when to come back."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from sparqlive.web.network import Response

_DIRECTIVE = re.compile(r"([a-z-]+)(?:\s*=\s*\"?(\d+)\"?)?", re.IGNORECASE)


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
    said = directives(headers)
    if "no-store" in said or "no-cache" in said:
        return 0.0
    age = headers.get("age", "0")
    return max(0.0, float(said.get("max-age") or 0) - (float(age) if age.isdecimal() else 0.0))


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """When a server asks to come back: in so many seconds, or at a date."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def directives(headers: Mapping[str, str]) -> dict[str, str | None]:
    found = _DIRECTIVE.finditer(headers.get("cache-control", ""))
    return {directive[1].lower(): directive[2] for directive in found}
