"""Which hosts may be contacted. A separate module, so that it works without an HTTP client."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit


def host_is_among(address: str, hosts: Sequence[str] | None) -> bool:
    """Whether an address is on one of the hosts, each `name` (any port) or `name:port`; None means all."""
    if hosts is None:
        return True
    parts = urlsplit(address)
    return parts.hostname in hosts or parts.netloc.rpartition("@")[2].lower() in hosts
