"""Checks what a query may contain. Rejects unknown or volatile functions, and queries too large to plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, suppress
from sys import getrecursionlimit, setrecursionlimit
from threading import Lock
from typing import Any

from sparqlive.errors import TooLarge, Unsupported
from sparqlive.sparql import algebra as al
from sparqlive.sparql.expressions import check_expression, volatile_function
from sparqlive.sparql.functions.pattern_syntax import PatternTooLargeError
from sparqlive.sparql.functions.patterns import check_size
from sparqlive.sparql.values import STRING, ExpressionError, value_of

# Recursion limit while planning: enough for several hundred parts, and far below the limit of the stack.
_CALLS = 6_000


class within_reach(ContextDecorator):  # noqa: N801  (it reads as a function)
    """Rejects a query that is nested too deeply for Python's call stack."""

    def __enter__(self) -> None:
        _DEEPER.enter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _DEEPER.leave()
        if kind is not None and issubclass(kind, RecursionError):
            raise too_large() from None


class _Depth:
    """Raises the recursion limit of the process while a query is being planned."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._usual = 0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = getrecursionlimit()
                setrecursionlimit(max(_CALLS, self._usual))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                with suppress(RecursionError):  # the caller is nested deeper than the old limit
                    setrecursionlimit(self._usual)


_DEEPER = _Depth()


MOST_PARTS = 600
"""The largest number of patterns in one join."""


def too_large() -> Unsupported:
    return Unsupported(
        f"The query is nested too deeply, or joins more than {MOST_PARTS} patterns. Split it, for example "
        f"into CONSTRUCT views that other queries read as graphs (GRAPH <view:name>)."
    )


def check_functions(query: al.Query, volatile: bool) -> None:
    """Rejects unknown functions, volatile ones unless allowed, and joins that are too large to plan."""
    kinds = (al.BasicPattern, al.Call)
    for part in al.found_in(query.pattern, kinds, except_in=(al.BasicPattern, al.Service)):
        if isinstance(part, al.Call):
            _check_call(part, volatile)
        elif _parts(part) > MOST_PARTS:
            raise too_large()


def _check_call(call: al.Call, volatile: bool) -> None:
    check_expression(call)
    _check_pattern(call)
    name = volatile_function(call)
    if name is not None and not volatile:
        raise Unsupported(
            f"{name}() returns a different value each time, so a view with it cannot be kept fresh. "
            f"Use it in a one-off query, or store its value in the data."
        )


def _check_pattern(call: al.Call) -> None:
    """Rejects a constant regular expression that is too large; one in the data is an error of its row."""
    places = {"REGEX": (1, 2), "REPLACE": (1, 3)}.get(call.name)
    if places is None:
        return
    given = [call.arguments[place] for place in places if place < len(call.arguments)]
    values = [value_of(part.term) for part in given if isinstance(part, al.Constant)]
    if len(values) < len(given) or any(value.kind != STRING for value in values):
        return
    try:
        check_size(values[0].value, "".join(value.value for value in values[1:]))
    except PatternTooLargeError as error:
        raise TooLarge(f"{call.name}: {error}") from error
    except ExpressionError:
        pass  # malformed: an error of every row (SPARQL 1.1 §17.3)


def _parts(pattern: al.BasicPattern) -> int:
    """Counts the joined patterns. A path counts the steps of its sequences."""
    waiting: list[Any] = [p.path for p in pattern.patterns if isinstance(p, al.PathPattern)]
    parts = len(pattern.patterns)
    while waiting:
        match waiting.pop():
            case al.Sequence(first, second):
                parts += 1
                waiting += (first, second)
            case al.Alternative(first, second):
                waiting += (first, second)
            case al.Inverse(path) | al.ZeroOrOne(path) | al.ZeroOrMore(path) | al.OneOrMore(path):
                waiting.append(path)
    return parts


def calls_in(item: Any) -> Iterator[al.Call]:
    """Yields the calls of all expressions, including those inside EXISTS, but not in SERVICE.

    The endpoint may have other functions.
    """
    return al.found_in(item, (al.Call,), except_in=(al.Service,))
