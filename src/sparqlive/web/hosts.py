"""Which hosts may be asked. Apart from what sends requests, so that it is there without an HTTP client."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit


def host_is_among(address: str, hosts: Sequence[str] | None) -> bool:
    """Whether an address is of one of some hosts, given as `name` (any port) or `name:port`; None is all."""
    if hosts is None:
        return True
    parts = urlsplit(address)
    return parts.hostname in hosts or parts.netloc.rpartition("@")[2].lower() in hosts
