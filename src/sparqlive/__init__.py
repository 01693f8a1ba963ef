"""Keeps SPARQL query results fresh while the data changes."""

from typing import TYPE_CHECKING, Any

from sparqlive.engine.epoch import Epoch
from sparqlive.engine.results import Answer, Delta
from sparqlive.engine.view import View
from sparqlive.errors import (
    BulkFailed,
    CheckFailed,
    Closed,
    EmptyResultWarning,
    Error,
    HistoryGone,
    InvalidChange,
    ServiceFailed,
    SparkFailed,
    StoreFailed,
    StoreLocked,
    SyntaxError,  # noqa: A004 - always used as sparqlive.SyntaxError
    Timeout,
    TooLarge,
    UnknownView,
    Unsupported,
    ViewExists,
    ViewFailed,
)
from sparqlive.rdf.table_mapping import TableMapping
from sparqlive.session import Session, open  # noqa: A004 - always used as sparqlive.open
from sparqlive.sources.links.follow import Follow
from sparqlive.spark import register

if TYPE_CHECKING:
    __version__: str
    from sparqlive.web.event_stream import follow

__all__ = [
    "Answer",
    "BulkFailed",
    "CheckFailed",
    "Closed",
    "Delta",
    "EmptyResultWarning",
    "Epoch",
    "Error",
    "Follow",
    "HistoryGone",
    "InvalidChange",
    "ServiceFailed",
    "Session",
    "SparkFailed",
    "StoreFailed",
    "StoreLocked",
    "SyntaxError",
    "TableMapping",
    "Timeout",
    "TooLarge",
    "UnknownView",
    "Unsupported",
    "View",
    "ViewExists",
    "ViewFailed",
    "__version__",
    "follow",
    "open",
    "register",
]


def __getattr__(name: str) -> Any:
    """Finds what takes time on first use: the version, and `follow`, which needs an HTTP client."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sparqlive")
    if name != "follow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from sparqlive.web.event_stream import follow
    except ModuleNotFoundError as error:
        raise Error(
            f"sparqlive.follow needs {error.name}, which is not installed. "
            f"Run: pip install 'sparqlive[sources]'"
        ) from error
    return follow
