"""The entries of the tables of operations: one per method and path.

Routes, rights and the description at /openapi.json are generated from these tables.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.access import Right
from sparqlive.agent.agent import Agent

Handler: TypeAlias = Callable[[Agent, Request], Awaitable[Response]]


@dataclass(frozen=True)
class Parameter:
    name: str
    about: str
    type: Literal["string", "iri", "integer", "boolean", "number"] = "string"
    place: Literal["query", "path", "header"] = "query"
    required: bool = False
    pattern: str | None = None
    """A regular expression that the whole value matches."""
    one_of: tuple[str, ...] = ()
    """The allowed values, if there are few."""


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
    """The accepted media types of the body; empty without a body."""
    gives: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: {200: ("application/json",)})
    """The media types of the response, by status; empty without a body. Problems are not listed."""

    @property
    def audited(self) -> bool:
        """Whether the operation changes views or sources."""
        return self.right == "admin" and self.method != "GET"


def is_number(text: str) -> bool:
    """Whether a parameter is a number of epochs or rows: decimal digits, fewer than 19."""
    return text.isascii() and text.isdecimal() and len(text) < 19
