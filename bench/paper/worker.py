"""A method in a process of its own, which is ended when a measurement takes too long."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.paper.compare import Case, Method, measure, method_of

_LOADING_SECONDS = 600.0


class Worker:
    """A process that loads a graph once and measures cases on it, one update after the other."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._process: Any = None
        self._connection: Any = None
        self._loaded: Path | None = None

    def measure(self, file: Path, case: Case, rounds: int, seconds: float) -> dict[str, Any]:
        """The entries of the updates, and of what was not finished in time: why the list is short."""
        entries: list[dict[str, Any]] = []
        if self._loaded != file:
            self._ask(("load", file))
            if self._next(_LOADING_SECONDS) is None:
                return {"updates": [], "unfinished": f"not loaded in {_LOADING_SECONDS:.0f} s"}
            self._loaded = file
        self._ask(("measure", case, rounds, seconds / 2))
        for _ in ("begun", *case.updates):
            found = self._next(seconds)
            if found is None:
                return {"updates": entries[1:], "unfinished": f"not finished in {seconds:.0f} s"}
            entries.append(found)
        self._next(seconds)  # the graph is as before
        return {"updates": entries[1:]}

    def forget(self) -> None:
        """Gives the graph's memory back."""
        if self._loaded is not None:
            self._loaded = None
            self._ask(("forget",))
            self._next(_LOADING_SECONDS)

    def close(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with the Spark that it started
            self._process.join()
            self._process = self._loaded = None

    def _ask(self, request: tuple[Any, ...]) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(self._method, theirs), daemon=True)
            self._process.start()
            theirs.close()
        self._connection.send(request)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        """The next answer; None if it takes longer, and then the process has ended."""
        if not self._connection.poll(seconds):
            self.close()
            return None
        try:
            answer: dict[str, Any] = self._connection.recv()
        except EOFError:
            raise SystemExit(f"{self._method}: the process ended.") from None
        if "failed" in answer:
            raise SystemExit(f"{self._method}: {answer['failed']}")
        return answer


def _serve(name: str, connection: Connection) -> None:
    os.setsid()
    method: Method | None = None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            match request:
                case ("load", file):
                    if method is not None:
                        method.close()
                    method = method_of(name)
                    method.load(file)
                case ("forget",):
                    assert method is not None
                    method.close()
                    method = None
                case ("measure", case, rounds, seconds):
                    assert method is not None
                    method.begin(case)
                    connection.send({})
                    for entry in measure(method, case, rounds, seconds):
                        connection.send(entry)
            connection.send({})
        except (Exception, SystemExit) as error:
            connection.send({"failed": f"{type(error).__name__}: {error}"})
