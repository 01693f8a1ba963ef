"""What the drivers in Python share: they read requests from standard input and answer each with a line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

Rows = Iterable[Sequence[str | None]]


class QueryRefusedError(Exception):
    """The engine does not take the query."""


class Engine(Protocol):
    """An engine with one query. `parsed` turns lines of N-Quads into the engine's own form, off the clock.

    `apply` may return the seconds, if the engine knows better than the clock around it.
    """

    name: str

    def start(self, file: str, query: str) -> None: ...
    def parsed(self, lines: list[str]) -> Any: ...
    def apply(self, delete: Any, insert: Any) -> float | None: ...
    def rows(self) -> Rows: ...


def serve(new: Callable[[], Engine]) -> None:
    """Answers requests until the input ends. Each `start` has a new engine."""
    engine = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "hello":
                answer: dict[str, Any] = {"engine": new().name}
            elif request["op"] == "start":
                engine, begun = new(), time.perf_counter()
                engine.start(request["file"], request["query"])
                answer = {"seconds": time.perf_counter() - begun}
            elif engine is None:
                raise ValueError("start comes first")
            elif request["op"] == "apply":
                deletes, inserts = engine.parsed(request["delete"]), engine.parsed(request["insert"])
                begun = time.perf_counter()
                seconds = engine.apply(deletes, inserts)
                answer = {"seconds": time.perf_counter() - begun if seconds is None else seconds}
            else:
                answer = {"rows": [list(row) for row in engine.rows()]}
        except QueryRefusedError as error:
            answer = {"refused": str(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
