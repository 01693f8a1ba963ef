"""Agents as processes: `sparqlive serve`, used over HTTP like by any client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

import sparqlive


@dataclass(frozen=True)
class Agent:
    """A running agent, by its address."""

    address: str

    def view(self, name: str, query: str) -> str:
        """Registers a view; returns its address."""
        self._ask(
            "PUT", f"/views/{name}", content=query, headers={"Content-Type": "application/sparql-query"}
        )
        return f"{self.address}/views/{name}"

    def source(self, name: str, kind: str, address: str, options: Mapping[str, Any]) -> None:
        """Adds a source, and waits until it has been read."""
        self._ask(
            "POST", "/sources", json={"name": name, "kind": kind, "address": address, "options": options}
        )
        self._ask("POST", f"/sources/{quote(name, safe='')}/refresh")

    def remove_source(self, name: str) -> None:
        self._ask("DELETE", f"/sources/{quote(name, safe='')}")

    def _ask(self, method: str, path: str, **given: Any) -> None:
        answer = httpx.request(method, self.address + path, timeout=60, trust_env=False, **given)
        if answer.status_code >= 300:
            raise sparqlive.Error(f"{self.address}: {answer.json().get('detail', answer.status_code)}")


@contextmanager
def agent(store: Path, environment: Mapping[str, str]) -> Iterator[Agent]:
    """Starts an agent in its own process, on a free port; stops it when the block ends."""
    command = [sys.executable, "-m", "sparqlive", "serve", "--store", str(store), "--port", "0"]
    with open(store.with_suffix(".log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--allow-private"],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()  # "… is served at http://…"
            if not line:
                raise sparqlive.Error(f"The agent did not start. See its log: {log.name}.")
            yield Agent(line.split()[-1])
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
