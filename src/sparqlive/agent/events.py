"""Server-sent events: what subscribers are told, as bytes.

Owns the format (HTML Standard §9.2): an event has a kind, one line of JSON or the lines of an RDF Patch, and
as its id the epoch that whoever has read it stands for. Events without an id leave that as it was; those
after which no earlier position means anything have an empty one, which makes readers forget theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from pyoxigraph import Quad

from sparqlive.engine.results import Delta, TermRow
from sparqlive.engine.view import View
from sparqlive.rdf.changes import Batch, write_patch
from sparqlive.sparql.results import json_weighted

Format: TypeAlias = Literal["json", "patch"]
Ending: TypeAlias = Literal["dropped", "replaced", "failed", "stopping", "behind", "revoked"]

RETRY = b"retry: 1000\n"
"""Browsers come back after a second: a line of the first event, since some readers take no block without
data."""
# No line ends here, but for some readers: escaped, they mean the same in JSON and in N-Quads.
_LINE_ENDS = [(end, f"\\u{ord(end):04X}") for end in "\x85\u2028\u2029"]
# Whoever subscribes again after these is told everything anew.
_FORGET: tuple[Ending, ...] = ("dropped", "replaced", "failed")


def snapshot(view: View, format_: Format, content: Delta) -> bytes:
    """The whole content of a view."""
    return _event("snapshot", _written(view, format_, content), content.epoch)


def delta(view: View, format_: Format, change: Delta) -> bytes:
    """What epochs changed; nothing of them may be left, and then an event says how far they go."""
    if not change:
        return progress(change.epoch)
    return _event("delta", _written(view, format_, change), change.epoch)


def progress(epoch: int) -> bytes:
    """Nothing has changed up to an epoch."""
    return _event("progress", f'{{"epoch":{epoch}}}', epoch)


def reset(epoch: int, sentence: str) -> bytes:
    """What was read before is void; a snapshot follows. The position moves with that, not before."""
    return _event("reset", json.dumps({"epoch": epoch, "reason": sentence}, ensure_ascii=False))


def end(ending: Ending, sentence: str) -> bytes:
    """The last event of a stream."""
    told = json.dumps({"reason": ending, "detail": sentence}, ensure_ascii=False)
    return _event("end", told, "" if ending in _FORGET else None)


def _written(view: View, format_: Format, change: Delta) -> str:
    weights = change.weights()
    if format_ == "json":
        return json_weighted(view.form, view.variables, change.epoch, weights)
    return "".join(write_patch([Batch(_quads(weights, 1), _quads(weights, -1))]))


def _quads(weights: Mapping[TermRow, int], sign: int) -> tuple[Quad, ...]:
    return tuple(Quad(*row) for row, weight in weights.items() if weight * sign > 0)  # type: ignore[arg-type]


def _event(kind: str, data: str, identity: int | str | None = None) -> bytes:
    # A term's line ends are escaped in both formats, so that a line of data is a line of the event.
    if not data.isascii():
        for end, escaped in _LINE_ENDS:
            data = data.replace(end, escaped)
    lines = "".join(f"data: {line}\n" for line in data.removesuffix("\n").split("\n"))
    identified = "" if identity is None else f"id: {identity}\n"
    return f"event: {kind}\n{identified}{lines}\n".encode()
