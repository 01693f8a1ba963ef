"""The graph of a CONSTRUCT or DESCRIBE view as an RDF Patch: one transaction per epoch, in one file.

Applied to an empty graph, the file gives the view's content. A delta is appended as a transaction; the whole
content (`reset`) is a new file that replaces the old one. A comment after each transaction names its epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import BinaryIO, ClassVar

from pyoxigraph import Quad

from sparqlive.engine.results import GRAPH_FORMS, TermRow
from sparqlive.pipeline.sinks.appending import AppendingSink
from sparqlive.rdf.changes import Batch, write_patch


class RdfPatchSink(AppendingSink):
    forms: ClassVar = GRAPH_FORMS
    beginning = b"TX .\n"
    ending = re.compile(rb"\nTC \.\n# epoch (\d+)\n")  # terms have no line ends, so no literal matches this
    longest_ending = 64
    foreign = "is not an RDF Patch of a view"

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        insert = tuple(Quad(*row) for row, weight in weights.items() if weight > 0)  # type: ignore[arg-type]
        delete = tuple(Quad(*row) for row, weight in weights.items() if weight < 0)  # type: ignore[arg-type]
        text = chain(write_patch([Batch(insert, delete)]), [f"# epoch {epoch}\n"])
        self.append(epoch, text, replacing=reset)

    def epoch_of(self, stream: BinaryIO, found: re.Match[bytes], end: int) -> int | None:
        return int(found[1])
