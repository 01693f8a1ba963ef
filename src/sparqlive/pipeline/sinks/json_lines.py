"""Deltas as JSON lines: one line per epoch that changed the view, in one append-only file.

A line is `{"epoch": 7, "reset": false, "variables": […], "changes": [{"weight": 1, "row": {…}}, …]}`, with
terms as in the SPARQL results format. With `reset`, the line holds the whole content and replaces all lines
before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import BinaryIO, ClassVar

from sparqlive.engine.results import FORMS, TermRow
from sparqlive.pipeline.sinks.appending import AppendingSink
from sparqlive.sparql.results import json_delta

_HEAD = re.compile(rb'\{"epoch":(\d+),')
_LONGEST_HEAD = 64


class JsonLinesSink(AppendingSink):
    forms: ClassVar = FORMS
    beginning = b'{"epoch":'
    ending = re.compile(rb"\n")
    longest_ending = 1
    foreign = "its last line is not a delta of a view"

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        self.append(epoch, [json_delta(epoch, reset, self._variables, weights)], replacing=False)

    def epoch_of(self, stream: BinaryIO, found: re.Match[bytes], end: int) -> int | None:
        start, _ = self.last_end(stream, end - 1)
        stream.seek(start)
        head = _HEAD.match(stream.read(_LONGEST_HEAD))
        return None if head is None else int(head[1])
