"""How much a view may cost a session. The defaults stand here, and nowhere else.

A limit of None is none: whoever opens a session in Python can interrupt it. An agent, whom others ask, has
limits (`agent/settings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from sparqlive.numbers import seconds, whole

QUERY_CHARACTERS = 1_000_000
"""How long the text of a query may be."""
UPDATE_OPERATIONS = 10_000
"""How many operations an update request may have."""
LOADED_DOCUMENTS = 100
"""How many documents an update request may LOAD."""


@dataclass(frozen=True)
class Limits:
    """Limits on views."""

    view_seconds: float | None = None
    """How long planning and computing a view for the first time may take; it is refused then."""
    epoch_seconds: float | None = None
    """How much processor time carrying one epoch to one view may take; the view is marked as failed then."""
    temporary_seconds: float = 0.1
    """The same for all temporary views together; the most expensive of them are ended then."""
    temporary_seconds_per_change: float = 0.00005
    """How much there is beside that for each changed quad of an epoch."""
    temporary_rows: int = 1_000_000
    """How many rows a temporary view may hold, those that its operators store included."""
    temporary_changed_rows: int = 20_000
    """How many rows of a product may change in one epoch, for temporary views."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if "seconds" in field.name and value is not None:
                seconds(field.name, value, least=0)
            elif "rows" in field.name:
                whole(field.name, value)
