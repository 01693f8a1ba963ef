"""What an agent is started with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sparqlive.engine.limits import Limits
from sparqlive.numbers import seconds, whole

_LEAST_SECONDS = 0.001
_MAY_BE_NONE = ("temporary_views",)


@dataclass(frozen=True)
class Settings:
    """Limits, and what is allowed to whom."""

    query_seconds: float = 30.0
    """How long a one-off query may take; it is stopped then."""
    query_rows: int = 1_000_000
    """How many rows a one-off query may give; one that gives more is an error, never cut."""
    queries: int = 8
    """How many queries run at a time; the others wait."""
    queries_per_token: int = 2
    """How many of them those of one token may be."""
    queries_waiting: int = 100
    """How many queries of one token may wait; more are refused."""
    view_seconds: float = 60.0
    """How long computing a view for the first time may take; it is refused then."""
    epoch_seconds: float = 30.0
    """How much processor time one epoch may cost one view; the view is marked as failed then."""
    body_bytes: int = 64 * 1024 * 1024
    """How large a request's body may be."""
    body_seconds: float = 60.0
    """How long a request's body may take to arrive."""
    header_seconds: float = 10.0
    """How long the head of a request may take to arrive."""
    connections: int = 10_000
    """How many connections may be open; beyond that requests are answered with 503."""
    stop_seconds: float = 10.0
    """How long stopping may take; what still computes then is left."""
    history_bytes: int = 4 * 1024 * 1024
    """How far a subscriber may be behind, in bytes of events that wait for it; then it is cut off."""
    progress_seconds: float = 15.0
    """On quiet views, subscribers hear at least this often which epoch they stand for."""
    stall_seconds: float = 60.0
    """How long a subscriber may take nothing of what is sent; then it is given up."""
    temporary_seconds: float = 30.0
    """How long the view of an ad-hoc subscription is kept without a reader."""
    temporary_views: int = 1_000
    """How many views of ad-hoc subscriptions there may be."""
    temporary_views_per_token: int = 100
    """How many of them one token may have."""
    temporary_rows: int = 100_000
    """How many rows the view of an ad-hoc subscription may hold, those that its operators store included."""
    temporary_epoch_seconds: float = 0.1
    """How much processor time one epoch may cost all of them together; the slowest are ended then."""
    allow_private: bool = False
    """Whether sources and LOAD may fetch from addresses that are not public."""
    origins: tuple[str, ...] = ()
    """Web pages of these origins may use the agent (CORS); `*`: those of all."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "float":
                seconds(field.name, value, least=_LEAST_SECONDS)
            elif field.type == "int":
                whole(field.name, value, least=0 if field.name in _MAY_BE_NONE else 1)

    def limits(self) -> Limits:
        """What views may cost the session."""
        return Limits(
            view_seconds=self.view_seconds,
            epoch_seconds=self.epoch_seconds,
            temporary_seconds=self.temporary_epoch_seconds,
            temporary_rows=self.temporary_rows,
        )
