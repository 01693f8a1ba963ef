"""Errors as HTTP responses: a status, and the message as application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from sparqlive import errors
from sparqlive.errors import Error

# The first match counts.
_STATUS: tuple[tuple[type[Error], int], ...] = (
    (errors.SyntaxError, 400),
    (errors.Unsupported, 400),
    (errors.InvalidChange, 400),
    (errors.UnknownView, 404),
    (errors.ViewExists, 409),
    (errors.ViewFailed, 503),
    (errors.HistoryGone, 410),
    (errors.Timeout, 503),
    (errors.TooLarge, 422),
    (errors.ServiceFailed, 502),
    (errors.Closed, 503),
    (errors.StoreFailed, 500),
    (errors.BulkFailed, 500),
    (errors.CheckFailed, 500),
)


class Refused(Error):  # noqa: N818 - a rejected request
    """Rejects a request with a status and a message."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


def problem(error: Error) -> Response:
    if isinstance(error, Refused):
        return answer(error.status, str(error), error.headers)
    if isinstance(error, errors.UnknownView) and error.name is not None:
        # Does not list the known views, since the caller may not be allowed to see them.
        return answer(404, f"There is no view named {error.name!r}. GET /views lists the views.")
    return answer(problem_status(error), str(error), place=_place(error))


def problem_status(error: Error) -> int:
    """The status of the response to an error."""
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def _place(error: Error) -> dict[str, int]:
    """Where a query or update is malformed, for editors: its line and column, if they are known."""
    if not isinstance(error, errors.SyntaxError) or error.line is None or error.column is None:
        return {}
    return {"line": error.line, "column": error.column}


def answer(
    status: int,
    sentence: str,
    headers: Mapping[str, str] | None = None,
    place: Mapping[str, int] | None = None,
) -> Response:
    body = problem_json(status, sentence) | dict(place or {})
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def problem_json(status: int, sentence: str) -> dict[str, Any]:
    """The members of a problem."""
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
