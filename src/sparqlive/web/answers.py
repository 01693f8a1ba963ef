"""Interprets status and headers of responses: errors, freshness, and when to retry."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from sparqlive.web.network import Response

_DIRECTIVE = re.compile(r"([a-z-]+)(?:\s*=\s*\"?(\d+)\"?)?", re.IGNORECASE)


def failure(response: Response) -> str:
    """Returns an error message for a status that is not a success."""
    status = response.status
    if status in (404, 410):
        return f"{response.url} does not exist (status {status}). The quads read from it before are kept."
    if status in (401, 403):
        return f"{response.url} denies access (status {status}). Check the credentials."
    if status in (429, 503):
        return f"{response.url} is busy (status {status}), and will be tried again."
    if status >= 500:
        return f"{response.url}: the server failed (status {status})."
    return f"{response.url} returned status {status} instead of a document."


def fresh_seconds(headers: Mapping[str, str]) -> float:
    """How long a response stays fresh."""
    found = directives(headers)
    if "no-store" in found or "no-cache" in found:
        return 0.0
    age = headers.get("age", "0")
    return max(0.0, float(found.get("max-age") or 0) - (float(age) if age.isdecimal() else 0.0))


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """The seconds of a Retry-After header, which is a number or a date; 0 without one."""
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
