"""The settings of an agent."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sparqlive.engine.limits import Limits
from sparqlive.numbers import seconds, whole

_LEAST_SECONDS = 0.001
_MAY_BE_ZERO = ("temporary_views",)


@dataclass(frozen=True)
class Settings:
    """Limits and permissions of an agent."""

    query_seconds: float = 30.0
    """Time limit of a one-off query; it is then stopped."""
    query_rows: int = 1_000_000
    """Row limit of a one-off query; more rows are an error, never truncated."""
    queries: int = 8
    """How many queries run at the same time; others wait."""
    queries_per_token: int = 2
    """How many of these may belong to one token."""
    queries_waiting: int = 100
    """How many queries of one token may wait; more are rejected."""
    view_seconds: float = 60.0
    """Time limit for computing a new view; it is then rejected."""
    epoch_seconds: float = 30.0
    """Processor time that one epoch may cost one view; the view is then marked as failed."""
    body_bytes: int = 64 * 1024 * 1024
    """Size limit of a request body."""
    body_seconds: float = 60.0
    """Time limit for a request body to arrive."""
    upload_bytes: int = 4 * 1024 * 1024 * 1024
    """Size limit of a file for POST /uploads, as sent and unpacked."""
    uploads: int = 4
    """How many uploads are received and loaded at the same time; others are rejected."""
    header_seconds: float = 10.0
    """Time limit for the header of a request to arrive."""
    connections: int = 10_000
    """How many connections may be open; further requests are answered with 503."""
    stop_seconds: float = 10.0
    """Time limit for stopping; computations that still run are abandoned."""
    history_bytes: int = 4 * 1024 * 1024
    """How far a subscriber may fall behind, in bytes of waiting events; it is then disconnected."""
    progress_seconds: float = 15.0
    """How often subscribers get a progress event while a view does not change."""
    stall_seconds: float = 60.0
    """How long a subscriber may accept no data; it is then disconnected."""
    unsent_bytes: int = 256 * 1024 * 1024
    """How many bytes of events may wait for all subscribers; the one that waits longest is disconnected."""
    temporary_seconds: float = 30.0
    """How long a temporary view is kept without a subscriber."""
    temporary_views: int = 1_000
    """How many temporary views there may be."""
    temporary_views_per_token: int = 100
    """How many temporary views one token may have."""
    temporary_rows: int = 100_000
    """Row limit of a temporary view, including the rows that its operators store."""
    temporary_epoch_seconds: float = 0.1
    """Processor time that one epoch may cost all temporary views together; the slowest are then dropped."""
    allow_private: bool = False
    """Whether sources, LOAD and SERVICE may reach non-public addresses."""
    service: bool = True
    """Whether queries may ask other endpoints with SERVICE; tokens also need the right."""
    origins: tuple[str, ...] = ()
    """Origins whose web pages may use the agent (CORS); `*` allows all."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "float":
                seconds(field.name, value, least=_LEAST_SECONDS)
            elif field.type == "int":
                whole(field.name, value, least=0 if field.name in _MAY_BE_ZERO else 1)

    def limits(self) -> Limits:
        """The session's limits for views."""
        return Limits(
            view_seconds=self.view_seconds,
            epoch_seconds=self.epoch_seconds,
            temporary_seconds=self.temporary_epoch_seconds,
            temporary_rows=self.temporary_rows,
        )
