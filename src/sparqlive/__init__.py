"""Keeps SPARQL query results fresh while the data changes."""

from sparqlive.errors import (
    CheckFailed,
    Closed,
    Error,
    HistoryGone,
    InvalidChange,
    SparkFailed,
    StoreFailed,
    SyntaxError,  # noqa: A004 - always used as sparqlive.SyntaxError
    Timeout,
    TooLarge,
    UnknownView,
    Unsupported,
    ViewExists,
    ViewFailed,
)
from sparqlive.session import Session, open  # noqa: A004 - always used as sparqlive.open
from sparqlive.traversal import Follow
from sparqlive.views import Answer, Delta, Epoch, View

__all__ = [
    "Answer",
    "CheckFailed",
    "Closed",
    "Delta",
    "Epoch",
    "Error",
    "Follow",
    "HistoryGone",
    "InvalidChange",
    "Session",
    "SparkFailed",
    "StoreFailed",
    "SyntaxError",
    "Timeout",
    "TooLarge",
    "UnknownView",
    "Unsupported",
    "View",
    "ViewExists",
    "ViewFailed",
    "open",
]
