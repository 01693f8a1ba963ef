"""What can be asked of the agent: one entry for each method of each path.

The table says it once: routes, rights and the description at /openapi.json are made of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.access import Right
from sparqlive.agent.agent import Agent
from sparqlive.numbers import seconds

_SECONDS = re.compile(r"[0-9]{1,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?")

Handler: TypeAlias = Callable[[Agent, Request], Awaitable[Response]]


@dataclass(frozen=True)
class Parameter:
    name: str
    about: str
    type: Literal["string", "iri", "integer", "boolean", "number"] = "string"
    place: Literal["query", "path", "header"] = "query"
    required: bool = False
    pattern: str | None = None
    """A regular expression for the whole of a string."""
    one_of: tuple[str, ...] = ()
    """All values that there are, where they are few."""


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    handler: Handler
    right: Right
    about: str
    """One sentence."""
    parameters: tuple[Parameter, ...] = ()
    takes: tuple[str, ...] = ()
    """The media types of a body, where there is one."""
    gives: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: {200: ("application/json",)})
    """The media types of an answer, by status; none for one without body. Problems are not listed."""

    @property
    def audited(self) -> bool:
        """Whether it changes views or sources."""
        return self.right == "admin" and self.method != "GET"


def is_number(text: str) -> bool:
    """Whether a parameter gives a number of epochs or rows: digits, no more than any store will count."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def seconds_of(name: str, text: str) -> float:
    """A number of seconds that a parameter gives."""
    return seconds(name, float(text) if _SECONDS.fullmatch(text) else text)
