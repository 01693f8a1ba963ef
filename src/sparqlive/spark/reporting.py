"""Errors of data sources: the sentence stands before the traceback, with which Spark shows every error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar, cast

from sparqlive.errors import Error

Method = TypeVar("Method", bound=Callable[..., Any])


class SourceError(Error):
    """An error that is shown after the one that it came from, which has a sentence and no traceback.

    Spark takes the cause away from errors that it shows, but not what they came after.
    """

    __suppress_context__ = False


def sentence_first(method: Method) -> Method:
    """A method that Spark calls: its errors begin with their sentences."""

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except Error as error:
            raise _shown(error)  # noqa: B904 - the error that it comes after is the first line

    @wraps(method)
    def iterate(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*given, **named)
        except Error as error:
            raise _shown(error)  # noqa: B904

    return cast("Method", iterate if isgeneratorfunction(method) else call)


def _shown(error: Error) -> SourceError:
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return SourceError(str(error))
