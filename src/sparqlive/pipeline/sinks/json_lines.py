"""Deltas as JSON lines: one line per epoch that changed the view, in one append-only file.

A line is `{"epoch": 7, "reset": false, "variables": […], "changes": [{"weight": 1, "row": {…}}, …]}`, with
terms as in the SPARQL results format. With `reset`, the line holds the whole content and replaces all lines
before.
Invariant: lines are complete; an incomplete line after a failure is removed when the sink is opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from sparqlive.engine.view import FORMS, Answer, TermRow
from sparqlive.errors import Error
from sparqlive.pipeline.sinks.appending import last_end
from sparqlive.sparql.results import json_delta

_LINE_END = re.compile(rb"\n")


class JsonLinesSink:
    forms: ClassVar = FORMS
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        path = Path(path)
        self._path = path
        self._variables = variables
        path.parent.mkdir(parents=True, exist_ok=True)
        self._last = self._recover()

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        with open(self._path, "a", encoding="utf-8") as stream:
            stream.write(json_delta(epoch, reset, self._variables, weights))
            stream.flush()
            os.fsync(stream.fileno())
        self._last = epoch

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        """Does nothing: every line is already on disk."""

    def _recover(self) -> int | None:
        if not self._path.exists():
            return None
        with open(self._path, "r+b") as stream:
            end, _ = last_end(stream, stream.seek(0, os.SEEK_END), _LINE_END, 1)
            stream.truncate(end)
            if not end:
                return None
            start, _ = last_end(stream, end - 1, _LINE_END, 1)
            stream.seek(start)
            line = stream.read(end - start)
        try:
            return int(json.loads(line)["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise Error(
                f"{self._path} already exists, and its last line is not a delta of a view. Set another path."
            ) from error
