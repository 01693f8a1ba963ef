"""Encodes server-sent events for subscribers.

Owns the format (HTML Standard §9.2). An event has a kind, one line of JSON or the lines of an RDF Patch, and
an id: the reader's position after it, as an epoch. An event without an id leaves the position as it was. An
event after which earlier positions are invalid has an empty id, which makes readers forget theirs.
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
"""Browsers reconnect after one second. Sent as a line of the first event, since some readers reject a block
without data."""
# Some readers wrongly take these for line ends. Escaped, they mean the same in JSON and in N-Quads.
_LINE_ENDS = [(end, f"\\u{ord(end):04X}") for end in "\x85\u2028\u2029"]
# After these, a reader that subscribes again starts from the beginning.
_FORGET: tuple[Ending, ...] = ("dropped", "replaced", "failed")


def snapshot(view: View, format_: Format, content: Delta) -> bytes:
    """The whole content of a view."""
    return _event("snapshot", _change_text(view, format_, content), content.epoch)


def delta(view: View, format_: Format, change: Delta) -> bytes:
    """The changes of one or more epochs; a progress event if these cancel out."""
    if not change:
        return progress(change.epoch)
    return _event("delta", _change_text(view, format_, change), change.epoch)


def progress(epoch: int) -> bytes:
    """The view has not changed up to an epoch."""
    return _event("progress", f'{{"epoch":{epoch}}}', epoch)


def reset(epoch: int, sentence: str) -> bytes:
    """Invalidates everything before; a snapshot follows. Only the snapshot moves the reader's position."""
    return _event("reset", json.dumps({"epoch": epoch, "reason": sentence}, ensure_ascii=False))


def end(ending: Ending, sentence: str) -> bytes:
    """The last event of a stream."""
    data = json.dumps({"reason": ending, "detail": sentence}, ensure_ascii=False)
    return _event("end", data, "" if ending in _FORGET else None)


def _change_text(view: View, format_: Format, change: Delta) -> str:
    weights = change.weights()
    if format_ == "json":
        return json_weighted(view.form, view.variables, change.epoch, weights)
    return "".join(write_patch([Batch(_quads(weights, 1), _quads(weights, -1))]))


def _quads(weights: Mapping[TermRow, int], sign: int) -> tuple[Quad, ...]:
    return tuple(Quad(*row) for row, weight in weights.items() if weight * sign > 0)  # type: ignore[arg-type]


def _event(kind: str, data: str, identity: int | str | None = None) -> bytes:
    # Both formats escape the line ends in terms, so one line of data is one line of the event.
    if not data.isascii():
        for end, escaped in _LINE_ENDS:
            data = data.replace(end, escaped)
    lines = "".join(f"data: {line}\n" for line in data.removesuffix("\n").split("\n"))
    identified = "" if identity is None else f"id: {identity}\n"
    return f"event: {kind}\n{identified}{lines}\n".encode()
