"""The graph of a CONSTRUCT or DESCRIBE view as an RDF Patch: one transaction per epoch, in one file.

Applied to an empty graph, the file gives the view's content. A delta is appended as a transaction; the whole
content (`reset`) is a new file that replaces the old one. A comment after each transaction names its epoch.
Invariant: transactions are complete; an incomplete one after a failure is removed when the sink is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pyoxigraph import Quad

from sparqlive.engine.view import GRAPH_FORMS, Answer, TermRow
from sparqlive.errors import Error
from sparqlive.pipeline.sinks.appending import last_end
from sparqlive.rdf.changes import Batch, write_patch
from sparqlive.store.place import sync

_END = re.compile(rb"\nTC \.\n# epoch (\d+)\n")  # line ends in terms are escaped, so no literal matches this
_LONGEST_END = 64


class RdfPatchSink:
    forms: ClassVar = GRAPH_FORMS
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        path = Path(path)
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._last = self._recover()

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        insert = tuple(Quad(*row) for row, weight in weights.items() if weight > 0)  # type: ignore[arg-type]
        delete = tuple(Quad(*row) for row, weight in weights.items() if weight < 0)  # type: ignore[arg-type]
        path = self._path.with_name(f"{self._path.name}.tmp") if reset else self._path
        with open(path, "w" if reset else "a", encoding="utf-8") as stream:
            stream.writelines(write_patch([Batch(insert, delete)]))
            stream.write(f"# epoch {epoch}\n")
        sync(path)
        if reset:
            path.rename(self._path)
            sync(self._path)
        self._last = epoch

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        """Does nothing: every transaction is already on disk."""

    def _recover(self) -> int | None:
        if not self._path.exists():
            return None
        with open(self._path, "r+b") as stream:
            end, found = last_end(stream, stream.seek(0, os.SEEK_END), _END, _LONGEST_END)
            if found is None:
                stream.seek(0)
                if not b"TX .\n".startswith(stream.read(5)):
                    raise Error(
                        f"{self._path} already exists, and is not an RDF Patch of a view. Set another path."
                    )
            stream.truncate(end)
            return None if found is None else int(found[1])
