"""The audit log: who changed views, sources and tokens, when, and with which outcome.

An append-only file of JSON lines in the store directory. It contains paths and names but no bodies, and
therefore no secrets. The agent never reads it.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparqlive.store.names import ensure_file
from sparqlive.store.private import open_private

FILE = "audit.jsonl"


class Audit:
    """The audit log of a store; does nothing for a session in memory."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE
        if self._path is not None:  # rather than at the first change
            ensure_file(self._path, writes=True)

    def note(self, who: str, what: str, outcome: str, **more: Any) -> None:
        """Appends a line in one write, so that lines of several processes never mix."""
        if self._path is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "who": who, "what": what, "outcome": outcome, **more}) + "\n"
        file = open_private(self._path, os.O_APPEND | os.O_WRONLY, self._path.parent)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
