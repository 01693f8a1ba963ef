"""The audit log: who changed views, sources and tokens, when, and how it ended.

A file of JSON lines in the store's directory, which is only ever appended to. It has no secrets: paths and
names, no bodies. The agent never reads it.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparqlive.store.private import open_private

FILE = "audit.jsonl"


class Audit:
    """The audit log of a store; of a session in memory there is none."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE

    def note(self, who: str, what: str, outcome: str, **more: Any) -> None:
        """Appends a line: whole, whoever else appends."""
        if self._path is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "who": who, "what": what, "outcome": outcome, **more}) + "\n"
        file = open_private(self._path, os.O_APPEND | os.O_WRONLY, self._path.parent)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
