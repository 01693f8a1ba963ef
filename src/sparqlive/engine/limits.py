"""Limits on the cost of views and requests, with their defaults.

None means no limit: a program that opens a session in Python can interrupt it. An agent serves others, and
sets limits (`agent/settings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from sparqlive.numbers import seconds, whole

QUERY_CHARACTERS = 1_000_000
"""Maximum length of a query's text."""
UPDATE_OPERATIONS = 10_000
"""Maximum number of operations per update request."""
LOADED_DOCUMENTS = 100
"""Maximum number of documents that an update request may LOAD."""


@dataclass(frozen=True)
class Limits:
    """Limits on views."""

    view_seconds: float | None = None
    """Time limit for planning and computing a new view; beyond it, the view is not registered."""
    epoch_seconds: float | None = None
    """Limit of processor time per epoch and view; beyond it, the view is marked as failed."""
    temporary_seconds: float = 0.1
    """The same for all temporary views together; beyond it, the most expensive ones end."""
    temporary_seconds_per_change: float = 0.00005
    """Additional processor time per changed quad of an epoch, for temporary views."""
    temporary_rows: int = 1_000_000
    """Maximum number of rows of a temporary view, including those that its operators store."""
    temporary_changed_rows: int = 20_000
    """Maximum number of changed rows of a product per epoch, for temporary views."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if "seconds" in field.name and value is not None:
                seconds(field.name, value, least=0)
            elif "rows" in field.name:
                whole(field.name, value)
